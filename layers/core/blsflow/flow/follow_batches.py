"""Following batches of machines: what device control says, and what the machines then do (R5.4, R5.6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from blsflow.domain.execution import JobUnreadable
from blsflow.domain.settle import settle
from blsflow.flow.freeze import freeze_on_failures

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta
    from uuid import UUID

    from blsflow.domain.execution import JobReport
    from blsflow.domain.settle import Limits, OpenAttempt
    from blsflow.flow.reconcile import ReconcileReport
    from blsflow.ports.services import DeviceControl
    from blsflow.ports.store import Store


class FollowBatches:
    """Open batches; without a device-control service each is unanswered, which ends in an alert."""

    def __init__(  # noqa: PLR0913 - what a page needs, and what it adds to
        self,
        store: Store,
        device_control: DeviceControl | None,
        *,
        limits: Limits,
        page: int,
        lease: timedelta,
        report: ReconcileReport,
    ) -> None:
        self._store = store
        self._device_control = device_control
        self._limits = limits
        self._page = page
        self._lease = lease
        self._report = report

    def claim(self) -> tuple[datetime, Sequence[OpenAttempt]]:
        """Claim a page of batches with their machines' newest readings."""
        with self._store.transaction() as tx:
            return tx.now, tx.open_attempts(self._page, self._lease)

    def ask(self, item: OpenAttempt) -> JobReport:
        """Read the job back."""
        if self._device_control is None:
            return JobUnreadable(cause="executor_unconfigured")
        return self._device_control.read_back(caller=item.tenant_id, key=item.key, job_id=item.reference)

    def write(self, asked_at: datetime, answered: Sequence[tuple[OpenAttempt, JobReport]]) -> None:
        """Write a page; judged as of when it was asked, since an answer says nothing of the time that it took."""
        settlements = [
            settle(attempt, answer, now=asked_at, limits=self._limits) for attempt, answer in answered
        ]
        with self._store.transaction() as tx:
            standings = tx.record_settlements(settlements)
            concerned = [
                s.attempt.policy_id for s in settlements if s.outcomes and s.attempt.policy_id is not None
            ]
            frozen = freeze_on_failures(tx, concerned)
        self._report.frozen += frozen
        self._report.ended += sum(standing.ended for standing in standings)
        self._report.alerts += sum(standing.alert for standing in standings)
        self._report.machines_settled += sum(len(s.outcomes) for s in settlements)

    def id_of(self, item: OpenAttempt) -> UUID:
        """Return the attempt's id."""
        return item.attempt_id
