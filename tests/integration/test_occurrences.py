"""Occurrences of conversations from their plan to their beginning: recorded once, begun if still allowed, fair to all."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from blsflow.flow import schedules
from blsflow.flow.schedules import UnknownSchedule
from blsflow.flow.versions import VersionConflict
from tests.integration.conversing import RUN_SEC, TARGET, ConversationScene
from tests.integration.counting import counting_store
from tests.integration.scene import _queue

if TYPE_CHECKING:
    from collections.abc import Iterator

    from blsflow.adapters.postgres.address import DatabaseAddress


@pytest.fixture
def scene(database: DatabaseAddress) -> Iterator[ConversationScene]:
    """Two tenants without any conversation yet."""
    with ConversationScene(database) as made:
        yield made


def _schedules(scene: ConversationScene, count: int, *, tenant: str, due_for_sec: float = 0) -> None:
    """So many more schedules of a tenant, every month, each due for so long."""
    scene.session.run(
        f"""insert into smart_schedule_schedules (tenant_id, created_by, kind, work, rule, next_run_at)
            select '{tenant}', 'test', 'conversation',
                   jsonb_build_object('target', '{TARGET}', 'conversation_id', 'c' || g, 'prompt', 'p'),
                   '{{"kind": "interval", "every_sec": 2592000}}', now() - interval '{due_for_sec} seconds'
            from generate_series(1, {count}) g"""
    )


def _drained(scene: ConversationScene) -> list[Any]:
    found: list[Any] = []
    _queue(scene.app.execute_queue).drain(lambda message: found.append(message["occurrence_id"]))
    return found


# ---------------------------------------------------------------- begun only if it still may


def test_an_edit_between_record_and_begin_is_config_changed(scene: ConversationScene) -> None:
    """R8.7: what was recorded before an edit is not run; the next planned time runs what the schedule says now."""
    schedule = scene.schedule()
    scene.forward(60)
    scene.tick()
    scene.change(schedule, prompt="something else")
    assert [report.outcome for report in scene.execute()] == ["config_changed"]
    assert scene.minute() == ["accepted"]
    assert scene.occurrences() == [["skipped", "config_changed"], ["running", None]]
    with pytest.raises(VersionConflict):
        scene.change(schedule, prompt="from an old reading")


def test_a_pause_between_record_and_begin_is_paused(scene: ConversationScene) -> None:
    """R8.7: nothing begins while it is paused, nothing is recorded either, and what runs goes on."""
    running, schedule = scene.schedule("c1"), scene.schedule("c2")
    scene.minute()
    scene.later(RUN_SEC + 5)
    scene.forward(60 - RUN_SEC - 5)
    scene.tick()
    for each in (running, schedule):
        schedules.pause_schedule(scene.app.store, each, paused=True, by="test")
    assert [report.outcome for report in scene.execute()] == ["paused", "paused"]
    assert scene.minute() == []
    assert scene.occurrences(schedule) == [["succeeded", None], ["skipped", "paused"]]


def test_a_resumed_schedule_continues_in_its_own_rhythm(scene: ConversationScene) -> None:
    """R8.2, R8.5: a pause moves no anchor, and what was planned in it is not caught up; saying so twice loses nothing."""
    schedule = scene.schedule(rule={"kind": "interval", "every_sec": 3600, "time_zone": "UTC"})
    cursor = f"select next_run_at from smart_schedule_schedules where id = {schedule}"
    planned = scene.value(cursor)
    schedules.pause_schedule(scene.app.store, schedule, paused=True, by="test")
    scene.forward(3 * 3600 + 17)
    assert scene.converse() == []
    schedules.pause_schedule(scene.app.store, schedule, paused=False, by="test")
    assert (scene.value(cursor) - planned).total_seconds() == 3 * 3600
    scene.reach(schedule)
    schedules.pause_schedule(scene.app.store, schedule, paused=False, by="test")
    assert scene.converse() == ["accepted"], "it was due when it was resumed once more"
    assert scene.occurrences() == [["running", None]]


@pytest.mark.parametrize("gate", ["switch", "lease"])
def test_without_the_switch_or_the_lease_nothing_is_sent(scene: ConversationScene, gate: str) -> None:
    """R4.2: both are asked for again at begin; the occurrence is closed and its slot stays free."""
    scene.schedule()
    if gate == "switch":
        scene.start(None, BLSFLOW_SCHEDULER_EXECUTE_ENABLED="false")
    else:
        scene.session.run("update smart_schedule_executor_leases set holder = 'legacy'")
    assert scene.minute() == ["paused"]
    assert scene.attempts() == []
    scene.start()
    scene.session.run("update smart_schedule_executor_leases set holder = 'blsflow'")
    assert scene.minute() == ["accepted"]


def test_an_archived_schedule_begins_nothing(scene: ConversationScene) -> None:
    """R8.1: it is unknown from then on; what was recorded is closed, and its history stays."""
    schedule = scene.schedule()
    scene.forward(60)
    scene.tick()
    schedules.archive_schedule(scene.app.store, schedule, by="test")
    assert [report.outcome for report in scene.execute()] == ["paused"]
    assert scene.minute() == []
    with pytest.raises(UnknownSchedule):
        scene.change(schedule, prompt="p")
    assert scene.occurrences() == [["skipped", "paused"]]


def test_what_nobody_began_is_closed_by_a_later_scan(scene: ConversationScene) -> None:
    """R8.6: its message was lost: two minutes later it is skipped, once, and sent by nobody who comes later still."""
    schedule = scene.schedule(rule={"kind": "interval", "every_sec": 3600, "time_zone": "UTC"})
    scene.reach(schedule)
    scene.tick()
    occurrence = scene.newest()
    scene.start()
    scene.forward(121)
    scene.tick()
    assert scene.occurrences(schedule) == [["skipped", "execution_not_started"]]
    assert scene.app.converse(occurrence).outcome == "already_begun"
    assert scene.starts() == []
    assert scene.findings() == {}


def test_two_recorded_at_once_do_not_overlap(scene: ConversationScene) -> None:
    """R8.4: two planned times recorded and not begun: whichever begins first, the other is skipped at its beginning."""
    schedule = scene.schedule()
    for _ in range(2):
        scene.forward(60)
        scene.tick()
    assert sorted(report.outcome for report in scene.execute()) == ["accepted", "previous_unfinished"]
    assert sorted(map(str, scene.occurrences(schedule))) == [
        "['running', None]",
        "['skipped', 'previous_unfinished']",
    ]


def test_two_scans_and_two_senders_at_once_record_and_send_once(scene: ConversationScene) -> None:
    """R8.3 (K17): due twice in one race: one occurrence, one advance, one start."""
    schedule = scene.schedule()
    apps = [scene.process(), scene.process()]
    scene.forward(60)
    cursor = f"select next_run_at from smart_schedule_schedules where id = {schedule}"
    planned = scene.value(cursor)
    _at_once(*(lambda app=app: app.tick(budget_sec=5) for app in apps))
    assert (scene.value(cursor) - planned).total_seconds() == 60
    assert scene.occurrences() == [["recorded", None]]
    occurrence = scene.newest()
    _at_once(*(lambda app=app: app.converse(occurrence) for app in apps))
    assert scene.occurrences() == [["running", None]]
    assert scene.starts() == [1]
    for app in apps:
        app.store.close()


def _at_once(*works: Any) -> None:
    barrier = threading.Barrier(len(works))
    errors: list[BaseException] = []

    def run(work: Any) -> None:
        barrier.wait()
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - shown to the test
            errors.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not errors


# ---------------------------------------------------------------- downtime


def test_downtime_is_one_record_and_one_run(scene: ConversationScene) -> None:
    """R8.5 (K20, K23): a day off, then scans each minute: one missed record with its count, and what is due now runs."""
    schedule = scene.schedule(rule={"kind": "interval", "every_sec": 3600, "time_zone": "UTC"})
    scene.reach(schedule, late_sec=24 * 3600 + 30)
    assert scene.converse() == ["accepted"]
    for _ in range(3):
        scene.later(RUN_SEC)
        scene.converse()
    counted = "select state, reason, missed_count from smart_schedule_occurrences order by planned_at"
    assert scene.rows(counted) == [["skipped", "missed", 24], ["succeeded", None, None]]
    assert scene.starts() == [1]


# ---------------------------------------------------------------- many


@pytest.mark.timeout(180)
def test_ten_thousand_due_conversations_cost_a_constant_number_of_statements_per_page(
    scene: ConversationScene,
) -> None:
    """R8.3, R8.10: all of them are recorded and enqueued in one scan, page by page, without a query per schedule."""
    store, exchanges = counting_store(scene.address)
    scene.app.__dict__["store"] = store
    statements = []
    for more in (1000, 10_000):
        _schedules(scene, more, tenant="acme")
        exchanges.clear()
        report = scene.app.tick(budget_sec=60)
        assert report.failures == {}
        assert report.recorded == more
        assert len(set(_drained(scene))) == more
        statements.append(exchanges.total())
    per_page, rest = divmod(statements[1] - statements[0], 10_000 // 500 - 1000 // 500)
    assert rest == 0
    assert per_page <= 7
    assert scene.value("select count(*) from smart_schedule_occurrences where enqueued_at is null") == 0
    store.close()


def test_a_tenant_with_many_due_schedules_starves_nobody(scene: ConversationScene) -> None:
    """R8.10: 2,000 of one tenant, due for longer, leave the other tenant's three on the first page."""
    _schedules(scene, 2000, tenant="acme", due_for_sec=120)
    _schedules(scene, 3, tenant="umbra")
    tenants = dict(scene.rows("select id, tenant_id from smart_schedule_schedules"))
    with scene.app.store.transaction() as tx:
        page = [tenants[one] for due in tx.due_schedules(500) for one in due.schedule_ids]
    assert (len(page), page.count("umbra")) == (500, 3)


def test_a_tenant_whose_runs_never_end_starves_nobodys_following(scene: ConversationScene) -> None:
    """R8.10: read-backs come in turns over the tenants too: 300 open ones of one leave the other's on the first page."""
    _schedules(scene, 300, tenant="acme")
    _schedules(scene, 2, tenant="umbra")
    scene.tick()
    scene.session.run(
        """
        insert into smart_schedule_attempts (id, tenant_id, kind, idempotency_key, occurrence_id, action, state, reference,
            caller_subject, prepared_at, valid_until, dispatched_at, request_expires_at, next_check_at)
        select gen_random_uuid(), tenant_id, 'conversation', 'k' || id, id, 'converse', 'running', 'run-' || id, 'ana',
               now(), now(), now(), now(), now() - case tenant_id when 'acme' then interval '1 hour' else interval '0' end
        from smart_schedule_occurrences
        """
    )
    with scene.app.store.transaction() as tx:
        page = [run.tenant_id for run in tx.open_runs(200, timedelta(minutes=1))]
    assert (len(page), page.count("umbra")) == (200, 2)
