"""What conversations read and write: beginning, what the service answered, following and cancelling."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from blsflow.adapters.postgres.part import Part
from blsflow.domain.conversation import ConversationCommand, RunAlert, TargetUnavailable
from blsflow.domain.execution import Accepted, Ambiguous, Busy, Rejected
from blsflow.ports.converse import OpenRun, StartedRun
from blsflow.ports.execute import NotBegun

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta
    from typing import Any
    from uuid import UUID

    from blsflow.domain.conversation import StartOutcome
    from blsflow.domain.gates import Gates
    from blsflow.ports.converse import SettledRun


class ConverseQueries(Part):
    """A conversation's part of a transaction."""

    def begin_conversation(
        self, occurrence_id: int, gates: Gates, *, request_timeout: timedelta
    ) -> StartedRun | NotBegun:
        """Begin a recorded conversation, exactly once, or close it with the reason why not."""
        if not self._session.query("lock_schedule_of", occurrence_id=occurrence_id):
            return NotBegun(reason="unknown_occurrence", closed=False)
        rows = self._session.query("read_conversation", occurrence_id=occurrence_id, holder=gates.holder)
        if not rows:
            return NotBegun(reason="unknown_occurrence", closed=False)
        row = rows[0]
        if row["state"] != "recorded":
            return NotBegun(reason="already_begun", closed=False)
        objection = _objection(row, gates)
        if objection is not None:
            self._session.query("skip_occurrence", occurrence_id=occurrence_id, reason=objection)
            return NotBegun(reason=objection, closed=True)
        attempt_id = uuid.uuid4()
        begun = self._session.query(
            "begin_conversation",
            occurrence_id=occurrence_id,
            attempt_id=attempt_id,
            caller_subject=row["runs_as"],
            request_timeout=request_timeout,
        )[0]
        work = row["work"]
        return StartedRun(
            attempt_id=attempt_id,
            occurrence_id=occurrence_id,
            command=ConversationCommand(
                key=begun["idempotency_key"],
                caller_tenant=row["tenant_id"],
                caller_subject=row["runs_as"],
                target=work["target"],
                conversation_id=work["conversation_id"],
                prompt=work["prompt"],
                expires_at=begun["request_expires_at"],
            ),
        )

    def record_start(self, started: StartedRun, outcome: StartOutcome, *, check_after: timedelta) -> None:
        """Write what the service answered; where it surely started nothing, the occurrence ends."""
        attempt_id = started.attempt_id
        match outcome:
            case Accepted():
                self._session.query(
                    "conversation_accepted",
                    attempt_id=attempt_id,
                    run_id=outcome.job_id,
                    check_after=check_after,
                )
            case Busy():
                self._not_started(attempt_id, "skipped", "busy", outcome.reason)
            case TargetUnavailable():
                self._not_started(attempt_id, "skipped", "execution_target_unavailable", outcome.detail)
            case Rejected():
                self._not_started(attempt_id, "failed", outcome.reason, outcome.detail)
            case Ambiguous():
                self._session.query(
                    "conversation_unclear",
                    attempt_id=attempt_id,
                    cause=outcome.cause,
                    check_after=check_after,
                )

    def open_runs(self, limit: int, lease: timedelta) -> Sequence[OpenRun]:
        """Claim a page of conversations that are due for a look, fair over tenants."""
        return [
            OpenRun(
                attempt_id=row["id"],
                tenant_id=row["tenant_id"],
                caller_subject=row["caller_subject"],
                key=row["idempotency_key"],
                run_id=row["reference"],
                cancelling=row["state"] == "cancelling",
                dispatched_at=row["dispatched_at"],
                request_expires_at=row["request_expires_at"],
                checks=row["checks"],
                alerted=_alerted(row),
            )
            for row in self._session.query("claim_open_runs", page_size=limit, lease=lease)
        ]

    def record_runs(self, settled: Sequence[SettledRun]) -> int:
        """Write what read-backs settled; return how many ended."""
        results = [(each, each.settlement) for each in settled]
        rows = self._session.query(
            "settle_runs",
            attempt_ids=[each.run.attempt_id for each, _ in results],
            references=[s.reference for _, s in results],
            states=[None if s.state is None else str(s.state) for _, s in results],
            reasons=[s.reason if s.state is not None else s.waiting_for for _, s in results],
            output_refs=[s.output_ref for _, s in results],
            errors=[s.error for _, s in results],
            alerts=[None if s.alert is None else str(s.alert) for _, s in results],
            next_check_at=[each.next_check_at for each, _ in results],
        )
        return sum(row["ended"] for row in rows)

    def _not_started(self, attempt_id: UUID, state: str, reason: str, detail: str) -> None:
        self._session.query(
            "conversation_not_started", attempt_id=attempt_id, state=state, reason=reason, detail=detail
        )


def _objection(row: Mapping[str, Any], gates: Gates) -> str | None:
    """Return why a conversation may not begin now; a manual run is not held back by a pause."""
    off = row["archived"] or (row["paused"] and row["origin"] == "planned")
    objections = {
        "paused": off or not gates.execute_enabled or not row["lease_held"],
        "config_changed": row["changed"],
        "previous_unfinished": row["active"],
        "execution_target_unavailable": not gates.conversations_configured,
    }
    return next((reason for reason, holds in objections.items() if holds), None)


def _alerted(row: Mapping[str, Any]) -> frozenset[RunAlert]:
    raised = {
        RunAlert.UNRESOLVED: row["unresolved_alerted"],
        RunAlert.UNREACHABLE: row["unreachable_alerted"],
    }
    return frozenset(alert for alert, was in raised.items() if was)
