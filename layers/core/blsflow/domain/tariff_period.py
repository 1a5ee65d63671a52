"""A band of a tariff: the hours, days and seasons that one price is for (R2.2).

Times of day are the wall clock of the cluster's zone. A period that crosses midnight applies, on each day its
weekdays, months, seasons and day types name, to the hours before its end and from its start on: the calendar
day decides, also after midnight. That is what meters do (their day profiles start at 00:00) and what makes
"workdays 07:00-23:00, workdays 23:00-07:00, weekends 00:00-24:00" a partition: were the night to belong to
the day it began on, Monday's early hours would be a gap and Saturday's an overlap.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING

from blsflow.domain.errors import InvalidTariff
from blsflow.domain.tariff_calendar import DAY_TYPES, SECONDS_PER_DAY, DayType, Season

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date

ALL_WEEKDAYS = frozenset(range(1, 8))
ALL_MONTHS = frozenset(range(1, 13))

_MINUTE = 60
_HOUR = 3600


@dataclass(frozen=True, kw_only=True, slots=True)
class TariffPeriod:
    """Among the periods that cover an instant, the highest ``priority`` prices it.

    ``start_sec`` and ``end_sec`` (exclusive) are seconds of the local day; 86400 is 24:00, and an end not
    after its start crosses midnight (equal: all day). ``weekdays`` are ISO (Monday 1). Weekdays, months,
    seasons (any of them; none means all year) and day types must all match. ``price_per_kwh`` is in the
    tariff's currency: zero is a price, a negative one is income. Nonsense raises `InvalidTariff`.
    """

    name: str
    price_per_kwh: float | Decimal
    start_sec: int = 0
    end_sec: int = SECONDS_PER_DAY
    weekdays: frozenset[int] = ALL_WEEKDAYS
    months: frozenset[int] = ALL_MONTHS
    seasons: tuple[Season, ...] = ()
    day_types: frozenset[DayType] = DAY_TYPES
    priority: int = 0

    def __post_init__(self) -> None:
        start, end = self.start_sec, self.end_sec
        checks = (
            ("name", self.name, bool(self.name), "a period needs a name"),
            ("price_per_kwh", self.price_per_kwh, is_finite(self.price_per_kwh), "not a finite number"),
            ("start_sec", start, _is_whole(start) and 0 <= start < SECONDS_PER_DAY, "not 0 to 86399"),
            ("end_sec", end, _is_whole(end) and 0 <= end <= SECONDS_PER_DAY, "not 0 to 86400"),
            ("weekdays", self.weekdays, _is_some_of(self.weekdays, ALL_WEEKDAYS), "not ISO weekdays 1 to 7"),
            ("months", self.months, _is_some_of(self.months, ALL_MONTHS), "not months 1 to 12"),
            (
                "day_types",
                self.day_types,
                _is_some_of(self.day_types, DAY_TYPES),
                f"not of {sorted(DAY_TYPES)}",
            ),
            ("priority", self.priority, _is_whole(self.priority), "not a whole number"),
        )
        for field, value, ok, cause in checks:
            if not ok:
                raise InvalidTariff(field=field, value=value, cause=cause)

    def applies_on(self, day: date, kind: DayType) -> bool:
        """Whether the period belongs to that local day at all."""
        return (
            kind in self.day_types
            and day.isoweekday() in self.weekdays
            and day.month in self.months
            and (not self.seasons or any(season.contains(day) for season in self.seasons))
        )

    def covers(self, second_of_day: int) -> bool:
        """Whether the half-open range holds that second of a day on which the period applies."""
        if self.start_sec < self.end_sec:
            return self.start_sec <= second_of_day < self.end_sec
        return second_of_day >= self.start_sec or second_of_day < self.end_sec


def close_document_gaps(periods: Sequence[TariffPeriod]) -> tuple[TariffPeriod, ...]:
    """Read the inclusive ends that some documents write as the half-open ends that they mean.

    An end at :59 of a minute is taken to the next second, one at :59 of an hour to the next minute, and any
    other end one minute short of some period's start up to that start (06:29 before 06:30). An end at which
    another period starts is left: there is nothing to close.
    """
    starts = {period.start_sec for period in periods}
    return tuple(replace(period, end_sec=_half_open_end(period.end_sec, starts)) for period in periods)


def is_finite(value: object) -> bool:
    """Whether `value` is a number (no bool) that a float can hold, and neither NaN nor infinite."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return False
    try:
        return math.isfinite(value)
    except (OverflowError, ValueError):  # an int beyond any float; a signalling NaN
        return False


def _half_open_end(end_sec: int, starts: set[int]) -> int:
    if end_sec in starts:
        return end_sec
    if end_sec % _MINUTE == _MINUTE - 1:
        return end_sec + 1
    minute_later = end_sec + _MINUTE
    if minute_later % _HOUR == 0 or minute_later in starts:
        return minute_later
    return end_sec


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_some_of(found: object, known: frozenset[object]) -> bool:
    return isinstance(found, frozenset) and bool(found) and found <= known
