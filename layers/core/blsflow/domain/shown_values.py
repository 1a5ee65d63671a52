"""How the parameters of a text are shown, each kind with its unit, in both languages (R9.4). Pure, and never fails."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from blsflow.domain.catalogue import Texts, word

if TYPE_CHECKING:
    from blsflow.domain.catalogue import Language

_UNKNOWN: Final = Texts("unknown", "未知")
_YES: Final = Texts("yes", "是")
_NO: Final = Texts("no", "否")
_COMMA: Final = Texts(", ", "、")
_SEMICOLON: Final = Texts("; ", "；")
_MORE: Final = Texts("and {} more", "等另外 {} 项")
_BECAUSE: Final = Texts(" ({})", "（{}）")
_UNITS: Final = {
    "cny": Texts("{} CNY", "{} 元"),
    "cny_per_day": Texts("{} CNY/day", "{} 元/天"),
    "minutes": Texts("{} min", "{} 分钟"),
    "factor": Texts("{}", "{}"),
}
_MOST_ITEMS: Final = 20
_LONGEST: Final = 500
_DEEPEST: Final = 4
_LARGEST: Final = 1e15
_UNSHOWABLE: Final = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+")


def is_absent(value: object) -> bool:
    """Whether a value says nothing: None, NaN, an empty text, list or object. 0 and False say something."""
    if isinstance(value, float):
        return math.isnan(value)
    return value is None or (isinstance(value, (str, list, tuple, Mapping)) and not value)


def shown(value: Any, kind: str, language: Language) -> str:  # noqa: ANN401 - any JSON value
    """Return a value as one line of text; what says nothing is unknown, and what is not of its kind is shown as it is."""
    if is_absent(value):
        return _UNKNOWN.of(language)
    return KINDS.get(kind, _plain)(value, language)


def _plain(value: Any, language: Language, depth: int = 0) -> str:  # noqa: ANN401 - any JSON value
    if is_absent(value):
        return _UNKNOWN.of(language)
    if isinstance(value, bool):
        return (_YES if value else _NO).of(language)
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, (Mapping, list, tuple)):
        return _nested(value, language, depth + 1)
    return _line(value)


def _nested(value: Mapping[Any, Any] | list[Any] | tuple[Any, ...], language: Language, depth: int) -> str:
    if depth > _DEEPEST:
        return "…"
    if isinstance(value, Mapping):
        return _joined(
            [f"{_line(name)}: {_plain(each, language, depth)}" for name, each in value.items()], language
        )
    return _joined([_plain(each, language, depth) for each in value], language)


def _line(value: object) -> str:
    """Return a text in one line, without what cannot be shown, and cut."""
    try:
        text = _UNSHOWABLE.sub(" ", str(value)).strip()
    except ValueError:  # a whole number of thousands of digits
        text = "…"
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _joined(items: list[str], language: Language, separator: Texts = _COMMA) -> str:
    left_out = len(items) - _MOST_ITEMS
    if left_out > 0:
        items = [*items[:_MOST_ITEMS], _MORE.of(language).format(left_out)]
    return separator.of(language).join(items)


def _named(value: Any, language: Language) -> str:  # noqa: ANN401 - any JSON value
    return _plain(word(value).of(language) if isinstance(value, str) else value, language)


def _counts(value: Any, language: Language) -> str:  # noqa: ANN401 - any JSON value
    """Show machines by "action/reason", the most first."""
    if not isinstance(value, Mapping):
        return _plain(value, language)
    rows = sorted(value.items(), key=lambda row: -row[1] if isinstance(row[1], (int, float)) else 0)
    items = []
    for key, count in rows:
        action, _, reason = str(key).partition("/")
        because = _BECAUSE.of(language).format(_named(reason, language)) if reason else ""
        items.append(f"{_plain(count, language)} {_named(action, language)}{because}")
    return _joined(items, language, _SEMICOLON)


def _reasons(value: Any, language: Language) -> str:  # noqa: ANN401 - any JSON value
    """Show machines by reason: the reason once, with its machines."""
    if not isinstance(value, Mapping):
        return _plain(value, language)
    machines: dict[str, list[str]] = {}
    for machine, reason in value.items():
        machines.setdefault(_named(reason, language), []).append(_line(machine))
    items = [
        f"{reason}{_BECAUSE.of(language).format(_joined(each, language))}"
        for reason, each in machines.items()
    ]
    return _joined(items, language, _SEMICOLON)


def _time(value: Any, language: Language) -> str:  # noqa: ANN401 - any JSON value
    """Show an instant in UTC, to the second."""
    try:
        at = value if isinstance(value, datetime) else datetime.fromisoformat(value)
        return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC" if at.utcoffset() is not None else _line(value)
    except (TypeError, ValueError, OverflowError):
        return _plain(value, language)


def _figure(unit: Texts) -> Callable[[Any, Language], str]:
    def figure(value: Any, language: Language) -> str:  # noqa: ANN401 - any JSON value
        if isinstance(value, bool) or not isinstance(value, (int, float)) or abs(value) > _LARGEST:
            return _plain(value, language)
        return unit.of(language).format(f"{value:,.2f}")

    return figure


KINDS: Final[Mapping[str, Callable[[Any, Language], str]]] = {
    "plain": _plain,
    "code": _named,
    "counts": _counts,
    "reasons": _reasons,
    "time": _time,
    **{kind: _figure(unit) for kind, unit in _UNITS.items()},
}
"""How a value is shown, by the kinds that texts name."""
