"""Cancelling a policy's tick: what was not sent is not sent, what was sent is followed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from local.simulators.device_control import DeviceFaults
from tests.integration.conversing import LOST_SENDER_SEC, ConversationScene

if TYPE_CHECKING:
    from collections.abc import Iterator

    from blsflow.adapters.postgres.address import DatabaseAddress


@pytest.fixture
def ticking(database: DatabaseAddress) -> Iterator[ConversationScene]:
    """A policy over two machines, in batches of one, that is due now."""
    with ConversationScene(database, policy_rests=False) as made:
        made.start(None, BLSFLOW_SCHEDULER_BATCH_SIZE="1")
        made.tick()
        made.decide()
        yield made


def _tick_of(scene: ConversationScene) -> tuple[int, int]:
    ((schedule, occurrence),) = scene.rows(
        "select schedule_id, id from smart_schedule_occurrences order by id limit 1"  # on a slow machine another is due
    )
    return schedule, occurrence


def test_a_cancelled_tick_sends_nothing_that_was_not_sent(ticking: ConversationScene) -> None:
    """R8.8, R5.4: its unsent batches end and free their machines; the tick ends at once."""
    assert ticking.attempts() == [["prepared", None]] * 2
    ticking.cancel(*_tick_of(ticking))
    assert ticking.attempts() == [["skipped", "cancelled"]] * 2
    assert ticking.rows("select state from smart_schedule_occurrences") == [["cancelled"]]
    assert ticking.value("select count(*) from smart_schedule_machine_locks where freed_at is null") == 0
    assert [report.outcome for report in ticking.execute()] == ["already_begun"] * 2
    assert ticking.posts() == []
    assert ticking.findings() == {}


def test_a_cancelled_tick_leaves_what_was_sent_to_be_followed(ticking: ConversationScene) -> None:
    """R8.8, R5.4: a batch that was sent keeps its locks until its job's end is confirmed; only the unsent one ends."""
    schedule, occurrence = _tick_of(ticking)
    sent, unsent = ticking.rows("select id from smart_schedule_attempts order by prepared_at, id")
    ticking.device_control.faults.profile = DeviceFaults(timeout_after_effect_rate=1.0, hang_sec=0.0)
    assert ticking.app.execute(sent[0]).outcome == "ambiguous"
    ticking.device_control.faults.profile = DeviceFaults()
    ticking.cancel(schedule, occurrence)
    states = dict(ticking.rows("select id, state from smart_schedule_attempts"))
    assert (states[sent[0]], states[unsent[0]]) == ("reconciling", "skipped")
    assert ticking.value("select state from smart_schedule_occurrences") == "cancelled"
    assert ticking.value("select count(*) from smart_schedule_machine_locks where freed_at is null") == 1
    for _ in range(3):
        ticking.forward(20)
        ticking.report()
        ticking.reconcile()
    assert ticking.value(f"select state from smart_schedule_attempts where id = '{sent[0]}'") == "succeeded"
    assert ticking.value("select count(*) from smart_schedule_machine_locks where freed_at is null") == 0
    assert ticking.findings() == {}


def test_a_tick_that_sent_everything_cannot_be_cancelled(ticking: ConversationScene) -> None:
    """R8.7: it has ended with its last batch on its way; the end stays, and the jobs are followed."""
    ticking.execute()
    cancelled = ticking.cancel(*_tick_of(ticking))
    assert (cancelled.state, cancelled.asked) == ("succeeded", False)
    assert {state for state, _ in ticking.attempts()} == {"running"}


def test_a_cancelled_tick_waits_for_a_batch_that_is_being_sent(ticking: ConversationScene) -> None:
    """R8.8: one whose sender is at work or died keeps the tick cancelling, and the next tick from beginning."""
    schedule, occurrence = _tick_of(ticking)
    ticking.session.run(
        "update smart_schedule_attempts set state = 'dispatching', dispatched_at = now(),"
        " request_expires_at = now() + interval '6 seconds'"
        " where id = (select min(id::text)::uuid from smart_schedule_attempts)"
    )
    assert ticking.cancel(schedule, occurrence).state == "cancelling"
    assert sorted(state for state, _ in ticking.attempts()) == ["dispatching", "skipped"]
    ticking.due()
    ticking.tick()
    assert ticking.rows("select state, reason from smart_schedule_occurrences order by id")[-1] == [
        "skipped",
        "previous_unfinished",
    ]
    ticking.later(LOST_SENDER_SEC)
    ticking.tick()
    assert (
        ticking.value(f"select state from smart_schedule_occurrences where id = {occurrence}") == "cancelled"
    )
