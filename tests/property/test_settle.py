"""Read-backs in any combination of report, observation and time: what holds of every settlement."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from blsflow.domain.confirmation import Confirmed, Observed, confirm
from blsflow.domain.execution import (
    CommandKind,
    JobForbidden,
    JobFound,
    JobNotFound,
    JobReport,
    JobState,
    JobUnreadable,
    MachineResult,
    MachineResultState,
)
from blsflow.domain.settle import CLOCK_MARGIN, Limits, OpenAttempt, OpenMachine, settle

SENT = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
LIMITS = Limits(confirm_grace=timedelta(seconds=180), unresolved_alert=timedelta(seconds=900))
IDS = range(1, 6)

moments = st.floats(-600, 3600).map(lambda seconds: SENT + timedelta(seconds=seconds))
figures = st.none() | st.sampled_from([0.0, 9.0, 45.0, 3000.0, 1e14, float("nan"), float("inf"), -1.0])
observations = st.none() | st.builds(
    Observed,
    project_id=st.sampled_from([None, 1, 2]),
    status=st.sampled_from([None, "mining", "stopped"]),
    hashrate_hs=figures,
    reported_at=st.none() | moments,
    power_w=figures,
    power_at=st.none() | moments,
    nameplate_power_w=st.sampled_from([None, 3000.0]),
)
machines = st.lists(
    st.builds(
        OpenMachine,
        machine_id=st.sampled_from(IDS),
        job_ended_at=st.none() | moments,
        observed=observations,
    ),
    min_size=1,
    max_size=5,
    unique_by=lambda machine: machine.machine_id,
)
reports = st.one_of(
    st.builds(
        JobFound,
        job_id=st.just("job-1"),
        state=st.sampled_from(JobState),
        machines=st.lists(
            st.builds(
                MachineResult,
                machine_id=st.sampled_from([*IDS, 99]),
                state=st.sampled_from(MachineResultState),
                reason=st.none() | st.just("why"),
            ),
            max_size=6,
            unique_by=lambda result: result.machine_id,
        ).map(tuple),
    ),
    st.just(JobNotFound()),
    st.just(JobForbidden()),
    st.just(JobUnreadable(cause="500")),
)


@st.composite
def attempts(draw: st.DrawFn) -> OpenAttempt:
    """Any attempt that may have been sent."""
    action = draw(st.sampled_from(CommandKind))
    moves = action in {CommandKind.SWITCH, CommandKind.START}
    return OpenAttempt(
        attempt_id=UUID(int=1),
        tenant_id="acme",
        policy_id=1,
        tick_id=1,
        occurrence_id=1,
        key="k",
        action=action,
        project_id=2 if moves else None,
        reference=draw(st.sampled_from([None, "job-1"])),
        dispatched_at=SENT,
        request_expires_at=SENT + timedelta(seconds=15),
        checks=draw(st.integers(0, 100)),
        alerted=draw(st.booleans()),
        report_max_age_sec=600,
        machines=tuple(draw(machines)),
    )


@given(attempt=attempts(), report=reports, now=moments)
def test_machines_are_settled_at_most_once_and_only_on_grounds(
    attempt: OpenAttempt, report: JobReport, now: datetime
) -> None:
    """R5.4, R5.6, R5.7: no machine twice or of others; nothing unknown frees; an end leaves nothing to wait for."""
    settlement = settle(attempt, report, now=now, limits=LIMITS)
    ids = [outcome.machine_id for outcome in settlement.outcomes]
    ours = {machine.machine_id: machine for machine in attempt.machines}
    assert len(ids) == len(set(ids))
    assert set(ids) | set(settlement.job_ended) <= set(ours)
    assert settlement.ends is (settlement.waiting_for is None)
    assert settlement.next_check_at > now
    for outcome in settlement.outcomes:
        assert outcome.succeeded is (outcome.reason is None)
        if outcome.succeeded:
            assert isinstance(report, JobFound)
            assert isinstance(_confirmation(attempt, ours[outcome.machine_id], now), Confirmed)
    if isinstance(report, JobForbidden | JobUnreadable):
        assert ids == []
    if isinstance(report, JobNotFound) and ids:
        assert attempt.reference is None
        assert now > attempt.request_expires_at + CLOCK_MARGIN
        assert len(ids) == len(ours)


@given(attempt=attempts(), report=reports, now=moments)
def test_a_machine_of_which_nothing_is_known_is_freed_by_nothing_but_the_services_word(
    attempt: OpenAttempt, report: JobReport, now: datetime
) -> None:
    """R5.4: without a single reading a machine succeeds never, and fails only where the service says so."""
    blind = OpenAttempt(
        **{name: getattr(attempt, name) for name in attempt.__slots__ if name != "machines"},
        machines=tuple(
            OpenMachine(machine_id=m.machine_id, job_ended_at=m.job_ended_at, observed=None)
            for m in attempt.machines
        ),
    )
    for outcome in settle(blind, report, now=now, limits=LIMITS).outcomes:
        assert not outcome.succeeded
        assert outcome.reason != "unconfirmed"


@given(attempt=attempts(), looks=st.lists(st.tuples(reports, st.floats(1, 2000)), min_size=1, max_size=8))
def test_an_attempt_is_alerted_at_most_once(
    attempt: OpenAttempt, looks: list[tuple[JobReport, float]]
) -> None:
    """R5.4: over any series of looks, each remembering what the last one wrote, one alert at most."""
    alerts, now = 0, SENT
    for report, pause_sec in looks:
        now += timedelta(seconds=pause_sec)
        settlement = settle(attempt, report, now=now, limits=LIMITS)
        alerts += settlement.alert
        if settlement.ends:
            assert not settlement.alert
            break
        kept = {name: getattr(attempt, name) for name in attempt.__slots__}
        kept["alerted"] = attempt.alerted or settlement.alert
        attempt = OpenAttempt(**kept)
    assert alerts <= 1


def _confirmation(attempt: OpenAttempt, machine: OpenMachine, now: datetime) -> object:
    return confirm(
        attempt.action,
        attempt.project_id,
        machine.observed,
        not_before=attempt.dispatched_at,
        now=now,
        report_max_age_sec=attempt.report_max_age_sec,
    )
