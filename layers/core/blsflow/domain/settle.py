"""What a read-back of an open attempt settles, machine by machine (R5.4, R5.6, R5.7, R8.11). Pure.

A machine is settled by the service's word that it failed, or by the service's word that its job is over *and* what
the machine itself then does. Nothing else frees it: an unknown or stale report waits, and past the alert time
the attempt is named to people once.

    service says          machine then does            outcome
    --------------------  ---------------------------  -------------------------
    failed / refused      -                            failed, freed
    over, as asked        as asked                     succeeded, freed
    over, as asked        otherwise, past the grace    failed `unconfirmed`, freed
    over, as asked        no fresh report              waits; alert
    not over              -                            waits; alert
    not found, expired    -  (never had a job id)      failed `not_received`, freed
    not found, forbidden  -  (has a job id)            waits; alert; an operator may close it
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from blsflow.domain.confirmation import Confirmed, Contradicted, Observed, confirm
from blsflow.domain.execution import (
    CommandKind,
    JobForbidden,
    JobFound,
    JobNotFound,
    JobReport,
    JobState,
    MachineResultState,
)

if TYPE_CHECKING:
    from uuid import UUID

CLOCK_MARGIN = timedelta(seconds=30)
"""How far the service's clock may be from ours before "not found after it expired" would not be conclusive."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenMachine:
    """A machine of an open attempt whose end is not confirmed yet, with its newest report."""

    machine_id: int
    job_ended_at: datetime | None
    observed: Observed | None


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenAttempt:
    """An attempt that may have been sent and has not ended."""

    attempt_id: UUID
    tenant_id: str
    policy_id: int | None
    tick_id: int | None
    occurrence_id: int | None
    key: str
    action: CommandKind
    project_id: int | None
    reference: str | None
    dispatched_at: datetime
    request_expires_at: datetime
    checks: int
    alerted: bool
    report_max_age_sec: int
    machines: tuple[OpenMachine, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """The confirmed end of one machine of an attempt; ``reason`` says why it failed."""

    machine_id: int
    succeeded: bool
    reason: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """Times that bound the following of an attempt."""

    confirm_grace: timedelta
    unresolved_alert: timedelta


@dataclass(frozen=True, kw_only=True, slots=True)
class Settlement:
    """What to write for one attempt after one read-back.

    ``job_ended`` are machines whose job the service newly calls over; ``alert`` is raised once; ``reason`` is why the
    attempt is still open, or what the service said of it.
    """

    attempt: OpenAttempt
    reference: str | None
    job_state: str | None
    outcomes: tuple[Outcome, ...]
    job_ended: tuple[int, ...]
    waiting_for: str | None
    alert: bool
    next_check_at: datetime

    @property
    def ends(self) -> bool:
        """Whether no machine of the attempt is left open."""
        return len(self.outcomes) == len(self.attempt.machines)


def settle(attempt: OpenAttempt, report: JobReport, *, now: datetime, limits: Limits) -> Settlement:
    """Judge one answer of the service together with what the machines report."""
    outcomes: list[Outcome] = []
    job_ended: list[int] = []
    waiting_for: str | None = None
    reference, job_state = attempt.reference, None
    if isinstance(report, JobFound):
        reference, job_state = report.job_id, str(report.state)
        results = {result.machine_id: result for result in report.machines}
        for machine in attempt.machines:
            result = results.get(machine.machine_id)
            said = _said(result.state if result else None, report.state)
            if said is MachineResultState.FAILED:
                reason = result.reason if result and result.reason else f"job_{report.state}"
                outcomes.append(Outcome(machine_id=machine.machine_id, succeeded=False, reason=reason))
                continue
            if said is MachineResultState.PENDING:
                waiting_for = "job_end"
                continue
            if machine.job_ended_at is None:
                job_ended.append(machine.machine_id)
            outcome = _confirmed(attempt, machine, now=now, limits=limits)
            if outcome is None:
                waiting_for = "confirmation"
            else:
                outcomes.append(outcome)
    elif (
        isinstance(report, JobNotFound)
        and reference is None
        and now > attempt.request_expires_at + CLOCK_MARGIN
    ):
        outcomes = [
            Outcome(machine_id=m.machine_id, succeeded=False, reason="not_received") for m in attempt.machines
        ]
    else:
        waiting_for = _why_unanswered(report)
    overdue = now - attempt.dispatched_at > limits.unresolved_alert
    return Settlement(
        attempt=attempt,
        reference=reference,
        job_state=job_state,
        outcomes=tuple(outcomes),
        job_ended=tuple(job_ended),
        waiting_for=waiting_for,
        alert=overdue and waiting_for is not None and not attempt.alerted,
        next_check_at=now + back_off(attempt.checks),
    )


def _said(machine: MachineResultState | None, job: JobState) -> MachineResultState:
    """Return the service's word on one machine; a job that failed or was cancelled as a whole speaks for its silent ones."""
    if machine in {MachineResultState.FAILED, MachineResultState.REFUSED}:
        return MachineResultState.FAILED
    if not job.is_end:
        return MachineResultState.PENDING
    if machine is MachineResultState.SUCCEEDED or job is JobState.SUCCEEDED:
        return MachineResultState.SUCCEEDED
    return MachineResultState.FAILED


def _confirmed(
    attempt: OpenAttempt, machine: OpenMachine, *, now: datetime, limits: Limits
) -> Outcome | None:
    """Return the machine's own confirmation or contradiction, or None while it must be waited for."""
    seen = confirm(
        attempt.action,
        attempt.project_id,
        machine.observed,
        not_before=attempt.dispatched_at,
        now=now,
        report_max_age_sec=attempt.report_max_age_sec,
    )
    if isinstance(seen, Confirmed):
        return Outcome(machine_id=machine.machine_id, succeeded=True)
    ended_at = machine.job_ended_at
    if (
        isinstance(seen, Contradicted)
        and ended_at is not None
        and seen.seen_at > ended_at + limits.confirm_grace
    ):
        return Outcome(machine_id=machine.machine_id, succeeded=False, reason="unconfirmed")
    return None


def _why_unanswered(report: JobReport) -> str:
    match report:
        case JobNotFound():
            return "not_found"
        case JobForbidden():
            return "forbidden"
        case _:
            return "unreadable"


def back_off(checks: int) -> timedelta:
    """Look again after 2 s, growing by half each time, at most every minute."""
    return timedelta(seconds=min(60.0, 2.0 * 1.5 ** min(checks, 20)))
