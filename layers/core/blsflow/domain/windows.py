"""Time windows: which one is active, and which policy outranks which because of it (R3.1, R3.6)."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from blsflow.domain.local_time import latest_settled_wall, load_zone
from blsflow.domain.policy import Mode
from blsflow.domain.tariff_calendar import SECONDS_PER_DAY

if TYPE_CHECKING:
    from datetime import date

    from blsflow.domain.policy import Policy, Window


def active_window(policy: Policy, now: datetime) -> Window | None:
    """The window in force at `now`: of several the one of higher priority, then of lower id.

    Bounds are walls of the policy's zone. One that DST skips lies at the end of the gap; one that DST repeats
    counts once, at its first pass. So each window is one unbroken stretch per day, on both DST days too.
    """
    wall = latest_settled_wall(now, load_zone(policy.time_zone))
    active = [window for window in policy.windows if _covers(window, wall)]
    return min(active, key=lambda window: (-window.priority, window.id), default=None)


def outranks(one: Policy, other: Policy, now: datetime) -> bool:
    """Whether `one` decides for a machine that both policies cover.

    A policy with an active window outranks any that profit drives; among equals the higher priority, then the
    lower id. A window policy outside its windows outranks nobody.
    """
    own, others = _standing(one, now), _standing(other, now)
    if own == _SILENT:
        return False
    return (own, one.priority, -one.id) > (others, other.priority, -other.id)


_SILENT, _BY_PROFIT, _BY_WINDOW = range(3)


def _standing(policy: Policy, now: datetime) -> int:
    if policy.mode is Mode.PROFIT_GUARD:
        return _BY_PROFIT
    return _SILENT if active_window(policy, now) is None else _BY_WINDOW


def _covers(window: Window, wall: datetime) -> bool:
    second = wall.hour * 3600 + wall.minute * 60 + wall.second
    today = wall.date()
    return (_begins_on(window, today) and window.start_sec <= second < window.end_sec) or (
        _begins_on(window, today - timedelta(days=1)) and second + SECONDS_PER_DAY < window.end_sec
    )


def _begins_on(window: Window, day: date) -> bool:
    return window.weekdays is None or day.isoweekday() in window.weekdays
