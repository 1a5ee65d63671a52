"""Reconcile: follow every open attempt to its confirmed end, and free what it held only then.

It never sends a command. Read-backs of a page run side by side; what they say is written in one transaction per page.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from blsflow.domain.conversation import settle_run
from blsflow.domain.errors import BlsflowError
from blsflow.domain.execution import JobUnreadable
from blsflow.domain.settle import back_off, settle
from blsflow.flow.freeze import freeze_on_failures
from blsflow.ports import SettledRun

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from blsflow.domain.conversation import RunReport
    from blsflow.domain.execution import JobReport
    from blsflow.domain.settle import Limits, OpenAttempt
    from blsflow.ports import DeviceControl, ExecutionService, OpenRun, Store

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
    execution_service: ExecutionService | None,
    settings: ReconcileSettings,
    time_left: Callable[[], bool],
) -> ReconcileReport:
    """Look at every attempt that is due, page by page, while there is time."""
    report = ReconcileReport()
    try:
        with store.transaction() as tx:
            tx.maintain(settings.retention_days)
    except BlsflowError as error:
        report.failures["maintain"] = error
    with store.transaction() as tx:
        report.senders_lost = tx.overdue_dispatching(settings.sender_lost_after, PAGE)
    with ThreadPoolExecutor(max_workers=settings.concurrency, thread_name_prefix="read-back") as pool:
        if execution_service is not None:
            _follow_runs(store, execution_service, pool, settings, report, time_left)
        if device_control is not None:
            _follow_batches(store, device_control, pool, settings, report, time_left)
    with store.transaction() as tx:
        ages = tx.open_ages()
    report.open_attempts = ages.open_attempts
    report.oldest_open_sec, report.oldest_lock_sec = ages.oldest_open_sec, ages.oldest_lock_sec
    return report


def _follow_batches(  # noqa: PLR0913, PLR0917 - what a page needs, and what it adds to
    store: Store,
    device_control: DeviceControl,
    pool: ThreadPoolExecutor,
    settings: ReconcileSettings,
    report: ReconcileReport,
    time_left: Callable[[], bool],
) -> None:
    while time_left():
        with store.transaction() as tx:
            asked_at, attempts = tx.now, tx.open_attempts(PAGE, _LEASE)
        if not attempts:
            return
        answers = list(pool.map(lambda attempt: _read_back(device_control, attempt), attempts))
        _write(store, attempts, answers, asked_at, settings, report)


def _follow_runs(  # noqa: PLR0913, PLR0917 - what a page needs, and what it adds to
    store: Store,
    execution_service: ExecutionService,
    pool: ThreadPoolExecutor,
    settings: ReconcileSettings,
    report: ReconcileReport,
    time_left: Callable[[], bool],
) -> None:
    while time_left():
        with store.transaction() as tx:
            asked_at, runs = tx.now, tx.open_runs(PAGE, _LEASE)
        if not runs:
            return
        answers = list(pool.map(lambda run: _read_run(execution_service, run), runs))
        settled = [
            SettledRun(
                run=run,
                settlement=settle_run(
                    answer,
                    bound=run.run_id is not None,
                    now=asked_at,
                    request_expires_at=run.request_expires_at,
                    dispatched_at=run.dispatched_at,
                    unresolved_alert=settings.limits.unresolved_alert,
                    alerted=run.alerted,
                ),
                next_check_at=asked_at + back_off(run.checks),
            )
            for run, answer in zip(runs, answers, strict=True)
        ]
        with store.transaction() as tx:
            report.ended += tx.record_runs(settled)
        report.looked_at += len(runs)
        report.alerts += sum(each.settlement.alert is not None for each in settled)


def _read_run(execution_service: ExecutionService, run: OpenRun) -> RunReport:
    """Ask once, and before that ask the run to end if somebody wants it to: a cancel may have been lost."""
    identity = {"caller_tenant": run.tenant_id, "caller_subject": run.caller_subject}
    if run.cancelling:
        execution_service.cancel(**identity, key=run.key, run_id=run.run_id)
    return execution_service.read_back(**identity, key=run.key, run_id=run.run_id)


def _read_back(device_control: DeviceControl, attempt: OpenAttempt) -> JobReport:
    """Ask once; whatever goes wrong with one attempt is that attempt's answer and no other's."""
    try:
        return device_control.read_back(caller=attempt.tenant_id, key=attempt.key, job_id=attempt.reference)
    except BlsflowError as error:
        return JobUnreadable(cause=str(error))


def _write(  # noqa: PLR0913, PLR0917 - what a page needs, and what it adds to
    store: Store,
    attempts: Sequence[OpenAttempt],
    answers: Sequence[JobReport],
    asked_at: datetime,
    settings: ReconcileSettings,
    report: ReconcileReport,
) -> None:
    """Write a page; judged as of when it was asked, since an answer says nothing of the time that it took."""
    with store.transaction() as tx:
        settlements = [
            settle(attempt, answer, now=asked_at, limits=settings.limits)
            for attempt, answer in zip(attempts, answers, strict=True)
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
