"""Reconcile: follow every open attempt to its confirmed end, and free what it held only then.

It never sends a command. Read-backs of a page run side by side; what they say is written in one transaction per page.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from blsflow.domain.errors import BlsflowError
from blsflow.domain.execution import JobUnreadable
from blsflow.domain.settle import settle
from blsflow.flow.freeze import freeze_on_failures

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from blsflow.domain.execution import JobReport
    from blsflow.domain.settle import Limits, OpenAttempt
    from blsflow.ports import DeviceControl, Store

PAGE: Final = 200
_LEASE: Final = timedelta(seconds=60)


@dataclass(frozen=True, kw_only=True, slots=True)
class ReconcileSettings:
    """Durations and widths of following; ``sender_lost_after`` exceeds the longest a sender can live."""

    limits: Limits
    sender_lost_after: timedelta
    concurrency: int
    retention_days: int


@dataclass(kw_only=True, slots=True)
class ReconcileReport:
    """What one pass came to."""

    looked_at: int = 0
    ended: int = 0
    machines_settled: int = 0
    alerts: int = 0
    senders_lost: int = 0
    open_attempts: int = 0
    oldest_open_sec: float = 0.0
    oldest_lock_sec: float = 0.0
    frozen: list[int] = field(default_factory=list)
    failures: dict[str, BlsflowError] = field(default_factory=dict)


def reconcile(
    store: Store,
    *,
    device_control: DeviceControl | None,
    settings: ReconcileSettings,
    time_left: Callable[[], bool],
) -> ReconcileReport:
    """Look at every attempt that is due, page by page, while there is time."""
    report = ReconcileReport()
    try:
        with store.transaction() as tx:
            tx.maintain_partitions(settings.retention_days)
    except BlsflowError as error:
        report.failures["maintain_partitions"] = error
    with store.transaction() as tx:
        report.senders_lost = tx.overdue_dispatching(settings.sender_lost_after, PAGE)
    if device_control is not None:
        with ThreadPoolExecutor(max_workers=settings.concurrency, thread_name_prefix="read-back") as pool:
            while time_left():
                with store.transaction() as tx:
                    attempts = tx.open_attempts(PAGE, _LEASE)
                if not attempts:
                    break
                answers = list(pool.map(lambda attempt: _read_back(device_control, attempt), attempts))
                _write(store, attempts, answers, settings, report)
    with store.transaction() as tx:
        ages = tx.open_ages()
    report.open_attempts = ages.open_attempts
    report.oldest_open_sec, report.oldest_lock_sec = ages.oldest_open_sec, ages.oldest_lock_sec
    return report


def _read_back(device_control: DeviceControl, attempt: OpenAttempt) -> JobReport:
    """Ask once; whatever goes wrong with one attempt is that attempt's answer and no other's."""
    try:
        return device_control.read_back(caller=attempt.tenant_id, key=attempt.key, job_id=attempt.reference)
    except BlsflowError as error:
        return JobUnreadable(cause=str(error))


def _write(
    store: Store,
    attempts: Sequence[OpenAttempt],
    reports: Sequence[JobReport],
    settings: ReconcileSettings,
    report: ReconcileReport,
) -> None:
    with store.transaction() as tx:
        settlements = [
            settle(attempt, answer, now=tx.now, limits=settings.limits)
            for attempt, answer in zip(attempts, reports, strict=True)
        ]
        standings = tx.record_settlements(settlements)
        report.frozen += freeze_on_failures(
            tx,
            [
                s.attempt.policy_id
                for s in settlements
                if s.attempt.policy_id is not None and any(not outcome.succeeded for outcome in s.outcomes)
            ],
        )
    report.looked_at += len(attempts)
    report.ended += sum(standing.ended for standing in standings)
    report.alerts += sum(standing.alert for standing in standings)
    report.machines_settled += sum(len(s.outcomes) for s in settlements)
