"""Scans on real PostgreSQL: what is due is recorded once, whatever is delivered twice, fails or was missed."""

from __future__ import annotations

import json
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from blsflow.adapters.inline import InlineQueue
from blsflow.adapters.postgres.tick import TickQueries
from blsflow.domain.scan import plan_scan
from blsflow.flow import control
from blsflow.flow import tick as flow_tick
from blsflow.ports.errors import EnqueueFailed, InvariantBroken
from tests.integration.counting import counting_store
from tests.integration.racing import at_once
from tests.integration.scene import Killed, Scene

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from blsflow.adapters.postgres.address import DatabaseAddress
    from blsflow.flow.tick import TickReport
    from blsflow.ports.people import RequestedRun
    from blsflow.ports.services import Queue

_OCCURRENCES = "select state, reason, missed_count from smart_schedule_occurrences order by id"
# Due again in half a day: no scan of a test meets a second slot because the test was slow.
_DAILY = "jsonb_build_object('kind', 'interval', 'every_sec', 86400, 'anchor', now() - interval '12 hours')"
_HOURLY = {"kind": "cron", "expression": "0 * * * *"}


@pytest.fixture
def scene(database: DatabaseAddress) -> Iterator[Scene]:
    """One policy over one machine, due now."""
    with Scene(database, machines=1) as made:
        made.session.run(f"update smart_schedule_schedules set rule = {_DAILY}")
        yield made


class _DeafQueue:
    """A queue that takes nothing."""

    def send(self, messages: Sequence[Mapping[str, object]]) -> None:
        raise EnqueueFailed(f"{len(messages)} messages were not taken")


def _schedules(scene: Scene, count: int, *, tenant: str = "acme") -> None:
    """So many more policies of a tenant, each due now."""
    scene.session.run(
        f"""
        with policies as (
            insert into smart_schedule_policy_groups (tenant_id, name, mode, enabled, created_by)
            select '{tenant}', 'p' || g, 'time_window', true, 'test' from generate_series(1, {count}) g returning id
        )
        insert into smart_schedule_schedules (tenant_id, created_by, kind, policy_id, rule, next_run_at)
        select '{tenant}', 'test', 'policy_tick', id, {_DAILY}, now() from policies
        """
    )


def _planned(scene: Scene, rule: Mapping[str, object], *, ago: timedelta) -> None:
    """Give the scene's schedule a rule whose cursor came so long ago."""
    scene.session.run(
        f"update smart_schedule_schedules set rule = '{json.dumps(rule)}',"
        f" next_run_at = now() - interval '{ago.total_seconds()} seconds' where id = 1"
    )


def _tick(scene: Scene) -> TickReport:
    return scene.app.tick(budget_sec=60)


def _messages(queue: Queue) -> list[Any]:
    assert isinstance(queue, InlineQueue)
    found: list[Any] = []
    queue.drain(lambda message: found.append(message["occurrence_id"]))
    return found


# ---------------------------------------------------------------- exactly once


def test_two_scans_at_once_record_once(scene: Scene) -> None:
    """R8.3 (K17): due in two scans that race, each schedule has one occurrence and its cursor moved once."""
    _schedules(scene, 300)
    others = [scene.process() for _ in range(2)]
    at_once(*(lambda app=app: app.tick(budget_sec=60) for app in (scene.app, *others)))
    assert scene.rows(
        "select count(*), count(distinct schedule_id), count(*) filter (where state = 'recorded')"
        " from smart_schedule_occurrences"
    ) == [[301, 301, 301]]
    assert (
        scene.value(
            "select count(*) from smart_schedule_schedules"
            " where next_run_at > now() and next_run_at <= now() + interval '1 day'"
        )
        == 301
    )
    queued = {message for app in (scene.app, *others) for message in _messages(app.decide_queue)}
    assert len(queued) == 301
    for app in others:
        app.store.close()


def test_a_schedule_that_another_scan_holds_is_passed_over(scene: Scene) -> None:
    """R8.3, R8.10: a slow scan holds up only what it is recording; the other scan takes the rest of what is due."""
    other = scene.process()
    with other.store.transaction() as slow:
        assert [due.schedule_ids for due in slow.due_schedules(10)] == [[1]]
        _schedules(scene, 2)
        assert _tick(scene).recorded == 2
    assert _tick(scene).recorded == 1
    assert scene.value("select count(*) from smart_schedule_occurrences") == 3
    other.store.close()


def test_a_scan_delivered_again_changes_nothing(scene: Scene) -> None:
    """R8.3: EventBridge may deliver a scan twice: the second one finds nothing due."""
    assert [_tick(scene).recorded for _ in range(3)] == [1, 0, 0]
    assert len(_messages(scene.app.decide_queue)) == 1


def test_a_planned_time_that_is_recorded_is_not_recorded_again(scene: Scene) -> None:
    """R8.3: even with the cursor put back by hand onto a time that was recorded, that time runs once."""
    half_an_hour_away = (
        datetime.now(UTC) - timedelta(minutes=30)
    ).isoformat()  # so that no other comes due meanwhile
    rule = {"kind": "interval", "every_sec": 3600, "anchor": half_an_hour_away}
    _planned(scene, rule, ago=timedelta(seconds=30))
    scene.session.run("create table kept as select next_run_at from smart_schedule_schedules where id = 1")
    assert _tick(scene).recorded == 1
    scene.session.run("update smart_schedule_schedules set next_run_at = (select next_run_at from kept)")
    assert _tick(scene).recorded == 0
    assert scene.value("select count(*) from smart_schedule_occurrences") == 1
    assert scene.value("select next_run_at > now() from smart_schedule_schedules")


def test_the_cursor_moves_with_its_occurrence_or_not_at_all(scene: Scene) -> None:
    """R8.3: recording and moving the cursor are one transaction: rolled back, neither happened, and it is due again."""
    before = scene.rows("select next_run_at from smart_schedule_schedules")

    def record_and_die() -> None:
        with scene.app.store.transaction() as tx:
            (due,) = tx.due_schedules(10)
            assert due.rule is not None
            plan = plan_scan(due.rule, cursor=due.cursor, now=tx.now, grace=timedelta(minutes=5))
            assert len(tx.record_scan([(due, plan)])) == 1
            raise Killed

    with pytest.raises(Killed):
        record_and_die()
    assert scene.rows("select next_run_at from smart_schedule_schedules") == before
    assert scene.rows(_OCCURRENCES) == []
    assert _tick(scene).recorded == 1


def test_what_is_paused_archived_or_still_to_come_is_not_due(scene: Scene) -> None:
    """R8.3: only schedules whose time has come and that nobody paused or archived are scanned."""
    _schedules(scene, 3)
    scene.session.run(
        "update smart_schedule_schedules set paused = true where id = 1;"
        " update smart_schedule_schedules set archived_at = now() where id = 2;"
        " update smart_schedule_schedules set next_run_at = now() + interval '1 minute' where id = 3"
    )
    assert _tick(scene).recorded == 1
    assert scene.value("select schedule_id from smart_schedule_occurrences") == 4


# ---------------------------------------------------------------- missed, unfinished, not started


@pytest.mark.parametrize("minute", [1, 30], ids=["in time for the last one", "too late for all"])
def test_downtime_leaves_one_missed_record(scene: Scene, minute: int) -> None:
    """R8.5 (K20): hourly, down for a day, then scanned each minute: one record with its count, and no storm."""
    past_the_hour = scene.value("select extract(epoch from now() - date_trunc('hour', now()))::float8")
    scene.forward(3600 - past_the_hour + 60 * minute)
    _planned(scene, _HOURLY, ago=timedelta(hours=24, minutes=minute))
    reports = [_tick(scene)]
    for _ in range(3):
        scene.forward(60)
        reports.append(_tick(scene))
    in_time = minute == 1
    assert [report.missed for report in reports] == [24 if in_time else 25, 0, 0, 0]
    assert sum(report.recorded for report in reports) == in_time
    missed = (
        "select missed_count from smart_schedule_occurrences where state = 'skipped' and reason = 'missed'"
    )
    assert scene.rows(missed) == [[24 if in_time else 25]]
    assert scene.rows(
        "select level, params ->> 'count' from smart_schedule_log_events where code = 'runs_missed'"
    ) == [["warning", "24" if in_time else "25"]]
    assert scene.value("select next_run_at > now() from smart_schedule_schedules")


def test_many_missed_slots_do_not_stop_a_schedule(scene: Scene) -> None:
    """R8.5 (K23): a minute's schedule that was off for 101 minutes resumes with the slot of now."""
    _planned(scene, {"kind": "cron", "expression": "* * * * *"}, ago=timedelta(minutes=101))
    report = _tick(scene)
    assert (report.recorded, report.missed) in {(1, 100), (1, 101)}
    scene.forward(60)
    assert _tick(scene).recorded == 1


def test_a_run_that_meets_an_unfinished_one_is_skipped(scene: Scene) -> None:
    """R8.4 (K28): while the earlier tick's batch waits to be sent, the next slot is skipped/previous_unfinished."""
    scene.tick()
    scene.decide()
    assert scene.value("select state from smart_schedule_occurrences") == "running"
    scene.due()
    assert _tick(scene).recorded == 0
    assert scene.rows(_OCCURRENCES)[1:] == [["skipped", "previous_unfinished", None]]
    assert (
        scene.value("select params ->> 'reason' from smart_schedule_log_events where code = 'run_skipped'")
        == "previous_unfinished"
    )
    scene.execute()
    scene.due()
    assert _tick(scene).recorded == 1


def test_what_nobody_began_is_closed_by_a_later_scan(scene: Scene) -> None:
    """R8.6: its message lost, it is skipped/execution_not_started after two minutes; a late message does nothing."""
    _tick(scene)
    (lost,) = _messages(scene.app.decide_queue)
    scene.forward(119)
    assert _tick(scene).closed_unbegun == 0
    scene.forward(2)
    assert _tick(scene).closed_unbegun == 1
    assert scene.rows(_OCCURRENCES)[0] == ["skipped", "execution_not_started", None]
    assert scene.rows(
        "select params ->> 'reason' from smart_schedule_log_events where code = 'run_skipped'"
    ) == [["execution_not_started"]]
    assert scene.app.decide(lost).outcome == "already_begun"
    assert scene.value("select count(*) from smart_schedule_ticks") == 0


def test_a_manual_run_waits_for_its_callers_retry(scene: Scene) -> None:
    """R8.6, R8.8 (K33): a manual run beside the planned one is not closed by scans, and begins with the same request id."""

    def run() -> RequestedRun:
        return control.run(scene.app.store, 1, request_id="r1", decide_queue=scene.app.decide_queue, by="op")

    _tick(scene)
    first = run()
    assert len(_messages(scene.app.decide_queue)) == 2
    scene.forward(500)
    scene.session.run("update smart_schedule_schedules set next_run_at = now() + interval '1 hour'")
    assert _tick(scene).closed_unbegun == 1
    assert scene.rows("select origin, state from smart_schedule_occurrences order by id") == [
        ["planned", "skipped"],
        ["manual", "recorded"],
    ]
    assert _messages(scene.app.decide_queue) == [first.occurrence_id], "sent again by the scan"
    again = run()
    assert (again.occurrence_id, again.is_new) == (first.occurrence_id, False)
    assert _messages(scene.app.decide_queue) == [first.occurrence_id]
    assert scene.app.decide(first.occurrence_id).outcome == "decided"


# ---------------------------------------------------------------- bad rows


@pytest.mark.parametrize("zone", ["UTC+3", "Europe", "", "America/New_Yrok"])
def test_a_broken_zone_stops_only_its_own_schedule(scene: Scene, zone: str) -> None:
    """R8.2 (K14): stored by hand, it is set aside with its own log line that names the zone; the valid one runs."""
    _schedules(scene, 1)
    scene.session.run(f"update smart_schedule_schedules set time_zone = '{zone}' where id = 1")
    report = _tick(scene)
    assert (report.recorded, report.broken, report.failures) == (1, 1, {})
    assert scene.value("select schedule_id from smart_schedule_occurrences") == 2
    logged = (
        "select level, params ->> 'schedule_id', params ->> 'cause' from smart_schedule_log_events"
        " where code = 'schedule_broken'"
    )
    ((level, schedule_id, cause),) = scene.rows(logged)
    assert (level, schedule_id) == ("error", "1")
    assert "time_zone" in cause
    assert repr(zone) in cause
    assert _tick(scene).broken == 0
    assert len(scene.rows(logged)) == 1


@pytest.mark.parametrize(
    "rule",
    [
        "{}",
        "[]",
        '"daily"',
        "null",
        "7",
        '{"kind": "hourly"}',
        '{"kind": "cron", "expression": "0 0 31 2 *"}',
        '{"kind": "cron", "expression": null}',
        '{"kind": "daily", "time_of_day": "25:00"}',
        '{"kind": "interval", "every_sec": 60, "anchor": "yesterday"}',
        '{"kind": "interval", "every_sec": 99999999999}',
        pytest.param(
            f'{{"kind": "interval", "every_sec": {"9" * 5000}}}', id="more digits than Python reads"
        ),
        pytest.param(f'{{"kind": {"[" * 3000}{"]" * 3000}}}', id="nested more deeply than Python reads"),
    ],
)
def test_a_broken_rule_stops_only_its_own_schedule(scene: Scene, rule: str) -> None:
    """R8.2 (K11, K14): whatever stands there instead of a rule, the other schedules of the scan are recorded."""
    _schedules(scene, 2)
    scene.session.run(f"update smart_schedule_schedules set rule = '{rule}' where id = 2")
    report = _tick(scene)
    assert (report.recorded, report.broken, report.failures) == (2, 1, {})
    assert scene.value("select count(*) from smart_schedule_log_events where code = 'schedule_broken'") == 1


def test_a_broken_schedule_runs_again_once_it_was_mended_and_enabled(scene: Scene) -> None:
    """R8.2: enabling its policy has the rule read again."""
    scene.session.run("update smart_schedule_schedules set time_zone = 'Europe'")
    assert _tick(scene).broken == 1
    scene.session.run("update smart_schedule_schedules set time_zone = 'Europe/Berlin'")
    assert _tick(scene).recorded == 0
    control.enable(scene.app.store, 1, by="op", why="mended")
    scene.forward(43_201)
    assert _tick(scene).recorded == 1


@pytest.mark.parametrize("every", ["0", "-1", '"5"', "1e-9", '"NaN"', "null", "0.5"])
def test_the_database_refuses_an_interval_that_does_not_advance(scene: Scene, every: str) -> None:
    """R8.2 (K15): an interval that would be due for ever cannot even be stored."""
    with pytest.raises(InvariantBroken) as refused:
        scene.session.run(
            f"""update smart_schedule_schedules set rule = '{{"kind": "interval", "every_sec": {every}}}'"""
        )
    assert refused.value.constraint == "smart_schedule_schedules_interval_advances"


@pytest.mark.parametrize("cursor", ["-infinity", "0044-03-15 BC", "0001-01-01", "1900-01-01"])
def test_a_cursor_before_any_calendar_is_passed_like_any_other(scene: Scene, cursor: str) -> None:
    """R8.5: put there by hand, it is one missed record and a cursor ahead, and stops no other schedule."""
    _schedules(scene, 1)
    scene.session.run(f"update smart_schedule_schedules set next_run_at = '{cursor}' where id = 1")
    report = _tick(scene)
    assert (report.recorded, report.broken, report.failures) == (1, 0, {})
    assert scene.rows("select schedule_id, state, reason from smart_schedule_occurrences order by 1") == [
        [1, "skipped", "missed"],
        [2, "recorded", None],
    ]
    assert scene.value("select count(*) from smart_schedule_schedules where next_run_at > now()") == 2


def test_schedules_of_one_broken_rule_are_each_set_aside_and_logged(scene: Scene) -> None:
    """R8.2: what is read once for all of them is told of each."""
    _schedules(scene, 2)
    scene.session.run("update smart_schedule_schedules set rule = '{}', next_run_at = now() where id > 1")
    report = _tick(scene)
    assert (report.recorded, report.broken, report.failures) == (1, 2, {})
    assert scene.rows(
        "select (params ->> 'schedule_id')::int from smart_schedule_log_events where code = 'schedule_broken' order by 1"
    ) == [[2], [3]]


# ---------------------------------------------------------------- many


def test_schedules_are_planned_together_only_by_one_rule_one_zone_and_one_cursor(scene: Scene) -> None:
    """R8.3, R8.5: of six that are due, each gets its own planned time, missed count and cursor."""
    _schedules(scene, 5)
    half_past = "date_trunc('hour', now()) - interval '30 minutes'"
    scene.session.run(
        f"""
        update smart_schedule_schedules set
            rule = jsonb_build_object('kind', 'cron', 'expression',
                                      case when id = 6 then '45 * * * *' else '30 * * * *' end),
            time_zone = case when id = 5 then 'Asia/Kathmandu' else 'UTC' end,
            next_run_at = {half_past} - case when id in (3, 4) then interval '5 hours' else interval '0' end
        """
    )
    with scene.app.store.transaction() as tx:
        assert [due.schedule_ids for due in tx.due_schedules(10)] == [[1, 2], [3, 4], [5], [6]]
        now = tx.now
    report = _tick(scene)
    missed = dict(
        scene.rows("select schedule_id, missed_count from smart_schedule_occurrences where reason = 'missed'")
    )
    minute = {5: 45, 6: 45}  # the zone is 45 minutes off
    for id_, next_run_at in scene.rows("select id, next_run_at from smart_schedule_schedules order by id"):
        assert now < next_run_at <= now + timedelta(minutes=61), id_
        assert next_run_at.minute == minute.get(id_, 30), id_
    assert report.missed == sum(missed.values())
    assert missed[3] == missed[4] >= 5
    assert missed[3] - missed.get(1, 0) == 5
    assert missed.get(1) == missed.get(2)


def test_the_first_page_is_filled_in_turns_over_tenants(scene: Scene) -> None:
    """R8.3: a tenant with 2,000 due schedules, all due earlier, does not push another's three off the first page."""
    _schedules(scene, 2000, tenant="large")
    _schedules(scene, 3, tenant="small")
    scene.session.run(
        "update smart_schedule_schedules set next_run_at = now() - interval '1 minute' where tenant_id = 'large'"
    )
    tenants = dict(scene.rows("select id, tenant_id from smart_schedule_schedules"))
    for size, small in ((500, 3), (9, 3), (5, 2), (3, 1)):
        with scene.app.store.transaction() as tx:
            page = [tenants[one] for due in tx.due_schedules(size) for one in due.schedule_ids]
        assert len(page) == size
        assert (page.count("small"), page.count("acme")) == (small, 1)


@pytest.mark.timeout(120)
def test_ten_thousand_due_schedules_cost_a_constant_number_of_statements_per_page(scene: Scene) -> None:
    """R8.3, R8.10: all recorded in one scan, each page of 500 by the same few statements."""
    store, exchanges = counting_store(scene.address)
    scene.app.__dict__["store"] = store
    statements = []
    for more in (999, 10_000):
        _schedules(scene, more)
        exchanges.clear()
        report = _tick(scene)
        assert report.failures == {}
        assert len(_messages(scene.app.decide_queue)) == report.recorded == more + (more == 999)
        statements.append(exchanges.total())
    full_pages = (1000 // 500, 10_000 // 500)
    per_page, rest = divmod(statements[1] - statements[0], full_pages[1] - full_pages[0])
    assert rest == 0
    assert per_page <= 7
    assert scene.value("select count(*) from smart_schedule_occurrences where enqueued_at is null") == 0


# ---------------------------------------------------------------- failures and lag


def test_what_could_not_be_enqueued_is_enqueued_by_the_next_tick(scene: Scene) -> None:
    """R8.3, R8.10: the queue takes nothing: rows stay recorded, the failure is reported by its step, others go on."""
    scene.app.__dict__["decide_queue"] = _DeafQueue()
    report = _tick(scene)
    assert list(report.failures) == ["scan"]
    assert isinstance(report.failures["scan"], EnqueueFailed)
    assert scene.rows("select state, enqueued_at from smart_schedule_occurrences") == [["recorded", None]]
    scene.app.__dict__["decide_queue"] = InlineQueue()
    assert _tick(scene).failures == {}
    (message,) = _messages(scene.app.decide_queue)
    assert scene.app.decide(message).outcome == "decided"
    assert _tick(scene).recorded == 0
    assert _messages(scene.app.decide_queue) == []


def test_pages_that_could_not_be_enqueued_are_enqueued_by_the_next_tick(scene: Scene) -> None:
    """R8.3, R8.10: with page after page due, a queue that takes nothing leaves no more behind than one scan sends again."""
    _schedules(scene, 1499)
    scene.app.__dict__["decide_queue"] = _DeafQueue()
    report = _tick(scene)
    assert (list(report.failures), report.recorded) == (["scan"], 1000)
    scene.app.__dict__["decide_queue"] = InlineQueue()
    assert _tick(scene).recorded == 500
    messages = _messages(scene.app.decide_queue)
    assert len(messages) == len(set(messages)) == 1500
    assert scene.value("select count(*) from smart_schedule_occurrences where enqueued_at is null") == 0


def test_what_one_queue_took_is_noted_though_the_other_takes_nothing(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R8.3, R8.10: a page with both kinds: its ticks went out and are not sent again; the next page does not go out."""
    _schedules(scene, 3)
    scene.session.run(
        """
        update smart_schedule_schedules set kind = 'conversation', policy_id = null,
            work = '{"target": "a", "conversation_id": "c", "prompt": "p"}' where id = 2
        """
    )
    monkeypatch.setattr(flow_tick, "PAGE", 2)
    scene.app.__dict__["execute_queue"] = _DeafQueue()
    assert list(_tick(scene).failures) == ["scan"]
    assert scene.rows("select schedule_id from smart_schedule_occurrences where enqueued_at is not null") == [
        [1]
    ]
    first = _messages(scene.app.decide_queue)
    scene.app.__dict__["execute_queue"] = InlineQueue()
    assert _tick(scene).failures == {}
    assert (len(first), len(_messages(scene.app.decide_queue))) == (1, 2)
    assert scene.value("select count(*) from smart_schedule_occurrences where enqueued_at is null") == 0


def test_a_page_goes_out_while_the_next_is_recorded(scene: Scene) -> None:
    """R8.3: sending and recording do not wait for each other."""
    _schedules(scene, 999)

    class LateQueue(InlineQueue):
        """Takes the first page once the second is committed."""

        def send(self, messages: Sequence[Mapping[str, object]]) -> None:
            waited_until = time.monotonic() + 10
            while scene.value("select count(*) from smart_schedule_occurrences") < 1000:
                assert time.monotonic() < waited_until, "nothing was recorded meanwhile"
                time.sleep(0.01)
            super().send(messages)

    scene.app.__dict__["decide_queue"] = LateQueue()
    assert (_tick(scene).failures, len(_messages(scene.app.decide_queue))) == ({}, 1000)


def test_a_page_is_noted_while_the_next_goes_out(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """R8.3: sending and noting do not wait for each other either."""
    _schedules(scene, 999)
    second_begun = threading.Event()

    class Queue(InlineQueue):
        pages = 0

        def send(self, messages: Sequence[Mapping[str, object]]) -> None:
            self.pages += 1
            if self.pages == 2:
                second_begun.set()
            super().send(messages)

    note = TickQueries.mark_occurrences_enqueued

    def late(queries: TickQueries, ids: Sequence[int]) -> None:
        assert second_begun.wait(10), "the second page waited for the first to be noted"
        note(queries, ids)

    monkeypatch.setattr(TickQueries, "mark_occurrences_enqueued", late)
    scene.app.__dict__["decide_queue"] = Queue()
    assert (_tick(scene).failures, len(_messages(scene.app.decide_queue))) == ({}, 1000)


def test_attempts_that_could_not_be_enqueued_are_enqueued_by_the_next_tick(scene: Scene) -> None:
    """R8.10: prepared, their message lost or never taken, they are sent for as long as their decision is valid."""
    scene.tick()
    scene.app.__dict__["execute_queue"] = _DeafQueue()
    with pytest.raises(EnqueueFailed):
        scene.decide()
    scene.app.__dict__["execute_queue"] = InlineQueue()
    assert _tick(scene).requeued_attempts == 1
    assert _tick(scene).requeued_attempts == 0
    scene.forward(46)
    assert _tick(scene).requeued_attempts == 1, "sent for long ago, and still prepared: that message was lost"
    assert [report.outcome for report in scene.execute()] == ["accepted", "already_begun"]
    assert scene.posts() == [1]


def test_lag_is_that_of_the_longest_waiting(scene: Scene) -> None:
    """R11.2: the scan says how long what it recorded had been due, and 0 when nothing was."""
    _schedules(scene, 2)
    scene.session.run(
        "update smart_schedule_schedules set next_run_at = now() - interval '42 seconds' where id = 2"
    )
    assert 42 <= _tick(scene).lag_sec < 60
    assert _tick(scene).lag_sec == 0
