from __future__ import annotations

from datetime import UTC, datetime

import pytest

from blsflow.domain.policy import Policy, Window, WindowAction
from blsflow.domain.windows import active_window, outranks
from tests.scenes import NOW, A, a_policy, a_window_policy


def stop(
    starts: str, ends: str, *, window_id: int = 1, priority: int = 0, days: set[int] | None = None
) -> Window:
    """A window that stops machines."""
    weekdays = None if days is None else frozenset(days)
    return Window(
        id=window_id, starts=starts, ends=ends, action=WindowAction.STOP, priority=priority, weekdays=weekdays
    )


def active(policy: Policy, instant: str) -> int | None:
    """The active window's id at an instant."""
    found = active_window(policy, datetime.fromisoformat(instant).astimezone(UTC))
    return None if found is None else found.id


@pytest.mark.parametrize(
    ("instant", "expected"),
    [
        ("2025-08-01T07:59:59.999999+08:00", None),
        ("2025-08-01T08:00:00+08:00", 1),
        ("2025-08-01T11:59:59.999999+08:00", 1),
        ("2025-08-01T12:00:00+08:00", None),
        ("2025-08-01T00:00:00Z", 1),
    ],
)
def test_half_open_in_the_policys_zone(instant: str, expected: int | None) -> None:
    """R3.1: a window holds from its start up to, and without, its end, by the policy's wall clock."""
    policy = a_window_policy(stop("08:00", "12:00"), time_zone="Asia/Shanghai")
    assert active(policy, instant) == expected


@pytest.mark.parametrize(
    ("instant", "expected"),
    [
        ("2025-08-01T21:59Z", None),  # a Friday
        ("2025-08-01T22:00Z", 1),
        ("2025-08-02T05:59Z", 1),
        ("2025-08-02T06:00Z", None),
        ("2025-08-02T22:00Z", None),
        ("2025-08-01T05:59Z", None),  # Thursday's night
    ],
)
def test_weekday_is_that_of_the_windows_beginning(instant: str, expected: int | None) -> None:
    """R3.1: a window across midnight belongs to the day on which it begins."""
    assert active(a_window_policy(stop("22:00", "06:00", days={5})), instant) == expected


def test_equal_bounds_are_a_whole_day() -> None:
    """R3.1: from 08:00 to 08:00 is 24 hours from the day named."""
    policy = a_window_policy(stop("08:00", "08:00", days={5}))
    instants = ("2025-08-01T07:59Z", "2025-08-01T08:00Z", "2025-08-02T07:59Z", "2025-08-02T08:00Z")
    assert [active(policy, instant) for instant in instants] == [None, 1, 1, None]


def test_until_midnight() -> None:
    """R3.1: 24:00, and 00:00, end with the day."""
    for ends in ("24:00", "00:00"):
        policy = a_window_policy(stop("20:00", ends))
        assert active(policy, "2025-08-01T23:59Z") == 1
        assert active(policy, "2025-08-02T00:00Z") is None


@pytest.mark.parametrize(("first", "second", "winner"), [(0, 0, 1), (0, 1, 2), (1, 0, 1), (-1, -2, 1)])
def test_of_several_windows_the_higher_priority_then_the_lower_id(
    first: int, second: int, winner: int
) -> None:
    """R3.6: whatever order they stand in."""
    one, two = (stop("00:00", "24:00", window_id=i, priority=p) for i, p in ((1, first), (2, second)))
    for windows in ((one, two), (two, one)):
        assert active(a_window_policy(*windows), "2025-08-01T12:00Z") == winner


@pytest.mark.parametrize(
    ("window", "began", "ended"),
    [
        # Berlin, 30 March 2025: 02:00 to 03:00 does not exist
        (("02:30", "04:00"), "2025-03-30T01:00Z", "2025-03-30T02:00Z"),
        (("01:00", "02:30"), "2025-03-30T00:00Z", "2025-03-30T01:00Z"),
        # 26 October 2025: 02:00 to 03:00 comes twice
        (("02:30", "04:00"), "2025-10-26T00:30Z", "2025-10-26T03:00Z"),
        (("01:00", "02:30"), "2025-10-25T23:00Z", "2025-10-26T00:30Z"),
        (("02:00", "03:00"), "2025-10-26T00:00Z", "2025-10-26T02:00Z"),
    ],
)
def test_one_stretch_on_dst_days(window: tuple[str, str], began: str, ended: str) -> None:
    """R3.1: a window is one unbroken stretch also on the days of 23 and 25 hours, so that nothing flaps."""
    policy = a_window_policy(stop(*window), time_zone="Europe/Berlin")
    start, end = datetime.fromisoformat(began), datetime.fromisoformat(ended)
    midnight = start.replace(hour=12).timestamp() - 86_400
    minutes = [datetime.fromtimestamp(midnight + 60 * minute, UTC) for minute in range(36 * 60)]
    minutes = [minute for minute in minutes if abs((minute - start).total_seconds()) < 6 * 3600]
    assert [minute for minute in minutes if active_window(policy, minute)] == [
        minute for minute in minutes if start <= minute < end
    ]


def test_window_that_dst_swallows() -> None:
    """R3.1: a window that lies wholly in the skipped hour is not active on that day."""
    policy = a_window_policy(stop("02:10", "02:50"), time_zone="Europe/Berlin")
    assert active(policy, "2025-03-30T01:00Z") is None
    assert active(policy, "2025-03-30T00:59Z") is None


ALWAYS = stop("00:00", "24:00")
NEVER = stop("23:00", "23:01")


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (a_window_policy(ALWAYS, id=9), a_policy(id=1, priority=99), True),
        (a_policy(id=1, priority=99), a_window_policy(ALWAYS, id=9), False),
        (a_policy(id=2, priority=1), a_policy(id=1), True),
        (a_policy(id=1), a_policy(id=2), True),
        (a_policy(id=2), a_policy(id=1), False),
        (a_window_policy(ALWAYS, id=2, priority=1), a_window_policy(ALWAYS, id=1), True),
        (a_window_policy(ALWAYS, id=2), a_window_policy(ALWAYS, id=1), False),
        (a_window_policy(NEVER, id=1, priority=99), a_policy(id=2), False),
        (a_policy(id=2), a_window_policy(NEVER, id=1, priority=99), True),
        (a_window_policy(NEVER, id=1), a_window_policy(NEVER, id=2), False),
    ],
)
def test_ranking(one: Policy, other: Policy, *, expected: bool) -> None:
    """R3.6: active windows before profit, then priority, then the lower id; outside its windows it outranks nobody."""
    assert outranks(one, other, NOW) is expected


def test_nobody_outranks_itself() -> None:
    """R3.6: ranking is strict."""
    for policy in (a_policy(), a_window_policy(ALWAYS)):
        assert not outranks(policy, policy, NOW)


def test_scene_is_what_it_says() -> None:
    """R3.1: the instant that these tests share lies on a Friday in UTC, for A to be run or not."""
    assert (NOW.isoweekday(), NOW.hour, A) == (5, 4, 11)
