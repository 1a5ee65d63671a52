"""What execute reads and writes: the compare-and-set before a command, and what came of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from blsflow.adapters.postgres.part import Part
from blsflow.domain.execution import Accepted, Ambiguous, Busy, CommandKind, MachineTarget, Rejected
from blsflow.ports.execute import Dispatch, NotBegun

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta
    from typing import Any
    from uuid import UUID

    from blsflow.domain.execution import SubmitOutcome
    from blsflow.domain.gates import Gates


class ExecuteQueries(Part):
    """Execute's part of a transaction."""

    def begin_dispatch(
        self, attempt_id: UUID, gates: Gates, *, request_timeout: timedelta
    ) -> Dispatch | NotBegun:
        """Move a prepared attempt to dispatching, exactly once; end it unsent when it may no longer be sent."""
        rows = self._session.query("lock_attempt", attempt_id=attempt_id, holder=gates.holder)
        if not rows:
            return NotBegun(reason="unknown_attempt", closed=False)
        row = rows[0]
        if row["state"] != "prepared":
            return NotBegun(reason="already_begun", closed=False)
        objection = _objection(row, gates)
        if objection is not None:
            return self._end_unsent(row, objection)
        held = self._session.query(
            "mark_dispatching",
            attempt_id=attempt_id,
            ticked_at=row["prepared_at"],
            request_timeout=request_timeout,
        )
        if not held:
            return self._end_unsent(row, "locks_lost")
        return Dispatch(
            attempt_id=attempt_id,
            tenant_id=row["tenant_id"],
            policy_id=row["policy_id"],
            tick_id=row["tick_id"],
            occurrence_id=row["occurrence_id"],
            ticked_at=row["prepared_at"],
            key=row["idempotency_key"],
            action=CommandKind(row["action"]),
            project_id=row["project_id"],
            run_config_id=row["run_config_id"],
            request_expires_at=held[0]["request_expires_at"],
            targets=tuple(
                MachineTarget(machine_id=each["machine_id"], fencing_token=each["fencing_token"])
                for each in held
            ),
        )

    def record_outcome(self, dispatch: Dispatch, outcome: SubmitOutcome, *, check_after: timedelta) -> None:
        """Write what the service answered: accepted, taken by nobody, or unclear; and end the tick it was the last of."""
        attempt_id = dispatch.attempt_id
        match outcome:
            case Accepted():
                written = self._session.query(
                    "attempt_accepted",
                    attempt_id=attempt_id,
                    ticked_at=dispatch.ticked_at,
                    job_id=outcome.job_id,
                    check_after=check_after,
                    machine_count=len(dispatch.targets),
                    refused_ids=[refusal.machine_id for refusal in outcome.refused],
                    refused_reasons=[refusal.reason for refusal in outcome.refused],
                )
                if not written[0]["written"]:
                    self._session.query("accepted_too_late", attempt_id=attempt_id, job_id=outcome.job_id)
            case Busy():
                self._not_taken(attempt_id, "skipped", "busy", outcome.reason)
            case Rejected():
                self._not_taken(attempt_id, "failed", outcome.reason, outcome.detail)
            case Ambiguous():
                self._session.query(
                    "attempt_ambiguous", attempt_id=attempt_id, cause=outcome.cause, check_after=check_after
                )
        self._end_tick_if_sent(dispatch.occurrence_id)

    def expire_prepared(self, limit: int) -> int:
        """End attempts whose decision expired before anything was sent; their locks are freed."""
        ids = [row["id"] for row in self._session.query("expire_prepared", page_size=limit)]
        return self._end_all_unsent(ids, "decision_expired") if ids else 0

    def end_unsent(self, attempt_ids: Sequence[UUID], reason: str, *, occurrence_id: int | None) -> None:
        """End prepared attempts that are not to be sent, and the tick that they were the last of."""
        if attempt_ids:
            self._end_all_unsent(attempt_ids, reason)
        self._end_tick_if_sent(occurrence_id)

    def _end_unsent(self, row: Mapping[str, Any], reason: str) -> NotBegun:
        self._end_all_unsent([row["id"]], reason)
        self._end_tick_if_sent(row["occurrence_id"])
        return NotBegun(reason=reason, closed=True)

    def _end_all_unsent(self, attempt_ids: Sequence[UUID], reason: str) -> int:
        ids = list(attempt_ids)
        span = self._session.query("prepared_span", attempt_ids=ids)[0]
        row = self._session.query("end_unsent", attempt_ids=ids, reason=reason, **span)[0]
        ended: int = row["ended"]
        return ended

    def _not_taken(self, attempt_id: UUID, state: str, reason: str, detail: str) -> None:
        self._session.query(
            "attempt_not_taken", attempt_id=attempt_id, state=state, reason=reason, detail=detail
        )

    def _end_tick_if_sent(self, occurrence_id: int | None) -> None:
        if occurrence_id is not None:
            self._session.query("end_tick_if_sent", occurrence_id=occurrence_id)


def _objection(row: Mapping[str, Any], gates: Gates) -> str | None:
    """Return why an attempt may not be sent now; every permission that decide had is asked for again.

    What puts a machine back after a benchmark is no new action: a frozen or changed policy does not keep it away from home.
    """
    changed = not (row["policy_unchanged"] and row["execution_mode"] == "execute") and not row["restores"]
    objections = {
        "frozen": row["frozen"] and not row["restores"],
        "decision_expired": not row["valid"],
        "execute_disabled": not gates.execute_enabled,
        "executor_unconfigured": not gates.executor_configured,
        "lease_not_held": not row["lease_held"],
        "config_changed": row["policy_id"] is not None and changed,
    }
    return next((reason for reason, holds in objections.items() if holds), None)
