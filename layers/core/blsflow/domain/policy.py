"""Policy groups: what an operator wants automated, within which limits, and when (R3, R6).

Fields carry the names of the policy table's columns; the defaults are the table's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from blsflow.domain.errors import InvalidDocument, InvalidTariff
from blsflow.domain.local_time import UnknownZone, load_zone
from blsflow.domain.tariff_calendar import SECONDS_PER_DAY, seconds_of_day

MAX_CONSIDERED_PROJECTS = 64
_ISO_WEEKDAYS = range(1, 8)


class Mode(StrEnum):
    """What decides: profit and tariff, or nothing but the time windows."""

    PROFIT_GUARD = "profit_guard"
    TIME_WINDOW = "time_window"


class ExecutionMode(StrEnum):
    """How far a decision goes: returned, stored, or acted upon."""

    DRY_RUN = "dry_run"
    SHADOW = "shadow"
    EXECUTE = "execute"


class NegativeProfitAction(StrEnum):
    """What becomes of a mining machine that no candidate would run at a profit."""

    KEEP = "keep"
    STOP = "stop"
    POWER_OFF = "power_off"


class WindowAction(StrEnum):
    """What a window wants of its machines; ``start`` leaves those alone that mine already, whatever it is."""

    RUN_PROJECT = "run_project"
    STOP = "stop"
    POWER_OFF = "power_off"
    START = "start"


@dataclass(frozen=True, kw_only=True, slots=True)
class Window:
    """A recurring stretch of the policy's local time; half-open.

    ``starts`` and ``ends`` are ``HH:MM`` (``ends`` up to ``24:00``); an end not after its start lies on the
    next day. ``weekdays`` (ISO, Monday 1; None: every day) name the day on which the window begins.
    ``project_id`` is given exactly when the action runs or starts something.
    """

    id: int
    starts: str
    ends: str
    action: WindowAction
    priority: int = 0
    weekdays: frozenset[int] | None = None
    project_id: int | None = None

    def __post_init__(self) -> None:
        _require("starts", self.starts, "a window starts before 24:00", ok=self.start_sec < SECONDS_PER_DAY)
        _second(self.ends, "ends")
        days = self.weekdays
        _require(
            "weekdays",
            days,
            "not ISO weekdays 1 to 7; leave it out for every day",
            ok=days is None or (bool(days) and all(day in _ISO_WEEKDAYS for day in days)),
        )
        runs = self.action in {WindowAction.RUN_PROJECT, WindowAction.START}
        cause = f"{self.action} " + ("needs the project to run" if runs else "takes no project")
        _require("project_id", self.project_id, cause, ok=runs == (self.project_id is not None))

    @property
    def start_sec(self) -> int:
        """Second of the local day at which the window begins."""
        return _second(self.starts, "starts")

    @property
    def end_sec(self) -> int:
        """Second after which it is over, counted from the midnight before its start: up to two days."""
        start, end = self.start_sec, _second(self.ends, "ends")
        return end if end > start else end + SECONDS_PER_DAY


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    """One policy group. Raises `InvalidDocument` naming the field for values that cannot be meant.

    ``candidates`` are project ids, the preferred first. A ``None`` in a freeze limit turns that limit off.
    """

    id: int
    tenant_id: str
    name: str
    mode: Mode
    execution_mode: ExecutionMode = ExecutionMode.SHADOW
    version: int = 1
    priority: int = 0
    time_zone: str = "UTC"
    candidates: tuple[int, ...] = ()
    windows: tuple[Window, ...] = ()
    # inputs
    profit_max_age_sec: int = 300
    report_max_age_sec: int = 600
    benchmark_ttl_sec: int = 2_592_000
    price_jump_factor: float = 3.0
    price_hold_sec: int = 1_800
    # when to move
    min_gain_cny_per_day: float = 1.0
    min_gain_ratio: float = 0.05
    min_dwell_sec: int = 1_800
    switch_cost_sec: int = 300
    holding_time_sec: int = 14_400
    negative_profit_action: NegativeProfitAction = NegativeProfitAction.KEEP
    restart_threshold_cny_per_day: float = 1.0
    decision_validity_sec: int = 120
    # when to freeze
    freeze_after_failures: int = 3
    max_move_share: float | None = None
    freeze_jump_factor: float | None = None
    max_failed_share: float = 0.5
    failed_share_window_sec: int = 3_600
    max_foreign_changes: int = 3

    def __post_init__(self) -> None:
        self._check_identity()
        self._check_limits()
        self._check_projects()

    @property
    def considered_projects(self) -> tuple[int, ...]:
        """The candidates in order, then projects that only windows name.

        Bit i of a machine's eligibility masks speaks of the i-th of these.
        """
        of_windows = [window.project_id for window in self.windows if window.project_id is not None]
        return tuple(dict.fromkeys((*self.candidates, *of_windows)))

    def _check_identity(self) -> None:
        _require("name", self.name, "a policy needs a name", ok=bool(self.name))
        try:
            load_zone(self.time_zone)
        except UnknownZone as error:
            raise InvalidDocument(
                field="time_zone", value=self.time_zone, cause="not an IANA zone, such as Asia/Shanghai"
            ) from error

    def _check_limits(self) -> None:
        for name in _POSITIVE:
            value = getattr(self, name)
            _require(name, value, "must be greater than 0", ok=value > 0)
        for name in _NOT_NEGATIVE:
            value = getattr(self, name)
            _require(name, value, "must be 0 or greater", ok=0 <= value < math.inf)
        for name in _FACTORS:
            value = getattr(self, name)
            _require(name, value, "must be greater than 1", ok=value is None or 1 < value < math.inf)
        for name in _SHARES:
            value = getattr(self, name)
            _require(name, value, "must be a share above 0 and up to 1", ok=value is None or 0 < value <= 1)
        _require(
            "holding_time_sec",
            self.holding_time_sec,
            "must be at most 30 days",
            ok=self.holding_time_sec <= _LONGEST_HOLDING_SEC,
        )
        threshold = self.restart_threshold_cny_per_day
        _require(
            "restart_threshold_cny_per_day", threshold, "not a finite number", ok=math.isfinite(threshold)
        )

    def _check_projects(self) -> None:
        ids = self.candidates
        _require("candidates", ids, "project ids are greater than 0", ok=all(project > 0 for project in ids))
        _require("candidates", ids, "names a project twice", ok=len(set(ids)) == len(ids))
        count = len(self.considered_projects)
        cause = f"at most {MAX_CONSIDERED_PROJECTS} projects, those of windows included"
        _require("candidates", count, cause, ok=count <= MAX_CONSIDERED_PROJECTS)
        windows = [window.id for window in self.windows]
        _require("windows", windows, "names a window id twice", ok=len(set(windows)) == len(windows))


_LONGEST_HOLDING_SEC = 2_592_000
_POSITIVE = (
    "profit_max_age_sec",
    "report_max_age_sec",
    "benchmark_ttl_sec",
    "holding_time_sec",
    "decision_validity_sec",
    "freeze_after_failures",
    "failed_share_window_sec",
)
_NOT_NEGATIVE = (
    "price_hold_sec",
    "min_gain_cny_per_day",
    "min_gain_ratio",
    "min_dwell_sec",
    "switch_cost_sec",
    "max_foreign_changes",
)
_FACTORS = ("price_jump_factor", "freeze_jump_factor")
_SHARES = ("max_move_share", "max_failed_share")


def _second(clock: str, field: str) -> int:
    try:
        return seconds_of_day(clock, field=field)
    except InvalidTariff as error:
        raise InvalidDocument(field=field, value=clock, cause=error.cause) from error


def _require(field: str, value: object, cause: str, *, ok: bool) -> None:
    if not ok:
        raise InvalidDocument(field=field, value=value, cause=cause)
