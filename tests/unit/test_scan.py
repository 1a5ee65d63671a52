"""What one scan makes of one due schedule, at its edges."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta

import pytest

from blsflow.domain.recurrence import Cron, Daily, Interval, Once, Rule, Weekly
from blsflow.domain.scan import plan_scan

GRACE = timedelta(minutes=5)
MINUTE = timedelta(minutes=1)
INSTANT = timedelta(microseconds=1)
EIGHT = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)  # a Monday
DAILY = Daily(time_of_day=time(8), time_zone="UTC")
HOURLY = Cron(expression="0 * * * *", time_zone="UTC")
EVERY_MINUTE = Cron(expression="* * * * *", time_zone="UTC")


@pytest.mark.parametrize(
    ("late", "runs"),
    [
        (timedelta(), True),
        (INSTANT, True),
        (GRACE - INSTANT, True),
        (GRACE, True),
        (GRACE + INSTANT, False),
        (timedelta(hours=4), False),
    ],
)
def test_a_run_starts_up_to_the_grace_late(late: timedelta, *, runs: bool) -> None:
    """R8.5: exactly as late as the grace still runs; an instant later it is missed, with a count of one."""
    plan = plan_scan(DAILY, cursor=EIGHT, now=EIGHT + late, grace=GRACE)
    assert plan.run_at == (EIGHT if runs else None)
    assert (plan.missed_from, plan.missed_count) == ((None, 0) if runs else (EIGHT, 1))
    assert plan.next_run_at == EIGHT + timedelta(days=1)


@pytest.mark.parametrize("late", [timedelta(hours=4), timedelta(hours=23, minutes=59)])
@pytest.mark.parametrize("grace", [GRACE, timedelta(days=2)], ids=["too late", "in time"])
def test_a_late_run_does_not_move_the_plan(late: timedelta, grace: timedelta) -> None:
    """R8.3 (K16): daily at 08:00, run or missed at 12:00, is next due at 08:00 and not a day after it ran."""
    plan = plan_scan(DAILY, cursor=EIGHT, now=EIGHT + late, grace=grace)
    assert plan.next_run_at == EIGHT + timedelta(days=1)


def test_an_interval_keeps_its_anchor_when_scanned_late() -> None:
    """R8.2 (K16): every 300 s on round times stays on round times, however late the scan."""
    rule = Interval(every_sec=300, time_zone="UTC")
    plan = plan_scan(rule, cursor=EIGHT, now=EIGHT + timedelta(seconds=437), grace=GRACE)
    assert plan.run_at == EIGHT + timedelta(seconds=300)
    assert plan.missed_count == 1
    assert plan.next_run_at == EIGHT + timedelta(seconds=600)


@pytest.mark.parametrize(
    ("down", "after_the_hour", "run_at", "missed"),
    [
        (24, timedelta(minutes=1), 24, 24),
        (24, timedelta(minutes=5), 24, 24),
        (24, timedelta(minutes=6), None, 25),
        (23, timedelta(minutes=59), None, 24),
        (1, timedelta(minutes=1), 1, 1),
        (0, timedelta(minutes=1), 0, 0),
    ],
)
def test_downtime_is_one_record_and_not_a_storm(
    down: int, after_the_hour: timedelta, run_at: int | None, missed: int
) -> None:
    """R8.5 (K20): hourly, down for a day: one missed record with its count, at most one run, the next one ahead."""
    now = EIGHT + timedelta(hours=down) + after_the_hour
    plan = plan_scan(HOURLY, cursor=EIGHT, now=now, grace=GRACE)
    assert plan.run_at == (None if run_at is None else EIGHT + timedelta(hours=run_at))
    assert plan.missed_count == missed
    assert plan.missed_from == (EIGHT if missed else None)
    assert plan.next_run_at == EIGHT + timedelta(hours=down + 1)


@pytest.mark.parametrize("off", [99, 100, 101, 102, 2000, 100_000])
def test_however_many_slots_were_missed_a_schedule_resumes(off: int) -> None:
    """R8.5 (K23): a minute's schedule that was off for 101 minutes, or for months, runs now and goes on."""
    now = EIGHT + off * MINUTE + timedelta(seconds=1)
    plan = plan_scan(EVERY_MINUTE, cursor=EIGHT, now=now, grace=GRACE)
    assert plan.run_at == EIGHT + off * MINUTE
    assert plan.missed_count == min(off, 1000)
    assert plan.next_run_at == EIGHT + (off + 1) * MINUTE


@pytest.mark.parametrize(
    ("back_at", "runs"), [("07:59:30", False), ("08:00:00", True), ("08:01:30", True), ("08:05:30", False)]
)
def test_a_stop_planned_during_a_restart_is_not_lost(back_at: str, *, runs: bool) -> None:
    """R8.5 (T20): planned for 08:00 with the scheduler back at 08:01:30, it runs with the first scan after it."""
    now = datetime.combine(EIGHT, time.fromisoformat(back_at), tzinfo=UTC)
    if now < EIGHT:  # not due: no scan sees it, and it is still planned
        assert plan_scan(DAILY, cursor=EIGHT - timedelta(days=1), now=now, grace=GRACE).next_run_at == EIGHT
        return
    plan = plan_scan(DAILY, cursor=EIGHT, now=now, grace=GRACE)
    assert (plan.run_at == EIGHT) is runs
    assert plan.missed_count == (0 if runs else 1)


@pytest.mark.parametrize("rule", [Once(at=EIGHT, time_zone="UTC"), Once(at=EIGHT, time_zone="Asia/Shanghai")])
@pytest.mark.parametrize("late", [timedelta(), GRACE, timedelta(days=400)])
def test_a_rule_without_a_further_run_ends(rule: Rule, late: timedelta) -> None:
    """R8.2: a single run, done or missed, leaves nothing planned."""
    plan = plan_scan(rule, cursor=EIGHT, now=EIGHT + late, grace=GRACE)
    assert (plan.run_at, plan.missed_count) == ((EIGHT, 0) if late <= GRACE else (None, 1))
    assert plan.next_run_at is None


def test_two_scans_of_one_slot_plan_the_same() -> None:
    """R8.3 (K17): whoever scans a Monday's slot, and whenever, names the same planned time and the same next one."""
    rule = Weekly(weekdays=frozenset({1}), time_of_day=time(6), time_zone="UTC")
    six = EIGHT.replace(hour=6)
    first, second = (
        plan_scan(rule, cursor=six, now=six + late, grace=GRACE) for late in (timedelta(0), 2 * MINUTE)
    )
    assert first == second
    assert first.next_run_at == six + timedelta(days=7)


@pytest.mark.parametrize(
    ("rule", "cursor", "hours"),
    [
        # 02:30 does not exist on that day: right after the gap
        (
            Daily(time_of_day=time(2, 30), time_zone="America/New_York"),
            datetime(2026, 3, 8, 7, tzinfo=UTC),
            23.5,
        ),
        # 01:30 happens twice on that day: the first one
        (
            Daily(time_of_day=time(1, 30), time_zone="America/New_York"),
            datetime(2026, 11, 1, 5, 30, tzinfo=UTC),
            25,
        ),
    ],
)
def test_clock_changes_neither_repeat_nor_drop_a_run(rule: Rule, cursor: datetime, hours: float) -> None:
    """R8.2 (K01, K02): scanned on either DST day, the local time has run once and comes again on the next day."""
    plan = plan_scan(rule, cursor=cursor, now=cursor + MINUTE, grace=GRACE)
    assert (plan.run_at, plan.missed_count) == (cursor, 0)
    assert plan.next_run_at == cursor + timedelta(hours=hours)


def test_runs_closer_than_the_grace_are_not_caught_up() -> None:
    """R8.5: of several that are less late than the grace only the newest runs; the others are counted as missed."""
    plan = plan_scan(EVERY_MINUTE, cursor=EIGHT, now=EIGHT + 3 * MINUTE, grace=GRACE)
    assert (plan.run_at, plan.missed_count) == (EIGHT + 3 * MINUTE, 3)


def test_a_cursor_off_the_plan_still_counts_as_the_run_that_it_announced() -> None:
    """R8.5: a rule that changed after its cursor was set runs what was announced, and then follows the new plan."""
    announced = EIGHT + timedelta(minutes=17)
    plan = plan_scan(DAILY, cursor=announced, now=announced + MINUTE, grace=GRACE)
    assert (plan.run_at, plan.missed_count) == (announced, 0)
    assert plan.next_run_at == EIGHT + timedelta(days=1)
