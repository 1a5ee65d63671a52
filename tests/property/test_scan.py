"""Scans one after another, at any times: what holds whatever the rule."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta

from hypothesis import given
from hypothesis import strategies as st

from blsflow.domain.recurrence import (
    MISSED_CAP,
    Cron,
    Daily,
    Interval,
    Monthly,
    Rule,
    Weekly,
    missed_between,
    next_run,
)
from blsflow.domain.scan import plan_scan

START = datetime(2026, 3, 1, tzinfo=UTC)
zones = st.sampled_from(["UTC", "Asia/Shanghai", "America/New_York", "Europe/Berlin", "Australia/Lord_Howe"])
clocks = st.builds(time, st.integers(0, 23), st.sampled_from([0, 15, 30, 59]))
rules = st.one_of(
    st.builds(Interval, every_sec=st.integers(20, 200_000), time_zone=zones),
    st.builds(Daily, time_of_day=clocks, time_zone=zones),
    st.builds(
        Weekly,
        weekdays=st.frozensets(st.integers(1, 7), min_size=1),
        time_of_day=clocks,
        time_zone=zones,
    ),
    st.builds(
        Monthly, day=st.one_of(st.integers(1, 31), st.just("last")), time_of_day=clocks, time_zone=zones
    ),
    st.builds(
        Cron,
        expression=st.sampled_from(["*/7 * * * *", "0 * * * *", "30 1,2 * * *", "0 8 * * 1-5"]),
        time_zone=zones,
    ),
)
spans = st.floats(0, 40 * 86_400).map(lambda seconds: timedelta(seconds=seconds))
graces = st.floats(1, 3600).map(lambda seconds: timedelta(seconds=seconds))


@given(rule=rules, since=spans, late=spans, grace=graces)
def test_every_due_time_is_either_run_or_missed(
    rule: Rule, since: timedelta, late: timedelta, grace: timedelta
) -> None:
    """R8.5: the runs and the missed ones together are the due ones, at most one runs, and the cursor passes now."""
    cursor = next_run(rule, START + since)
    assert cursor is not None
    now = cursor + late
    plan = plan_scan(rule, cursor=cursor, now=now, grace=grace)
    due = 1 + missed_between(rule, cursor, now)
    if due <= MISSED_CAP:
        assert (plan.run_at is not None) + plan.missed_count == due
    assert plan.missed_from == (cursor if plan.missed_count else None)
    if plan.run_at is not None:
        assert now - grace <= plan.run_at <= now
        assert missed_between(rule, plan.run_at, now) == 0, "only the newest runs"
    else:
        assert missed_between(rule, max(cursor, now - grace - timedelta(microseconds=1)), now) == 0
    assert plan.next_run_at is not None
    assert plan.next_run_at > now
    assert plan.next_run_at == next_run(rule, now), "as planned, whenever the scan was"


@given(rule=rules, pauses=st.lists(spans, min_size=1, max_size=12), grace=graces)
def test_no_planned_time_runs_twice_or_out_of_order(
    rule: Rule, pauses: list[timedelta], grace: timedelta
) -> None:
    """R8.3, R8.5: over any sequence of scans each planned time is taken once, in order, and nothing is caught up."""
    cursor = next_run(rule, START)
    now = START
    taken: list[datetime] = []
    for pause in pauses:
        now += pause
        assert cursor is not None
        if cursor > now:
            continue
        plan = plan_scan(rule, cursor=cursor, now=now, grace=grace)
        if plan.run_at is not None:
            taken.append(plan.run_at)
        assert plan.next_run_at is not None
        assert plan.next_run_at > max(now, cursor)
        cursor = plan.next_run_at
    assert taken == sorted(set(taken))
