"""Occurrences of schedules in people's hands: run now, cancel, history (R8).

A ``tenant_id`` of None is an operator of the whole deployment; someone else's schedule is as unknown as none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from blsflow.domain.errors import BlsflowError
from blsflow.domain.history import HistoryCursor
from blsflow.flow.requests import KeyConflict, fingerprint
from blsflow.flow.schedules import conversation_of, require_name, schedule_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from blsflow.domain.history import HistoryQuery
    from blsflow.flow.converse import ConverseReport
    from blsflow.ports.people import Cancelled, OccurrenceRow, RequestedRun
    from blsflow.ports.services import ExecutionService
    from blsflow.ports.store import Store

_LONGEST_REQUEST_ID: Final = 200


class UnknownOccurrence(BlsflowError):
    """The schedule has no such occurrence."""

    def __init__(self, schedule_id: int, occurrence_id: int) -> None:
        super().__init__(
            f"schedule {schedule_id} has no occurrence {occurrence_id}: `blsflow occurrences` lists them"
        )
        self.schedule_id = schedule_id
        self.occurrence_id = occurrence_id


class ExecutionTargetUnavailable(BlsflowError):
    """The target or conversation does not exist; the occurrence that says so does (R8.9)."""

    def __init__(self, occurrence_id: int) -> None:
        super().__init__(f"occurrence {occurrence_id}: the target of its conversation is not available")
        self.occurrence_id = occurrence_id


def run_schedule(  # noqa: PLR0913 - what to run, for whom, and who asks
    store: Store,
    schedule_id: int,
    *,
    request_id: str,
    by: str,
    converse: Callable[[int], ConverseReport],
    tenant_id: str | None = None,
) -> RequestedRun:
    """Run a conversation now; the same request id gives the same occurrence, and begins it if nobody did yet (R8.8)."""
    require_name("requestId", request_id, most=_LONGEST_REQUEST_ID)
    with store.transaction() as tx:
        conversation_of(tx, schedule_id, tenant_id)
        asked = fingerprint("conversation", {"schedule_id": schedule_id})
        requested = tx.request_schedule_run(schedule_id, request_id=request_id, fingerprint=asked, by=by)
    if requested.fingerprint != asked:
        raise KeyConflict(request_id)
    reason = requested.reason
    if requested.state == "recorded":
        reason = converse(requested.occurrence_id).outcome
    if reason in {"target_unavailable", "execution_target_unavailable"}:
        raise ExecutionTargetUnavailable(requested.occurrence_id)
    return requested


def cancel_occurrence(  # noqa: PLR0913 - what to cancel, for whom, and who asks
    store: Store,
    schedule_id: int,
    occurrence_id: int,
    *,
    by: str,
    execution_service: ExecutionService | None,
    tenant_id: str | None = None,
) -> Cancelled:
    """Ask an occurrence to end: at once if it was not begun, else its slot stays taken until its end is confirmed (R8.8)."""
    with store.transaction() as tx:
        row = schedule_of(tx, schedule_id, tenant_id, archived=True)
        cancelled = tx.cancel_occurrence(schedule_id, occurrence_id, by=by)
        if cancelled is None:
            raise UnknownOccurrence(schedule_id, occurrence_id)
        if cancelled.asked and row["kind"] == "policy_tick":
            unsent = tx.unsent_attempts_of(occurrence_id)
            tx.end_unsent(unsent, "cancelled", occurrence_id=occurrence_id)
        run = tx.cancelling_run_of(occurrence_id)
    if run is not None and execution_service is not None:
        # At once for people's sake; reconcile asks again until the run has ended.
        execution_service.cancel(
            caller_tenant=run.tenant_id, caller_subject=run.caller_subject, key=run.key, run_id=run.run_id
        )
    return cancelled


def history(store: Store, query: HistoryQuery) -> tuple[Sequence[OccurrenceRow], str | None]:
    """Return a page of occurrences and the cursor of the next one, None when this is the last."""
    with store.transaction() as tx:
        rows = tx.history(query)
    if len(rows) < query.limit:
        return rows, None
    last = rows[-1]
    return rows, HistoryCursor(planned_at=last.planned_at, occurrence_id=last.occurrence_id).encode()


def read_occurrence(
    store: Store, schedule_id: int, occurrence_id: int, *, tenant_id: str | None
) -> OccurrenceRow:
    """Return one occurrence of a schedule."""
    with store.transaction() as tx:
        row = tx.occurrence_row(schedule_id, occurrence_id, tenant_id=tenant_id)
    if row is None:
        raise UnknownOccurrence(schedule_id, occurrence_id)
    return row
