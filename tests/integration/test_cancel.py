"""Cancelling occurrences: whose, when, and what races it. A slot stays taken until the end is confirmed; ends are final."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from blsflow.flow import control, schedules
from blsflow.flow.schedules import UnknownOccurrence, UnknownSchedule
from local.simulators.device_control import DeviceFaults
from tests.integration.conversing import LOST_SENDER_SEC, RUN_SEC, ConversationScene

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from blsflow.adapters.postgres.connection import DatabaseAddress

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


def test_what_was_not_begun_is_cancelled_at_once(scene: ConversationScene) -> None:
    """R8.8: its message finds it ended and sends nothing; the record says who cancelled."""
    schedule = scene.schedule()
    occurrence = _recorded(scene, schedule)
    cancelled = scene.cancel(schedule, occurrence)
    assert (cancelled.state, cancelled.asked) == ("cancelled", True)
    assert [report.outcome for report in scene.execute()] == ["already_begun"]
    assert scene.rows(
        "select state, cancel_requested_by, cancel_requested_at = ended_at from smart_schedule_occurrences"
    ) == [["cancelled", "op", True]]
    assert scene.told("cancel_requested")[0] == 1
    assert scene.starts() == []
    assert scene.minute() == ["accepted"], "the next planned one runs"


def test_what_runs_keeps_its_slot_until_its_end_is_confirmed(scene: ConversationScene) -> None:
    """R8.8: cancelling, the service asked at once; nothing else of the schedule begins before it says cancelled."""
    schedule = scene.schedule()
    scene.faults(endless_rate=1.0, cancel_sec=70)
    scene.minute()
    occurrence = scene.newest()
    cancelled = scene.cancel(schedule, occurrence)
    assert (cancelled.state, cancelled.asked) == ("cancelling", True)
    assert scene.ledger()[0]["cancels"] == 1
    scene.later(30)
    assert scene.occurrences() == [["cancelling", None]]
    scene.forward(30)
    assert scene.converse() == []
    assert scene.occurrences() == [["cancelling", None], ["skipped", "previous_unfinished"]]
    scene.later(30)
    assert scene.occurrences()[0] == ["cancelled", "run_cancelled"]
    scene.forward(30)
    assert scene.converse() == ["accepted"]
    assert scene.findings() == {}


def test_cancelling_twice_is_harmless(scene: ConversationScene) -> None:
    """R8.8: asked again while it is cancelled and after its end, nothing changes and the answer says so."""
    schedule = scene.schedule()
    scene.faults(endless_rate=1.0)
    scene.minute()
    occurrence = scene.newest()
    assert scene.cancel(schedule, occurrence).asked is True
    again = scene.cancel(schedule, occurrence)
    assert (again.state, again.asked) == ("cancelling", False)
    scene.later(_SOON)
    last = scene.cancel(schedule, occurrence)
    assert (last.state, last.asked) == ("cancelled", False)
    assert scene.told("cancel_requested")[0] == 1
    assert scene.rows("select cancel_requested_by from smart_schedule_occurrences") == [["op"]]


def test_only_the_owner_cancels_and_only_what_is_the_schedules(scene: ConversationScene) -> None:
    """R8.8, R8.9: another tenant's is as unknown as none; an occurrence of another schedule is none of this one."""
    schedule, other = scene.schedule("c1"), scene.schedule("c2")
    theirs = scene.schedule("c3", tenant="umbra")
    scene.minute()
    occurrence: int = scene.value(f"select id from smart_schedule_occurrences where schedule_id = {schedule}")
    for asked, tenant in ((theirs, "acme"), (schedule, "umbra"), (4711, "acme")):
        with pytest.raises(UnknownSchedule) as unknown:
            scene.cancel(asked, occurrence, tenant=tenant)
        assert unknown.value.schedule_id == asked
    for asked, of in ((other, occurrence), (theirs, occurrence), (schedule, 4711)):
        with pytest.raises(UnknownOccurrence) as missing:
            scene.cancel(asked, of)
        assert (missing.value.schedule_id, missing.value.occurrence_id) == (asked, of)
    assert scene.occurrences() == [["running", None]] * 3
    assert scene.cancel(schedule, occurrence, tenant="acme").asked is True


def test_an_archived_schedules_run_can_still_be_cancelled(scene: ConversationScene) -> None:
    """R8.8: archiving ends nothing that is under way, and takes away no means to end it."""
    schedule = scene.schedule()
    scene.faults(endless_rate=1.0)
    scene.minute()
    occurrence = scene.newest()
    schedules.archive_schedule(scene.app.store, schedule)
    assert scene.occurrences() == [["running", None]]
    assert scene.cancel(schedule, occurrence).asked is True
    scene.later(_SOON)
    assert scene.occurrences() == [["cancelled", "run_cancelled"]]


@pytest.mark.parametrize("end", ["succeeded", "failed"])
def test_a_cancel_that_comes_too_late_ends_as_the_run_did(scene: ConversationScene, end: str) -> None:
    """R8.7, R8.8 (K35): the run had ended before the cancel reached it: its own end counts."""
    schedule = scene.schedule()
    scene.faults(failure_rate=1.0 if end == "failed" else 0.0)
    scene.minute()
    scene.forward(RUN_SEC + 5)
    assert scene.cancel(schedule, scene.newest()).state == "cancelling"
    scene.later(_SOON)
    assert scene.value("select state from smart_schedule_occurrences") == end
    assert scene.cancel(schedule, scene.newest()).asked is False
    assert scene.value("select state from smart_schedule_occurrences") == end


def test_a_cancel_that_was_lost_is_asked_again(scene: ConversationScene) -> None:
    """R8.8: the caller died after the commit, or the service did not hear: reconcile asks until the run has ended."""
    schedule = scene.schedule()
    scene.faults(endless_rate=1.0)
    scene.minute()
    scene.faults(endless_rate=1.0, error_rate=1.0)
    scene.cancel(schedule, scene.newest())
    scene.later(_SOON)
    assert scene.occurrences() == [["cancelling", None]]
    scene.faults(endless_rate=1.0)
    scene.later(30)
    scene.later(30)
    assert scene.occurrences()[0] == ["cancelled", "run_cancelled"]
    assert scene.ledger()[0]["cancels"] >= 3


def test_what_is_unclear_is_cancelled_by_its_key(scene: ConversationScene) -> None:
    """R8.8: the run's id never came back: the cancel finds the run by our key, or the start is never received."""
    schedule = scene.schedule()
    scene.faults(endless_rate=1.0, timeout_after_effect_rate=1.0)
    scene.minute()
    assert scene.occurrences() == [["reconciling", None]]
    scene.faults(endless_rate=1.0)
    assert scene.cancel(schedule, scene.newest()).state == "cancelling"
    scene.later(_SOON)
    assert scene.occurrences() == [["cancelled", "run_cancelled"]]
    scene.faults(timeout_before_effect_rate=1.0)
    scene.minute()
    scene.faults()
    scene.cancel(schedule, scene.newest())
    scene.later(_SOON)
    assert scene.occurrences()[-1] == ["cancelling", None], "it may still be on its way"
    scene.later(60)
    assert scene.occurrences()[-1] == ["failed", "not_received"]


# ---------------------------------------------------------------- races


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


# ---------------------------------------------------------------- policy ticks


@pytest.fixture
def ticking(database: DatabaseAddress) -> Iterator[ConversationScene]:
    """A policy over two machines, in batches of one, that is due now."""
    with ConversationScene(database, policy_rests=False) as made:
        made.start(None, BLSFLOW_SCHEDULER_BATCH_SIZE="1")
        made.tick()
        made.decide()
        yield made


def _tick_of(scene: ConversationScene) -> tuple[int, int]:
    ((schedule, occurrence),) = scene.rows("select schedule_id, id from smart_schedule_occurrences")
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
