"""Days as tariffs see them: kinds of day, seasons, and seconds of the day (R2.2)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Literal

from blsflow.domain.errors import InvalidTariff

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

DayType = Literal["workday", "weekend", "holiday"]
DAY_TYPES: frozenset[DayType] = frozenset({"workday", "weekend", "holiday"})

SECONDS_PER_DAY = 86_400
_SATURDAY = 6
_A_LEAP_YEAR = 2000
_CLOCK = re.compile(r"([0-9]{1,2}):([0-5][0-9])(?::([0-5][0-9]))?", re.ASCII)


@dataclass(frozen=True, kw_only=True, slots=True)
class Season:
    """First and last day as (month, day), both included; a last before its first crosses the year's end.

    ``(2, 29)`` may bound a season: in other years it starts on March 1 or ends on February 28.
    """

    first: tuple[int, int]
    last: tuple[int, int]

    def __post_init__(self) -> None:
        for field, month_day in (("first", self.first), ("last", self.last)):
            try:
                date(_A_LEAP_YEAR, *month_day)
            except (TypeError, ValueError) as error:
                raise InvalidTariff(
                    field=f"season.{field}", value=month_day, cause="not a month and day of any year"
                ) from error

    def contains(self, day: date) -> bool:
        """Whether `day` lies in the season."""
        month_day = (day.month, day.day)
        if self.first <= self.last:
            return self.first <= month_day <= self.last
        return month_day >= self.first or month_day <= self.last


def day_type(day: date, *, holidays: AbstractSet[date], make_up_workdays: AbstractSet[date]) -> DayType:
    """A holiday whatever its weekday; else a workday if Monday to Friday or made up for; else weekend."""
    if day in holidays:
        return "holiday"
    if day in make_up_workdays or day.isoweekday() < _SATURDAY:
        return "workday"
    return "weekend"


def seconds_of_day(text: object, *, field: str) -> int:
    """Seconds since midnight of ``HH:MM[:SS]``; ``24:00`` is the day's end. Else `InvalidTariff`."""
    match = _CLOCK.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise InvalidTariff(
            field=field, value=text, cause="not a time of day such as 08:00, 21:30:00 or 24:00"
        )
    hours, minutes, seconds = (int(part or 0) for part in match.groups())
    second = hours * 3600 + minutes * 60 + seconds
    if second > SECONDS_PER_DAY:
        raise InvalidTariff(field=field, value=text, cause="later than 24:00")
    return second
