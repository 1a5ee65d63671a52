"""Scheduled conversations against the simulated service: every answer, and what becomes of the occurrence."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from blsflow.flow import control
from tests.integration.conversing import ALERT_SEC, LOST_SENDER_SEC, RUN_SEC, ConversationScene

if TYPE_CHECKING:
    from collections.abc import Iterator

    from blsflow.adapters.postgres.address import DatabaseAddress


@pytest.fixture
def scene(database: DatabaseAddress) -> Iterator[ConversationScene]:
    """Two tenants without any conversation yet."""
    with ConversationScene(database) as made:
        yield made


def test_a_conversation_from_its_schedule_to_its_result(scene: ConversationScene) -> None:
    """R8.1, R8.7: recorded, begun, sent in its creator's name, followed to the service's end, with its results."""
    schedule = scene.schedule()
    assert scene.minute() == ["accepted"]
    assert scene.occurrences() == [["running", None]]
    scene.later(5)
    assert scene.occurrences() == [["running", None]], "the service has not ended it"
    scene.later(RUN_SEC)
    row = scene.rows(
        "select schedule_id, state, reason, error, output_ref like 'message:run-%', began_at is not null,"
        " ended_at > began_at from smart_schedule_occurrences"
    )
    assert row == [[schedule, "succeeded", None, None, True, True, True]]
    assert scene.attempts() == [["succeeded", None]]
    assert scene.rows("select caller_subject from smart_schedule_attempts") == [["ana@acme"]]
    codes = scene.rows("select code from smart_schedule_log_events where attempt_id is not null order by id")
    assert codes == [["run_started"], ["run_ended"]]
    assert scene.starts() == [1]
    assert scene.findings() == {}


def test_the_next_minute_is_held_in_the_next_minute(scene: ConversationScene) -> None:
    """R8.3: each planned time is one occurrence, one attempt and one start."""
    scene.schedule()
    for _ in range(3):
        assert scene.minute() == ["accepted"]
        scene.later(RUN_SEC + 5)
        scene.forward(-RUN_SEC - 5)
    assert scene.occurrences() == [["succeeded", None]] * 3
    assert scene.starts() == [1, 1, 1]


@pytest.mark.parametrize(
    ("fault", "outcome", "end"),
    [
        ({"busy_rate": 1.0}, "busy", ["skipped", "busy"]),
        ({"removed": "c1"}, "target_unavailable", ["skipped", "execution_target_unavailable"]),
        ({"removed": "analyst"}, "target_unavailable", ["skipped", "execution_target_unavailable"]),
        ({"departed": "ana@acme"}, "rejected", ["failed", "forbidden"]),
    ],
    ids=["busy", "conversation gone", "target gone", "rejected"],
)
def test_what_the_service_did_not_take_ends_at_once(
    scene: ConversationScene, fault: dict[str, Any], outcome: str, end: list[str]
) -> None:
    """R8.7, R8.9, R5.3: busy and no target are skips, a refusal fails with the service's reason; the slot is free."""
    schedule = scene.schedule()
    scene.faults(**fault)
    assert scene.minute() == [outcome]
    assert scene.occurrences() == [end]
    assert scene.value("select error from smart_schedule_occurrences")
    assert scene.attempts() == [end]
    assert scene.told("run_not_started")[0] == 1
    scene.faults()
    assert scene.minute() == ["accepted"], "nothing waits, and nothing is sent again"
    assert scene.occurrences(schedule) == [end, ["running", None]]
    assert scene.starts() == [1, 1]


@pytest.mark.parametrize(
    ("run", "end"),
    [
        ({"failure_rate": 1.0}, ["failed", "run_failed"]),
        ({"interrupted_rate": 1.0}, ["interrupted", "run_interrupted"]),
    ],
    ids=["failed", "interrupted"],
)
def test_a_run_that_does_not_succeed_ends_as_the_service_says(
    scene: ConversationScene, run: dict[str, float], end: list[str]
) -> None:
    """R8.7: its state, reason and error are the occurrence's."""
    scene.schedule()
    scene.faults(**run)
    scene.minute()
    scene.later(RUN_SEC + 5)
    assert scene.occurrences() == [end]
    assert scene.value("select error from smart_schedule_occurrences")
    assert scene.value("select output_ref from smart_schedule_occurrences") is None


@pytest.mark.parametrize(
    ("fault", "end"),
    [
        ({"timeout_after_effect_rate": 1.0}, ["succeeded", None]),
        ({"timeout_before_effect_rate": 1.0}, ["failed", "not_received"]),
        ({"error_rate": 1.0}, ["failed", "not_received"]),
        ({"conflict_rate": 1.0}, ["failed", "not_received"]),
        ({"timeout_after_effect_rate": 1.0, "hang_sec": 1.3}, ["succeeded", None]),
    ],
    ids=["dropped after", "dropped before", "5xx", "conflict", "time-out after"],
)
def test_what_is_unclear_is_only_read_back(
    scene: ConversationScene, fault: dict[str, float], end: list[str | None]
) -> None:
    """R5.3, R8.7 (K37): reconciling keeps the slot; found by key or not received, and never sent again."""
    scene.schedule()
    scene.faults(**fault)
    assert scene.minute() == ["ambiguous"]
    assert scene.occurrences() == [["reconciling", None]]
    assert scene.told("run_unclear")[0] == 1
    scene.faults()
    scene.later(3)
    assert scene.occurrences() == [["running" if end[0] == "succeeded" else "reconciling", None]]
    scene.later(30)
    scene.later(30)
    assert scene.occurrences() == [end]
    assert scene.starts() == [1]
    assert scene.findings() == {}


def test_not_found_says_nothing_before_the_request_has_expired(scene: ConversationScene) -> None:
    """R8.7: an unbound attempt that is not found may still be on its way: the slot stays taken until it no longer can."""
    scene.schedule()
    scene.faults(timeout_before_effect_rate=1.0)
    scene.minute()
    scene.faults()
    for _ in range(3):
        scene.later(10)
        assert scene.occurrences() == [["reconciling", None]]
        assert scene.attempts() == [["reconciling", "not_found"]]
    scene.later(30)
    assert scene.occurrences() == [["failed", "not_received"]]


def test_an_endless_run_keeps_its_slot(scene: ConversationScene) -> None:
    """R8.4 (K28): planned times that come meanwhile are skipped as previous_unfinished until the end is confirmed."""
    scene.schedule()
    scene.faults(endless_rate=1.0)
    scene.minute()
    for _ in range(3):
        assert scene.minute() == []
        scene.later(0)
    assert scene.occurrences() == [["running", None], *[["skipped", "previous_unfinished"]] * 3]
    scene.faults()
    scene.later(61)
    assert scene.occurrences()[0] == ["succeeded", None]
    assert scene.converse() == ["accepted"]
    assert scene.starts() == [1, 1]


def test_a_completion_that_is_told_late_frees_late(scene: ConversationScene) -> None:
    """R8.4 (K28): the service withholds an end for ten minutes: the slot is not given to anybody before it is told."""
    scene.schedule()
    scene.faults(lost_completion_rate=1.0, lost_completion_sec=600)
    scene.minute()
    scene.later(300)
    assert scene.ledger()[0]["ended"] == "succeeded"
    assert scene.converse() == []
    found = scene.occurrences()
    assert found[0] == ["running", None]
    assert ["skipped", "previous_unfinished"] in found
    scene.later(400)
    assert scene.occurrences()[0] == ["succeeded", None]


@pytest.mark.parametrize(
    ("fault", "waiting_for"),
    [({"forget_rate": 1.0}, "not_found"), ({"departed": "ana@acme"}, "forbidden")],
    ids=["forgotten", "forbidden"],
)
def test_a_run_that_is_out_of_sight_is_told_of_once_and_closed_by_hand(
    scene: ConversationScene, fault: dict[str, Any], waiting_for: str
) -> None:
    """R8.11 (K31): bound, and not shown any more: its own alert once, the slot kept, and an operator can close it."""
    scene.schedule()
    scene.minute()
    scene.faults(**fault)
    scene.later(RUN_SEC + 10)
    assert scene.told("attempt_unreachable") == (0, 0)
    for _ in range(4):
        scene.later(ALERT_SEC)
    assert scene.told("attempt_unreachable") == (1, 1)
    assert scene.told("attempt_unresolved") == (0, 0)
    assert scene.occurrences() == [["running", None]]
    assert scene.attempts() == [["running", waiting_for]]
    assert scene.converse() == [], "its slot is kept, also from what is planned now"
    attempt = scene.value("select id from smart_schedule_attempts")
    control.release(scene.app.store, attempt, by="op", why="ana has left")
    assert scene.occurrences()[0] == ["interrupted", "closed_by_operator"]
    assert scene.attempts() == [["interrupted", "closed_by_operator"]]
    scene.faults()
    scene.later(3600)
    assert scene.occurrences()[0] == ["interrupted", "closed_by_operator"], "the run's own end comes too late"
    scene.forward(60)
    assert scene.converse() == ["accepted"]
    scene.later(RUN_SEC + 10)
    assert scene.starts() == [1, 1]
    assert scene.findings() == {}


def test_a_watcher_that_fails_blocks_nobody(scene: ConversationScene) -> None:
    """R8.10, R8.11 (K31): read-backs fail three times; a retry with the same id, other schedules and the end go on."""
    schedule, other = scene.schedule("c1"), scene.schedule("c2", tenant="umbra")
    run = scene.run_now(schedule, "r1")
    scene.faults(departed="ana@acme")
    for _ in range(3):
        scene.later(60)
    again = scene.run_now(schedule, "r1")
    assert (again.occurrence_id, again.state, again.is_new) == (run.occurrence_id, "running", False)
    assert scene.converse() == ["accepted"], "the other tenant's"
    scene.later(RUN_SEC + 5)
    assert ["succeeded", None] in scene.occurrences(other)
    scene.faults()
    scene.later(60)
    assert scene.occurrences(schedule)[0] == ["succeeded", None]


def test_a_sender_that_died_is_read_back_by_its_key(scene: ConversationScene) -> None:
    """R5.3, R8.7: begun and nobody left who sends: reconciling after the longest life of a sender, then its real end."""
    scene.schedule()
    scene.forward(60)
    scene.tick()
    occurrence = scene.newest()
    with scene.app.store.transaction() as tx:
        tx.begin_conversation(occurrence, scene.app.gates, request_timeout=timedelta(seconds=6))
    scene.later(30)
    assert scene.attempts() == [["dispatching", None]]
    assert scene.app.converse(occurrence).outcome == "already_begun"
    scene.later(LOST_SENDER_SEC)
    assert scene.occurrences()[0] == ["failed", "not_received"]
    assert scene.starts() == []


def test_a_message_delivered_three_times_starts_once(scene: ConversationScene) -> None:
    """R8.3, R5.3: deliveries after the first one find it begun, and later ended."""
    scene.schedule()
    scene.forward(60)
    scene.tick()
    occurrence = scene.newest()
    outcomes = [scene.app.converse(occurrence).outcome for _ in range(3)]
    assert outcomes == ["accepted", "already_begun", "already_begun"]
    scene.later(RUN_SEC + 5)
    assert scene.app.converse(occurrence).outcome == "already_begun"
    assert scene.app.converse(4711).outcome == "unknown_occurrence"
    assert scene.starts() == [1]


def test_a_policys_tick_is_no_conversation(scene: ConversationScene) -> None:
    """R8.1: a message that names another kind of occurrence begins nothing."""
    scene.session.run(
        "update smart_schedule_schedules set paused = false, next_run_at = now() where kind = 'policy_tick'"
    )
    scene.tick()
    assert scene.app.converse(scene.newest()).outcome == "unknown_occurrence"
    assert scene.value("select state from smart_schedule_occurrences") == "recorded"
