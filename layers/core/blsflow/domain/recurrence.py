"""When a schedule runs: the run after an instant, what was missed, and a preview (R8.2, R8.5).

Calendar rules (once at a local time, daily, weekly, monthly, cron) name local times. Each local time runs once:
one that the zone skips right after the gap, together with whatever else is planned for that instant, and one
that it repeats in its first pass. That holds for sub-daily cron too: on the day the clock goes back,
``*/5 * * * *`` rests for the repeated hour, since each of its local times has had its run.

Interval rules count elapsed time from an anchor that nothing moves. They take no notice of the wall clock and
so run in both passes of a repeated hour; work that must go on evenly through such a night wants one of these.

Planned times depend on the rule alone, never on when earlier runs happened. Instants are UTC, years 2 to 9998.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile
from typing import TYPE_CHECKING, NamedTuple

from blsflow.domain.errors import InvalidDocument
from blsflow.domain.local_time import WallMark, is_repeated, latest_settled_wall, load_zone, resolve_wall
from blsflow.domain.recurrence_document import parse_rule, to_document
from blsflow.domain.recurrence_rules import Cron, Daily, Interval, Monthly, Once, Rule, Weekly

if TYPE_CHECKING:
    from collections.abc import Iterator

# The rules and their documents have modules of their own; this one is the face of the three.
__all__ = [
    "MISSED_CAP",
    "Cron",
    "Daily",
    "Interval",
    "Monthly",
    "Once",
    "PlannedRun",
    "Rule",
    "Weekly",
    "missed_between",
    "next_run",
    "parse_rule",
    "preview",
    "require_to_come",
    "to_document",
]

MISSED_CAP = 1000


class PlannedRun(NamedTuple):
    """A run at an instant for a local time.

    ``wall`` is the first local time that the run stands for. ``moved``: the zone skips it, and the run comes right
    after the gap (for every other local time in the gap as well). ``repeated``: the zone shows it twice; calendar
    rules run in the first pass, interval rules in both.
    """

    at: datetime
    wall: datetime
    mark: WallMark


def next_run(rule: Rule, after: datetime) -> datetime | None:
    """The first planned instant strictly after `after`, or None if there is none."""
    if isinstance(
        rule, Interval
    ):  # without its local time, which a scan of thousands of schedules does not ask for
        _require_aware(after)
        try:
            return _next_interval(rule, after)
        except OverflowError:  # beyond the year 9999
            return None
    run = next(_runs(rule, after), None)
    return None if run is None else run.at


def require_to_come(field: str, rule: Rule, now: datetime) -> None:
    """Refuse a rule none of whose runs is still to come: whoever stores it would wait for nothing."""
    if next_run(rule, now) is None:
        raise InvalidDocument(
            field=f"{field}.at" if isinstance(rule, Once) else field,
            value=to_document(rule),
            cause="no run is still to come",
        )


def missed_between(rule: Rule, after: datetime, now: datetime) -> int:
    """How many planned instants lie in (after, now]: exact for intervals, else counted up to `MISSED_CAP`.

    A count of `MISSED_CAP` from a calendar rule means that many or more, so that a long downtime costs a scan no
    more than a short one.
    """
    _require_aware(after)
    _require_aware(now)
    if isinstance(rule, Interval):
        return max(0, _intervals_until(rule, now) - _intervals_until(rule, after))
    return sum(1 for _ in islice(takewhile(lambda run: run.at <= now, _runs(rule, after)), MISSED_CAP))


def preview(rule: Rule, after: datetime, count: int) -> list[PlannedRun]:
    """The next `count` runs strictly after `after`; fewer if the rule ends before."""
    return list(islice(_runs(rule, after), count))


def _runs(rule: Rule, after: datetime) -> Iterator[PlannedRun]:
    _require_aware(after)
    try:
        if isinstance(rule, Interval):
            yield from _interval_runs(rule, after)
        elif isinstance(rule, Once) and rule.at.utcoffset() is not None:
            if rule.at > after:
                yield _run_at(rule.at.astimezone(UTC), rule)
        else:
            yield from _calendar_runs(rule, after)
    except OverflowError:  # beyond the year 9999
        return


def _calendar_runs(rule: Once | Daily | Weekly | Monthly | Cron, after: datetime) -> Iterator[PlannedRun]:
    zone = load_zone(rule.time_zone)
    latest = after
    for wall in rule.walls_after(latest_settled_wall(after, zone)):
        at, mark = resolve_wall(wall, zone)
        if at > latest:
            latest = at
            yield PlannedRun(at, wall, mark)


def _interval_runs(rule: Interval, after: datetime) -> Iterator[PlannedRun]:
    at = _next_interval(rule, after)
    while True:
        yield _run_at(at, rule)
        at += timedelta(seconds=rule.every_sec)


def _next_interval(rule: Interval, after: datetime) -> datetime:
    """The first planned instant after `after`; `OverflowError` beyond the year 9999."""
    return rule.anchor.astimezone(UTC) + _intervals_until(rule, after) * timedelta(seconds=rule.every_sec)


def _intervals_until(rule: Interval, at: datetime) -> int:
    """How many planned instants there are up to and including `at`."""
    return max(0, (at - rule.anchor) // timedelta(seconds=rule.every_sec) + 1)


def _run_at(at: datetime, rule: Once | Interval) -> PlannedRun:
    zone = load_zone(rule.time_zone)
    wall = at.astimezone(zone).replace(tzinfo=None, fold=0)
    return PlannedRun(at, wall, "repeated" if is_repeated(at, zone) else "exact")


def _require_aware(at: datetime) -> None:
    if at.utcoffset() is None:
        raise ValueError(f"an instant needs a UTC offset: {at!r}")
