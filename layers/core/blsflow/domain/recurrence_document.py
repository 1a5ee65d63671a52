"""Rules as documents: ``{"kind": "daily", "time_of_day": "08:00", "time_zone": "Asia/Shanghai"}`` (R8.2).

==========  ==================================================================================================
kind        its fields, beside ``time_zone``
==========  ==================================================================================================
once        ``at``: ISO 8601; without an offset it is a local time of the zone
interval    ``every_sec``: whole seconds; ``anchor``: ISO 8601 with an offset (default: 1970-01-01T00:00:00Z)
daily       ``time_of_day``: HH:MM or HH:MM:SS
weekly      ``weekdays``: a list of ISO weekdays, 1 (Monday) to 7; ``time_of_day``
monthly     ``day``: 1 to 31 or ``last``; ``time_of_day``
cron        ``expression``: five fields
==========  ==================================================================================================
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from datetime import UTC, datetime, time

from blsflow.domain.errors import InvalidExecutionRequest
from blsflow.domain.recurrence_rules import Cron, Daily, Interval, Monthly, Once, Rule, Weekly

_RULES: dict[str, Callable[..., Rule]] = {
    "once": Once,
    "interval": Interval,
    "daily": Daily,
    "weekly": Weekly,
    "monthly": Monthly,
    "cron": Cron,
}
_OPTIONAL = frozenset({"anchor"})
# fromisoformat takes any character between the date and the time.
_MOMENT = re.compile(r"[0-9W-]{4,10}([Tt ][0-9:.,]+(Z|[+-][0-9:.]+)?)?", re.ASCII)
_BLANKS = re.compile("[ \t]+")
_CLOCK = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9])?", re.ASCII)


def parse_rule(document: Mapping[str, object]) -> Rule:
    """The rule that a document means; `InvalidExecutionRequest` names the field that cannot be meant."""
    if not isinstance(document, Mapping):
        raise InvalidExecutionRequest(field="rule", value=document, cause="not an object")
    kind = document.get("kind")
    rule = _RULES.get(kind) if isinstance(kind, str) else None
    if rule is None:
        raise InvalidExecutionRequest(field="kind", value=kind, cause=f"not one of {', '.join(_RULES)}")
    known = [field.name for field in fields(rule)]  # type: ignore[arg-type]
    for name in document:
        if name not in {"kind", *known}:
            raise InvalidExecutionRequest(field=str(name), value=document[name], cause=f"no field of {kind}")
    for name in known:
        if name not in document and name not in _OPTIONAL:
            raise InvalidExecutionRequest(field=name, value=None, cause=f"missing; {kind} needs it")
    values = {name: _read(name, document[name]) for name in known if name in document}
    try:
        return rule(**values)
    except InvalidExecutionRequest as error:
        # The rule saw the value as it was read; the caller knows it as it was written.
        raise InvalidExecutionRequest(
            field=error.field, value=document[error.field], cause=error.cause
        ) from error


def to_document(rule: Rule) -> dict[str, object]:
    """The document that `parse_rule` reads as this rule."""
    kind = next(kind for kind, known in _RULES.items() if known is type(rule))
    return {"kind": kind} | {field.name: _write(getattr(rule, field.name)) for field in fields(rule)}


def _read(name: str, value: object) -> object:
    reader = _READERS.get(name)
    return value if reader is None else reader(name, value)


def _write(value: object) -> object:
    if isinstance(value, datetime | time):
        return value.isoformat()
    return sorted(value) if isinstance(value, frozenset) else value


def _moment(name: str, value: object) -> datetime:
    written = value if isinstance(value, str) and _MOMENT.fullmatch(value) else ""
    try:
        moment = datetime.fromisoformat(written)
        return moment if moment.utcoffset() is None else moment.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise InvalidExecutionRequest(
            field=name, value=value, cause="not a date and time such as 2026-03-08T02:30:00"
        ) from error


def _clock(name: str, value: object) -> time:
    if not isinstance(value, str) or _CLOCK.fullmatch(value) is None:
        raise InvalidExecutionRequest(
            field=name, value=value, cause="not a time of day such as 08:00 or 23:59:30"
        )
    return time.fromisoformat(value)


def _cron(_name: str, value: object) -> object:
    """Return the fields parted by one blank each; only blanks and tabs part them."""
    return _BLANKS.sub(" ", value.strip(" \t")) if isinstance(value, str) else value


def _whole_numbers(name: str, value: object) -> frozenset[object]:
    # True equals 1 and would vanish in the set unseen.
    if not isinstance(value, list) or not all(type(item) is int for item in value):
        raise InvalidExecutionRequest(field=name, value=value, cause="not a list of whole numbers")
    return frozenset(value)


_READERS: dict[str, Callable[[str, object], object]] = {
    "at": _moment,
    "anchor": _moment,
    "time_of_day": _clock,
    "weekdays": _whole_numbers,
    "expression": _cron,
}
