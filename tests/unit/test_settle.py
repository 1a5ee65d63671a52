"""What a read-back settles: the service's word, the machine's own doing, and time, against each other."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from blsflow.domain.confirmation import Observed
from blsflow.domain.execution import (
    CommandKind,
    JobForbidden,
    JobFound,
    JobNotFound,
    JobState,
    JobUnreadable,
    MachineResult,
    MachineResultState,
)
from blsflow.domain.settle import CLOCK_MARGIN, Limits, OpenAttempt, OpenMachine, Settlement, settle

if TYPE_CHECKING:
    from blsflow.domain.execution import JobReport

SENT = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
EXPIRES = SENT + timedelta(seconds=15)
GRACE = timedelta(seconds=180)
LIMITS = Limits(confirm_grace=GRACE, unresolved_alert=timedelta(seconds=900))
TARGET, OTHER = 2, 1
INSTANT = timedelta(microseconds=1)
SOON = SENT + timedelta(seconds=60)


def at(seconds: float) -> datetime:
    """So long after the sending."""
    return SENT + timedelta(seconds=seconds)


def seen(when: datetime, **changes: Any) -> Observed:
    """A machine that does what it was told, by readings of that time."""
    plain = Observed(
        project_id=TARGET,
        status="mining",
        hashrate_hs=1e14,
        reported_at=when,
        power_w=3000.0,
        power_at=when,
        nameplate_power_w=3000.0,
    )
    return replace(plain, **changes)


def machine(number: int = 1, **changes: Any) -> OpenMachine:
    """A machine of which nothing was heard yet."""
    return replace(OpenMachine(machine_id=number, job_ended_at=None, observed=None), **changes)


def attempt(*machines: OpenMachine, **changes: Any) -> OpenAttempt:
    """A switch that the service took as a job."""
    plain = OpenAttempt(
        attempt_id=UUID(int=1),
        tenant_id="acme",
        policy_id=1,
        tick_id=1,
        occurrence_id=1,
        key="k",
        action=CommandKind.SWITCH,
        project_id=TARGET,
        reference="job-1",
        dispatched_at=SENT,
        request_expires_at=EXPIRES,
        checks=1,
        alerted=False,
        report_max_age_sec=600,
        machines=machines or (machine(),),
    )
    return replace(plain, **changes)


def found(state: JobState, *results: MachineResult, job_id: str = "job-1") -> JobFound:
    """The job as the service tells of it."""
    return JobFound(job_id=job_id, state=state, machines=results)


def result(state: MachineResultState, number: int = 1, reason: str | None = None) -> MachineResult:
    """The service's word on one machine."""
    return MachineResult(machine_id=number, state=state, reason=reason)


def settled(open_attempt: OpenAttempt, report: JobReport, now: datetime = SOON) -> Settlement:
    """Settle with the usual limits."""
    return settle(open_attempt, report, now=now, limits=LIMITS)


def outcomes(settlement: Settlement) -> list[tuple[int, bool, str | None]]:
    """The outcomes as plain rows."""
    return [(o.machine_id, o.succeeded, o.reason) for o in settlement.outcomes]


DONE = result(MachineResultState.SUCCEEDED)
AS_ASKED = seen(at(50))
OTHERWISE = seen(at(50), project_id=OTHER)


@pytest.mark.parametrize("job_ended_at", [None, at(55)], ids=["newly over", "over before"])
@pytest.mark.parametrize(
    ("observed", "waits"),
    [
        (AS_ASKED, False),
        (OTHERWISE, True),
        (None, True),
        (seen(at(-10)), True),
        (seen(SENT), True),
        (seen(at(50), hashrate_hs=None), True),
        (seen(at(50), hashrate_hs=float("nan")), True),
        (seen(at(50), power_w=None), True),
        (seen(at(50), power_w=2.9), True),
        (seen(at(50), power_at=at(-10)), True),
        (seen(at(50), project_id=None), True),
        (seen(at(50), hashrate_hs=0.0), True),
        (seen(at(50), status="rebooting"), False),
        (seen(at(95)), True),
        (seen(at(85)), False),
    ],
)
def test_success_needs_the_service_and_the_machine(
    observed: Observed | None, job_ended_at: datetime | None, *, waits: bool
) -> None:
    """R5.6: over by the service and as asked by the machine's own fresh readings; all else is waited for."""
    told = attempt(machine(observed=observed, job_ended_at=job_ended_at))
    settlement = settled(told, found(JobState.SUCCEEDED, DONE))
    assert outcomes(settlement) == ([] if waits else [(1, True, None)])
    assert settlement.ends is not waits
    assert settlement.waiting_for == ("confirmation" if waits else None)
    assert settlement.job_ended == ((1,) if job_ended_at is None else ())


@pytest.mark.parametrize(
    ("job", "said", "waits_for", "reason"),
    [
        (JobState.QUEUED, None, "job_end", None),
        (JobState.RUNNING, None, "job_end", None),
        (JobState.RUNNING, MachineResultState.PENDING, "job_end", None),
        (JobState.RUNNING, MachineResultState.SUCCEEDED, "job_end", None),
        (JobState.RUNNING, MachineResultState.FAILED, None, "why"),
        (JobState.RUNNING, MachineResultState.REFUSED, None, "why"),
        (JobState.SUCCEEDED, MachineResultState.FAILED, None, "why"),
        (JobState.SUCCEEDED, MachineResultState.PENDING, "confirmation", None),
        (JobState.SUCCEEDED, None, "confirmation", None),
        (JobState.PARTIALLY_FAILED, MachineResultState.SUCCEEDED, "confirmation", None),
        (JobState.PARTIALLY_FAILED, MachineResultState.FAILED, None, "why"),
        (JobState.PARTIALLY_FAILED, MachineResultState.PENDING, None, "why"),
        (JobState.PARTIALLY_FAILED, None, None, "job_partially_failed"),
        (JobState.FAILED, None, None, "job_failed"),
        (JobState.FAILED, MachineResultState.PENDING, None, "why"),
        (JobState.FAILED, MachineResultState.SUCCEEDED, "confirmation", None),
        (JobState.CANCELLED, None, None, "job_cancelled"),
    ],
)
def test_the_services_word_job_by_machine(
    job: JobState, said: MachineResultState | None, waits_for: str | None, reason: str | None
) -> None:
    """R5.4, R5.7: the service's word frees a machine only by saying that it failed; a job in work frees no other."""
    results = () if said is None else (result(said, reason="why"),)
    settlement = settled(attempt(), found(job, *results))
    assert settlement.waiting_for == waits_for
    assert outcomes(settlement) == ([] if reason is None else [(1, False, reason)])
    assert settlement.job_state == str(job)


@pytest.mark.parametrize(
    ("after_job_end", "fails"),
    [(timedelta(), False), (GRACE, False), (GRACE + INSTANT, True), (timedelta(hours=1), True)],
)
def test_a_machine_that_does_otherwise_is_given_the_grace(after_job_end: timedelta, *, fails: bool) -> None:
    """R5.6: contradicted by a reading later than the grace after its job's end it failed; until then it may be on its way."""
    ended_at = at(60)
    when = ended_at + after_job_end
    told = attempt(machine(job_ended_at=ended_at, observed=seen(when, project_id=OTHER)))
    settlement = settled(told, found(JobState.SUCCEEDED, DONE), when + timedelta(seconds=1))
    assert outcomes(settlement) == ([(1, False, "unconfirmed")] if fails else [])


def test_a_contradiction_from_before_the_grace_stays_one_from_before_it() -> None:
    """R5.6: what counts is when the machine was seen, not when it was looked at; an old reading proves nothing later."""
    told = attempt(machine(job_ended_at=at(60), observed=seen(at(200), project_id=OTHER)))
    assert outcomes(settled(told, found(JobState.SUCCEEDED, DONE), at(700))) == []


@pytest.mark.parametrize(
    ("reference", "now", "reason"),
    [
        (None, SENT, None),
        (None, EXPIRES, None),
        (None, EXPIRES + CLOCK_MARGIN, None),
        (None, EXPIRES + CLOCK_MARGIN + INSTANT, "not_received"),
        ("job-1", EXPIRES + CLOCK_MARGIN + INSTANT, None),
        ("job-1", at(100_000), None),
    ],
)
def test_not_found_is_conclusive_only_unbound_and_expired(
    reference: str | None, now: datetime, reason: str | None
) -> None:
    """R5.3, R8.11: without a job id, and once the service may take it no more; a job that was known is never given up."""
    settlement = settled(attempt(machine(1), machine(2), reference=reference), JobNotFound(), now)
    assert outcomes(settlement) == ([(1, False, reason), (2, False, reason)] if reason else [])
    assert settlement.waiting_for == (None if reason else "not_found")
    assert settlement.ends is (reason is not None)


@pytest.mark.parametrize(
    ("report", "waiting_for"), [(JobForbidden(), "forbidden"), (JobUnreadable(cause="500"), "unreadable")]
)
@pytest.mark.parametrize("reference", [None, "job-1"], ids=["unbound", "bound"])
@pytest.mark.parametrize("now", [SOON, at(100_000)], ids=["soon", "long after"])
def test_no_answer_settles_nothing(
    report: JobReport, waiting_for: str, reference: str | None, now: datetime
) -> None:
    """R5.4, R8.11: forbidden or unreadable, however long, frees no machine, not even one that does as asked."""
    doing = machine(observed=seen(now), job_ended_at=at(1))
    settlement = settled(attempt(doing, reference=reference), report, now)
    assert (outcomes(settlement), settlement.waiting_for, settlement.job_ended) == ([], waiting_for, ())
    assert settlement.job_state is None
    assert settlement.reference == reference


def test_machines_missing_from_the_report_go_with_their_job() -> None:
    """R5.7: silent machines wait with a job at work, confirm a job that succeeded, and fail with one that failed."""
    both = attempt(machine(1, observed=AS_ASKED), machine(2, observed=AS_ASKED))
    one = result(MachineResultState.SUCCEEDED, 1)
    assert outcomes(settled(both, found(JobState.RUNNING, one))) == []
    assert outcomes(settled(both, found(JobState.SUCCEEDED, one))) == [(1, True, None), (2, True, None)]
    assert outcomes(settled(both, found(JobState.FAILED, one))) == [(1, True, None), (2, False, "job_failed")]


def test_a_stranger_in_the_report_is_nobody_of_ours() -> None:
    """R5.7: results of machines that this attempt does not hold settle nothing and add no outcome."""
    settlement = settled(attempt(), found(JobState.RUNNING, result(MachineResultState.FAILED, 99)))
    assert outcomes(settlement) == []


def test_each_machine_of_a_batch_has_its_own_outcome() -> None:
    """R5.7 (C03): failed, done, done but not seen, and still in work, side by side; only the ended are settled."""
    four = attempt(
        machine(1),
        machine(2, observed=AS_ASKED),
        machine(3),
        machine(4, observed=OTHERWISE, job_ended_at=at(10)),
    )
    results = [
        result(MachineResultState.FAILED, 1, "unreachable"),
        result(MachineResultState.SUCCEEDED, 2),
        result(MachineResultState.SUCCEEDED, 3),
        result(MachineResultState.SUCCEEDED, 4),
    ]
    settlement = settled(four, found(JobState.PARTIALLY_FAILED, *results))
    assert outcomes(settlement) == [(1, False, "unreachable"), (2, True, None)]
    assert settlement.job_ended == (2, 3)
    assert (settlement.ends, settlement.waiting_for) == (False, "confirmation")


def test_a_job_found_by_its_key_binds_the_attempt() -> None:
    """R5.2, R5.3: reading back is how the job id is learned when the answer to the sending was lost."""
    settlement = settled(attempt(reference=None), found(JobState.RUNNING, job_id="job-9"))
    assert settlement.reference == "job-9"


@pytest.mark.parametrize(
    ("now", "alerted", "report", "alert"),
    [
        (at(900), False, found(JobState.RUNNING), False),
        (at(900) + INSTANT, False, found(JobState.RUNNING), True),
        (at(900) + INSTANT, True, found(JobState.RUNNING), False),
        (at(901), False, JobNotFound(), True),
        (at(901), False, JobForbidden(), True),
        (at(901), False, JobUnreadable(cause="x"), True),
        (at(901), False, found(JobState.SUCCEEDED, DONE), True),
        (at(901), False, found(JobState.FAILED), False),
    ],
)
def test_the_alert_is_raised_past_its_time_and_once(
    now: datetime, report: JobReport, *, alerted: bool, alert: bool
) -> None:
    """R5.4, R8.11: whatever keeps it open longer than the alert time is told of, once; what ends is not."""
    assert settled(attempt(alerted=alerted), report, now).alert is alert


def test_looks_become_rarer_up_to_a_minute() -> None:
    """R5.4: the first looks come within seconds, later ones never more than a minute apart, for ever."""
    pauses = [
        settled(attempt(checks=checks), found(JobState.RUNNING)).next_check_at - SOON
        for checks in (*range(12), 10**6)
    ]
    assert pauses == sorted(pauses)
    assert pauses[0] == timedelta(seconds=2)
    assert pauses[-1] == timedelta(seconds=60)


@pytest.mark.parametrize(
    ("action", "observed", "succeeded"),
    [
        (CommandKind.STOP, seen(at(50), hashrate_hs=0.0, power_w=45.0), True),
        (CommandKind.STOP, seen(at(50), hashrate_hs=0.0, power_w=2900.0), False),
        (CommandKind.STOP, seen(at(50), hashrate_hs=1.0, power_w=45.0), False),
        (CommandKind.POWER_OFF, seen(at(50), hashrate_hs=0.0, power_w=0.0), True),
        (CommandKind.POWER_OFF, seen(at(50), hashrate_hs=0.0, power_w=45.0), False),
        (CommandKind.POWER_OFF, seen(at(-99), power_w=0.0, power_at=at(50)), True),
        (CommandKind.START, seen(at(50)), True),
        (CommandKind.START, seen(at(50), project_id=OTHER), False),
    ],
)
def test_every_action_is_confirmed_by_what_it_should_bring_about(
    action: CommandKind, observed: Observed, *, succeeded: bool
) -> None:
    """R5.6 (C01): a stop by hashrate and power, a power-off by the meter, a start by hashing on the project."""
    told = attempt(machine(observed=observed), action=action)
    assert bool(settled(told, found(JobState.SUCCEEDED, DONE)).outcomes) is succeeded
