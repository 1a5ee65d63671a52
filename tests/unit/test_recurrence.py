"""When schedules run next, what they missed, and how that is shown."""

from datetime import UTC, datetime, time, timedelta
from itertools import pairwise
from time import perf_counter

import pytest

from blsflow.domain.recurrence import (
    MISSED_CAP,
    Cron,
    Daily,
    Interval,
    Monthly,
    Once,
    Rule,
    Weekly,
    missed_between,
    next_run,
    preview,
)


def utc(text: str) -> datetime:
    """An instant."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def cron(expression: str, zone: str = "UTC") -> Cron:
    """A cron rule."""
    return Cron(expression=expression, time_zone=zone)


def daily(clock: str, zone: str = "UTC") -> Daily:
    """A daily rule."""
    return Daily(time_of_day=time.fromisoformat(clock), time_zone=zone)


def runs(rule: Rule, after: str, count: int) -> list[str]:
    """The next runs, to the minute."""
    return [run.at.strftime("%Y-%m-%dT%H:%M") for run in preview(rule, utc(after), count)]


@pytest.mark.parametrize("rule", [cron("0 2 * * *", "Europe/Berlin"), daily("02:00", "Europe/Berlin")])
def test_a_repeated_local_time_runs_once(rule: Rule) -> None:
    """R8.2: 02:00 comes twice in Berlin on 2023-10-29 and runs in its first pass only."""
    assert runs(rule, "2023-10-28T12:00", 2) == ["2023-10-29T00:00", "2023-10-30T01:00"]


@pytest.mark.parametrize(
    "after", ["2023-10-29T00:00:00", "2023-10-29T00:59:59", "2023-10-29T01:00:00", "2023-10-29T01:30:00"]
)
def test_a_repeated_time_is_not_due_again_from_within_the_repeated_hour(after: str) -> None:
    """R8.2: asked in either pass of the repeated hour, after its run, the next one is tomorrow's."""
    assert next_run(daily("02:00", "Europe/Berlin"), utc(after)) == utc("2023-10-30T01:00")


@pytest.mark.parametrize("rule", [cron("30 2 * * *", "America/New_York"), daily("02:30", "America/New_York")])
def test_a_skipped_local_time_runs_right_after_the_gap(rule: Rule) -> None:
    """R8.2: 02:30 is skipped in New York on 2026-03-08 and runs at 07:00Z, the end of the gap."""
    assert runs(rule, "2026-03-07T12:00", 2) == ["2026-03-08T07:00", "2026-03-09T06:30"]


def test_a_valid_midnight_after_a_gap_is_not_skipped() -> None:
    """R8.2: the midnight that follows a night with a gap is a run like any other."""
    assert runs(cron("0 0 * * *", "Europe/Prague"), "2026-03-28T23:30", 1) == ["2026-03-29T22:00"]


@pytest.mark.parametrize(
    ("zone", "after", "expected"),
    [
        ("America/Sao_Paulo", "2018-11-03T12:00", ["2018-11-04T03:00", "2018-11-05T02:00"]),
        ("Asia/Beirut", "2026-03-28T12:00", ["2026-03-28T22:00", "2026-03-29T21:00"]),
        ("Africa/Cairo", "2026-04-23T12:00", ["2026-04-23T22:00", "2026-04-24T21:00"]),
        ("Pacific/Apia", "2011-12-29T12:00", ["2011-12-30T10:00", "2011-12-31T10:00"]),
    ],
)
def test_a_skipped_midnight_runs_when_the_day_starts(zone: str, after: str, expected: list[str]) -> None:
    """R8.2: in zones that skip midnight, or a whole day, midnight's run comes at the gap's end, once."""
    assert runs(daily("00:00", zone), after, 2) == expected


def test_half_an_hour_is_skipped_and_repeated_in_lord_howe() -> None:
    """R8.2: a gap or a repeat of 30 minutes moves only what lies in it."""
    zone = "Australia/Lord_Howe"
    assert runs(daily("02:15", zone), "2026-10-03T00:00", 1) == ["2026-10-03T15:30"]
    assert runs(daily("02:30", zone), "2026-10-03T00:00", 1) == ["2026-10-03T15:30"]
    assert runs(daily("01:45", zone), "2026-04-04T00:00", 2) == ["2026-04-04T14:45", "2026-04-05T15:15"]


def test_sub_daily_cron_goes_on_right_after_the_gap() -> None:
    """R8.2: of the skipped hour's twelve times one run is left, at the gap's end, and no pause arises."""
    assert runs(cron("*/20 * * * *", "America/New_York"), "2026-03-08T06:30", 4) == [
        "2026-03-08T06:40", "2026-03-08T07:00", "2026-03-08T07:20", "2026-03-08T07:40",
    ]  # fmt: skip
    assert runs(cron("30 * * * *", "America/New_York"), "2026-03-08T06:00", 3) == [
        "2026-03-08T06:30", "2026-03-08T07:00", "2026-03-08T07:30",
    ]  # fmt: skip


def test_sub_daily_cron_rests_in_the_repeated_pass() -> None:
    """R8.2: each local time runs once, so the second pass of the repeated hour has no runs."""
    assert runs(cron("*/30 * * * *", "America/New_York"), "2026-11-01T05:00", 3) == [
        "2026-11-01T05:30", "2026-11-01T07:00", "2026-11-01T07:30",
    ]  # fmt: skip
    assert runs(cron("30 * * * *", "America/New_York"), "2026-11-01T05:00", 2) == [
        "2026-11-01T05:30", "2026-11-01T07:30",
    ]  # fmt: skip


def test_intervals_count_elapsed_time_through_both_dst_days() -> None:
    """R8.2: an interval rule runs every hour of elapsed time, whatever the wall clock does."""
    hourly = Interval(every_sec=3600, time_zone="America/New_York", anchor=utc("2026-01-01T00:15"))
    for start in ("2026-03-08T05:00", "2026-11-01T04:00"):
        at = [run.at for run in preview(hourly, utc(start), 5)]
        assert [b - a for a, b in pairwise(at)] == [timedelta(hours=1)] * 4
        assert at[0] == utc(start) + timedelta(minutes=15)


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        ("2025-01-01T00:00:00", "2026-01-01T00:00:00"),
        ("2025-12-31T23:59:59", "2026-01-01T00:00:00"),
        ("2026-01-01T00:00:00", "2026-01-01T00:07:00"),
        ("2026-01-01T00:06:59", "2026-01-01T00:07:00"),
        ("2026-01-01T00:07:00", "2026-01-01T00:14:00"),
        ("2026-01-01T00:20:00", "2026-01-01T00:21:00"),
    ],
)
def test_an_interval_keeps_its_anchor(after: str, expected: str) -> None:
    """R8.2: a run that is late, skipped or manual does not move the grid; before the anchor nothing runs."""
    rule = Interval(every_sec=420, time_zone="UTC", anchor=utc("2026-01-01T00:00:00"))
    assert next_run(rule, utc(after)) == utc(expected)


def test_an_anchor_in_another_offset_is_the_same_instant() -> None:
    """R8.2: the anchor is an instant, and planned times are UTC however it was written."""
    anchor = datetime.fromisoformat("2026-03-08T01:30:00-05:00")
    rule = Interval(every_sec=3600, time_zone="America/New_York", anchor=anchor)
    planned = next_run(rule, utc("2026-03-08T07:00"))
    assert planned == utc("2026-03-08T07:30")
    assert planned is not None
    assert planned.tzinfo is UTC


def test_a_late_daily_run_does_not_move_the_next() -> None:
    """R8.2: a run of 08:00 that happened at 12:00 is followed by tomorrow's 08:00, not by 12:00."""
    assert next_run(daily("08:00"), utc("2026-03-02T12:00")) == utc("2026-03-03T08:00")


def test_a_stop_planned_during_a_restart_is_due_on_the_first_scan_after_it() -> None:
    """R8.3: what was planned while nothing ran is found from the last instant seen, not from now."""
    assert next_run(daily("08:00"), utc("2026-03-02T07:59:30")) == utc("2026-03-02T08:00:00")
    assert missed_between(daily("08:00"), utc("2026-03-02T07:59:30"), utc("2026-03-02T08:01:30")) == 1


def test_leap_days_across_a_century_are_found() -> None:
    """R8.2: after 2096 the next February 29 is in 2104, for cron and monthly rules alike."""
    assert runs(cron("0 0 29 2 *"), "2096-03-01T00:00", 1) == ["2104-02-29T00:00"]
    rule = Monthly(day=29, time_of_day=time(), time_zone="UTC")
    assert runs(rule, "2097-01-31T00:00", 2) == ["2097-03-29T00:00", "2097-04-29T00:00"]


@pytest.mark.parametrize("rule", [cron("0 0 31 * *"), Monthly(day=31, time_of_day=time(), time_zone="UTC")])
def test_months_without_a_day_31_are_passed_over(rule: Rule) -> None:
    """R8.2: day 31 runs in March, May, July and August: neither on the 30th nor on the 1st of the next."""
    assert runs(rule, "2026-01-31T00:00", 4) == [
        "2026-03-31T00:00", "2026-05-31T00:00", "2026-07-31T00:00", "2026-08-31T00:00",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "rule", [cron("0 6 L * *"), Monthly(day="last", time_of_day=time(6), time_zone="UTC")]
)
def test_the_last_day_of_a_month(rule: Rule) -> None:
    """R8.2: last runs in every month, leap years included, and across the year's end."""
    assert runs(rule, "2027-12-31T06:00", 3) == ["2028-01-31T06:00", "2028-02-29T06:00", "2028-03-31T06:00"]


def test_weekly_rules_run_on_their_local_weekdays() -> None:
    """R8.2: Monday 06:00 in Shanghai is Sunday 22:00Z; a cron rule agrees."""
    rule = Weekly(weekdays=frozenset({1, 5}), time_of_day=time(6), time_zone="Asia/Shanghai")
    expected = ["2026-03-01T22:00", "2026-03-05T22:00", "2026-03-08T22:00"]
    assert runs(rule, "2026-03-01T21:59", 3) == expected
    assert runs(cron("0 6 * * 1,5", "Asia/Shanghai"), "2026-03-01T21:59", 3) == expected


def test_the_same_slot_is_never_next_twice() -> None:
    """R8.3: from the instant of a run on, the next one is a week later, so that a race advances once."""
    monday = cron("0 6 * * 1")
    slot = utc("2026-03-02T06:00")
    assert next_run(monday, slot - timedelta(microseconds=1)) == slot
    assert next_run(monday, slot) == slot + timedelta(days=7)


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Shanghai"])
def test_once_at_a_local_time_or_an_instant(zone: str) -> None:
    """R8.2: once runs once: a local time goes through the zone, an instant does not, and then nothing follows."""
    local = Once(at=datetime(2026, 3, 8, 2, 30), time_zone=zone)  # noqa: DTZ001 - a local time
    expected = {"America/New_York": "2026-03-08T07:00", "Asia/Shanghai": "2026-03-07T18:30"}[zone]
    assert runs(local, "2026-03-01T00:00", 2) == [expected]
    assert next_run(local, utc(expected)) is None
    instant = Once(at=datetime.fromisoformat("2026-03-08T02:30:00+08:00"), time_zone=zone)
    assert runs(instant, "2026-03-01T00:00", 2) == ["2026-03-07T18:30"]
    assert next_run(instant, utc("2026-03-07T18:30")) is None


def test_once_at_an_instant_may_lie_in_the_second_pass() -> None:
    """R8.2: an instant names the second pass of a repeated hour, which no local time can."""
    rule = Once(at=utc("2026-11-01T06:30"), time_zone="America/New_York")
    (run,) = preview(rule, utc("2026-11-01T05:30"), 3)
    assert (run.at, run.wall.hour, run.mark) == (utc("2026-11-01T06:30"), 1, "repeated")


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (Interval(every_sec=3600, time_zone="UTC"), 24),
        (cron("0 * * * *"), 24),
        (Interval(every_sec=3600, time_zone="UTC", anchor=utc("2026-03-02T12:00")), 13),
        (Interval(every_sec=3600, time_zone="UTC", anchor=utc("2026-03-04T00:00")), 0),
        (daily("00:00"), 1),
        (daily("08:00", "Asia/Shanghai"), 1),
        (Once(at=utc("2026-03-02T07:00"), time_zone="UTC"), 1),
        (Once(at=utc("2026-03-02T00:00"), time_zone="UTC"), 0),
    ],
)
def test_missed_runs_are_counted_after_the_last_seen_up_to_now(rule: Rule, expected: int) -> None:
    """R8.5: a day down is one record whose count leaves out the last run seen and includes a run due now."""
    assert missed_between(rule, utc("2026-03-02T00:00"), utc("2026-03-03T00:00")) == expected


def test_nothing_is_missed_in_no_time_or_backwards() -> None:
    """R8.5: a clock that went back has missed nothing."""
    for rule in (cron("* * * * *"), Interval(every_sec=60, time_zone="UTC")):
        assert missed_between(rule, utc("2026-03-02T00:00"), utc("2026-03-02T00:00")) == 0
        assert missed_between(rule, utc("2026-03-02T00:00"), utc("2026-03-01T00:00")) == 0


def test_more_than_a_hundred_missed_slots_do_not_stop_a_schedule() -> None:
    """R8.5: 101 minutes off are counted and the schedule goes on in the next minute."""
    every_minute, now = cron("* * * * *"), utc("2026-03-02T01:41:30")
    assert missed_between(every_minute, utc("2026-03-02T00:00"), now) == 101
    assert next_run(every_minute, now) == utc("2026-03-02T01:42")


def test_a_long_downtime_costs_no_more_than_a_short_one() -> None:
    """R8.5: years of minutes are exact for an interval and capped for cron, both without walking through them."""
    start, now = utc("2006-01-01T00:00"), utc("2026-01-01T00:00")
    began = perf_counter()
    assert missed_between(Interval(every_sec=1, time_zone="UTC"), start, now) == (now - start).total_seconds()
    assert missed_between(cron("* * * * *"), start, now) == MISSED_CAP
    assert perf_counter() - began < 1


def test_a_preview_marks_moved_and_repeated_runs() -> None:
    """R8.2: the preview names the local time that was skipped, and the one that comes twice."""
    berlin = daily("02:30", "Europe/Berlin")
    spring = preview(berlin, utc("2026-03-28T00:00"), 3)
    assert [(run.mark, f"{run.wall:%d %H:%M}") for run in spring] == [
        ("exact", "28 02:30"), ("moved", "29 02:30"), ("exact", "30 02:30"),
    ]  # fmt: skip
    autumn = preview(berlin, utc("2026-10-24T00:00"), 3)
    assert [run.mark for run in autumn] == ["exact", "repeated", "exact"]
    hourly = Interval(every_sec=3600, time_zone="Europe/Berlin")
    marks = [(run.mark, run.wall.hour) for run in preview(hourly, utc("2026-10-24T23:30"), 4)]
    assert marks == [("repeated", 2), ("repeated", 2), ("exact", 3), ("exact", 4)]


def test_a_naive_instant_is_refused() -> None:
    """R8.2: an instant without an offset would be read in the host's zone."""
    naive = datetime(2026, 3, 2)  # noqa: DTZ001
    for rule in (daily("08:00"), Interval(every_sec=60, time_zone="UTC")):
        with pytest.raises(ValueError, match="UTC offset"):
            next_run(rule, naive)
        with pytest.raises(ValueError, match="UTC offset"):
            missed_between(rule, utc("2026-03-02T00:00"), naive)


@pytest.mark.parametrize(
    "rule",
    [
        daily("08:00"),
        cron("0 0 29 2 *"),
        Monthly(day=31, time_of_day=time(), time_zone="UTC"),
        Interval(every_sec=3600, time_zone="UTC"),
    ],
)
def test_the_end_of_the_calendar_is_no_error(rule: Rule) -> None:
    """R8.2: past the last day that can be written there is no next run."""
    assert next_run(rule, datetime(9999, 12, 31, 23, 30, tzinfo=UTC)) is None
