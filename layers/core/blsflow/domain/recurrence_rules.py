"""The rules of schedules, and the local times that each names (R8.2).

Every rule refuses nonsense with `InvalidExecutionRequest`, naming the field. Times of day and days are those of
``time_zone``, an IANA name.
"""

from __future__ import annotations

import re
from calendar import monthrange
from dataclasses import dataclass
from datetime import MAXYEAR, UTC, datetime, time, timedelta
from typing import TYPE_CHECKING, Literal

from cronsim import CronSim, CronSimError

from blsflow.domain.errors import InvalidExecutionRequest
from blsflow.domain.local_time import UnknownZone, load_zone

if TYPE_CHECKING:
    from collections.abc import Iterator

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LONGEST_INTERVAL_SEC = 10 * 366 * 86_400

_ONE_DAY = timedelta(days=1)
_WEEKDAYS = frozenset(range(1, 8))
_LAST_DAY = 31
_CRON = re.compile(r"[0-9A-Za-z*/,#-]+(?: [0-9A-Za-z*/,#-]+){4}", re.ASCII)
# Where the search for a first run starts; cronsim gives up 50 years later, beyond any gap between leap days.
_CRON_PROBE = datetime(2000, 1, 1)  # noqa: DTZ001 - a wall


@dataclass(frozen=True, kw_only=True, slots=True)
class Once:
    """One run: at an instant if ``at`` is aware, else at that local time of the zone."""

    at: datetime
    time_zone: str

    def __post_init__(self) -> None:
        _require_zone(self.time_zone)
        _require_moment("at", self.at)

    def walls_after(self, wall: datetime) -> Iterator[datetime]:
        """The local time, if it is still to come."""
        if self.at > wall:
            yield self.at


@dataclass(frozen=True, kw_only=True, slots=True)
class Interval:
    """Runs at ``anchor`` and every ``every_sec`` elapsed seconds from then on, whatever the wall clock does.

    The default anchor puts runs on round times of UTC: with 300, on every fifth minute.
    """

    every_sec: int
    time_zone: str
    anchor: datetime = EPOCH

    def __post_init__(self) -> None:
        _require_zone(self.time_zone)
        every = self.every_sec
        _require(_is_whole(every), "every_sec", every, "not a whole number of seconds")
        _require(1 <= every <= LONGEST_INTERVAL_SEC, "every_sec", every, "not 1 second to 10 years")
        _require_moment("anchor", self.anchor)
        _require(self.anchor.utcoffset() is not None, "anchor", self.anchor, "needs a UTC offset")


@dataclass(frozen=True, kw_only=True, slots=True)
class Daily:
    """A run every day at a local time."""

    time_of_day: time
    time_zone: str

    def __post_init__(self) -> None:
        _require_zone(self.time_zone)
        _require_time_of_day(self.time_of_day)

    def walls_after(self, wall: datetime) -> Iterator[datetime]:
        """The local times after `wall`, in order."""
        return _daily(self.time_of_day, wall, _WEEKDAYS)


@dataclass(frozen=True, kw_only=True, slots=True)
class Weekly:
    """A run at a local time on each of the ISO weekdays (Monday 1)."""

    weekdays: frozenset[int]
    time_of_day: time
    time_zone: str

    def __post_init__(self) -> None:
        _require_zone(self.time_zone)
        _require_time_of_day(self.time_of_day)
        _require(_are_weekdays(self.weekdays), "weekdays", self.weekdays, "not ISO weekdays, 1 (Monday) to 7")

    def walls_after(self, wall: datetime) -> Iterator[datetime]:
        """The local times after `wall`, in order."""
        return _daily(self.time_of_day, wall, self.weekdays)


@dataclass(frozen=True, kw_only=True, slots=True)
class Monthly:
    """A run at a local time on a day of each month; months without that day have none. ``last``: the last day."""

    day: int | Literal["last"]
    time_of_day: time
    time_zone: str

    def __post_init__(self) -> None:
        _require_zone(self.time_zone)
        _require_time_of_day(self.time_of_day)
        _require(_is_day_of_month(self.day), "day", self.day, "not a day of a month, 1 to 31, or last")

    def walls_after(self, wall: datetime) -> Iterator[datetime]:
        """The local times after `wall`, in order."""
        year, month = wall.year, wall.month
        while year <= MAXYEAR:
            length = monthrange(year, month)[1]
            day = length if self.day == "last" else self.day
            if day <= length:
                planned = datetime.combine(datetime(year, month, day), self.time_of_day)  # noqa: DTZ001 - a wall
                if planned > wall:
                    yield planned
            year, month = (year, month + 1) if month < 12 else (year + 1, 1)  # noqa: PLR2004 - months


@dataclass(frozen=True, kw_only=True, slots=True)
class Cron:
    """A run at every local time that five cron fields name: minute, hour, day, month, weekday.

    Fields as in Debian's cron (a day and a weekday that are both restricted are alternatives), with ``L``, ``LW``
    and ``5#2``. Expressions that no date can match are refused.
    """

    expression: str
    time_zone: str

    def __post_init__(self) -> None:
        _require_zone(self.time_zone)
        found = self.expression
        _require(isinstance(found, str), "expression", found, "not a text")
        _require(
            _CRON.fullmatch(found) is not None, "expression", found, "not five fields, such as 0 8 * * 1"
        )
        try:
            first = next(CronSim(found, _CRON_PROBE), None)
        except CronSimError as error:
            raise InvalidExecutionRequest(field="expression", value=found, cause=str(error)) from error
        _require(first is not None, "expression", found, "no date matches it")

    def walls_after(self, wall: datetime) -> Iterator[datetime]:
        """The local times after `wall`, in order: cronsim counts naive times as they come, without DST."""
        return CronSim(self.expression, wall)


Rule = Once | Interval | Daily | Weekly | Monthly | Cron


def _daily(time_of_day: time, wall: datetime, weekdays: frozenset[int]) -> Iterator[datetime]:
    day = wall.date()
    while True:
        planned = datetime.combine(day, time_of_day)
        if planned > wall and day.isoweekday() in weekdays:
            yield planned
        day += _ONE_DAY


def _require(ok: bool, field: str, value: object, cause: str) -> None:  # noqa: FBT001 - reads as an assertion
    if not ok:
        raise InvalidExecutionRequest(field=field, value=value, cause=cause)


def _require_zone(name: object) -> None:
    try:
        load_zone(name)
    except UnknownZone as error:
        raise InvalidExecutionRequest(
            field="time_zone", value=name, cause="not an IANA zone, such as Asia/Shanghai"
        ) from error


def _require_time_of_day(value: object) -> None:
    ok = isinstance(value, time) and value.tzinfo is None and value.microsecond == 0
    _require(ok, "time_of_day", value, "not a local time of day in whole seconds")


def _require_moment(field: str, value: object) -> None:
    _require(isinstance(value, datetime), field, value, "not a date and time")


def _are_weekdays(found: object) -> bool:
    return isinstance(found, frozenset) and bool(found) and all(map(_is_whole, found)) and found <= _WEEKDAYS


def _is_day_of_month(day: object) -> bool:
    return day == "last" or (isinstance(day, int) and not isinstance(day, bool) and 1 <= day <= _LAST_DAY)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
