"""Manual runs of conversations: one occurrence per request, beside the plan and never in its place."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from blsflow.domain.errors import InvalidExecutionRequest
from blsflow.flow import occurrences, schedules
from blsflow.flow.occurrences import ExecutionTargetUnavailable
from blsflow.flow.requests import KeyConflict
from blsflow.flow.schedules import TickOfPolicy, UnknownSchedule
from tests.integration.conversing import EVERY_MINUTE, RUN_SEC, TARGET, ConversationScene

if TYPE_CHECKING:
    from collections.abc import Iterator

    from blsflow.adapters.postgres.address import DatabaseAddress

_OF_SCHEDULE = (
    "select origin, state, reason from smart_schedule_occurrences where schedule_id = {} order by id"
)
_DAILY = {"kind": "daily", "time_of_day": "08:00", "time_zone": "Asia/Shanghai"}


@pytest.fixture
def scene(database: DatabaseAddress) -> Iterator[ConversationScene]:
    """Two tenants without any conversation yet."""
    with ConversationScene(database) as made:
        yield made


def _cursor(scene: ConversationScene, schedule: int) -> Any:
    return scene.value(f"select next_run_at from smart_schedule_schedules where id = {schedule}")


def test_the_same_request_is_the_same_occurrence_for_good(scene: ConversationScene) -> None:
    """R8.8: asked again while it runs and after it ended, it is shown as it stands and started no second time."""
    schedule = scene.schedule(rule=_DAILY)
    first = scene.run_now(schedule, "r1")
    assert (first.is_new, first.state) == (True, "recorded")
    again = scene.run_now(schedule, "r1")
    assert (again.occurrence_id, again.is_new, again.state) == (first.occurrence_id, False, "running")
    scene.later(RUN_SEC + 5)
    last = scene.run_now(schedule, "r1")
    assert (last.occurrence_id, last.is_new, last.state) == (first.occurrence_id, False, "succeeded")
    assert scene.starts() == [1]
    assert scene.rows("select distinct requested_by from smart_schedule_occurrences") == [["op"]]
    assert scene.told("run_requested")[0] == 1


def test_another_request_is_another_occurrence(scene: ConversationScene) -> None:
    """R8.8: ids tell requests apart; each runs once."""
    schedule = scene.schedule(rule=_DAILY)
    runs = []
    for number in range(3):
        runs.append(scene.run_now(schedule, f"r{number}").occurrence_id)
        scene.later(RUN_SEC + 5)
    assert len(set(runs)) == 3
    assert scene.occurrences() == [["succeeded", None]] * 3


def test_the_same_id_is_another_schedules_own(scene: ConversationScene) -> None:
    """R8.8: a request id says nothing outside its schedule."""
    first, second = scene.schedule("c1", rule=_DAILY), scene.schedule("c2", rule=_DAILY)
    assert scene.run_now(first, "r").occurrence_id != scene.run_now(second, "r").occurrence_id
    assert scene.starts() == [1, 1]


def test_the_same_id_for_another_request_is_a_conflict(scene: ConversationScene) -> None:
    """R8.8: an id that was used with another body is refused with the occurrence that it made, and runs nothing."""
    schedule = scene.schedule(rule=_DAILY)
    scene.run_now(schedule, "r1")
    scene.session.run("update smart_schedule_occurrences set request_fingerprint = 'of another body'")
    with pytest.raises(KeyConflict) as refused:
        scene.run_now(schedule, "r1")
    assert refused.value.key == "r1"
    assert scene.starts() == [1]


def test_a_request_made_twice_at_once_runs_once(scene: ConversationScene) -> None:
    """R8.8: two processes with one request: one occurrence, one start, the same answer to both."""
    schedule = scene.schedule(rule=_DAILY)
    found: list[int] = []
    barrier = threading.Barrier(2)
    apps = [scene.process(), scene.process()]

    def ask(app: Any) -> None:
        barrier.wait()
        run = occurrences.run_schedule(app.store, schedule, request_id="r", by="op", converse=app.converse)
        found.append(run.occurrence_id)

    threads = [threading.Thread(target=ask, args=(app,)) for app in apps]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    for app in apps:
        app.store.close()
    assert len(found) == 2
    assert len(set(found)) == 1
    assert scene.starts() == [1]


def test_a_manual_run_at_the_planned_instant_takes_nothing_from_the_plan(scene: ConversationScene) -> None:
    """R8.3, R8.8 (K33): both are recorded; the planned one is skipped only because the manual one is at work."""
    schedule = scene.schedule(rule=_DAILY)
    scene.run_now(schedule, "r1")
    scene.session.run(
        f"update smart_schedule_schedules set next_run_at ="
        f" (select planned_at from smart_schedule_occurrences) where id = {schedule}"
    )
    scene.later(RUN_SEC + 5)
    assert scene.converse() == ["accepted"]
    assert scene.rows(_OF_SCHEDULE.format(schedule)) == [
        ["manual", "succeeded", None],
        ["planned", "running", None],
    ]
    assert scene.value("select count(distinct planned_at) from smart_schedule_occurrences") == 1
    scene.session.run(f"update smart_schedule_schedules set next_run_at = now() where id = {schedule}")
    scene.tick()
    assert scene.rows(_OF_SCHEDULE.format(schedule))[-1] == ["planned", "skipped", "previous_unfinished"]


def test_a_manual_run_beside_one_at_work_is_skipped(scene: ConversationScene) -> None:
    """R8.4, R8.8: no overlap by hand either; the record says why, also when it is asked for again."""
    schedule = scene.schedule()
    scene.minute()
    run = scene.run_now(schedule, "r1")
    assert scene.rows(_OF_SCHEDULE.format(schedule))[-1] == ["manual", "skipped", "previous_unfinished"]
    again = scene.run_now(schedule, "r1")
    assert (again.occurrence_id, again.state, again.reason) == (
        run.occurrence_id,
        "skipped",
        "previous_unfinished",
    )
    assert scene.starts() == [1]


@pytest.mark.parametrize("rule", [_DAILY, EVERY_MINUTE], ids=["daily", "interval"])
def test_manual_runs_move_no_anchor(scene: ConversationScene, rule: dict[str, object]) -> None:
    """R8.2 (K16): whenever it is run by hand or late, the next run is the rule's own."""
    schedule = scene.schedule(rule=rule)
    planned = _cursor(scene, schedule)
    for number in range(3):
        scene.run_now(schedule, f"r{number}")
        scene.later(7)
        assert _cursor(scene, schedule) == planned
    scene.forward((planned - scene.now()).total_seconds() + 17)
    scene.converse()
    period = 86_400 if rule is _DAILY else 60
    assert (_cursor(scene, schedule) - planned).total_seconds() == period


def test_a_manual_run_is_not_held_back_by_a_pause(scene: ConversationScene) -> None:
    """R8.8: a pause is for the plan; somebody who asks by hand means it."""
    schedule = scene.schedule()
    schedules.pause_schedule(scene.app.store, schedule, paused=True, by="test")
    scene.run_now(schedule, "r1")
    assert scene.rows(_OF_SCHEDULE.format(schedule)) == [["manual", "running", None]]


def test_a_target_that_is_not_there_is_told_with_the_record_that_says_so(scene: ConversationScene) -> None:
    """R8.9: refused with the occurrence's id; it exists, and the same request is answered in the same way."""
    schedule = scene.schedule(rule=_DAILY)
    scene.faults(removed="c1")
    for _ in range(2):
        with pytest.raises(ExecutionTargetUnavailable) as refused:
            scene.run_now(schedule, "r1")
        assert refused.value.occurrence_id == scene.newest()
    assert scene.rows(_OF_SCHEDULE.format(schedule)) == [
        ["manual", "skipped", "execution_target_unavailable"]
    ]
    scene.faults()
    scene.run_now(schedule, "r2")
    assert scene.occurrences()[-1] == ["running", None]
    assert scene.starts() == [1, 1]


def test_without_an_execution_service_no_target_is_there(scene: ConversationScene) -> None:
    """R8.9, R4.3: nothing is sent, by hand or by plan, and the records say why."""
    schedule = scene.schedule()
    scene.start(None, BLSFLOW_SCHEDULER_EXECUTION_API_BASE_URL="")
    with pytest.raises(ExecutionTargetUnavailable):
        scene.run_now(schedule, "r1")
    assert scene.minute() == ["execution_target_unavailable"]
    assert scene.occurrences() == [["skipped", "execution_target_unavailable"]] * 2
    assert scene.attempts() == []


@pytest.mark.parametrize("whose", ["umbra", "nobody"])
def test_someone_elses_schedule_is_as_unknown_as_none(scene: ConversationScene, whose: str) -> None:
    """R8.9: the same error for another tenant's schedule, an archived one and one that never was; nothing is recorded."""
    schedule, archived = scene.schedule(), scene.schedule("c2")
    schedules.archive_schedule(scene.app.store, archived, by="test")
    for asked, tenant in ((schedule, whose), (archived, "acme"), (4711, "acme"), (4711, None)):
        with pytest.raises(UnknownSchedule) as refused:
            scene.run_now(asked, "r1", tenant=tenant)
        assert refused.value.schedule_id == asked
    assert scene.occurrences() == []


def lose(scene: ConversationScene, schedule: int) -> None:
    """Ask for a run whose caller dies before it begins, and lose the message that the next scan sends for it."""

    def lost(_: int) -> Any:
        raise ConnectionError

    for _ in range(2):
        with pytest.raises(ConnectionError):
            occurrences.run_schedule(scene.app.store, schedule, request_id="r1", by="op", converse=lost)
    scene.tick()
    scene.start()


def test_a_manual_run_whose_message_was_lost_is_sent_soon_again(scene: ConversationScene) -> None:
    """R8.6, R8.8: within a minute, whether or not its caller asks again; never twice."""
    schedule = scene.schedule(rule=_DAILY)
    lose(scene, schedule)
    scene.forward(30)
    scene.tick()
    assert scene.execute() == [], "its message may still be on its way"
    scene.forward(30)
    scene.tick()
    assert len(scene.execute()) == 1
    assert scene.occurrences() == [["running", None]]
    assert scene.run_now(schedule, "r1").is_new is False
    assert scene.starts() == [1]


def test_a_manual_run_that_was_never_begun_waits_for_its_callers_retry(scene: ConversationScene) -> None:
    """R8.6, R8.8: its messages are lost, but no scan closes it for ten minutes, and the same request begins it."""
    schedule = scene.schedule(rule=_DAILY)
    lose(scene, schedule)
    scene.forward(590)
    scene.tick()
    scene.start()
    assert scene.occurrences() == [["recorded", None]]
    assert scene.run_now(schedule, "r1").is_new is False
    assert scene.occurrences() == [["running", None]]


def test_a_manual_run_that_nobody_began_ends_on_the_record(scene: ConversationScene) -> None:
    """R8.6: nothing begins long after it was asked for; the same request gives its end, and people are told."""
    schedule = scene.schedule(rule=_DAILY)
    lose(scene, schedule)
    scene.forward(1200)
    assert [*scene.findings()] == ["unbegun_occurrences"], "who looks sees what waits"
    scene.tick()
    assert scene.execute() == []
    assert scene.occurrences() == [["skipped", "execution_not_started"]]
    told = "select params ->> 'reason' from smart_schedule_log_events where code = 'run_skipped'"
    assert scene.rows(told) == [["execution_not_started"]]
    assert scene.run_now(schedule, "r1").state == "skipped"
    assert scene.starts() == []


@pytest.mark.parametrize("request_id", ["", "x" * 201, "nul\0", "half \ud800"])
def test_a_request_id_that_cannot_be_kept_is_refused(scene: ConversationScene, request_id: str) -> None:
    """R8.8: named as `requestId`, before anything is recorded."""
    schedule = scene.schedule()
    with pytest.raises(InvalidExecutionRequest) as refused:
        scene.run_now(schedule, request_id)
    assert refused.value.field == "requestId"
    assert scene.occurrences() == []


def test_a_policys_tick_is_not_run_or_changed_as_a_conversation(scene: ConversationScene) -> None:
    """R8.1: its schedule belongs to its policy; the refusal says what to use, and nothing is changed."""
    (tick,) = scene.rows("select id, version from smart_schedule_schedules where kind = 'policy_tick'")
    with pytest.raises(TickOfPolicy, match="run or archive the policy"):
        scene.run_now(tick[0], "r1")
    with pytest.raises(TickOfPolicy, match="change, pause"):
        scene.change(tick[0], prompt="p", version=tick[1])
    assert scene.rows("select id, version from smart_schedule_schedules where kind = 'policy_tick'") == [tick]


@pytest.mark.parametrize(
    ("work", "field"),
    [
        ({"target": "", "conversation_id": "c", "prompt": "p"}, "work.target"),
        ({"target": "t", "conversation_id": None, "prompt": "p"}, "work.conversation_id"),
        ({"target": "t", "conversation_id": "c"}, "work.prompt"),
        ({"target": "t", "conversation_id": "c", "prompt": " \n"}, "work.prompt"),
        ({"target": "t", "conversation_id": "c", "prompt": "x" * 100_001}, "work.prompt"),
        ({"target": "t", "conversation_id": "c", "prompt": "a\0b"}, "work.prompt"),
        ({"target": "t", "conversation_id": "c", "prompt": "\udfff"}, "work.prompt"),
        ({"target": "t", "conversation_id": "c", "prompt": "p", "model": "m"}, "work.model"),
    ],
)
def test_work_that_cannot_be_meant_is_refused_by_its_field(
    scene: ConversationScene, work: dict[str, object], field: str
) -> None:
    """R8.2: when it is saved, not when it is due; nothing is recorded."""
    with pytest.raises(InvalidExecutionRequest) as refused:
        schedules.create_schedule(
            scene.app.store,
            tenant_id="acme",
            created_by="ana",
            name="n",
            work=work,
            rule=EVERY_MINUTE,
            by="test",
        )
    assert refused.value.field == field
    assert scene.value("select count(*) from smart_schedule_schedules where kind = 'conversation'") == 0


@pytest.mark.parametrize(
    ("rule", "field"),
    [
        ({"kind": "interval", "every_sec": 0, "time_zone": "UTC"}, "every_sec"),
        ({"kind": "interval", "every_sec": "5", "time_zone": "UTC"}, "every_sec"),
        ({"kind": "daily", "time_of_day": "08:00", "time_zone": "UTC+3"}, "time_zone"),
        ({"kind": "daily", "time_of_day": "08:00", "time_zone": "America/New_Yrok"}, "time_zone"),
        ({"kind": "cron", "expression": "0 0 31 2 *", "time_zone": "UTC"}, "expression"),
    ],
)
def test_a_rule_that_cannot_be_meant_is_refused_by_its_field(
    scene: ConversationScene, rule: dict[str, object], field: str
) -> None:
    """R8.2 (K11, K14, K15): neither a new schedule nor a change of one is recorded with it."""
    with pytest.raises(InvalidExecutionRequest) as refused:
        scene.schedule(rule=rule)
    assert refused.value.field == field
    schedule = scene.schedule()
    work = {"target": TARGET, "conversation_id": "c1", "prompt": "p"}
    with pytest.raises(InvalidExecutionRequest):
        schedules.change_schedule(
            scene.app.store, schedule, version=1, name="", work=work, rule=rule, by="test", runs_as="test"
        )
    assert scene.rows("select version from smart_schedule_schedules where kind = 'conversation'") == [[1]]
