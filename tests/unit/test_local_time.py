"""Where wall clocks skip and repeat."""

import itertools
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from blsflow.domain.local_time import (
    UnknownZone,
    clock_changes,
    instants_of_wall,
    is_repeated,
    latest_settled_wall,
    load_zone,
    local_day,
    resolve_wall,
)

BERLIN = ZoneInfo("Europe/Berlin")


def utc(text: str) -> datetime:
    """An instant."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("wall", "at", "mark", "passes"),
    [
        ("2026-03-29T01:59:59", "2026-03-29T00:59:59", "exact", 1),
        ("2026-03-29T02:00:00", "2026-03-29T01:00:00", "moved", 1),
        ("2026-03-29T02:59:59.999999", "2026-03-29T01:00:00", "moved", 1),
        ("2026-03-29T03:00:00", "2026-03-29T01:00:00", "exact", 1),
        ("2026-10-25T01:59:59", "2026-10-24T23:59:59", "exact", 1),
        ("2026-10-25T02:00:00", "2026-10-25T00:00:00", "repeated", 2),
        ("2026-10-25T02:59:59.999999", "2026-10-25T00:59:59.999999", "repeated", 2),
        ("2026-10-25T03:00:00", "2026-10-25T02:00:00", "exact", 1),
    ],
)
def test_a_wall_time_has_one_instant_of_plans(wall: str, at: str, mark: str, passes: int) -> None:
    """R8.2: the edges of Berlin's gap and repeated hour: skipped goes to the gap's end, repeated to its first pass."""
    naive = datetime.fromisoformat(wall)
    assert resolve_wall(naive, BERLIN) == (utc(at), mark)
    shown = instants_of_wall(naive, BERLIN)
    assert shown[0] == utc(at)
    assert [b - a for a, b in itertools.pairwise(shown)] == [timedelta(hours=1)] * (passes - 1)


@pytest.mark.parametrize(
    ("at", "wall"),
    [
        ("2026-10-25T00:30:00", "2026-10-25T02:30:00"),
        ("2026-10-25T00:59:59", "2026-10-25T02:59:59"),
        ("2026-10-25T01:00:00", "2026-10-25T02:59:59.999999"),
        ("2026-10-25T01:30:00", "2026-10-25T02:59:59.999999"),
        ("2026-10-25T02:00:00", "2026-10-25T03:00:00"),
        ("2026-03-29T01:00:00", "2026-03-29T03:00:00"),
    ],
)
def test_in_the_second_pass_every_repeated_wall_is_settled(at: str, wall: str) -> None:
    """R8.2: what a clock shows again has had its instant; the walls after the repeated stretch are still to come."""
    assert latest_settled_wall(utc(at), BERLIN) == datetime.fromisoformat(wall)


def test_repeated_walls_are_known_in_both_passes() -> None:
    """R8.2: both passes of a repeated hour are marked, their neighbours are not."""
    asked = ("2026-10-24T23:59:59", "2026-10-25T00:00", "2026-10-25T01:59:59", "2026-10-25T02:00")
    assert [is_repeated(utc(at), BERLIN) for at in asked] == [False, True, True, False]


@pytest.mark.parametrize(
    ("zone", "year", "changes"),
    [
        ("Australia/Lord_Howe", 2026, ["2026-04-04T15:00", "2026-10-03T15:30"]),
        ("Europe/Moscow", 2014, ["2014-10-25T22:00"]),
        ("Europe/Moscow", 2026, []),
        ("Asia/Kathmandu", 2026, []),
        ("Pacific/Apia", 2011, ["2011-04-02T14:00", "2011-09-24T14:00", "2011-12-30T10:00"]),
        ("America/Sao_Paulo", 2018, ["2018-02-18T02:00", "2018-11-04T03:00"]),
    ],
)
def test_a_zones_clock_changes_are_found(zone: str, year: int, changes: list[str]) -> None:
    """R2.2: changes by half an hour, by a day, at midnight, and none where DST was abandoned."""
    start = datetime(year, 1, 1, tzinfo=UTC)
    found = list(clock_changes(start, start + timedelta(days=365), ZoneInfo(zone)))
    assert found == [utc(change) for change in changes]


def test_a_change_of_the_clock_lies_in_the_span_that_ends_with_it() -> None:
    """R2.2: a span excludes its start and includes its end."""
    change = utc("2026-03-29T01:00")
    second = timedelta(seconds=1)
    assert list(clock_changes(change - second, change, BERLIN)) == [change]
    assert list(clock_changes(change, change + second, BERLIN)) == []


def test_a_local_day_is_as_long_as_it_is() -> None:
    """R2.2: 23, 25 and 24 hours, and none for the day that Apia skipped."""
    days = [
        (BERLIN, date(2026, 3, 29)),
        (BERLIN, date(2026, 10, 25)),
        (BERLIN, date(2026, 6, 1)),
        (ZoneInfo("Pacific/Apia"), date(2011, 12, 30)),
    ]
    spans = [local_day(day, zone) for zone, day in days]
    assert [(end - start) / timedelta(hours=1) for start, end in spans] == [23, 25, 24, 0]


@pytest.mark.parametrize(
    "name", ["UTC+3", "Europe", "", "America/New_Yrok", "../UTC", "right/UTC", "Factory", None, 8]
)
def test_what_is_no_place_is_no_zone(name: object) -> None:
    """R8.2: only IANA names of civil time are zones; each other value is refused in one way."""
    with pytest.raises(UnknownZone):
        load_zone(name)
    assert load_zone("Asia/Shanghai").key == "Asia/Shanghai"
