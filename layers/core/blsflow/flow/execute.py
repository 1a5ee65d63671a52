"""Execute: send one prepared attempt, at most once, and write what the service said.

``prepared -> dispatching`` commits before the call. A redelivered message that finds the attempt dispatching sends nothing:
whoever was sending may have been killed after the call, so only a read-back can tell what became of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from blsflow.domain.execution import Accepted, Ambiguous, BatchCommand, Busy, Rejected
from blsflow.flow.freeze import freeze_on_failures
from blsflow.ports.execute import NotBegun

if TYPE_CHECKING:
    from uuid import UUID

    from blsflow.domain.execution import SubmitOutcome
    from blsflow.domain.gates import Gates
    from blsflow.ports.services import DeviceControl
    from blsflow.ports.store import Store

_FIRST_CHECK: Final = timedelta(seconds=2)


@dataclass(frozen=True, kw_only=True, slots=True)
class ExecuteReport:
    """What one message came to: accepted, busy, rejected, ambiguous, or why nothing was sent."""

    outcome: str
    attempt_id: UUID
    tick_id: int | None = None
    job_id: str | None = None
    machines: int = 0
    refused: int = 0
    froze_policy: bool = False


def execute(
    store: Store,
    *,
    attempt_id: UUID,
    device_control: DeviceControl | None,
    gates: Gates,
    request_timeout: timedelta,
) -> ExecuteReport:
    """Send one attempt if it is still prepared and still allowed; ``request_timeout`` bounds the call at both ends."""
    with store.transaction() as tx:
        dispatch = tx.begin_dispatch(attempt_id, gates, request_timeout=request_timeout)
    if isinstance(dispatch, NotBegun):
        return ExecuteReport(outcome=dispatch.reason, attempt_id=attempt_id)
    outcome: SubmitOutcome = Ambiguous(cause="executor_unconfigured")
    if device_control is not None:
        outcome = device_control.submit(
            BatchCommand(
                key=dispatch.key,
                caller=dispatch.tenant_id,
                kind=dispatch.action,
                project_id=dispatch.project_id,
                run_config_id=dispatch.run_config_id,
                targets=dispatch.targets,
                expires_at=dispatch.request_expires_at,
            )
        )
    with store.transaction() as tx:
        tx.record_outcome(dispatch, outcome, check_after=_FIRST_CHECK)
        failed = isinstance(outcome, Rejected) or (isinstance(outcome, Accepted) and outcome.refused)
        frozen = (
            freeze_on_failures(tx, [dispatch.policy_id]) if failed and dispatch.policy_id is not None else []
        )
    return ExecuteReport(
        outcome=_name(outcome),
        attempt_id=attempt_id,
        tick_id=dispatch.tick_id,
        job_id=outcome.job_id if isinstance(outcome, Accepted) else None,
        machines=len(dispatch.targets),
        refused=len(outcome.refused) if isinstance(outcome, Accepted) else 0,
        froze_policy=bool(frozen),
    )


def _name(outcome: SubmitOutcome) -> str:
    if isinstance(outcome, Accepted):
        return "accepted"
    if isinstance(outcome, Busy):
        return "busy"
    return "ambiguous" if isinstance(outcome, Ambiguous) else "rejected"
