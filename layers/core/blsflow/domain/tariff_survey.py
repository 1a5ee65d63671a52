"""Tariffs over time: when the price next changes, and every stretch of one price, gap or overlap (R2.2).

A price can change only where a local day reaches a period's bound or midnight, where the zone moves its
clock, and where a validity starts or ends. Those instants are derived: no stretch is stepped through.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import TYPE_CHECKING

from blsflow.domain.local_time import clock_changes, instants_of_wall, load_zone
from blsflow.domain.tariff import Tariff, TariffPrice, TariffProblem, energy_cost_cny, price_in_force
from blsflow.domain.tariff_calendar import SECONDS_PER_DAY

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_ONE_DAY = timedelta(days=1)


@dataclass(frozen=True, kw_only=True, slots=True)
class TariffSegment:
    """A half-open stretch of UTC with one price, or with one reason for its price being unknown."""

    start: datetime
    end: datetime
    status: TariffPrice | TariffProblem

    @property
    def hours(self) -> float:
        """Elapsed hours, so that a local day has 23 or 25 when its zone moves the clock."""
        return (self.end - self.start) / timedelta(hours=1)


def next_change(tariffs: Sequence[Tariff], at: datetime, horizon: timedelta) -> datetime | None:
    """The first instant in (at, at + horizon] with another price, period or problem than `at`, or None."""
    now = price_in_force(tariffs, at)
    low, end = at.astimezone(UTC), at.astimezone(UTC) + horizon
    while low < end:
        high = min(low + _ONE_DAY, end)
        for instant in _possible_changes(tariffs, low, high):
            if price_in_force(tariffs, instant) != now:
                return instant
        low = high
    return None


def survey(tariffs: Sequence[Tariff], start: datetime, end: datetime) -> list[TariffSegment]:
    """Every stretch from `start` to `end` in order, without holes; neighbours differ in status."""
    segments: list[TariffSegment] = []
    low, end = start.astimezone(UTC), end.astimezone(UTC)
    status = price_in_force(tariffs, low)
    for instant in _possible_changes(tariffs, low, end):
        following = price_in_force(tariffs, instant)
        if following != status:
            segments.append(TariffSegment(start=low, end=instant, status=status))
            low, status = instant, following
    if low < end:
        segments.append(TariffSegment(start=low, end=end, status=status))
    return segments


def span_cost_cny(power_w: float, segments: Sequence[TariffSegment]) -> float | TariffProblem:
    """What a constant draw costs over the segments; the first unknown price makes the whole unknown."""
    cost_cny = 0.0
    for segment in segments:
        if isinstance(segment.status, TariffProblem):
            return segment.status
        cost_cny += energy_cost_cny(power_w, segment.hours, segment.status.price_cny_per_kwh)
    return cost_cny


def _possible_changes(tariffs: Sequence[Tariff], start: datetime, end: datetime) -> list[datetime]:
    """Every instant in (start, end] at which a status may change, in order."""
    found = {instant for tariff in tariffs for instant in _bounds(tariff, start, end)}
    return sorted(instant for instant in found if start < instant <= end)


def _bounds(tariff: Tariff, start: datetime, end: datetime) -> Iterator[datetime]:
    for bound in (tariff.valid_from, tariff.valid_to):
        if bound is not None:
            yield bound.astimezone(UTC)
    low = start if tariff.valid_from is None else max(start, tariff.valid_from)
    high = end if tariff.valid_to is None else min(end, tariff.valid_to)
    if low > high:
        return
    zone = load_zone(tariff.zone)
    yield from clock_changes(low, high, zone)
    seconds = {0} | {second % SECONDS_PER_DAY for p in tariff.periods for second in (p.start_sec, p.end_sec)}
    # A day to either side: a clock set back across midnight shows the later date first.
    day = low.astimezone(zone).date() - _ONE_DAY
    last = high.astimezone(zone).date() + _ONE_DAY
    while day <= last:
        for second in seconds:
            yield from instants_of_wall(datetime.combine(day, time()) + timedelta(seconds=second), zone)
        day += _ONE_DAY
