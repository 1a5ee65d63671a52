"""The main job on real PostgreSQL: one round after another, from a due policy to confirmed machines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.integration.scene import COIN_B, Scene

if TYPE_CHECKING:
    from collections.abc import Iterator

    from blsflow.adapters.postgres.address import DatabaseAddress


@pytest.fixture
def scene(database: DatabaseAddress) -> Iterator[Scene]:
    """Six machines on coin A, with coin B earning more."""
    with Scene(database) as made:
        yield made


def test_a_round_switches_confirms_and_frees(scene: Scene) -> None:
    """R5.2, R5.4, R5.6: decided, sent as one batch, confirmed by what the machines do, and only then freed."""
    scene.tick()
    scene.decide()
    assert scene.decisions() == {"switch/better_net": 6}
    assert scene.value("select count(*) from smart_schedule_machine_locks where freed_at is null") == 6
    scene.execute()
    assert scene.value("select count(distinct job_id) from smart_schedule_machine_decisions") == 1
    assert scene.value("select count(*) from smart_schedule_machine_decisions where job_id is null") == 0
    scene.reconcile()
    assert scene.value("select count(*) from smart_schedule_machine_locks where freed_at is null") == 6
    scene.forward(20)
    scene.report()
    scene.reconcile()
    assert scene.rows("select state, reason from smart_schedule_attempts") == [["succeeded", None]]
    assert scene.value("select count(*) from smart_schedule_machine_locks where freed_at is null") == 0
    assert scene.rows("select distinct expected, expected_project from smart_schedule_machine_states") == [
        ["mining", COIN_B]
    ]
    assert scene.posts() == [1]
    assert scene.findings() == {}


def test_the_next_round_finds_nothing_to_do(scene: Scene) -> None:
    """R3.3, R1.2: machines that run the best project are kept there."""
    scene.round()
    scene.due()
    scene.round()
    assert scene.decisions() == {"keep/already_best": 6}
    assert scene.value("select state from smart_schedule_occurrences order by id desc limit 1") == "succeeded"


def test_a_decision_is_reproducible_from_its_record(scene: Scene) -> None:
    """R3.2, R3.10: what a tick stored gives the same verdicts again, figure by figure."""
    from blsflow.domain import stored_inputs  # noqa: PLC0415
    from blsflow.domain.decide import Rules  # noqa: PLC0415
    from blsflow.domain.record import unpack  # noqa: PLC0415

    scene.session.run("update machines set operator_hold = true where id = 3")
    scene.session.run("delete from smart_schedule_machine_project_benchmarks where machine_id = 4")
    scene.tick()
    scene.decide()
    policy, market = stored_inputs.load(scene.value("select inputs from smart_schedule_ticks"))
    rules = Rules(policy, market)
    stored = scene.rows(
        "select d.figures || coalesce(v.entries, ''), proposed, to_project, current_net_cny_per_day, best_net_cny_per_day"
        " from smart_schedule_machine_decisions d"
        " left join smart_schedule_benchmark_versions v on v.id = d.benchmarks_version order by d.machine_id"
    )
    assert len(stored) == 6
    for figures, proposed, to_project, current, best in stored:
        machine, end = unpack(figures)
        verdict = rules.decide(machine)
        assert end == len(figures)
        assert (verdict.action, verdict.to_project, verdict.current_net, verdict.best_net) == (
            proposed,
            to_project,
            current,
            best,
        )


@pytest.mark.parametrize(
    ("change", "setting", "reason"),
    [
        ("", {"BLSFLOW_SCHEDULER_EXECUTE_ENABLED": "false"}, "execute_disabled"),
        ("", {"BLSFLOW_SCHEDULER_SWITCH_API_BASE_URL": ""}, "executor_unconfigured"),
        ("update smart_schedule_executor_leases set holder = 'legacy'", {}, "lease_not_held"),
        ("update smart_schedule_executor_leases set expires_at = now()", {}, "lease_not_held"),
        ("delete from smart_schedule_executor_leases", {}, "lease_not_held"),
    ],
)
def test_without_all_three_permissions_nothing_is_locked_or_sent(
    scene: Scene, change: str, setting: dict[str, str], reason: str
) -> None:
    """R4.2, R4.3: the switch, the lease and a device-control address are all needed; else moves are skipped."""
    if change:
        scene.session.run(change)
    scene.start(None, **setting)
    scene.round()
    assert scene.decisions() == {f"skip/{reason}": 6}
    assert scene.value("select count(*) from smart_schedule_machine_locks") == 0
    assert scene.value("select count(*) from smart_schedule_attempts") == 0
    assert scene.posts() == []


@pytest.mark.parametrize("withdrawn", ["lease", "switch", "policy mode", "policy disabled", "frozen"])
def test_a_permission_withdrawn_before_sending_stops_the_batch(scene: Scene, withdrawn: str) -> None:
    """R4.2, R6.2: what was decided while it was allowed is not sent once it is not; its locks are freed unsent."""
    scene.tick()
    scene.decide()
    changes = {
        "lease": "update smart_schedule_executor_leases set holder = 'legacy'",
        "policy mode": "update smart_schedule_policy_groups set execution_mode = 'shadow'",
        "policy disabled": "update smart_schedule_policy_groups set enabled = false",
        "frozen": "insert into smart_schedule_freezes (policy_id, tenant_id, cause, frozen_at, frozen_by)"
        " values (1, 'acme', 'manual', now(), 'op')",
    }
    if withdrawn == "switch":
        queue = scene.app.own_execute_queue
        scene.start(BLSFLOW_SCHEDULER_EXECUTE_ENABLED="false").own_execute_queue = queue
    else:
        scene.session.run(changes[withdrawn])
    scene.execute()
    assert scene.posts() == []
    assert scene.value("select state from smart_schedule_attempts") == "skipped"
    assert scene.value("select count(*) from smart_schedule_machine_locks where freed_at is null") == 0
    assert scene.value("select state from smart_schedule_occurrences") == "succeeded"


def test_shadow_stores_what_it_would_do_and_does_nothing(scene: Scene) -> None:
    """R4.1: shadow keeps tick, decisions and log, takes no lock and sends nothing."""
    scene.session.run("update smart_schedule_policy_groups set execution_mode = 'shadow'")
    scene.round()
    assert scene.decisions() == {"switch/better_net": 6}
    assert scene.value("select count(*) from smart_schedule_machine_locks") == 0
    assert scene.posts() == []
    assert scene.value("select count(*) from smart_schedule_log_events where code = 'tick_decided'") == 1


def test_dry_run_stores_no_tick(scene: Scene) -> None:
    """R4.1: a dry run computes, counts, and stores neither tick nor decisions."""
    scene.session.run("update smart_schedule_policy_groups set execution_mode = 'dry_run'")
    scene.round()
    assert scene.value("select count(*) from smart_schedule_ticks") == 0
    assert scene.value("select count(*) from smart_schedule_machine_decisions") == 0
    assert (
        scene.value("select detail -> 'counts' ->> 'switch/better_net' from smart_schedule_occurrences")
        == "6"
    )


def test_a_decision_that_grew_old_is_made_again(scene: Scene) -> None:
    """R3.8: not sent after its validity; the next tick decides on the figures of its own time."""
    scene.tick()
    scene.decide()
    scene.forward(121)
    scene.execute()
    assert scene.posts() == []
    assert scene.value("select reason from smart_schedule_attempts") == "decision_expired"
    assert (
        scene.value("select distinct action || '/' || reason from smart_schedule_machine_decisions")
        == "skip/decision_expired"
    )
    scene.report()
    scene.prices(a=50, b=20)
    scene.round()
    assert scene.decisions() == {"keep/already_best": 6}


def test_every_machine_in_scope_has_exactly_one_decision(scene: Scene) -> None:
    """R3.2: also one that never reported, has no benchmark, an unknown status, or nulls wherever nulls can be."""
    scene.session.run("delete from machine_mining_runtime where machine_id = 1")
    scene.session.run("update machine_mining_runtime set status = 'rebooting' where machine_id = 2")
    scene.session.run(
        "update machine_mining_runtime set hashrate_hs = null, project_id = null, project_since = null where machine_id = 3"
    )
    scene.session.run("delete from metric_powers where machine_id = 4")
    scene.session.run("delete from smart_schedule_machine_project_benchmarks where machine_id in (4, 5)")
    scene.session.run(
        "update smart_schedule_machine_project_benchmarks set hashrate_hs = null, power_w = 'NaN' where machine_id = 6"
    )
    scene.tick()
    scene.decide()
    decided = scene.rows("select machine_id, action, reason from smart_schedule_machine_decisions order by 1")
    assert [row[0] for row in decided] == [1, 2, 3, 4, 5, 6]
    assert not [row for row in decided if row[1] in {"switch", "start", "stop", "power_off"}]
