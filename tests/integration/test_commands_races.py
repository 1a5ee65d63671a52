"""Operators' commands against kills, lost races and each other: nothing is sent twice, and nothing is left behind."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from blsflow.domain.commands import PassedOver
from tests.integration.commanding import CommandScene
from tests.integration.racing import at_once
from tests.integration.scene import COIN_A, CrashPlan, Killed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from blsflow.adapters.postgres.address import DatabaseAddress
    from blsflow.flow.commands import SentCommand

_FEW = 3


@pytest.fixture
def scene(database: DatabaseAddress) -> Iterator[CommandScene]:
    """Six machines on coin A, which no policy moves unless a test has it tick."""
    with CommandScene(database) as made:
        yield made


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.timeout(600)
def test_a_kill_at_any_step_leaves_one_command_sent_once(database: DatabaseAddress, *, after: bool) -> None:
    """R5.8, R8.8: killed before or after every round trip, send and call, and asked for again under its id.

    What was committed is found by the scans, what was not is done anew; each batch is posted once, the machines end where
    they were told to, and no lock is left.
    """
    died_at: list[str | None] = []
    with CommandScene(database, machines=_FEW) as scene:
        scene.rows("update smart_schedule_policy_groups set enabled = false")
        step = 1
        while True:
            for machine_id in range(1, _FEW + 1):
                scene.world.command(machine_id, "switch", COIN_A)
            scene.forward(30)
            scene.report()
            plan = CrashPlan(step, after=after)
            scene.start(plan)
            try:
                scene.command(request_id=f"r{step}")
                scene.execute()
            except Killed:
                died_at.append(plan.died_at)
            scene.start()
            sent = scene.command(request_id=f"r{step}")
            for _ in range(3):
                scene.forward(50)
                scene.report()
                scene.tick()
                scene.execute()
                scene.reconcile()
            scene.forward(130)
            for _ in range(3):
                scene.forward(20)
                scene.report()
                scene.reconcile()
            assert {state for state, _ in scene.outcomes(sent.command_id).values()} <= {"succeeded", "failed"}
            assert scene.live_locks() == []
            assert scene.findings() == {}
            assert all(posts == 1 for posts in scene.posts())
            assert scene.value("select count(*) from smart_schedule_commands") == step
            if plan.died_at is None:
                break
            step += 1
        assert set(scene.outcomes(sent.command_id).values()) == {("succeeded", None)}
    assert "submit" in died_at
    assert "commit" in died_at
    assert "send" in died_at
    assert len(died_at) > 15


def test_two_operators_at_once_move_each_machine_once(scene: CommandScene) -> None:
    """R5.1, R5.8: of two commands for the same machines each machine is taken by one; the other says that it is locked."""
    processes = [scene.process() for _ in range(2)]
    sent: list[SentCommand] = []
    at_once(
        lambda: sent.append(scene.command("switch", range(1, 7), request_id="a", app=processes[0])),
        lambda: sent.append(scene.command("stop", range(6, 0, -1), request_id="b", app=processes[1])),
    )
    assert sum(each.taken for each in sent) == 6
    assert {why for each in sent for why in each.passed_over.values()} <= {PassedOver.LOCKED}
    assert scene.value("select count(*) from smart_schedule_attempt_machines") == 6
    assert scene.findings() == {}
    for process in processes:
        process.store.close()


def test_two_deliveries_of_one_request_at_once_are_one_command(scene: CommandScene) -> None:
    """R8.8, R5.8: whoever is second waits, and gets the command of the first."""
    processes = [scene.process() for _ in range(4)]
    sent: list[SentCommand] = []
    works = [lambda app=app: sent.append(scene.command(request_id="r1", app=app)) for app in processes]
    at_once(*works)
    assert len({each.command_id for each in sent}) == 1
    assert [each.taken for each in sent] == [3] * 4
    assert sum(each.is_new for each in sent) == 1
    assert scene.value("select count(*) from smart_schedule_attempts") == 1
    for process in processes:
        process.store.close()


def test_a_lock_lost_between_reading_and_taking_passes_the_machine_over(scene: CommandScene) -> None:
    """R5.1, R5.8: a machine that somebody locks after it was read as free is not commanded; the others go on."""
    other = scene.process()
    sent: list[SentCommand] = []
    with other.store.transaction() as tx:
        tx._session.run(
            "insert into smart_schedule_machine_locks"
            " (machine_id, tenant_id, owner_kind, owner_id, fencing_token, taken_at, expires_at)"
            " values (2, 'acme', 'benchmark', gen_random_uuid(), 1, now(), 'infinity')"
        )
        worker = threading.Thread(target=lambda: sent.append(scene.command("switch", [1, 2, 3])))
        worker.start()
        while not scene.value("select count(*) from pg_locks where not granted"):
            pass
    worker.join(20)
    assert (sent[0].taken, sent[0].passed_over) == (2, {2: PassedOver.LOCKED})
    assert scene.value("select sum(taken) from smart_schedule_commands") == 2
    assert scene.value("select count(*) from smart_schedule_attempt_machines") == 2
    other.store.close()


def test_a_command_that_wins_no_lock_is_recorded_without_a_batch(scene: CommandScene) -> None:
    """R5.1, R5.8: a batch all of whose machines were lost was never an attempt; the command says what became of it."""
    other = scene.process()
    sent: list[SentCommand] = []
    with other.store.transaction() as tx:
        tx._session.run(
            "insert into smart_schedule_machine_locks"
            " (machine_id, tenant_id, owner_kind, owner_id, fencing_token, taken_at, expires_at)"
            " values (2, 'acme', 'benchmark', gen_random_uuid(), 1, now(), 'infinity')"
        )
        worker = threading.Thread(target=lambda: sent.append(scene.command("switch", [2])))
        worker.start()
        while not scene.value("select count(*) from pg_locks where not granted"):
            pass
    worker.join(20)
    assert (sent[0].taken, sent[0].passed_over) == (0, {2: PassedOver.LOCKED})
    assert scene.attempts() == []
    other.store.close()


def test_a_tick_leaves_alone_what_an_operator_commands(scene: CommandScene) -> None:
    """R5.1, R5.8: while a command is under way, automation skips its machines as locked, and sends nothing to them."""
    scene.command("stop", [1, 2])
    scene.due()
    scene.tick()
    scene.decide()
    assert scene.decisions() == {"switch/better_net": 4, "skip/locked": 2}


def test_an_expired_lock_of_an_unsent_command_is_taken_over(scene: CommandScene) -> None:
    """R5.1, R5.8: a command that was never sent keeps nobody out once its locks have expired, and is not sent any more."""
    scene.command("switch", [1])
    scene.forward(301)
    scene.report()
    taken = scene.command("stop", [1])
    assert taken.taken == 1
    scene.carry_out()
    assert scene.attempts() == [["switch", "skipped", "decision_expired"], ["stop", "succeeded", None]]
    assert scene.findings() == {}


def test_a_lost_message_is_sent_again_by_the_scans(scene: CommandScene) -> None:
    """R8.3, R5.8: a command whose message is lost is found by its row, as a tick's batches are."""
    sent = scene.command("switch", [1])
    scene.rows("update smart_schedule_policy_groups set enabled = false")
    scene.start()
    scene.forward(50)
    scene.report()
    scene.tick()
    scene.carry_out()
    assert scene.outcomes(sent.command_id) == {1: ("succeeded", None)}
    assert scene.posts() == [1]


def test_an_unclear_command_is_read_back_and_never_sent_again(scene: CommandScene) -> None:
    """R5.3, R5.8: after a time-out the batch is only read back; the command ends as its machines do."""
    faults = scene.device_control.faults
    faults.profile = faults.profile.__class__(timeout_after_effect_rate=1.0, hang_sec=1.5)
    sent = scene.command("switch", [1, 2])
    scene.execute()
    assert scene.value("select state from smart_schedule_attempts") == "reconciling"
    faults.profile = faults.profile.__class__()
    scene.carry_out()
    assert scene.outcomes(sent.command_id) == {1: ("succeeded", None), 2: ("succeeded", None)}
    assert scene.posts() == [1]
