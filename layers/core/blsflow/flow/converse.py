"""Converse: begin one recorded conversation and send its prompt, at most once (R8.1), as machines' batches are sent.

The occurrence begins and its attempt is dispatching in one commit before the call. A redelivered message finds it begun and
sends nothing; what became of a prompt whose sender died is only read back.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from blsflow.domain.conversation import TargetUnavailable
from blsflow.domain.execution import Accepted, Ambiguous, Busy
from blsflow.ports.execute import NotBegun

if TYPE_CHECKING:
    from uuid import UUID

    from blsflow.domain.conversation import StartOutcome
    from blsflow.domain.gates import Gates
    from blsflow.ports.services import ExecutionService
    from blsflow.ports.store import Store

_FIRST_CHECK: Final = timedelta(seconds=2)


@dataclass(frozen=True, kw_only=True, slots=True)
class ConverseReport:
    """What one message came to: accepted, busy, rejected, target_unavailable, ambiguous, or why nothing was sent."""

    outcome: str
    occurrence_id: int
    attempt_id: UUID | None = None
    run_id: str | None = None


def converse(
    store: Store,
    *,
    occurrence_id: int,
    execution_service: ExecutionService | None,
    gates: Gates,
    request_timeout: timedelta,
) -> ConverseReport:
    """Send one conversation's prompt if its occurrence is still recorded and still allowed."""
    with store.transaction() as tx:
        started = tx.begin_conversation(occurrence_id, gates, request_timeout=request_timeout)
    if isinstance(started, NotBegun):
        return ConverseReport(outcome=started.reason, occurrence_id=occurrence_id)
    outcome: StartOutcome = Ambiguous(cause="executor_unconfigured")
    if execution_service is not None:
        outcome = execution_service.start(started.command)
    with store.transaction() as tx:
        tx.record_start(started, outcome, check_after=_FIRST_CHECK)
    return ConverseReport(
        outcome=_name(outcome),
        occurrence_id=occurrence_id,
        attempt_id=started.attempt_id,
        run_id=outcome.job_id if isinstance(outcome, Accepted) else None,
    )


def _name(outcome: StartOutcome) -> str:
    names = {
        Accepted: "accepted",
        Busy: "busy",
        TargetUnavailable: "target_unavailable",
        Ambiguous: "ambiguous",
    }
    return names.get(type(outcome), "rejected")
