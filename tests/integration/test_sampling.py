"""Which benchmark runs begin, on real PostgreSQL: within caps, once, never where somebody else acts; sharing and drift."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from blsflow.domain.errors import InvalidDocument
from blsflow.ports.errors import InvariantBroken
from tests.integration.lab import QUICK, SECOND_POLICY, Lab
from tests.integration.scene import COIN_A

if TYPE_CHECKING:
    from collections.abc import Iterator

    from blsflow.adapters.postgres.address import DatabaseAddress

FREEZE = (
    "insert into smart_schedule_freezes (policy_id, tenant_id, cause, frozen_at, frozen_by)"
    " values (1, 'acme', 'manual', now(), 'test')"
)
OTHERS_LOCK = (
    "insert into smart_schedule_machine_locks"
    " (machine_id, tenant_id, owner_kind, owner_id, fencing_token, taken_at, expires_at)"
    " values (1, 'acme', 'attempt', gen_random_uuid(), 1, now(), now() + interval '1 hour')"
)


@pytest.fixture
def lab(database: DatabaseAddress) -> Iterator[Lab]:
    """A lab over twelve machines, none of them measured on coin B."""
    made = Lab(database, machines=12)
    made.scene.rows("delete from smart_schedule_machine_project_benchmarks where project_id = 2")
    yield made
    made.close()


def test_runs_begin_within_the_policys_caps(lab: Lab) -> None:
    """R7.4: no more than the count, no more than the share, and the next ones as those end."""
    lab.scene.rows(
        "update smart_schedule_policy_groups set max_benchmarks = 3, max_benchmark_share = 1,"
        " benchmark_share_after = 99"
    )
    lab.ask()
    assert lab.pass_().begun == 3
    assert lab.pass_().begun == 0
    lab.states.run_all()
    lab.scene.rows("update smart_schedule_policy_groups set max_benchmark_share = 0.2")
    lab.ask()
    assert lab.pass_().begun == 2
    assert lab.scene.findings() == {}


def test_no_caps_means_no_runs(lab: Lab) -> None:
    """R7.4: a policy that allows none has none."""
    lab.scene.rows("update smart_schedule_policy_groups set max_benchmarks = 0")
    lab.ask()
    assert lab.pass_().begun == 0


def test_the_most_valuable_begins_first(lab: Lab) -> None:
    """R3.9, R7.4: what a tick reckoned its result could win decides which of the pending ones begins."""
    lab.scene.rows("update smart_schedule_policy_groups set max_benchmarks = 1")
    lab.ask()
    values = lab.scene.rows("select distinct value_cny_per_day from smart_schedule_benchmark_runs")
    assert values == [[pytest.approx(80 - 50, rel=0.1)]]
    lab.scene.rows("update smart_schedule_benchmark_runs set value_cny_per_day = 99 where machine_id = 7")
    lab.scene.rows("update smart_schedule_benchmark_runs set value_cny_per_day = null where machine_id = 1")
    lab.pass_()
    assert lab.begun_machines() == [7]


def test_an_operators_run_comes_before_all_others(lab: Lab) -> None:
    """R7.4: asked for by hand, of a run that waits already; asked twice it is the same run."""
    lab.ask()
    with lab.scene.app.store.transaction() as tx:
        asked = tx.request_benchmark_by_hand(1, 9, 2, by="wei", tenant_id=None)
        again = tx.request_benchmark_by_hand(1, 9, 2, by="wei", tenant_id=None)
        assert tx.request_benchmark_by_hand(1, 99, 2, by="wei", tenant_id=None) is None
    assert asked == again
    lab.pass_()
    assert lab.begun_machines() == [9]


@pytest.mark.parametrize(
    "obstacle",
    [
        FREEZE,
        OTHERS_LOCK,
        "update machines set operator_hold = true",
        "update smart_schedule_policy_groups set enabled = false",
        "update smart_schedule_policy_groups set execution_mode = 'shadow'",
        "update smart_schedule_executor_leases set holder = 'legacy'",
        "delete from smart_schedule_executor_leases",
        "update project_run_configurations set runnable = false where project_id = 2",
        "update project_run_configurations set runnable = false where project_id = 1",
        "update smart_schedule_resource_eligibilities set allowed = false where project_id = 2",
        "delete from smart_schedule_resource_eligibilities",
        (
            "insert into smart_schedule_machine_states (machine_id, tenant_id, expected, changed_at, retry_at)"
            " values (1, 'acme', 'unset', now(), now() + interval '1 hour')"
        ),
    ],
)
def test_nothing_begins_where_it_may_not(lab: Lab, obstacle: str) -> None:
    """R7.4, R6.2, R4.2, R1.2, R3.7: frozen, locked, held, withheld, not eligible, or without a way there or back."""
    lab.ask()
    lab.scene.rows(
        "update smart_schedule_benchmark_runs set state = 'cancelled', ended_at = now() where machine_id <> 1"
    )
    lab.scene.rows(obstacle)
    assert lab.pass_().begun == 0
    assert lab.runs()[0][0] == "pending" or lab.runs()[-1][0] == "pending"


def owners(lab: Lab) -> list[list[Any]]:
    """The policies that open runs are with."""
    return lab.scene.rows(
        "select distinct policy_id from smart_schedule_benchmark_runs where ended_at is null order by 1"
    )


@pytest.mark.parametrize("priority", [9, -9])
def test_a_policy_in_shadow_takes_no_run_from_one_that_executes(lab: Lab, priority: int) -> None:
    """R7.4, R4.1: tried beside an executing policy, above or below it, a shadow leaves its runs alone and they begin."""
    lab.scene.rows(SECOND_POLICY.format(mode="shadow", priority=priority))
    lab.ask()
    lab.ask()
    assert owners(lab) == [[1]]
    assert lab.pass_().begun == 1


@pytest.mark.parametrize(
    "why",
    [
        FREEZE,
        "update smart_schedule_policy_groups set enabled = false where id = 1",
        "update smart_schedule_policy_groups set execution_mode = 'shadow' where id = 1",
        "update smart_schedule_policy_groups set max_benchmarks = 0 where id = 1",
    ],
)
def test_a_run_goes_over_from_a_policy_that_begins_none(lab: Lab, why: str) -> None:
    """R7.4: what waits with a policy that is disabled, in shadow or without sampling waits no longer; a freeze holds."""
    lab.ask()
    lab.scene.rows(SECOND_POLICY.format(mode="execute", priority=9))
    lab.scene.rows(why)
    lab.ask()
    assert owners(lab) == [[2]]
    assert lab.pass_().begun == (0 if why == FREEZE else 1)


def test_an_operators_wish_stays_with_the_policy_that_can_begin_it(lab: Lab) -> None:
    """R7.4: asked for under a shadow policy, a run that waits with an executing one stays there, first of all."""
    lab.ask()
    lab.scene.rows(SECOND_POLICY.format(mode="shadow", priority=9))
    asked = lab.ask_by_hand(2)
    assert (asked.policy_id, asked.waits_for) == (1, ())
    lab.pass_()
    assert lab.begun_machines() == [9]


OUT_OF_SCOPE = "update smart_schedule_policy_scopes set resource_type = 'machine', resource_id = '12' where policy_id = 1"
FREEZE_OF_SECOND = FREEZE.replace("values (1,", "values (2,")


def test_no_run_is_asked_for_under_a_policy_that_does_not_cover_the_machine(lab: Lab) -> None:
    """R7.4: what a policy does not cover it may not move, and a run that waits is not taken from its own policy."""
    lab.ask()
    lab.scene.rows(SECOND_POLICY.format(mode="execute", priority=9))
    lab.scene.rows(OUT_OF_SCOPE.replace("policy_id = 1", "policy_id = 2"))
    with pytest.raises(InvalidDocument) as refused:
        lab.ask_by_hand(2)
    assert refused.value.field == "machine_id"
    assert owners(lab) == [[1]]
    assert lab.ask_by_hand(2, machine_id=12).policy_id == 2


@pytest.mark.parametrize(
    "change", [OUT_OF_SCOPE, SECOND_POLICY.format(mode="execute", priority=-9) + FREEZE_OF_SECOND]
)
def test_a_run_that_waits_begins_neither_out_of_scope_nor_under_a_freeze(lab: Lab, change: str) -> None:
    """R6.2, R7.4: scope and every freeze over the machine are looked at when it begins, and in its first step."""
    lab.ask()
    lab.scene.rows(
        "update smart_schedule_benchmark_runs set state = 'cancelled', ended_at = now() where machine_id <> 9"
    )
    assert lab.pass_().begun == 1
    lab.scene.rows(change)
    lab.states.run_all()
    assert lab.runs()[-1][:2] == ["pending", "conditions_changed"]
    lab.scene.forward(120)
    assert lab.pass_().begun == 0
    assert lab.runs_on(9) == COIN_A


@pytest.mark.parametrize("state", ["execution_mode = 'shadow'", "enabled = false"])
def test_the_freeze_of_a_policy_that_moves_nothing_holds_up_nobody_else(lab: Lab, state: str) -> None:
    """R6.2, R4.1: one in shadow or disabled has no domain that it moves."""
    lab.scene.rows(SECOND_POLICY.format(mode="execute", priority=-9) + FREEZE_OF_SECOND)
    lab.scene.rows(f"update smart_schedule_policy_groups set {state} where id = 2")
    lab.ask()
    assert lab.pass_().begun == 1


@pytest.mark.parametrize(
    ("why", "code"),
    [
        ("update smart_schedule_policy_groups set execution_mode = 'shadow'", "mode_not_execute"),
        ("update smart_schedule_policy_groups set enabled = false", "policy_disabled"),
        ("update smart_schedule_policy_groups set max_benchmarks = 0", "sampling_off"),
        ("delete from smart_schedule_executor_leases", "lease_not_held"),
        (FREEZE, "policy_frozen"),
    ],
)
def test_a_wish_says_what_its_policy_waits_for(lab: Lab, why: str, code: str) -> None:
    """R7.4: a run that cannot begin is kept, and whoever asked for it learns why it waits."""
    assert lab.ask_by_hand(1).waits_for == ()
    lab.scene.rows(why)
    assert lab.ask_by_hand(1).waits_for == (code,)


@pytest.mark.parametrize(
    "settings",
    [{"BLSFLOW_SCHEDULER_EXECUTE_ENABLED": "false"}, {"BLSFLOW_SCHEDULER_SWITCH_API_BASE_URL": ""}],
)
def test_nothing_begins_without_the_switch_and_a_service(lab: Lab, settings: dict[str, str]) -> None:
    """R4.2, R4.3: the deployment-wide switch and the device-control service are needed."""
    lab.ask()
    lab.start(**settings)
    assert lab.pass_().begun == 0
    assert lab.states.documents == {}


def test_an_offline_machine_is_not_begun(lab: Lab) -> None:
    """R3.7: what cannot be heard cannot be measured."""
    lab.scene.rows("update smart_schedule_policy_scopes set resource_type = 'machine', resource_id = '1'")
    lab.ask()
    lab.silence()
    lab.scene.forward(3600)
    assert lab.pass_().begun == 0


def test_what_changed_before_the_lock_postpones_without_counting(lab: Lab) -> None:
    """R5.1, R7.2: the race for the lock is lost: the run waits for another turn, under another execution, as the same try."""
    lab.scene.rows("update smart_schedule_policy_scopes set resource_type = 'machine', resource_id = '1'")
    lab.ask()
    lab.pass_()
    lab.scene.rows(OTHERS_LOCK)
    lab.states.run_all()
    assert lab.runs() == [["pending", "conditions_changed", None]]
    lab.scene.rows("update smart_schedule_machine_locks set freed_at = now(), freed_by = 'test'")
    assert lab.pass_().begun == 0
    lab.scene.forward(61)
    assert lab.pass_().begun == 1
    lab.states.run_all()
    assert lab.runs() == [["succeeded", None, "restored"]]
    assert lab.scene.rows("select attempt_no, execution_no from smart_schedule_benchmark_runs") == [[1, 2]]


def test_a_state_machine_that_does_not_answer_is_asked_again(lab: Lab) -> None:
    """R7.3: claimed and not handed over: handed over later under the same name, which starts it once."""
    lab.ask()
    lab.states.unavailable = True
    report = lab.scene.app.sampling(budget_sec=10)
    assert list(report.failures) == ["begin"]
    lab.states.unavailable = False
    lab.scene.forward(30)
    lab.pass_()
    lab.pass_()
    (name,) = lab.states.documents
    lab.states.start(name, {"begin_with": "something else"})
    lab.states.run_all()
    assert [run for run in lab.runs() if run[0] != "pending"] == [["succeeded", None, "restored"]]
    assert sorted(lab.scene.posts()) == [1, 1]


def test_two_processes_that_choose_at_once_keep_to_the_caps(lab: Lab) -> None:
    """R7.4: whoever is second finds that somebody else is choosing, and leaves it to them."""
    lab.ask()
    other = lab.scene.process(None, **QUICK)
    with lab.scene.app.store.transaction() as tx:
        assert len(tx.startable_benchmarks("blsflow", 100)) > 0
        with other.store.transaction() as second:
            assert second.startable_benchmarks("blsflow", 100) == []
    other.store.close()


def test_figures_serve_the_model_once_enough_were_measured(lab: Lab) -> None:
    """R7.4: after three machines' own measurements the others get the medians, marked, at ages that differ, and no run."""
    lab.scene.rows("update smart_schedule_policy_groups set max_benchmarks = 2, max_benchmark_share = 1")
    lab.ask()
    lab.pass_()
    lab.states.run_all()
    assert (
        lab.scene.value("select count(*) from smart_schedule_machine_project_benchmarks where project_id = 2")
        == 2
    )
    lab.scene.rows("update smart_schedule_policy_groups set max_benchmarks = 1")
    lab.ask()
    lab.pass_()
    lab.states.run_all()
    shared = lab.scene.rows(
        "select b.hashrate_hs, b.power_w, b.sampled_at, b.shared_from from smart_schedule_machine_project_benchmarks b"
        " where b.project_id = 2 and b.shared_from is not null"
    )
    assert len(shared) == 9
    assert len({row[2] for row in shared}) == 9
    own = sorted(
        row[0]
        for row in lab.scene.rows(
            "select hashrate_hs from smart_schedule_machine_project_benchmarks where project_id = 2 and shared_from is null"
        )
    )
    assert {row[0] for row in shared} == {own[1]}
    assert lab.pass_().dropped > 0
    assert lab.scene.value("select count(*) from smart_schedule_benchmark_runs where ended_at is null") == 0
    lab.ask()
    assert lab.scene.value("select count(*) from smart_schedule_benchmark_runs where ended_at is null") == 0


def test_own_figures_replace_shared_ones_and_never_the_other_way(lab: Lab) -> None:
    """R7.4: shared until a machine has its own."""
    lab.scene.rows("update smart_schedule_policy_groups set benchmark_share_after = 1")
    lab.begin()
    (first,) = lab.scene.rows(
        "select machine_id from smart_schedule_benchmark_runs where state = 'succeeded'"
    )
    with lab.scene.app.store.transaction() as tx:
        tx.request_benchmark_by_hand(1, 12, 2, by="wei", tenant_id=None)
    lab.pass_()
    lab.states.run_all()
    own = lab.scene.rows(
        "select machine_id from smart_schedule_machine_project_benchmarks"
        " where project_id = 2 and shared_from is null order by 1"
    )
    assert own == [first, [12]]


def test_pending_runs_that_nobody_wants_any_more_are_dropped(lab: Lab) -> None:
    """R7.4: not asked for by any tick for an hour; a drift's or an operator's stays."""
    lab.ask()
    with lab.scene.app.store.transaction() as tx:
        tx.request_benchmark_by_hand(1, 9, 2, by="wei", tenant_id=None)
    lab.scene.rows("update smart_schedule_policy_groups set max_benchmarks = 0")
    lab.scene.forward(3700)
    assert lab.pass_().dropped == 9
    assert lab.scene.rows("select machine_id from smart_schedule_benchmark_runs where ended_at is null") == [
        [9]
    ]


def test_b04_running_otherwise_than_measured_asks_for_a_new_benchmark(lab: Lab) -> None:
    """R7.2 (B04): five reports in a row that agree with each other and not with the benchmark; measured where it runs."""
    lab.ask()
    lab.scene.rows("delete from smart_schedule_benchmark_runs")
    lab.scene.rows("update smart_schedule_policy_groups set max_benchmarks = 0")
    assert [report.drifted for report in lab.drift_to(1.28, 5)] == [0, 0, 0, 0, 1]
    assert lab.scene.rows(
        "select machine_id, project_id, origin, state from smart_schedule_benchmark_runs"
    ) == [[1, 1, "drift", "pending"]]
    assert sum(report.drifted for report in lab.drift_to(1.28, 2)) == 0


def test_a_reading_that_agrees_again_is_no_drift(lab: Lab) -> None:
    """R7.2 (B04): four that differ and one that agrees start the count anew."""
    lab.ask()
    reports = lab.drift_to(0.7, 4) + lab.drift_to(1.0, 1) + lab.drift_to(0.7, 4)
    assert sum(report.drifted for report in reports) == 0


def test_the_database_keeps_a_machine_to_one_run(lab: Lab) -> None:
    """R7.1: two runs of one machine cannot both be under way, whoever claims them."""
    lab.ask()
    lab.scene.rows(
        "insert into smart_schedule_benchmark_runs (id, tenant_id, policy_id, machine_id, project_id, state, not_before,"
        " requested_at) values (gen_random_uuid(), 'acme', 1, 1, 1, 'pending', now(), now())"
    )
    ids = [
        row[0] for row in lab.scene.rows("select id from smart_schedule_benchmark_runs where machine_id = 1")
    ]
    assert len(ids) == 2
    with pytest.raises(InvariantBroken, match="active"), lab.scene.app.store.transaction() as tx:
        tx.claim_benchmarks(ids)
