"""Cancels that race a start or an end: whoever writes last, no cancel is lost and no end is overwritten."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from blsflow.flow import control
from tests.integration.conversing import LOST_SENDER_SEC, RUN_SEC, ConversationScene

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from blsflow.adapters.postgres.address import DatabaseAddress

_SOON = 3


@pytest.fixture
def scene(database: DatabaseAddress) -> Iterator[ConversationScene]:
    """Two tenants without any conversation yet."""
    with ConversationScene(database) as made:
        yield made


def _recorded(scene: ConversationScene, schedule: int) -> int:
    scene.forward(60)
    scene.tick()
    found: int = scene.value(
        f"select max(id) from smart_schedule_occurrences where schedule_id = {schedule} and state = 'recorded'"
    )
    return found


def _while_starting(scene: ConversationScene, occurrence: int, meanwhile: Callable[[], object]) -> str:
    """Send an occurrence's prompt; between the service's answer and its record something else happens."""
    app = scene.process()
    service = app.__dict__["execution_service"]
    start = service.start

    def delayed(command: Any) -> Any:
        outcome = start(command)
        meanwhile()
        return outcome

    service.start = delayed
    outcome = app.converse(occurrence).outcome
    app.store.close()
    return outcome


def test_a_cancel_racing_the_start_reaches_the_run(scene: ConversationScene) -> None:
    """R8.8 (K35): asked while the start is on its way: whatever the start then says, the run is asked to end."""
    schedule = scene.schedule()
    scene.faults(endless_rate=1.0)
    occurrence = _recorded(scene, schedule)
    assert _while_starting(scene, occurrence, lambda: scene.cancel(schedule, occurrence)) == "accepted"
    assert scene.occurrences() == [["cancelling", None]]
    scene.later(_SOON)
    scene.later(_SOON)
    assert scene.occurrences() == [["cancelled", "run_cancelled"]]
    assert scene.starts() == [1]


def test_a_cancel_that_the_start_does_not_see_reaches_the_run(scene: ConversationScene) -> None:
    """R8.8 (K35): both are written at once, neither having seen the other: reconcile takes the cancel up."""
    schedule = scene.schedule()
    scene.faults(endless_rate=1.0)
    occurrence = _recorded(scene, schedule)
    canceller = scene.process()

    def cancel_uncommitted() -> None:
        with canceller.store.transaction() as tx:
            tx.cancel_occurrence(schedule, occurrence, by="op")
            started.set()
            time.sleep(0.5)

    started = threading.Event()
    thread = threading.Thread(target=cancel_uncommitted)

    def meanwhile() -> None:
        thread.start()
        started.wait(10)

    assert _while_starting(scene, occurrence, meanwhile) == "accepted"
    thread.join(10)
    canceller.store.close()
    assert scene.occurrences() == [["cancelling", None]]
    for _ in range(3):
        scene.later(_SOON)
    assert scene.occurrences() == [["cancelled", "run_cancelled"]]


@pytest.mark.parametrize(
    ("fault", "end"),
    [
        ({"busy_rate": 1.0}, ["skipped", "busy"]),
        ({"removed": "c1"}, ["skipped", "execution_target_unavailable"]),
    ],
    ids=["busy", "target gone"],
)
def test_a_cancel_racing_a_start_that_came_to_nothing_ends_with_it(
    scene: ConversationScene, fault: dict[str, Any], end: list[str]
) -> None:
    """R8.7 (K35): nothing was started, so there is nothing to wait for."""
    schedule = scene.schedule()
    occurrence = _recorded(scene, schedule)
    scene.faults(**fault)
    _while_starting(scene, occurrence, lambda: scene.cancel(schedule, occurrence))
    assert scene.occurrences() == [end]
    assert scene.findings() == {}


@pytest.mark.parametrize("effect", ["timeout_before_effect_rate", "timeout_after_effect_rate"])
def test_a_cancel_racing_an_unclear_start_is_followed(scene: ConversationScene, effect: str) -> None:
    """R8.7, R8.8: cancelling stays cancelling through an unclear answer, until the run is found or can no longer be."""
    schedule = scene.schedule()
    occurrence = _recorded(scene, schedule)
    scene.faults(**{effect: 1.0}, endless_rate=1.0)
    _while_starting(scene, occurrence, lambda: scene.cancel(schedule, occurrence))
    assert scene.occurrences() == [["cancelling", None]]
    scene.faults(endless_rate=1.0)
    for _ in range(4):
        scene.later(20)
    before = effect == "timeout_before_effect_rate"
    assert scene.occurrences()[0] == (
        ["failed", "not_received"] if before else ["cancelled", "run_cancelled"]
    )


def test_a_cancel_of_what_a_dead_sender_began_is_followed(scene: ConversationScene) -> None:
    """R8.8: cancelled between begin and a start whose sender died after it: read back by key, and asked to end."""
    schedule = scene.schedule()
    scene.faults(endless_rate=1.0)
    occurrence = _recorded(scene, schedule)

    def die() -> None:
        scene.cancel(schedule, occurrence)
        raise SystemExit

    with pytest.raises(SystemExit):
        _while_starting(scene, occurrence, die)
    scene.later(_SOON)
    assert scene.attempts() == [["dispatching", None]]
    scene.later(LOST_SENDER_SEC)
    scene.later(_SOON)
    assert scene.occurrences()[0] == ["cancelled", "run_cancelled"]
    assert scene.starts() == [1]


def test_a_cancel_racing_the_end_does_not_overwrite_it(scene: ConversationScene) -> None:
    """R8.7 (K35): while an end is being written, a cancel waits and then finds it; neither is refused as a deadlock."""
    schedule = scene.schedule()
    scene.minute()
    occurrence = scene.newest()
    follower = scene.process()
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(scene.cancel(schedule, occurrence)))
    with follower.store.transaction() as tx:
        tx._session.run("select from smart_schedule_attempts for update")
        thread.start()
        time.sleep(0.5)
        tx._session.run(
            "update smart_schedule_occurrences set state = 'succeeded', ended_at = now();"
            "update smart_schedule_attempts set state = 'succeeded', ended_at = now()"
        )
    thread.join(20)
    follower.store.close()
    assert [(cancelled.state, cancelled.asked) for cancelled in found] == [("succeeded", False)]
    assert scene.occurrences() == [["succeeded", None]]


def test_an_answer_that_comes_after_the_end_changes_nothing(scene: ConversationScene) -> None:
    """R8.7 (K35): given up as lost and closed by hand while its start was on the way: the late answer is too late."""
    schedule = scene.schedule()
    scene.faults(endless_rate=1.0)
    occurrence = _recorded(scene, schedule)

    def close() -> None:
        scene.later(LOST_SENDER_SEC)
        attempt = scene.value("select id from smart_schedule_attempts")
        control.release(scene.app.store, attempt, by="op", why="test")

    assert _while_starting(scene, occurrence, close) == "accepted"
    assert scene.occurrences() == [["interrupted", "closed_by_operator"]]
    assert scene.attempts() == [["interrupted", "closed_by_operator"]]
    scene.later(RUN_SEC + 5)
    assert scene.occurrences() == [["interrupted", "closed_by_operator"]]
