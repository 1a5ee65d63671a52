"""What reconcile reads and writes, a page of attempts at a time."""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING

from blsflow.adapters.postgres.documents import policy_of
from blsflow.adapters.postgres.part import Part
from blsflow.domain.confirmation import Observed
from blsflow.domain.errors import InvalidDocument
from blsflow.domain.execution import CommandKind
from blsflow.domain.settle import OpenAttempt, OpenMachine
from blsflow.ports.reconcile import AttemptStanding, FailedShare, OpenAges

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any
    from uuid import UUID

    from blsflow.domain.settle import Settlement

_PRUNE_PAGE = 2_000
_RESTORED_PAGE = 100_000
_REQUESTS_KEPT_FOR = timedelta(days=7)


class ReconcileQueries(Part):
    """Reconcile's part of a transaction."""

    def overdue_dispatching(self, older_than: timedelta, limit: int) -> int:
        """Move attempts whose sender died to reconciling: they may have been sent, and are only read back."""
        changed: int = self._session.query("overdue_dispatching", older_than=older_than, page_size=limit)[0][
            "changed"
        ]
        return changed

    def open_attempts(self, limit: int, lease: timedelta) -> Sequence[OpenAttempt]:
        """Claim a page of attempts that are due for a look, fair over tenants."""
        rows = self._session.query("claim_open_attempts", page_size=limit, lease=lease)
        if not rows:
            return []
        machines: defaultdict[UUID, list[Mapping[str, Any]]] = defaultdict(list)
        for row in self._session.query("open_machines", attempt_ids=[row["id"] for row in rows]):
            machines[row["attempt_id"]].append(row)
        return [open_attempt_of(row, machines[row["id"]]) for row in rows]

    def record_settlements(self, settlements: Sequence[Settlement]) -> Sequence[AttemptStanding]:
        """Write what read-backs settled; return where each attempt stands."""
        outcomes = [(s.attempt.attempt_id, outcome) for s in settlements for outcome in s.outcomes]
        ended = [(s.attempt.attempt_id, machine_id) for s in settlements for machine_id in s.job_ended]
        if ended:
            self._session.query(
                "mark_jobs_ended",
                attempt_ids=[attempt_id for attempt_id, _ in ended],
                machine_ids=[machine_id for _, machine_id in ended],
            )
        if outcomes:
            self._session.query(
                "settle_machines",
                attempt_ids=[attempt_id for attempt_id, _ in outcomes],
                machine_ids=[outcome.machine_id for _, outcome in outcomes],
                states=["succeeded" if outcome.succeeded else "failed" for _, outcome in outcomes],
                reasons=[outcome.reason for _, outcome in outcomes],
            )
        rows = self._session.query(
            "settle_attempts",
            attempt_ids=[s.attempt.attempt_id for s in settlements],
            references=[s.reference for s in settlements],
            job_states=[s.job_state for s in settlements],
            waiting_for=[s.waiting_for for s in settlements],
            next_check_at=[s.next_check_at for s in settlements],
            alerts=[s.alert for s in settlements],
        )
        for row in rows:
            if row["found"]:
                self._session.query(
                    "name_found_job",
                    attempt_id=row["id"],
                    job_id=row["reference"],
                    ticked_at=row["prepared_at"],
                )
        return [
            AttemptStanding(
                attempt_id=row["id"],
                policy_id=row["policy_id"],
                state=row["state"],
                ended=row["ended"],
                alert=row["alert"],
            )
            for row in rows
        ]

    def failed_shares(self, policy_ids: Sequence[int]) -> Sequence[FailedShare]:
        """Return how the machines of each policy's actions fared lately; frozen policies are left out.

        So is one that can no longer be meant: it ticks no more, and what it sent must still be settled.
        """
        found = []
        for row in self._session.query("failed_shares", policy_ids=list(policy_ids)):
            with suppress(InvalidDocument):
                policy = policy_of(row["policy"], (), ())
                found.append(FailedShare(policy=policy, failed=row["failed"], finished=row["finished"]))
        return found

    def open_ages(self) -> OpenAges:
        """Return what is still open and how old the oldest of it is."""
        return OpenAges(**self._session.query("open_ages")[0])

    def maintain(self, retention_days: int) -> None:
        """Make the coming days' partitions; drop partitions, and pages of other rows, past retention.

        Take in a log that was restored.
        """
        self._session.query("maintain_partitions", keep_days=retention_days)
        self._session.query("settle_restored_log", page_size=_RESTORED_PAGE)
        self._session.query("prune_history", keep_days=retention_days, page_size=_PRUNE_PAGE)
        self._session.query("prune_attempts", keep_days=retention_days, page_size=_PRUNE_PAGE)
        self._session.query("prune_commands", keep_days=retention_days)
        self._session.query("prune_requests", keep_for=_REQUESTS_KEPT_FOR, page_size=_PRUNE_PAGE)


def open_attempt_of(row: Mapping[str, Any], machines: Sequence[Mapping[str, Any]]) -> OpenAttempt:
    """Read a claimed attempt with the rows of its machines that are open."""
    return OpenAttempt(
        attempt_id=row["id"],
        tenant_id=row["tenant_id"],
        policy_id=row["policy_id"],
        tick_id=row["tick_id"],
        occurrence_id=row["occurrence_id"],
        key=row["idempotency_key"],
        action=CommandKind(row["action"]),
        project_id=row["project_id"],
        reference=row["reference"],
        dispatched_at=row["dispatched_at"],
        request_expires_at=row["request_expires_at"],
        checks=row["checks"],
        alerted=row["alerted"],
        report_max_age_sec=row["report_max_age_sec"],
        machines=tuple(map(_machine_of, machines)),
    )


def _machine_of(row: Mapping[str, Any]) -> OpenMachine:
    observed = None
    if row["reported_at"] is not None or row["measured_at"] is not None:
        observed = Observed(
            project_id=row["project_id"],
            status=row["status"],
            hashrate_hs=row["hashrate_hs"],
            reported_at=row["reported_at"],
            power_w=row["power_w"],
            power_at=row["measured_at"],
            nameplate_power_w=row["nameplate_power_w"],
        )
    return OpenMachine(machine_id=row["machine_id"], job_ended_at=row["job_ended_at"], observed=observed)
