"""Tick: read the prices, record what is due, enqueue it, and pick up what a crash left behind.

Every step commits before the next begins and has its own share of time; a step that fails is reported and hinders none
of the others.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Final, TypeAlias

from blsflow.domain.prices import FeedUnavailable
from blsflow.domain.scan import plan_scan
from blsflow.flow.enqueuing import enqueue_attempts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Executor, Future

    from blsflow.ports.services import ProfitFeed, Queue, Queues
    from blsflow.ports.store import Store, Transaction
    from blsflow.ports.tick import DueSchedules, WaitingOccurrences

PAGE: Final = 500
_REQUEUE_AFTER: Final = timedelta(seconds=45)
_MANUAL_NOT_BEGUN_AFTER: Final = timedelta(minutes=10)
"""How long a run that was asked for by hand waits for its message, or its caller's retry."""

_Sending: TypeAlias = "tuple[Sequence[int], Future[None]]"
"""Occurrences, and the sending of their messages."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TickSettings:
    """Durations that bound a scan."""

    start_grace: timedelta
    feed_min_interval: timedelta
    not_begun_after: timedelta


@dataclass(kw_only=True, slots=True)
class TickReport:
    """What one scan did; ``failures`` holds each step that failed, by name.

    ``feed`` is ok, recent (not asked again so soon), not_configured, or why it gave nothing; ``feed_failure`` says which
    source gave nothing, and why, also where that was found by an earlier scan. ``lag_sec`` is how long the longest waiting
    due schedule had been due when it was recorded.
    """

    prices: int = 0
    feed: str = "not_configured"
    feed_failure: str | None = None
    recorded: int = 0
    missed: int = 0
    lag_sec: float = 0.0
    broken: int = 0
    closed_unbegun: int = 0
    expired_attempts: int = 0
    requeued_attempts: int = 0
    failures: dict[str, Exception] = field(default_factory=dict)


def tick(
    store: Store,
    *,
    feed: ProfitFeed | None,
    queues: Queues,
    settings: TickSettings,
    time_left: Callable[[], bool],
) -> TickReport:
    """Scan once. Pages go on while something is due and ``time_left`` says so; what is left is due again next time."""
    report = TickReport()

    def step(name: str, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 - one bad row or answer takes no other step with it
            report.failures[name] = error

    step("prices", lambda: _refresh_prices(store, feed, settings, report))
    step("close_unbegun", lambda: _close_unbegun(store, settings, report))
    step("expire_prepared", lambda: _expire_prepared(store, report))
    step("close_finished_ticks", lambda: _close_finished_ticks(store))
    step("scan", lambda: _scan(store, queues, settings, report, time_left))
    step("requeue_attempts", lambda: _requeue_attempts(store, queues.execute, report))
    return report


def _refresh_prices(
    store: Store, feed: ProfitFeed | None, settings: TickSettings, report: TickReport
) -> None:
    """Ask the feed, unless it was asked too recently; the answer, or why there is none, is kept either way."""
    if feed is None:
        return
    with store.transaction() as tx:
        newest = tx.newest_fetch(feed.source)
        if newest is not None and tx.now - newest.fetched_at < settings.feed_min_interval:
            report.feed = "recent"
            if newest.outcome != "ok":
                report.feed_failure = _said(feed, newest.outcome, newest.detail)
            return
    try:
        snapshot = feed.fetch()
    except FeedUnavailable as error:
        with store.transaction() as tx:
            tx.store_fetch_failure(feed.source, str(error.reason), error.detail)
        report.feed = str(error.reason)
        report.feed_failure = _said(feed, report.feed, error.detail)
        return
    with store.transaction() as tx:
        report.prices = tx.store_snapshot(snapshot)
    report.feed = "ok"


def _said(feed: ProfitFeed, reason: str, detail: str | None) -> str:
    return f"{feed.source}: {reason}" + (f", {detail}" if detail else "")


def _close_unbegun(store: Store, settings: TickSettings, report: TickReport) -> None:
    with store.transaction() as tx:
        report.closed_unbegun = tx.close_unbegun(settings.not_begun_after, _MANUAL_NOT_BEGUN_AFTER, PAGE)


def _expire_prepared(store: Store, report: TickReport) -> None:
    with store.transaction() as tx:
        report.expired_attempts = tx.expire_prepared(PAGE)


def _close_finished_ticks(store: Store) -> None:
    with store.transaction() as tx:
        tx.close_finished_ticks()


def _scan(
    store: Store, queues: Queues, settings: TickSettings, report: TickReport, time_left: Callable[[], bool]
) -> None:
    """Record page by page; a page's messages go out while the next page is recorded, and are noted while the next's go out.

    What was committed and not sent, or sent and not noted, is left behind, and sent (again) by the next scan: two pages,
    if the queue takes nothing.
    """
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="send-page") as sender:
        under_way: Sequence[_Sending] = ()
        while time_left():
            with store.transaction() as tx:
                due = tx.due_schedules(PAGE)
                recorded = _record(tx, due, settings, report)
            report.recorded += sum(map(len, recorded.values()))
            last, under_way = under_way, ()
            if _went_out(last):
                under_way = _begin_to_send(sender, queues, recorded)
            _note_sent(store, last)
            if sum(len(group.schedule_ids) for group in due) < PAGE:
                break
        _note_sent(store, under_way)
        with store.transaction() as tx:
            left_behind = tx.unqueued_occurrences(_REQUEUE_AFTER, 2 * PAGE)
        _note_sent(store, _begin_to_send(sender, queues, left_behind))


def _record(
    tx: Transaction, due: Sequence[DueSchedules], settings: TickSettings, report: TickReport
) -> WaitingOccurrences:
    plans = []
    for group in due:
        count = len(group.schedule_ids)
        if group.rule is None:
            tx.mark_broken(group.schedule_ids, group.broken or "unreadable rule")
            report.broken += count
            continue
        plan = plan_scan(group.rule, cursor=group.cursor, now=tx.now, grace=settings.start_grace)
        report.missed += count * plan.missed_count
        report.lag_sec = max(report.lag_sec, (tx.now - group.cursor).total_seconds())
        plans.append((group, plan))
    return tx.record_scan(plans) if plans else {}


def _begin_to_send(sender: Executor, queues: Queues, waiting: WaitingOccurrences) -> Sequence[_Sending]:
    """Begin to send what has been committed.

    A policy's tick is decided first; a conversation has nothing to decide and goes straight to be executed.
    """
    begun = []
    for kind, queue in (("policy_tick", queues.decide), ("conversation", queues.execute)):
        if ids := waiting.get(kind):
            messages = [{"occurrence_id": occurrence_id} for occurrence_id in ids]
            begun.append((ids, sender.submit(queue.send, messages)))
    return begun


def _went_out(under_way: Sequence[_Sending]) -> bool:
    """Wait until messages went out or failed to."""
    return all(sending.exception() is None for _, sending in under_way)


def _note_sent(store: Store, under_way: Sequence[_Sending]) -> None:
    """Wait until messages went out, and note it: a row that was never noted is sent again, which changes nothing."""
    for ids, sending in under_way:
        sending.result()
        with store.transaction() as tx:
            tx.mark_occurrences_enqueued(ids)


def _requeue_attempts(store: Store, queue: Queue, report: TickReport) -> None:
    with store.transaction() as tx:
        ids = tx.unqueued_attempts(_REQUEUE_AFTER, PAGE)
    enqueue_attempts(store, queue, ids)
    report.requeued_attempts = len(ids)
