from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blsflow.domain.conversation import (
    RunAlert,
    RunForbidden,
    RunFound,
    RunNotFound,
    RunReport,
    RunSettlement,
    RunState,
    RunUnreadable,
    settle_run,
)

SENT_AT = datetime(2026, 3, 1, 7, 0, tzinfo=UTC)
EXPIRES_AT = SENT_AT + timedelta(seconds=30)
CONCLUSIVE_AT = EXPIRES_AT + timedelta(seconds=30)
ALERT_AFTER = timedelta(seconds=900)
INSTANT = timedelta(microseconds=1)

RUNNING = RunFound(
    run_id="run-1",
    state=RunState.RUNNING,
    output_ref=None,
    error=None,
    started_at=SENT_AT + timedelta(seconds=1),
    ended_at=None,
)
OVER = replace(
    RUNNING, state=RunState.SUCCEEDED, output_ref="message:7", ended_at=SENT_AT + timedelta(seconds=40)
)
UNREADABLE = RunUnreadable(cause="timeout")
ENDS = (RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED, RunState.INTERRUPTED)


def judge(
    report: RunReport, *, bound: bool = True, now: datetime = SENT_AT, alerted: tuple[RunAlert, ...] = ()
) -> RunSettlement:
    """Settle one report on the attempt of this module."""
    return settle_run(
        report,
        bound=bound,
        now=now,
        request_expires_at=EXPIRES_AT,
        dispatched_at=SENT_AT,
        unresolved_alert=ALERT_AFTER,
        alerted=alerted,
    )


@pytest.mark.parametrize(
    ("state", "is_end"),
    [(RunState.QUEUED, False), (RunState.RUNNING, False), *((state, True) for state in ENDS)],
)
def test_the_ends_of_a_run_are_four(state: RunState, is_end: bool) -> None:  # noqa: FBT001 - a table's column
    """R8.7: what is queued or running goes on; everything else is final."""
    assert state.is_end is is_end


@pytest.mark.parametrize("bound", [True, False])
@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (RunState.SUCCEEDED, None),
        (RunState.FAILED, "run_failed"),
        (RunState.CANCELLED, "run_cancelled"),
        (RunState.INTERRUPTED, "run_interrupted"),
    ],
)
def test_the_services_end_is_the_end(state: RunState, reason: str | None, *, bound: bool) -> None:
    """R8.7: a conversation has no telemetry, so an end that the service reports is taken, with what it left behind."""
    report = replace(OVER, state=state, error="model_error: no")
    assert judge(report, bound=bound, now=SENT_AT + 2 * ALERT_AFTER) == RunSettlement(
        state=state,
        reason=reason,
        output_ref="message:7",
        error="model_error: no",
        waiting_for=None,
        alert=None,
        reference="run-1",
        started_at=OVER.started_at,
        ended_at=OVER.ended_at,
    )


@pytest.mark.parametrize("state", [RunState.QUEUED, RunState.RUNNING])
def test_a_run_at_work_is_waited_for_and_named(state: RunState) -> None:
    """R5.3: the first read back that finds the run binds the attempt to its id; R5.4: nothing ends before its end."""
    settled = judge(replace(RUNNING, state=state), bound=False, now=CONCLUSIVE_AT + timedelta(days=3))
    assert (settled.state, settled.waiting_for) == (None, "run_end")
    assert settled.reference == "run-1"


@pytest.mark.parametrize(
    ("bound", "now", "state"),
    [
        (False, SENT_AT, None),
        (False, EXPIRES_AT, None),
        (False, EXPIRES_AT + INSTANT, None),
        (False, CONCLUSIVE_AT, None),
        (False, CONCLUSIVE_AT + INSTANT, RunState.FAILED),
        (True, CONCLUSIVE_AT + INSTANT, None),
        (True, CONCLUSIVE_AT + timedelta(days=30), None),
    ],
)
def test_not_found_proves_something_only_of_an_unbound_attempt_after_its_expiry(
    now: datetime, state: RunState | None, *, bound: bool
) -> None:
    """R5.3: only when no start can come any more does "not found" mean that there was none; R8.11: never once there was."""
    settled = judge(RunNotFound(), bound=bound, now=now)
    assert settled.state is state
    assert settled.reason == ("not_received" if state else None)
    assert settled.waiting_for == (None if state else "not_found")
    assert settled.reference is None


@pytest.mark.parametrize("bound", [True, False])
@pytest.mark.parametrize(
    ("report", "waiting_for"), [(RunForbidden(), "forbidden"), (UNREADABLE, "unreadable")]
)
def test_forbidden_and_unreadable_prove_nothing(report: RunReport, waiting_for: str, *, bound: bool) -> None:
    """R8.11: neither ends an attempt, however long it lasts."""
    settled = judge(report, bound=bound, now=CONCLUSIVE_AT + timedelta(days=30))
    assert (settled.state, settled.waiting_for) == (None, waiting_for)


@pytest.mark.parametrize(
    ("report", "bound", "alert"),
    [
        (RUNNING, True, RunAlert.UNRESOLVED),
        (UNREADABLE, True, RunAlert.UNRESOLVED),
        (UNREADABLE, False, RunAlert.UNRESOLVED),
        (RunNotFound(), True, RunAlert.UNREACHABLE),
        (RunForbidden(), True, RunAlert.UNREACHABLE),
        (RunForbidden(), False, RunAlert.UNREACHABLE),
    ],
)
def test_people_are_told_once_and_of_lost_sight_by_an_alert_of_its_own(
    report: RunReport, alert: RunAlert, *, bound: bool
) -> None:
    """R5.4, R8.11: past the alert time each alert is raised once; one kind that was raised does not swallow the other."""
    due_at = SENT_AT + ALERT_AFTER
    (other,) = set(RunAlert) - {alert}
    assert judge(report, bound=bound, now=due_at).alert is None
    assert judge(report, bound=bound, now=due_at + INSTANT).alert is alert
    assert judge(report, bound=bound, now=due_at + INSTANT, alerted=(other,)).alert is alert
    assert judge(report, bound=bound, now=due_at + INSTANT, alerted=(alert,)).alert is None
    assert judge(report, bound=bound, now=due_at + INSTANT, alerted=(alert, other)).alert is None


def test_a_not_found_that_is_not_conclusive_yet_is_no_lost_sight() -> None:
    """R8.11: an attempt that was never bound was never lost: a short alert time tells people the ordinary thing."""
    settled = settle_run(
        RunNotFound(),
        bound=False,
        now=SENT_AT + timedelta(seconds=20),
        request_expires_at=EXPIRES_AT,
        dispatched_at=SENT_AT,
        unresolved_alert=timedelta(seconds=10),
    )
    assert settled.alert is RunAlert.UNRESOLVED


reports = st.one_of(
    st.builds(
        lambda state: replace(OVER if state.is_end else RUNNING, state=state), st.sampled_from(list(RunState))
    ),
    st.sampled_from([RunNotFound(), RunForbidden(), UNREADABLE]),
)


@given(
    report=reports,
    bound=st.booleans(),
    age_sec=st.floats(min_value=-60, max_value=1e7),
    alerted=st.sets(st.sampled_from(list(RunAlert))),
)
def test_an_attempt_either_ends_or_says_what_it_waits_for(
    report: RunReport, age_sec: float, alerted: set[RunAlert], *, bound: bool
) -> None:
    """R5.4: whatever comes back, the slot is freed by an end that the service names or a start that cannot come any more."""
    now = SENT_AT + timedelta(seconds=age_sec)
    settled = judge(report, bound=bound, now=now, alerted=tuple(alerted))
    assert (settled.state is None) == (settled.waiting_for is not None)
    if settled.state is not None:
        assert settled.state.is_end
        proven = isinstance(report, RunFound) and report.state is settled.state
        assert proven or (isinstance(report, RunNotFound) and not bound and now > CONCLUSIVE_AT)
        assert settled.alert is None
        assert (settled.reason is None) == (settled.state is RunState.SUCCEEDED)
    assert settled.alert is None or (settled.alert not in alerted and now - SENT_AT > ALERT_AFTER)
    assert settled.reference == (report.run_id if isinstance(report, RunFound) else None)
    assert (settled.ended_at is None) or settled.state is not None


@given(st.lists(st.tuples(reports, st.floats(min_value=0.1, max_value=600)), min_size=1, max_size=30))
def test_following_an_attempt_alerts_at_most_twice_and_never_unlearns_its_run(
    answers: list[tuple[RunReport, float]],
) -> None:
    """R8.11: over any sequence of answers each alert is raised once, and a run that was named is never "not received"."""
    now, reference, raised = SENT_AT, None, list[RunAlert]()
    for report, pause_sec in answers:
        now += timedelta(seconds=pause_sec)
        settled = judge(report, bound=reference is not None, now=now, alerted=tuple(raised))
        reference = settled.reference or reference
        if settled.alert is not None:
            raised.append(settled.alert)
        if settled.state is not None:
            assert settled.reason != "not_received" or reference is None
            break
    assert len(raised) == len(set(raised))
