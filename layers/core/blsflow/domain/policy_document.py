"""Policies as documents: what an operator writes, checked field by field before anything is stored (R9.1).

A document says what a policy is to do. How far it goes (``execute``), whether it ticks and whether it is frozen are said
by verbs (`flow.control`) and stand in no document. Limits that are left out have the defaults of
docs/database.md.

Over 300 lines because it reads one document: each field has its check here, and they share how a refusal names its place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, fields
from typing import TYPE_CHECKING, Any, Final

from blsflow.domain.errors import InvalidDocument, InvalidExecutionRequest
from blsflow.domain.pages import LARGEST_ID
from blsflow.domain.policy import (
    MAX_CONSIDERED_PROJECTS,
    ExecutionMode,
    Mode,
    NegativeProfitAction,
    Policy,
    Window,
    WindowAction,
)
from blsflow.domain.recurrence_document import parse_rule, to_document
from blsflow.domain.wording import is_name, says_something

if TYPE_CHECKING:
    from collections.abc import Iterator
    from enum import StrEnum

LONGEST_NAME: Final = 200
MOST_SCOPES: Final = 10_000
MOST_WINDOWS: Final = 100
MOST_CANDIDATES: Final = MAX_CONSIDERED_PROJECTS
SCOPE_KINDS: Final = ("tenant", "cluster", "model", "machine")
EVERYTHING: Final = "*"
"""The resource id of a scope over the whole tenant."""

_LARGEST_INTEGER: Final = 2**31 - 1
_LONGEST_RESOURCE_ID: Final = 200
_NUMBER: Final = re.compile("0|[1-9][0-9]{0,17}", re.ASCII)

_DEFAULTS: Final[dict[str, Any]] = {
    each.name: each.default for each in fields(Policy) if each.default is not MISSING
}
# What only benchmark sampling reads (R7.4): name -> default, least.
_SAMPLING: Final = {"max_benchmarks": (5, 0), "benchmark_share_after": (3, 1)}
_INTEGERS: Final = (
    "profit_max_age_sec", "report_max_age_sec", "benchmark_ttl_sec", "price_hold_sec", "min_dwell_sec",
    "switch_cost_sec", "holding_time_sec", "decision_validity_sec", "freeze_after_failures",
    "failed_share_window_sec", "max_foreign_changes", *_SAMPLING,
)  # fmt: skip
FIGURES: Final = (
    "price_jump_factor", "min_gain_cny_per_day", "min_gain_ratio", "restart_threshold_cny_per_day",
    "max_failed_share", "max_benchmark_share", "max_move_share", "freeze_jump_factor",
)  # fmt: skip
"""Limits that are no whole numbers."""
_MAY_BE_OFF: Final = frozenset({"max_move_share", "freeze_jump_factor"})
LIMITS: Final[Mapping[str, object]] = {
    **{name: _DEFAULTS[name] for name in _INTEGERS if name not in _SAMPLING},
    **{name: _DEFAULTS[name] for name in FIGURES if name != "max_benchmark_share"},
    **{name: default for name, (default, _) in _SAMPLING.items()},
    "max_benchmark_share": 0.05,
    "negative_profit_action": str(_DEFAULTS["negative_profit_action"]),
}
"""Every limit of a policy with its default, under the name of its column."""

_FIELDS: Final = (
    "name",
    "mode",
    "time_zone",
    "priority",
    *LIMITS,
    "scope",
    "candidates",
    "windows",
    "schedule",
)
_WINDOW_FIELDS: Final = ("priority", "starts", "ends", "weekdays", "action", "project_id")


@dataclass(frozen=True, kw_only=True, slots=True)
class Scope:
    """One resource whose machines a policy covers; ``resource_id`` is ``*`` for the tenant."""

    resource_type: str
    resource_id: str


@dataclass(frozen=True, kw_only=True, slots=True)
class PolicyDocument:
    """A document that can be meant, in the one form in which it is stored and read back.

    ``limits`` has every limit; ``scope`` is in order of kind and id; a window's ``id`` is its place; ``schedule`` is a rule
    with all its fields.
    """

    name: str
    mode: Mode
    time_zone: str
    priority: int
    limits: Mapping[str, object]
    scope: tuple[Scope, ...]
    candidates: tuple[int, ...]
    windows: tuple[Window, ...]
    schedule: Mapping[str, object]

    def to_document(self) -> dict[str, object]:
        """Return what `parse_policy` reads as this document."""
        return {
            "name": self.name,
            "mode": str(self.mode),
            "time_zone": self.time_zone,
            "priority": self.priority,
            **self.limits,
            "scope": [
                {"resource_type": each.resource_type, "resource_id": each.resource_id} for each in self.scope
            ],
            "candidates": list(self.candidates),
            "windows": [_window_document(window) for window in self.windows],
            "schedule": dict(self.schedule),
        }

    def named_projects(self) -> tuple[tuple[str, int], ...]:
        """Every project that the document names, with the path of the field that does."""
        of_windows = [
            (f"windows[{place}].project_id", window.project_id)
            for place, window in enumerate(self.windows)
            if window.project_id is not None
        ]
        return (*((f"candidates[{place}]", each) for place, each in enumerate(self.candidates)), *of_windows)


def parse_policy(document: Mapping[str, object], *, tick_interval_sec: int) -> PolicyDocument:
    """Read a policy's document; `InvalidDocument` names the field that cannot be meant, its value and the cause.

    Without a ``schedule`` the policy ticks every ``tick_interval_sec``.
    """
    if not isinstance(document, Mapping):
        raise InvalidDocument(field="policy", value=document, cause="not an object")
    _known_fields(document, _FIELDS)
    name = _name(document.get("name"))
    mode = _choice("mode", document.get("mode"), Mode)
    time_zone = _text("time_zone", document.get("time_zone", "UTC"))
    limits = {limit: _limit(limit, document.get(limit, default)) for limit, default in LIMITS.items()}
    windows = tuple(
        _window(place, each) for place, each in enumerate(_items(document, "windows", MOST_WINDOWS))
    )
    candidates = tuple(
        _project(f"candidates[{place}]", each)
        for place, each in enumerate(_items(document, "candidates", MOST_CANDIDATES))
    )
    priority = _integer("priority", document.get("priority", 0), least=-_LARGEST_INTEGER)
    # The rules between fields, and the zone, are the policy's own.
    Policy(
        id=1,
        tenant_id="",
        name=name,
        mode=mode,
        time_zone=time_zone,
        windows=windows,
        candidates=candidates,
        **{limit: value for limit, value in limits.items() if limit in _DEFAULTS},  # type: ignore[arg-type]
    )
    return PolicyDocument(
        name=name,
        mode=mode,
        time_zone=time_zone,
        priority=priority,
        limits=limits,
        scope=_scope(document),
        candidates=candidates,
        windows=windows,
        schedule=_schedule(document.get("schedule"), time_zone, tick_interval_sec),
    )


def split_first_mode(document: Mapping[str, object]) -> tuple[Mapping[str, object], ExecutionMode]:
    """Take from a new policy's document how far it goes: shadow, or dry run if it says so.

    To act is asked for by itself, once a policy's decisions were looked at: ``execute`` is refused here.
    """
    if "execution_mode" not in document:
        return document, ExecutionMode.SHADOW
    asked = _choice("execution_mode", document["execution_mode"], ExecutionMode)
    if asked is ExecutionMode.EXECUTE:
        raise InvalidDocument(
            field="execution_mode",
            value=str(asked),
            cause="a new policy is in shadow or dry_run; set its mode once its decisions look right",
        )
    return {name: value for name, value in document.items() if name != "execution_mode"}, asked


def scope_order(scope: Scope) -> tuple[int, int, str]:
    """The order in which a document lists its scope."""
    return SCOPE_KINDS.index(scope.resource_type), len(scope.resource_id), scope.resource_id


def _known_fields(document: Mapping[str, object], known: tuple[str, ...], at: str = "") -> None:
    for name in document:
        if name in known:
            continue
        cause = "is no field of this document"
        if name in {"execution_mode", "enabled"} and not at:
            cause = "is set by itself (mode, enable, disable), and is no part of the document"
        raise InvalidDocument(field=f"{at}{name}", value=document[name], cause=cause)


def _text(field: str, value: object) -> str:
    if not isinstance(value, str):
        raise InvalidDocument(field=field, value=value, cause="not a text")
    return value


def _name(value: object) -> str:
    name = _text("name", value)
    if not says_something(name) or len(name) > LONGEST_NAME or not is_name(name):
        raise InvalidDocument(
            field="name",
            value=name,
            cause=f"a name of 1 to {LONGEST_NAME} characters is needed, on one line and without control characters",
        )
    return name


def _choice(field: str, value: object, kind: type[StrEnum]) -> Any:  # noqa: ANN401 - a member of that kind
    if isinstance(value, str) and value in set(kind):
        return kind(value)
    raise InvalidDocument(field=field, value=value, cause=f"not one of {', '.join(kind)}")


def _integer(field: str, value: object, *, least: int, most: int = _LARGEST_INTEGER) -> int:
    if type(value) is not int or not least <= value <= most:
        raise InvalidDocument(field=field, value=value, cause=f"not a whole number from {least} to {most}")
    return value


def _limit(name: str, value: object) -> object:
    if name == "negative_profit_action":
        return str(_choice(name, value, NegativeProfitAction))
    if name in _INTEGERS:
        _, least = _SAMPLING.get(name, (0, 0))
        return _integer(name, value, least=least)
    if value is None and name in _MAY_BE_OFF:
        return None
    figure = _figure(name, value)
    if name == "max_benchmark_share" and not 0 < figure <= 1:
        raise InvalidDocument(field=name, value=value, cause="must be a share above 0 and up to 1")
    return figure


def _figure(name: str, value: object) -> float:
    if type(value) is int or type(value) is float:
        try:
            return float(value) + 0.0  # PostgreSQL's JSON knows no negative zero
        except OverflowError:
            pass
    raise InvalidDocument(field=name, value=value, cause="not a number")


def _items(document: Mapping[str, object], field: str, most: int) -> list[object]:
    value = document.get(field, [])
    if not isinstance(value, list | tuple):
        raise InvalidDocument(field=field, value=value, cause="not a list")
    if len(value) > most:
        raise InvalidDocument(field=field, value=len(value), cause=f"has more than {most} entries")
    return list(value)


def _project(field: str, value: object) -> int:
    return _integer(field, value, least=1, most=LARGEST_ID)


def _scope(document: Mapping[str, object]) -> tuple[Scope, ...]:
    entries = [
        _scope_entry(f"scope[{place}]", each)
        for place, each in enumerate(_items(document, "scope", MOST_SCOPES))
    ]
    if not entries:
        raise InvalidDocument(field="scope", value=[], cause="names nothing: a policy covers something")
    seen: set[Scope] = set()
    for place, entry in enumerate(entries):
        if entry in seen:
            raise InvalidDocument(field=f"scope[{place}]", value=entry.resource_id, cause="is named twice")
        seen.add(entry)
    return tuple(sorted(entries, key=scope_order))


def _scope_entry(at: str, entry: object) -> Scope:
    if not isinstance(entry, Mapping):
        raise InvalidDocument(field=at, value=entry, cause="not an object")
    _known_fields(entry, ("resource_type", "resource_id"), f"{at}.")
    kind, resource_id = entry.get("resource_type"), _text(f"{at}.resource_id", entry.get("resource_id"))
    if kind not in SCOPE_KINDS:
        cause = f"not one of {', '.join(SCOPE_KINDS)}"
        raise InvalidDocument(field=f"{at}.resource_type", value=kind, cause=cause)
    ok, cause = bool(_NUMBER.fullmatch(resource_id)), f"not the id of a {kind}, such as 17"
    if kind == "tenant":
        ok, cause = resource_id == EVERYTHING, f"is {EVERYTHING} for the whole tenant"
    elif kind == "model":
        ok = 0 < len(resource_id) <= _LONGEST_RESOURCE_ID and is_name(resource_id)
        cause = "not a model's name"
    if not ok:
        raise InvalidDocument(field=f"{at}.resource_id", value=resource_id, cause=cause)
    return Scope(resource_type=kind, resource_id=resource_id)


def _window(place: int, entry: object) -> Window:
    at = f"windows[{place}]"
    if not isinstance(entry, Mapping):
        raise InvalidDocument(field=at, value=entry, cause="not an object")
    _known_fields(entry, _WINDOW_FIELDS, f"{at}.")
    days, project = entry.get("weekdays"), entry.get("project_id")
    if days is not None and not (isinstance(days, list | tuple) and all(type(day) is int for day in days)):
        raise InvalidDocument(field=f"{at}.weekdays", value=days, cause="not a list of ISO weekdays 1 to 7")
    with _at(f"{at}."):
        return Window(
            id=place,
            priority=_integer("priority", entry.get("priority", 0), least=-_LARGEST_INTEGER),
            starts=_text("starts", entry.get("starts")),
            ends=_text("ends", entry.get("ends")),
            weekdays=None if days is None else frozenset(days),
            action=_choice("action", entry.get("action"), WindowAction),
            project_id=None if project is None else _project("project_id", project),
        )


def _window_document(window: Window) -> dict[str, object]:
    return {
        "priority": window.priority,
        "starts": window.starts,
        "ends": window.ends,
        "weekdays": None if window.weekdays is None else sorted(window.weekdays),
        "action": str(window.action),
        "project_id": window.project_id,
    }


def _schedule(rule: object, time_zone: str, tick_interval_sec: int) -> Mapping[str, object]:
    if rule is None:
        rule = {"kind": "interval", "every_sec": tick_interval_sec}
    if not isinstance(rule, Mapping):
        raise InvalidDocument(field="schedule", value=rule, cause="not an object")
    with _at("schedule."):
        return to_document(parse_rule({"time_zone": time_zone, **rule}))


@contextmanager
def _at(path: str) -> Iterator[None]:
    """Put a path in front of the field that a refusal inside names."""
    try:
        yield
    except InvalidDocument as error:
        kind = InvalidDocument if isinstance(error, InvalidExecutionRequest) else type(error)
        raise kind(field=f"{path}{error.field}", value=error.value, cause=error.cause) from error
