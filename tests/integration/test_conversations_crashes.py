"""Kills around a conversation: at every boundary of scan, begin, start and follow, then redeliveries and the next scans."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from blsflow.flow import schedules
from tests.integration.conversing import LOST_SENDER_SEC, RUN_SEC, ConversationScene
from tests.integration.scene import CrashPlan, Killed

if TYPE_CHECKING:
    from collections.abc import Callable

    from blsflow.adapters.postgres.address import DatabaseAddress

_PERIOD_SEC = 900
_RULE = {"kind": "interval", "every_sec": _PERIOD_SEC, "time_zone": "UTC"}


def _recover(scene: ConversationScene) -> None:
    """A new process, every message once more, and the time it takes to follow whatever was begun."""
    scene.start()
    for (occurrence,) in scene.rows("select id from smart_schedule_occurrences where kind = 'conversation'"):
        scene.app.converse(occurrence)
    for seconds in (RUN_SEC + 5, LOST_SENDER_SEC, 60, 60):
        scene.forward(seconds)
        scene.tick()
        scene.execute()
        scene.reconcile()


def _assert_sound(scene: ConversationScene) -> None:
    assert scene.findings() == {}
    assert all(posts == 1 for posts in scene.starts())
    assert scene.value("select count(*) from smart_schedule_occurrences where ended_at is null") == 0
    assert scene.value("select count(*) from smart_schedule_attempts where ended_at is null") == 0
    # what was really started is what is said to have run, by the result that it left
    ran = "select count(*) from smart_schedule_occurrences where output_ref is not null"
    assert scene.value(ran) == sum(entry["starts"] for entry in scene.ledger())


def _killed_at_every_step(
    scene: ConversationScene,
    schedule: int,
    prepare: Callable[[], None],
    work: Callable[[], None],
    *,
    after: bool,
) -> list[str | None]:
    """Do the work once for each of its steps, killed there; return where it died. The last run survives."""
    died_at: list[str | None] = []
    while True:
        scene.start()
        scene.reach(schedule)
        prepare()
        plan = CrashPlan(len(died_at) + 1, after=after)
        scene.start(plan)
        try:
            work()
        except Killed:
            died_at.append(plan.died_at)
        else:
            return died_at
        _recover(scene)
        _assert_sound(scene)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.timeout(600)
def test_a_kill_at_any_step_of_scan_or_start_leaves_nothing_behind(
    database: DatabaseAddress, *, after: bool
) -> None:
    """R8.3, R8.6, R5.3 (K37): killed before or after every round trip, send and start, then redelivered and scanned on.

    Each key is posted at most once, nothing stays open, and each planned time has one record.
    """
    with ConversationScene(database) as scene:
        schedule = scene.schedule(rule=_RULE)

        def work() -> None:
            scene.tick()
            scene.execute()

        died_at = _killed_at_every_step(scene, schedule, lambda: None, work, after=after)
        planned = "select count(*), count(distinct planned_at) from smart_schedule_occurrences where origin = 'planned'"
        ((records, times),) = scene.rows(planned)
        assert records == times >= len(died_at)
    assert {"start", "send", "commit"} <= set(died_at)
    assert len(died_at) > 20


@pytest.mark.timeout(600)
def test_a_kill_at_any_step_of_following_settles_each_run_once(database: DatabaseAddress) -> None:
    """R8.7, R5.5: a follower killed anywhere leaves the run to the next one; its end is written and logged once."""
    with ConversationScene(database) as scene:
        schedule = scene.schedule(rule=_RULE)

        def prepare() -> None:
            assert scene.converse() == ["accepted"]
            scene.forward(RUN_SEC + 5)

        died_at = _killed_at_every_step(scene, schedule, prepare, scene.reconcile, after=True)
        ended = (
            "select attempt_id, count(*) from smart_schedule_log_events where code = 'run_ended' group by 1"
        )
        assert {count for _, count in scene.rows(ended)} == {1}
    assert len(died_at) > 5


@pytest.mark.timeout(600)
def test_a_kill_at_any_step_of_a_run_by_hand_is_mended_by_its_retry(database: DatabaseAddress) -> None:
    """R8.8, R5.3: the caller's process dies anywhere: the same request id makes one occurrence and one start of it."""
    with ConversationScene(database) as scene:
        schedule = scene.schedule(rule={"kind": "cron", "expression": "0 0 29 2 *", "time_zone": "UTC"})
        step = 1
        while True:
            scene.start(CrashPlan(step, after=step % 2 == 0))
            try:
                scene.run_now(schedule, f"r{step}")
            except Killed:
                pass
            else:
                break
            scene.start()
            scene.run_now(schedule, f"r{step}")
            _recover(scene)
            _assert_sound(scene)
            step += 1
        by_request = "select count(*), count(distinct request_id) from smart_schedule_occurrences"
        assert scene.rows(by_request) == [[step, step]]
        assert len(scene.starts()) >= step - 2, "all but those whose sender died before it sent"
    assert step > 8


@pytest.mark.timeout(600)
def test_a_kill_at_any_step_of_a_cancel_is_mended_by_reconcile_or_a_retry(database: DatabaseAddress) -> None:
    """R8.8: once committed, a cancel reaches its run whoever died; before that, nothing was asked."""
    with ConversationScene(database) as scene:
        schedule = scene.schedule(rule={"kind": "cron", "expression": "0 0 29 2 *", "time_zone": "UTC"})
        scene.faults(endless_rate=1.0)
        step = 1
        while True:
            scene.start()
            occurrence = scene.run_now(schedule, f"r{step}").occurrence_id
            scene.start(CrashPlan(step, after=step % 2 == 0))
            try:
                scene.cancel(schedule, occurrence)
            except Killed:
                pass
            else:
                break
            scene.start()
            if (
                scene.value(f"select state from smart_schedule_occurrences where id = {occurrence}")
                == "running"
            ):
                scene.cancel(schedule, occurrence)
            for _ in range(3):
                scene.later(5)
            state = f"select state from smart_schedule_occurrences where id = {occurrence}"
            assert scene.value(state) == "cancelled"
            step += 1
    assert step > 6


def test_an_operators_pause_and_edit_killed_midway_change_nothing_or_all(database: DatabaseAddress) -> None:
    """R8.1: a change is one transaction: a new version with its new cursor, or the old one."""
    with ConversationScene(database) as scene:
        schedule = scene.schedule()
        step = 1
        while True:
            scene.start(CrashPlan(step, after=True))
            try:
                schedules.pause_schedule(scene.app.store, schedule, paused=True, by="test")
                scene.change(schedule, prompt="edited")
            except Killed:
                pass
            else:
                break
            ((paused, version, prompt),) = scene.rows(
                f"select paused, version, work ->> 'prompt' from smart_schedule_schedules where id = {schedule}"
            )
            assert (version, prompt) in {(1, "what changed?"), (2, "edited")}
            assert paused or version == 1
            scene.session.run(
                "update smart_schedule_schedules set paused = false, version = 1,"
                f' work = work || \'{{"prompt": "what changed?"}}\' where id = {schedule}'
            )
            step += 1
    assert step > 6
