"""Operators' batch commands on real PostgreSQL, with simulated machines, from the request to the confirmed end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from blsflow.domain.commands import PassedOver
from blsflow.domain.gates import Withheld
from blsflow.flow import commands
from blsflow.flow.commands import CommandWithheld, UnknownCommand, UnknownProject
from blsflow.flow.requests import KeyConflict
from tests.integration.commanding import FOREIGN, CommandScene
from tests.integration.counting import counting_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from blsflow.adapters.postgres.address import DatabaseAddress


@pytest.fixture
def scene(database: DatabaseAddress) -> Iterator[CommandScene]:
    """Six machines on coin A, which no policy moves unless a test has it tick."""
    with CommandScene(database) as made:
        yield made


def test_a_command_is_carried_out_to_its_confirmed_end(scene: CommandScene) -> None:
    """R5.8: machines are switched in one batch, sent once, confirmed by what they do, and freed; others are left alone."""
    sent = scene.command("switch", [3, 1, 2, 1])
    assert (sent.is_new, sent.taken, sent.passed_over) == (True, 3, {})
    assert scene.live_locks() == [1, 2, 3]
    scene.carry_out()
    assert scene.attempts() == [["switch", "succeeded", None]]
    assert scene.outcomes(sent.command_id) == dict.fromkeys([1, 2, 3], ("succeeded", None))
    assert scene.projects() == {1: 2, 2: 2, 3: 2, 4: 1, 5: 1, 6: 1}
    assert (scene.posts(), scene.live_locks(), scene.findings()) == ([1], [], {})
    assert (
        scene.rows("select expected, expected_project, stopped_by from smart_schedule_machine_states")
        == [["mining", 2, None]] * 3
    )


def test_what_an_operator_brought_about_is_no_foreign_change(scene: CommandScene) -> None:
    """R5.6, R5.8: automation finds the machine where the operator put it, and decides on it by its own rules again."""
    scene.command("switch", [1, 2])
    scene.carry_out()
    scene.prices(a=200, b=50)
    scene.due()
    scene.tick()
    scene.decide()
    assert scene.value("select count(*) from smart_schedule_log_events where code = 'foreign_change'") == 0
    assert scene.decisions() == {"switch/better_net": 2, "keep/already_best": 4}


@pytest.mark.parametrize(("action", "state"), [("stop", "stopped"), ("power_off", "off")])
def test_what_an_operator_stopped_stays_stopped(scene: CommandScene, action: str, state: str) -> None:
    """R3.5, R5.8: it is at rest by a human's word, so that no tick starts it, whatever its firmware calls that."""
    sent = scene.command(action, [1, 2])
    scene.carry_out()
    assert set(scene.outcomes(sent.command_id).values()) == {("succeeded", None)}
    assert (
        scene.rows("select expected, stopped_by from smart_schedule_machine_states order by 1")
        == [[state, "human"]] * 2
    )
    scene.rows(
        "update machine_mining_runtime set status = 'mining', hashrate_hs = 0, reported_at = now() where machine_id = 1"
    )
    scene.prices()
    scene.due()
    scene.tick()
    scene.decide()
    assert scene.decisions() == {"keep/stopped_by_human": 2, "switch/better_net": 4}


def test_stopping_what_the_scheduler_stopped_makes_it_the_operators(scene: CommandScene) -> None:
    """R3.5, R5.8: nothing is sent to a machine at rest, but from then on it rests by an operator's word."""
    scene.due_round(a=20, b=20)
    assert (
        scene.value("select count(*) from smart_schedule_machine_states where stopped_by = 'scheduler'") == 6
    )
    sent = scene.command("stop", [1, 2])
    assert (sent.taken, set(sent.passed_over.values())) == (0, {PassedOver.ALREADY_SO})
    by = "select stopped_by, count(*) from smart_schedule_machine_states group by 1 order by 1"
    assert scene.rows(by) == [["human", 2], ["scheduler", 4]]
    scene.due_round(a=50, b=50)
    assert [machine for machine, project in scene.projects().items() if project is not None] == [3, 4, 5, 6]


def test_a_started_machine_is_expected_to_mine(scene: CommandScene) -> None:
    """R5.8: an operator starts what an operator stopped, on the project that was named."""
    scene.command("stop", [1])
    scene.carry_out()
    sent = scene.command("start", [1])
    assert sent.taken == 1
    scene.carry_out()
    assert scene.outcomes(sent.command_id) == {1: ("succeeded", None)}
    assert scene.rows("select expected, expected_project, stopped_by from smart_schedule_machine_states") == [
        ["mining", 2, None]
    ]


def test_each_machine_that_is_not_moved_says_why(scene: CommandScene) -> None:
    """R5.8: unknown, someone else's, measured, locked, not eligible, without configuration, as asked already, at rest."""
    scene.command("stop", [2])
    scene.carry_out()
    scene.rows(
        """
        insert into machine_models values ('M50', 'SHA-256', 1e14, 3000), ('L9', 'Scrypt', 1e10, 3000);
        update machines set model = 'M50' where id = 3;
        update machines set model = 'L9' where id = 4;
        insert into project_run_configurations values (14, 2, 'L9', true);
        insert into smart_schedule_resource_eligibilities values ('acme', 2, 'machine', '5', false);
        insert into smart_schedule_machine_locks
            (machine_id, tenant_id, owner_kind, owner_id, fencing_token, taken_at, expires_at)
            values (6, 'acme', 'benchmark', gen_random_uuid(), 1, now(), 'infinity');
        """
    )
    sent = scene.command("switch", [1, 2, 3, 4, 5, 6, 77, FOREIGN])
    assert sent.passed_over == {
        2: PassedOver.NOT_RUNNING,
        3: PassedOver.NO_RUN_CONFIGURATION,
        4: PassedOver.NO_RUN_CONFIGURATION,
        5: PassedOver.NOT_ELIGIBLE,
        6: PassedOver.UNDER_BENCHMARK,
        77: PassedOver.UNKNOWN_MACHINE,
        FOREIGN: PassedOver.UNKNOWN_MACHINE,
    }
    assert scene.command("stop", [1]).passed_over == {1: PassedOver.LOCKED}
    assert scene.command("start", [3], 1).passed_over == {3: PassedOver.NO_RUN_CONFIGURATION}
    assert scene.command("start", [5], 1).passed_over == {5: PassedOver.ALREADY_SO}
    scene.rows("delete from smart_schedule_resource_eligibilities where resource_type = 'machine'")
    assert scene.command("start", [5], 2).passed_over == {5: PassedOver.ALREADY_RUNNING}
    assert scene.command("switch", [5], 1).passed_over == {5: PassedOver.ALREADY_SO}


def test_a_machine_of_which_nobody_knows_what_it_does_is_commanded(scene: CommandScene) -> None:
    """R5.8: an old report, or one that the meter belies, makes nothing "already so": the machine's end will tell."""
    scene.forward(3_600)
    assert scene.command("stop", [1]).taken == 1
    scene.rows(
        "update machine_mining_runtime set status = 'stopped', hashrate_hs = 0, reported_at = now() where machine_id = 2;"
        "insert into metric_powers values (2, now(), 3000)"
    )
    assert scene.command("stop", [2]).taken == 1


def test_an_operators_hold_does_not_stop_an_operator(scene: CommandScene) -> None:
    """R3.7, R5.8: a hold keeps automation's hands off a machine, also between preparing and sending a command."""
    scene.rows("update machines set operator_hold = true where id in (1, 2)")
    sent = scene.command("switch", [1, 2])
    scene.carry_out()
    assert scene.outcomes(sent.command_id) == {1: ("succeeded", None), 2: ("succeeded", None)}


def test_a_frozen_policy_and_its_mode_bind_automation_only(scene: CommandScene) -> None:
    """R6.2, R5.8: an operator moves machines of a frozen, disabled policy in shadow; the policy stays as it is."""
    scene.rows(
        "update smart_schedule_policy_groups set enabled = false, execution_mode = 'shadow';"
        "insert into smart_schedule_freezes (policy_id, tenant_id, cause, frozen_at, frozen_by)"
        " values (1, 'acme', 'manual', now(), 'op')"
    )
    scene.command("switch", [1])
    scene.carry_out()
    assert scene.projects()[1] == 2
    assert scene.value("select count(*) from smart_schedule_freezes where lifted_at is null") == 1


def test_batches_keep_to_their_size_and_run_configuration(scene: CommandScene) -> None:
    """R5.2, R5.8: machines are grouped by run configuration, at most a batch's size each, under keys of their own."""
    scene.rows(
        """
        insert into machine_models values ('M50', 'SHA-256', 1e14, 3000);
        update machines set model = 'M50' where id in (5, 6);
        insert into project_run_configurations values (13, 2, 'M50', true);
        """
    )
    scene.start(None, BLSFLOW_SCHEDULER_BATCH_SIZE="3")
    sent = scene.command("switch", range(1, 7))
    counts = scene.rows(
        "select a.run_config_id, count(*) from smart_schedule_attempts a"
        " join smart_schedule_attempt_machines m on m.attempt_id = a.id group by a.id, 1 order by 1, 2"
    )
    assert counts == [[12, 1], [12, 3], [13, 2]]
    assert scene.value("select count(distinct idempotency_key) from smart_schedule_attempts") == 3
    scene.carry_out()
    assert sent.taken == 6
    assert scene.posts() == [1, 1, 1]


def test_failed_machines_back_off_and_count_for_no_policy(scene: CommandScene) -> None:
    """R5.7, R5.8: what an operator's command could not bring about is tried no sooner by automation, and freezes nothing."""
    scene.device_control.faults.profile = scene.device_control.faults.profile.__class__(failure_rate=1.0)
    sent = scene.command("switch", [1, 2, 3])
    scene.carry_out()
    assert {state for state, _ in scene.outcomes(sent.command_id).values()} == {"failed"}
    assert (
        scene.rows(
            "select failures, retry_at > now() - interval '1 minute' from smart_schedule_machine_states"
        )
        == [[1, True]] * 3
    )
    assert scene.value("select count(*) from smart_schedule_freezes") == 0
    assert scene.command("stop", [1]).taken == 1


# ------------------------------------------------------------ gates


@pytest.mark.parametrize(
    ("change", "gate"),
    [
        ({"BLSFLOW_SCHEDULER_EXECUTE_ENABLED": "false"}, Withheld.EXECUTE_DISABLED),
        ({"BLSFLOW_SCHEDULER_SWITCH_API_BASE_URL": ""}, Withheld.EXECUTOR_UNCONFIGURED),
        ({}, Withheld.LEASE_NOT_HELD),
    ],
)
def test_a_closed_gate_refuses_a_command_as_a_whole(
    scene: CommandScene, change: dict[str, str], gate: Withheld
) -> None:
    """R4.2, R4.3, R5.8: the error names the gate; nothing is recorded or locked, and the request id is free again."""
    holder = "legacy" if gate is Withheld.LEASE_NOT_HELD else "blsflow"
    scene.rows(f"update smart_schedule_executor_leases set holder = '{holder}'")
    scene.start(None, **change)
    with pytest.raises(CommandWithheld) as refused:
        scene.command(request_id="r1")
    assert refused.value.gate is gate
    tables = ("commands", "attempts", "machine_locks", "requests")
    assert [scene.value(f"select count(*) from smart_schedule_{name}") for name in tables] == [0] * 4
    scene.rows("update smart_schedule_executor_leases set holder = 'blsflow'")
    scene.start()
    assert scene.command(request_id="r1").is_new


def test_a_gate_that_closes_before_sending_ends_the_batch_unsent(scene: CommandScene) -> None:
    """R4.4, R5.8: switch, lease and expiry are asked again right before the call; what was not sent frees its machines."""
    scene.command("switch", [1])
    scene.rows("update smart_schedule_executor_leases set holder = 'legacy'")
    scene.execute()
    scene.rows("update smart_schedule_executor_leases set holder = 'blsflow'")
    scene.command("switch", [2])
    scene.forward(301)
    scene.execute()
    assert scene.attempts() == [
        ["switch", "skipped", "lease_not_held"],
        ["switch", "skipped", "decision_expired"],
    ]
    assert (scene.posts(), scene.live_locks(), scene.findings()) == ([], [], {})


def test_a_project_that_is_not_the_tenants_is_unknown(scene: CommandScene) -> None:
    """R5.8: neither another tenant's project nor none at all can be named; nothing is recorded."""
    for project_id in (9, 77):
        with pytest.raises(UnknownProject):
            scene.command("switch", [1], project_id)
    assert scene.value("select count(*) from smart_schedule_commands") == 0


# ------------------------------------------------------------ requests and tenants


def test_the_same_request_is_the_same_command(scene: CommandScene) -> None:
    """R8.8, R5.8: asked again, before and after its end, nothing is sent twice; another body is refused."""
    first = scene.command("switch", [1, 2, 77], request_id="r1")
    again = scene.command("switch", [77, 2, 1], request_id="r1")
    assert (again.command_id, again.is_new) == (first.command_id, False)
    assert (again.taken, again.passed_over) == (2, {77: PassedOver.UNKNOWN_MACHINE})
    scene.carry_out()
    assert scene.command("switch", [1, 2, 77], request_id="r1").command_id == first.command_id
    with pytest.raises(KeyConflict):
        scene.command("switch", [1, 2], request_id="r1")
    scene.carry_out()
    assert scene.posts() == [1]


def test_a_tenants_store_commands_its_own_machines_only(scene: CommandScene) -> None:
    """R5.8: under row-level security a command does all that it does, and reaches no machine of others."""
    app = scene.process()
    app.__dict__["store"] = app.store.of_tenant("acme")
    app.own_execute_queue = scene.app.execute_queue
    sent = scene.command("switch", [1, 2, FOREIGN], app=app)
    assert sent.passed_over == {FOREIGN: PassedOver.UNKNOWN_MACHINE}
    assert scene.command("stop", [3], app=app).taken == 1
    scene.carry_out()
    assert scene.command("stop", [3], app=app).passed_over == {3: PassedOver.ALREADY_SO}
    theirs = scene.app.store.of_tenant("other")
    with pytest.raises(UnknownCommand):
        commands.command_with_machines(theirs, sent.command_id, tenant_id=None)
    with pytest.raises(UnknownCommand):
        commands.command_with_machines(scene.app.store, sent.command_id, tenant_id="other")
    assert commands.commands(theirs, tenant_id=None).rows == []


def test_a_machine_that_changed_hands_is_its_new_owners_to_command(scene: CommandScene) -> None:
    """R5.8: the freed lock and the state that its old owner left behind are in nobody's way."""
    scene.command("switch", [1, 2])
    scene.carry_out()
    scene.command("stop", [2])
    scene.carry_out()
    scene.rows("update machines set tenant_id = 'other', cluster_id = 9 where id in (1, 2)")
    app = scene.process()
    app.__dict__["store"] = app.store.of_tenant("other")
    app.own_execute_queue = scene.app.execute_queue
    sent = scene.command("stop", [1, 2], tenant_id="other", app=app)
    assert (sent.taken, sent.passed_over) == (1, {2: PassedOver.ALREADY_SO})
    scene.carry_out()
    assert scene.outcomes(sent.command_id)[1] == ("succeeded", None)


def test_pages_of_commands_and_their_machines_lose_and_repeat_nothing(scene: CommandScene) -> None:
    """R8.12, R5.8: newest commands first, machines by id, each once, while commands are added between the pages."""
    ids = [scene.command("stop", [machine, 77]).command_id for machine in (1, 2, 3)]
    page = commands.commands(scene.app.store, tenant_id="acme", limit=2)
    assert [row["id"] for row in page.rows] == [ids[2], ids[1]]
    scene.command("stop", [4])
    rest = commands.commands(scene.app.store, tenant_id="acme", limit=2, cursor=page.cursor)
    assert ([row["id"] for row in rest.rows], rest.cursor) == ([ids[0]], None)
    row, first = commands.command_with_machines(scene.app.store, ids[0], tenant_id="acme", limit=1)
    assert (row["taken"], row["machines"], row["open"], row["why"]) == (1, 2, True, "a test")
    assert [(each["machine_id"], each["state"]) for each in first.rows] == [(1, "pending")]
    _, last = commands.command_with_machines(
        scene.app.store, ids[0], tenant_id="acme", limit=1, cursor=first.cursor
    )
    assert [(each["machine_id"], each["state"], each["reason"]) for each in last.rows] == [
        (77, "skipped", "unknown_machine")
    ]
    scene.carry_out()
    row, _ = commands.command_with_machines(scene.app.store, ids[0], tenant_id="acme")
    assert not row["open"]


def test_round_trips_do_not_depend_on_how_many_machines_are_named(scene: CommandScene) -> None:
    """R5.8: a command of one machine and one of ten thousand ids take the same statements."""
    counts = []
    for machine_ids in ([1], range(2, 10_002)):
        app = scene.process()
        app.__dict__["store"], exchanges = counting_store(scene.address)
        scene.command("switch", machine_ids, app=app)
        counts.append(exchanges)
        app.store.close()
    assert counts[0] == counts[1]


def test_old_commands_go_after_their_batches(scene: CommandScene) -> None:
    """R11.1: a command past retention is dropped with its machines once its batches are."""
    scene.command("switch", [1, 77])
    scene.carry_out()
    scene.forward(91 * 86_400)
    for _ in range(3):
        scene.reconcile()
    tables = ("commands", "command_machines", "attempts", "requests")
    assert [scene.value(f"select count(*) from smart_schedule_{name}") for name in tables] == [0] * 4
