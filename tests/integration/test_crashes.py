"""Kills, duplicates and races: what is left behind is picked up, and nothing is sent twice."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from local.simulators.device_control import DeviceFaults
from tests.integration.scene import CrashPlan, Killed, Scene

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from blsflow.adapters.postgres.address import DatabaseAddress

_FEW = 3


@pytest.fixture
def scene(database: DatabaseAddress) -> Iterator[Scene]:
    """Three machines on coin A, with coin B earning more."""
    with Scene(database, machines=_FEW) as made:
        yield made


def _recover(scene: Scene) -> None:
    """A new process and the time it takes: expired decisions, lost senders, the next ticks."""
    scene.start()
    for _ in range(4):
        scene.forward(150)
        scene.report()
        scene.prices()
        scene.round()


def _assert_sound(scene: Scene) -> None:
    assert scene.findings() == {}
    assert all(posts == 1 for posts in scene.posts())
    assert (
        scene.value(
            "select count(*) from (select tick_id, machine_id from smart_schedule_machine_decisions"
            " group by 1, 2 having count(*) > 1) twice"
        )
        == 0
    )
    assert scene.value("select count(*) from smart_schedule_machine_locks where freed_at is null") == 0
    assert scene.value("select count(*) from smart_schedule_occurrences where ended_at is null") == 0
    assert scene.rows("select distinct project_id from machine_mining_runtime") == [[2]]


def _run_until_killed(scene: Scene, plan: CrashPlan) -> bool:
    scene.start(plan)
    try:
        scene.tick()
        scene.decide()
        scene.execute()
    except Killed:
        return True
    return False


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.timeout(600)
def test_a_kill_at_any_step_of_tick_decide_or_execute_leaves_nothing_behind(
    database: DatabaseAddress, *, after: bool
) -> None:
    """R5.3, R6.4, R8.3: killed before or after every round trip, send and outside call, then redelivered and ticked on.

    The machines end where the policy wants them, each key was posted once, no lock or occurrence is left, and there is
    one decision per machine and tick.
    """
    died_at: list[str | None] = []
    with Scene(database, machines=_FEW) as scene:
        step = 1
        while True:
            scene.session.run(
                "update machine_mining_runtime set project_id = 1; delete from smart_schedule_machine_states"
            )
            for machine_id in range(1, _FEW + 1):
                scene.world.command(machine_id, "switch", 1)
            scene.forward(30)
            scene.report()
            scene.prices()
            scene.due()
            plan = CrashPlan(step, after=after)
            if not _run_until_killed(scene, plan):
                break
            died_at.append(plan.died_at)
            _recover(scene)
            _assert_sound(scene)
            step += 1
    assert "submit" in died_at
    assert "commit" in died_at
    assert len(died_at) > 25


@pytest.mark.timeout(600)
def test_a_kill_at_any_step_of_reconcile_settles_each_machine_once(database: DatabaseAddress) -> None:
    """R5.4, R5.5: a follower killed anywhere leaves the attempt to the next one; every machine is settled exactly once."""
    with Scene(database, machines=_FEW) as scene:
        step = 1
        while True:
            for machine_id in range(1, _FEW + 1):
                scene.world.command(machine_id, "switch", 1)
            scene.session.run("delete from smart_schedule_machine_states")
            scene.forward(30)
            scene.report()
            scene.prices()
            scene.due()
            scene.start()
            scene.tick()
            scene.decide()
            scene.execute()
            scene.forward(20)
            scene.report()
            plan = CrashPlan(step, after=step % 2 == 0)
            scene.start(plan)
            try:
                scene.reconcile()
            except Killed:
                pass
            else:
                break
            _recover(scene)
            _assert_sound(scene)
            step += 1
        settled = (
            "select attempt_id, sum((params ->> 'succeeded')::int) from smart_schedule_log_events"
            " where code = 'machines_settled' group by 1"
        )
        assert {int(count) for _, count in scene.rows(settled)} == {_FEW}
        assert step > 5


def test_a_message_delivered_three_times_changes_nothing(scene: Scene) -> None:
    """R8.3, R5.3: deliveries of the same tick and the same attempt after the first one find it done."""
    scene.tick()
    occurrence = scene.value("select id from smart_schedule_occurrences")
    assert [scene.app.decide(occurrence).outcome for _ in range(3)] == [
        "decided",
        "already_begun",
        "already_begun",
    ]
    attempt = UUID(str(scene.value("select id from smart_schedule_attempts")))
    outcomes = [scene.app.execute(attempt).outcome for _ in range(3)]
    assert outcomes == ["accepted", "already_begun", "already_begun"]
    assert scene.posts() == [1]
    assert scene.value("select count(*) from smart_schedule_machine_decisions") == _FEW


def test_two_ticks_delivered_at_once_decide_once(scene: Scene) -> None:
    """R8.3, R8.4: two workers with the same occurrence, and two scans at once: one record, one decision, one command."""
    first, second = scene.process(), scene.process()
    _at_once(lambda: first.tick(budget_sec=5), lambda: second.tick(budget_sec=5))
    assert scene.value("select count(*) from smart_schedule_occurrences") == 1
    occurrence = scene.value("select id from smart_schedule_occurrences")
    outcomes: list[str] = []
    _at_once(
        lambda: outcomes.append(first.decide(occurrence).outcome),
        lambda: outcomes.append(second.decide(occurrence).outcome),
    )
    assert sorted(outcomes) == ["already_begun", "decided"]
    attempt = UUID(str(scene.value("select id from smart_schedule_attempts")))
    sent: list[str] = []
    _at_once(
        lambda: sent.append(first.execute(attempt).outcome),
        lambda: sent.append(second.execute(attempt).outcome),
    )
    assert sorted(sent) == ["accepted", "already_begun"]
    assert scene.posts() == [1]
    assert scene.value("select count(*) from smart_schedule_machine_decisions") == _FEW
    for app in (first, second):
        app.store.close()


def test_two_policies_racing_for_the_same_machines_lock_each_once(scene: Scene) -> None:
    """R5.1: two ticks decided at once for the same machines; the loser records skip/locked and sends nothing."""
    scene.session.run(
        """
        insert into smart_schedule_policy_groups
            (tenant_id, name, mode, execution_mode, enabled, created_by, min_dwell_sec, switch_cost_sec)
            values ('acme', 'same rank', 'profit_guard', 'execute', true, 'test', 0, 60);
        insert into smart_schedule_policy_candidates (policy_id, project_id, position) values (2, 1, 0), (2, 2, 1);
        insert into smart_schedule_policy_scopes values (2, 'cluster', '1');
        insert into smart_schedule_schedules (tenant_id, created_by, kind, policy_id, rule, next_run_at)
            values ('acme', 'test', 'policy_tick', 2, '{"kind": "interval", "every_sec": 60}', now());
        """
    )
    scene.tick()
    scene.session.run("update smart_schedule_policy_groups set enabled = false where id = 1")
    second_only = scene.value(
        "select o.id from smart_schedule_occurrences o join smart_schedule_schedules s on s.id = o.schedule_id"
        " where s.policy_id = 2"
    )
    assert scene.app.decide(second_only).attempts == 1
    scene.session.run("update smart_schedule_policy_groups set enabled = true where id = 1")
    scene.session.run("update smart_schedule_policy_groups set enabled = false where id = 2")
    scene.due()
    scene.session.run(
        "update smart_schedule_occurrences set state = 'recorded' where schedule_id = 1 and ended_at is null"
    )
    first_only = scene.value(
        "select id from smart_schedule_occurrences where schedule_id = 1 order by id desc limit 1"
    )
    assert scene.app.decide(first_only).counts == {"skip/locked": _FEW}
    owners = (
        "select count(*), count(distinct owner_id) from smart_schedule_machine_locks where freed_at is null"
    )
    assert scene.rows(owners) == [[_FEW, 1]]


def test_a_lock_lost_between_reading_and_taking_downgrades_the_decision(scene: Scene) -> None:
    """R5.1: a machine that somebody locks after it was read as free becomes skip/locked; the others go on."""
    scene.tick()
    session = scene.process()
    with session.store.transaction() as other:
        other._session.run(
            "insert into smart_schedule_machine_locks"
            " (machine_id, tenant_id, owner_kind, owner_id, fencing_token, taken_at, expires_at)"
            " values (2, 'acme', 'benchmark', gen_random_uuid(), 1, now(), 'infinity')"
        )
        done = threading.Event()

        def decide() -> None:
            scene.decide()
            done.set()

        worker = threading.Thread(target=decide)
        worker.start()
        assert not done.wait(0.7), "the decision waits for the row that somebody is writing"
    worker.join(20)
    assert scene.decisions() == {"switch/better_net": _FEW - 1, "skip/locked": 1}
    assert scene.value("select count(*) from smart_schedule_attempt_machines") == _FEW - 1
    session.store.close()


def test_an_expired_lock_of_a_dead_owner_is_taken_over(scene: Scene) -> None:
    """R5.1: a lock under which nothing was sent can be taken once it expired; its token is then refused (L01)."""
    scene.tick()
    scene.decide()
    first = scene.rows("select id from smart_schedule_attempts")[0][0]
    scene.forward(301)
    scene.report()
    scene.prices()
    scene.start()
    scene.due()
    scene.session.run("update smart_schedule_attempts set valid_until = now() + interval '1 hour'")
    scene.session.run("update smart_schedule_occurrences set state = 'succeeded', ended_at = now()")
    scene.tick()
    scene.decide()
    scene.execute()
    tokens = scene.rows("select count(distinct fencing_token), count(*) from smart_schedule_attempt_machines")
    assert tokens == [[2 * _FEW, 2 * _FEW]]
    assert scene.app.execute(UUID(str(first))).outcome in {"locks_lost", "already_begun"}
    assert scene.posts() == [1]


def test_a_lock_under_which_something_may_have_been_sent_is_never_taken_over(scene: Scene) -> None:
    """R5.4: however old, it is freed only by a confirmed end or an operator."""
    scene.tick()
    scene.decide()
    scene.device_control.faults.profile = _faults(timeout_after_effect_rate=1.0, hang_sec=1.5)
    scene.execute()
    scene.device_control.faults.profile = _faults(error_rate=1.0)
    scene.forward(100_000)
    scene.report()
    scene.prices()
    scene.due()
    scene.tick()
    scene.decide()
    assert scene.decisions() == {"skip/locked": _FEW}


def _faults(**changes: float) -> DeviceFaults:
    return DeviceFaults(**changes)


def _at_once(*works: Callable[[], object]) -> None:
    barrier = threading.Barrier(len(works))
    errors: list[BaseException] = []

    def run(work: Callable[[], object]) -> None:
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
