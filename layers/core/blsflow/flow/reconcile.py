"""Reconcile: follow every open attempt to its confirmed end, and free what it held only then.

It never sends a command. Read-backs of a page run side by side; what they say is written in one transaction per page.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from blsflow.domain.errors import BlsflowError
from blsflow.flow.follow import follow
from blsflow.flow.follow_batches import FollowBatches
from blsflow.flow.follow_runs import FollowRuns

if TYPE_CHECKING:
    from blsflow.domain.settle import Limits
    from blsflow.flow.budget import Budget
    from blsflow.ports.services import DeviceControl, ExecutionService
    from blsflow.ports.store import Store

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
    failures: dict[str, Exception] = field(default_factory=dict)


def reconcile(
    store: Store,
    *,
    device_control: DeviceControl | None,
    execution_service: ExecutionService | None,
    settings: ReconcileSettings,
    budget: Budget,
) -> ReconcileReport:
    """Look at every attempt that is due, machines first; neither kind takes the other's share of the time."""
    report = ReconcileReport()
    try:
        with store.transaction() as tx:
            tx.maintain(settings.retention_days)
    except BlsflowError as error:
        report.failures["maintain"] = error
    with store.transaction() as tx:
        report.senders_lost = tx.overdue_dispatching(settings.sender_lost_after, PAGE)
    batches = FollowBatches(
        store, device_control, limits=settings.limits, page=PAGE, lease=_LEASE, report=report
    )
    runs = FollowRuns(
        store, execution_service, limits=settings.limits, page=PAGE, lease=_LEASE, report=report
    )
    for looked_at, failures in (
        follow(batches, concurrency=settings.concurrency, budget=budget.share(0.5)),
        follow(runs, concurrency=settings.concurrency, budget=budget),
    ):
        report.looked_at += looked_at
        report.failures |= failures
    with store.transaction() as tx:
        ages = tx.open_ages()
    report.open_attempts = ages.open_attempts
    report.oldest_open_sec, report.oldest_lock_sec = ages.oldest_open_sec, ages.oldest_lock_sec
    return report
