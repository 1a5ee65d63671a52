"""Cancelling occurrences: whose and when. A slot stays taken until the end is confirmed; ends are final."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from blsflow.flow import schedules
from blsflow.flow.occurrences import UnknownOccurrence
from blsflow.flow.schedules import UnknownSchedule
from tests.integration.conversing import RUN_SEC, ConversationScene

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    schedules.archive_schedule(scene.app.store, schedule, by="test")
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
    scene.reach(schedule)
    scene.converse()
    scene.faults()
    scene.cancel(schedule, scene.newest())
    scene.later(_SOON)
    assert scene.occurrences()[-1] == ["cancelling", None], "it may still be on its way"
    scene.later(60)
    assert scene.occurrences()[-1] == ["failed", "not_received"]
