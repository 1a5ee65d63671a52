"""Following conversations: what the execution service says of their runs, and asking them to end (R8.8, R8.11)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from blsflow.domain.conversation import RunUnreadable, settle_run
from blsflow.domain.settle import back_off
from blsflow.ports.converse import SettledRun

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta
    from uuid import UUID

    from blsflow.domain.conversation import RunReport
    from blsflow.domain.settle import Limits
    from blsflow.flow.reconcile import ReconcileReport
    from blsflow.ports.converse import OpenRun
    from blsflow.ports.services import ExecutionService
    from blsflow.ports.store import Store


class FollowRuns:
    """Open conversations; without an execution service each is unanswered, which ends in an alert."""

    def __init__(  # noqa: PLR0913 - what a page needs, and what it adds to
        self,
        store: Store,
        execution_service: ExecutionService | None,
        *,
        limits: Limits,
        page: int,
        lease: timedelta,
        report: ReconcileReport,
    ) -> None:
        self._store = store
        self._execution_service = execution_service
        self._limits = limits
        self._page = page
        self._lease = lease
        self._report = report

    def claim(self) -> tuple[datetime, Sequence[OpenRun]]:
        """Claim a page of conversations."""
        with self._store.transaction() as tx:
            return tx.now, tx.open_runs(self._page, self._lease)

    def ask(self, item: OpenRun) -> RunReport:
        """Read the run back, and before that ask it to end if somebody wants it to: a cancel may have been lost."""
        service = self._execution_service
        if service is None:
            return RunUnreadable(cause="executor_unconfigured")
        tenant, subject = item.tenant_id, item.caller_subject
        if item.cancelling:
            service.cancel(caller_tenant=tenant, caller_subject=subject, key=item.key, run_id=item.run_id)
        return service.read_back(
            caller_tenant=tenant, caller_subject=subject, key=item.key, run_id=item.run_id
        )

    def write(self, asked_at: datetime, answered: Sequence[tuple[OpenRun, RunReport]]) -> None:
        """Write a page; judged as of when it was asked, since an answer says nothing of the time that it took."""
        settled = [
            SettledRun(
                run=run,
                settlement=settle_run(
                    answer,
                    bound=run.run_id is not None,
                    now=asked_at,
                    request_expires_at=run.request_expires_at,
                    dispatched_at=run.dispatched_at,
                    unresolved_alert=self._limits.unresolved_alert,
                    alerted=run.alerted,
                ),
                next_check_at=asked_at + back_off(run.checks),
            )
            for run, answer in answered
        ]
        with self._store.transaction() as tx:
            ended = tx.record_runs(settled)
        self._report.ended += ended
        self._report.alerts += sum(each.settlement.alert is not None for each in settled)

    def id_of(self, item: OpenRun) -> UUID:
        """Return the attempt's id."""
        return item.attempt_id
