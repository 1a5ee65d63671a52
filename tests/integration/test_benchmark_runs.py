"""Benchmark runs on real PostgreSQL, through the state machine's own definition: to a benchmark, or back where they began."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from blsflow.domain.execution import JobUnreadable
from blsflow.flow.policy_status import policy_status
from blsflow.ports.sampling import SamplingCost
from tests.integration.lab import Lab
from tests.integration.scene import COIN_A, COIN_B, CrashPlan, Killed
from tests.integration.state_machine import DEFINITION, Stopped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from blsflow.adapters.postgres.address import DatabaseAddress

STATES = json.loads(DEFINITION.read_text())["States"]
TASKS = [name for name, state in STATES.items() if state["Type"] == "Task"]
BEFORE_RESTORE = TASKS[: TASKS.index("Restore")]
AT_HOME = "restored"
SHORT = {"BENCHMARK_SAMPLE_WINDOW_SEC": "4", "BLSFLOW_SCHEDULER_BENCHMARK_WARM_UP_SEC": "0"}


@pytest.fixture
def lab(database: DatabaseAddress) -> Iterator[Lab]:
    """A lab over six machines."""
    made = Lab(database)
    yield made
    made.close()


def once_at(state: str, happens: Callable[[], object]) -> Callable[[str], None]:
    """Have something happen the first time that a state is entered."""
    pending = [state]

    def before(entered: str) -> None:
        if entered in pending:
            pending.clear()
            happens()

    return before


def stopped() -> None:
    """Stop the execution, as an operator does."""
    raise Stopped


def test_a_run_measures_and_puts_the_machine_back(lab: Lab) -> None:
    """R7.1, R7.3: lock, switch, confirm, warm up, sample, judge, store, restore, release, in this order."""
    visited = lab.begin()
    assert lab.runs() == [["succeeded", None, AT_HOME]]
    steps = [
        state for n, state in enumerate(visited) if state not in visited[:n] and state in [*TASKS, "WarmUp"]
    ]
    assert steps == [
        "Prepare", "Switch", "ConfirmSwitch", "WarmUp", "Sample", "Judge", "Store", "Restore", "ConfirmRestore", "Release",
    ]  # fmt: skip
    ((hashrate_hs, power_w, estimated, shared),) = lab.scene.rows(
        "select hashrate_hs, power_w, power_estimated, shared_from from smart_schedule_machine_project_benchmarks"
        " where machine_id = 1 and project_id = 2"
    )
    assert (hashrate_hs, power_w) == (pytest.approx(1e14, rel=0.02), pytest.approx(3000, rel=0.02))
    assert (estimated, shared) == (False, None)
    assert (lab.runs_on(), lab.live_locks()) == (COIN_A, 0)
    assert sorted(lab.scene.posts()) == [1, 1]
    assert lab.scene.findings() == {}


def test_while_a_run_is_under_way_no_tick_touches_the_machine(lab: Lab) -> None:
    """R3.7, R5.1: the machine is under benchmark, and nobody else's decision reaches it."""
    seen: list[dict[str, int]] = []

    def tick() -> None:
        lab.ask()
        seen.append(lab.scene.decisions())

    lab.states.before = once_at("Judge", tick)
    lab.begin()
    assert seen[0]["skip/under_benchmark"] == 1
    assert lab.runs() == [["succeeded", None, AT_HOME]]


def test_later_ticks_decide_on_what_was_measured(lab: Lab) -> None:
    """R7.1, R3.3: a machine that could not be compared moves once its candidate is measured."""
    lab.scene.rows("update smart_schedule_policy_groups set min_gain_cny_per_day = 1")
    lab.scene.rows("delete from smart_schedule_machine_project_benchmarks where machine_id = 1")
    lab.scene.rows("update smart_schedule_policy_scopes set resource_type = 'machine', resource_id = '1'")
    lab.begin()
    lab.ask()
    assert lab.scene.decisions() == {"switch/better_net": 1}


def test_what_the_machine_runs_is_measured_without_moving_it(lab: Lab) -> None:
    """R7.1, R7.4: a missing benchmark of the running project costs no command and no minute."""
    lab.scene.rows("delete from smart_schedule_machine_project_benchmarks where machine_id = 1")
    lab.scene.rows("delete from project_run_configurations where project_id = 2")
    visited = lab.begin()
    assert "Switch" not in visited
    assert lab.runs() == [["succeeded", None, "not_moved"]]
    assert lab.scene.posts() == []
    assert lab.scene.rows("select lost_minutes, lost_cny from smart_schedule_benchmark_runs") == [[0.0, 0.0]]
    assert lab.scene.findings() == {}


@pytest.mark.parametrize(
    ("command", "status", "expected"), [("stop", "stopped", "stopped"), ("power_off", "off", "off")]
)
def test_a_machine_at_rest_goes_back_to_rest(lab: Lab, command: Any, status: str, expected: str) -> None:
    """R7.3: started for its sample, a machine that the scheduler had put to rest goes back to it, and has lost nothing."""
    lab.scene.world.command(1, command)
    lab.scene.rows(
        "insert into smart_schedule_machine_states (machine_id, tenant_id, expected, stopped_by, changed_at)"
        f" values (1, 'acme', '{expected}', 'scheduler', now())"
    )
    lab.scene.rows("update smart_schedule_policy_groups set restart_threshold_cny_per_day = 1000")
    lab.scene.forward(60)
    lab.begin()
    lab.rescue()
    assert lab.runs() == [["succeeded", None, AT_HOME]]
    assert lab.scene.world.reading(1).status == status
    assert lab.scene.rows("select action from smart_schedule_attempts order by prepared_at") == [
        ["start"],
        [command],
    ]
    assert lab.scene.value("select lost_cny from smart_schedule_benchmark_runs") == 0.0


def test_costs_are_written_down(lab: Lab) -> None:
    """R7.4: the minutes that a machine was away from its project, and what it would have netted in them."""
    lab.begin()
    ((minutes, cny, net),) = lab.scene.rows(
        "select lost_minutes, lost_cny, current_net_cny_per_day from smart_schedule_benchmark_runs"
    )
    assert 1.0 < minutes < 5.0
    assert net == pytest.approx(50 - 3000 / 1000 * 24 * 0.3, rel=0.05)
    assert cny == pytest.approx(minutes / 1440 * net)
    with lab.scene.app.store.transaction() as tx:
        (costs,) = tx.benchmark_costs(policy_id=1)
    assert (costs["succeeded"], costs["lost_cny"]) == (1, cny)
    store = lab.scene.app.store.of_tenant("acme")
    sampling = policy_status(store, 1, tenant_id="acme").sampling
    assert sampling == SamplingCost(succeeded=1, lost_minutes=minutes, lost_cny=cny)
    lab.scene.rows("update smart_schedule_benchmark_runs set lost_cny = null")
    sampling = policy_status(store, 1, tenant_id="acme").sampling
    assert sampling == SamplingCost(succeeded=1, lost_minutes=minutes, lost_cny=0.0, unpriced=1)


def test_a_policy_that_has_sampled_nothing_has_lost_nothing(lab: Lab) -> None:
    """R7.4, R9.1: no run, no cost; another policy's is not its own."""
    lab.begin()
    lab.scene.rows(
        "with other as (insert into smart_schedule_policy_groups (tenant_id, name, mode, created_by)"
        " values ('acme', 'other', 'profit_guard', 'test') returning id)"
        " update smart_schedule_benchmark_runs set policy_id = (select id from other)"
    )
    assert policy_status(lab.scene.app.store, 1, tenant_id="acme").sampling == SamplingCost()


@pytest.mark.parametrize("state", list(STATES))
def test_an_execution_that_is_stopped_anywhere_is_rescued(lab: Lab, state: str) -> None:
    """R7.3: stopped from outside before any state: found, put back by another execution, and its lock freed."""
    lab.states.before = once_at(state, stopped)
    lab.begin()
    lab.states.before = lambda _: None
    lab.rescue()
    assert (lab.runs_on(), lab.live_locks()) == (COIN_A, 0)
    assert next(run[0] for run in lab.runs()) in {"succeeded", "failed"}
    assert {run[2] for run in lab.runs()} <= {AT_HOME, "not_moved", None}
    assert set(lab.scene.posts()) <= {1}
    assert lab.scene.findings() == {}


@pytest.mark.parametrize("state", BEFORE_RESTORE)
def test_a_step_that_always_fails_ends_in_putting_back(lab: Lab, state: str) -> None:
    """R7.3: whatever a step raises, the machine is put back in the same execution."""

    def fails(entered: str) -> None:
        if entered == state:
            raise RuntimeError("simulated")

    lab.states.before = fails
    visited = lab.begin()
    assert "Restore" in visited
    assert "Done" in visited
    assert (lab.runs_on(), lab.live_locks()) == (COIN_A, 0)
    assert lab.scene.findings() == {}


@pytest.mark.parametrize("state", TASKS[TASKS.index("Restore") :])
def test_a_restore_that_fails_is_taken_up_by_reconcile(lab: Lab, state: str) -> None:
    """R7.3: when even putting back raises, the execution fails, and a later one does it."""

    def fails(entered: str) -> None:
        if entered == state:
            raise RuntimeError("simulated")

    lab.states.before = fails
    assert "LeftToReconcile" in lab.begin()
    assert lab.live_locks() == 1
    lab.states.before = lambda _: None
    lab.rescue()
    assert lab.runs() == [["succeeded", None, AT_HOME]]
    assert (lab.runs_on(), lab.live_locks()) == (COIN_A, 0)


@pytest.mark.parametrize("state", BEFORE_RESTORE)
def test_a_machine_that_goes_offline_ends_the_run(lab: Lab, state: str) -> None:
    """R7.2, R7.3: silent from any step on: no benchmark; put back once it is heard, or people are told why not."""
    lab.states.before = once_at(state, lab.silence)
    lab.begin()
    lab.rescue()
    lab.silence(silent=False)
    lab.rescue()
    assert "measured" not in [run[0] for run in lab.runs()]
    ((machine, fared),) = lab.scene.rows(
        "select state, restore_status from smart_schedule_benchmark_runs where attempt_no = 1"
    )
    if machine == "pending":
        return  # it was postponed before anything was touched
    assert fared in {AT_HOME, "not_moved"} or "benchmark_not_restored" in lab.told()
    assert lab.live_locks() == 0


@pytest.mark.parametrize("state", TASKS)
def test_device_control_that_goes_down_is_waited_out(lab: Lab, state: str) -> None:
    """R7.3, R5.3: with every command failing from any step on, nothing is sent twice, and the machine gets home."""
    lab.states.before = once_at(state, lambda: lab.faults(error_rate=1.0))
    lab.begin()
    lab.faults(error_rate=0.0)
    lab.rescue()
    assert set(lab.scene.posts()) <= {1}
    assert lab.live_locks() == 0
    assert lab.runs_on() == COIN_A or "benchmark_not_restored" in lab.told()


def test_a_job_that_is_never_followed_is_undone(lab: Lab) -> None:
    """R7.3, R5.6: the service says done, the machine stays where it was: no benchmark, and no lock left."""
    lab.faults(does_nothing_rate=1.0)
    lab.begin()
    lab.rescue()
    assert lab.runs()[0][:2] == ["failed", "unconfirmed"]
    assert (lab.runs_on(), lab.live_locks()) == (COIN_A, 0)


def test_a_job_that_nobody_can_confirm_holds_its_lock_until_it_can(lab: Lab) -> None:
    """R5.4, R7.3: unreadable for longer than the alert time: told, the lock held and named; then followed, and put back."""
    control = lab.scene.app.device_control
    assert control is not None
    lab.scene.app.__dict__["device_control"] = _Unreadable(control)
    visited = lab.begin()
    assert visited[-1] == "Done"
    lab.rescue()
    assert lab.live_locks() == 1
    assert "attempt_unresolved" in lab.told()
    assert "unresolved_attempts" in lab.scene.findings()
    lab.scene.app.__dict__["device_control"] = control
    lab.rescue()
    assert (lab.runs_on(), lab.live_locks()) == (COIN_A, 0)
    assert lab.runs()[0] == ["failed", "unconfirmed", AT_HOME]


def test_a_refused_restore_is_tried_again(lab: Lab) -> None:
    """R7.3: busy at first, taken later: each try is a command of its own, sent once."""
    lab.states.before = once_at("Restore", lambda: lab.faults(busy_rate=1.0))
    heard: list[str] = []

    def third(entered: str) -> None:
        once(entered)
        heard.append(entered)
        if heard.count("RestoreLater") == 3:
            lab.faults(busy_rate=0.0)

    once = lab.states.before
    lab.states.before = third
    lab.begin()
    assert lab.runs() == [["succeeded", None, AT_HOME]]
    assert lab.scene.value("select restore_tries from smart_schedule_benchmark_runs") == 4
    assert lab.scene.posts() == [1] * 5


def test_a_restore_that_is_never_taken_is_told(lab: Lab) -> None:
    """R7.3, R10.1: after five tries people are told why the machine is not back; its benchmark stands, its lock is free."""
    lab.states.before = once_at("Restore", lambda: lab.faults(busy_rate=1.0))
    lab.begin()
    assert lab.runs() == [["succeeded", None, "failed"]]
    assert lab.told() == ["benchmark_not_restored"]
    assert (lab.runs_on(), lab.live_locks()) == (COIN_B, 0)


def test_a_busy_service_leaves_the_machine_where_it_is(lab: Lab) -> None:
    """R5.3, R7.3: the switch was not taken: no restore is sent, and the run fails with the reason."""
    lab.faults(busy_rate=1.0)
    lab.begin()
    assert lab.runs()[0] == ["failed", "busy", "not_moved"]
    assert lab.scene.posts() == [1]


def test_an_operator_who_takes_the_machine_over_keeps_it(lab: Lab) -> None:
    """R3.7, R7.3: a machine on hold is not commanded any more; the run says so and frees it."""
    hold = "update machines set operator_hold = true where id = 1"
    lab.states.before = once_at("Restore", lambda: lab.scene.rows(hold))
    lab.begin()
    assert lab.runs() == [["succeeded", None, "left_to_operator"]]
    assert lab.scene.posts() == [1]
    assert lab.live_locks() == 0


def test_a_freeze_does_not_keep_a_machine_away_from_home(lab: Lab) -> None:
    """R6.2, R7.3: frozen in the middle of a run: no new action, and what was begun is undone."""
    freeze = (
        "insert into smart_schedule_freezes (policy_id, tenant_id, cause, frozen_at, frozen_by)"
        " values (1, 'acme', 'manual', now(), 'test')"
    )
    lab.states.before = once_at("Sample", lambda: lab.scene.rows(freeze))
    lab.begin()
    assert lab.runs() == [["succeeded", None, AT_HOME]]
    assert lab.runs_on() == COIN_A


def test_a_freeze_before_the_switch_stops_the_run(lab: Lab) -> None:
    """R6.2: frozen between the lock and the switch: nothing is sent."""
    freeze = (
        "insert into smart_schedule_freezes (policy_id, tenant_id, cause, frozen_at, frozen_by)"
        " values (1, 'acme', 'manual', now(), 'test')"
    )
    lab.states.before = once_at("Switch", lambda: lab.scene.rows(freeze))
    lab.begin()
    assert lab.runs()[0] == ["failed", "frozen", "not_moved"]
    assert lab.scene.posts() == []


def test_without_the_lease_nothing_is_sent_home_either(lab: Lab) -> None:
    """R4.2, R7.3: another system acts for the tenant now: the machine is left to it, and people are told."""
    lab.states.before = once_at(
        "Restore", lambda: lab.scene.rows("update smart_schedule_executor_leases set holder = 'legacy'")
    )
    lab.begin()
    assert lab.runs() == [["succeeded", None, "failed"]]
    assert lab.told() == ["benchmark_not_restored"]
    assert lab.scene.posts() == [1]


def test_steps_of_a_dead_execution_change_nothing(lab: Lab) -> None:
    """R7.3: an execution that was given up and comes back finds its run in other hands, at every step."""
    lab.states.before = once_at("Judge", stopped)
    lab.begin()
    lab.states.before = lambda _: None
    run_id, old = lab.scene.rows("select id, execution_name from smart_schedule_benchmark_runs")[0]
    lab.scene.forward(60)
    lab.pass_()
    for state in TASKS:
        step = STATES[state]["Parameters"]["step"]
        assert lab.scene.app.benchmark(step, run_id=run_id, execution=old).outcome == "superseded"
    lab.rescue()
    assert lab.runs() == [["failed", "execution_aborted", AT_HOME], ["pending", None, None]]
    assert lab.scene.posts() == [1, 1]


def test_an_execution_that_falls_silent_is_ended_and_replaced(lab: Lab) -> None:
    """R7.3: running for the state machine, without a step for longer than the watchdog: stopped and rescued."""
    lab.ask()
    lab.pass_()
    (name,) = lab.states.waiting()
    for _ in range(3):
        lab.scene.forward(200)
        assert lab.pass_().rescued == 0
    lab.scene.forward(400)
    assert lab.pass_().rescued == 1
    assert lab.states.ends[name] == "aborted"
    lab.states.run_all()
    assert lab.runs()[0] == ["failed", "execution_running", "not_moved"]


def test_people_are_told_when_no_execution_lives(lab: Lab) -> None:
    """R7.3, R10.1: three executions died under one run: told once, and tried on."""
    lab.states.before = once_at("Sample", stopped)
    lab.begin()

    def dies(_: str) -> None:
        raise Stopped

    lab.states.before = dies
    for _ in range(5):
        lab.scene.forward(120)
        lab.pass_()
        lab.states.run_all()
    assert lab.told() == ["benchmark_not_restored"]
    lab.states.before = lambda _: None
    lab.rescue()
    assert lab.runs()[0][2] == AT_HOME
    assert lab.told() == ["benchmark_not_restored"]


def test_a_failed_run_is_tried_again_with_longer_pauses_and_then_told(lab: Lab) -> None:
    """R7.2: three tries in all, 10 and 40 minutes apart; then people are told, and no tick asks for a day."""
    lab.faults(busy_rate=1.0)
    lab.begin()
    for minutes in (10, 40):
        lab.ask()
        lab.scene.forward((minutes - 3) * 60)
        assert lab.pass_().begun == 0
        lab.scene.forward(5 * 60)
        assert lab.pass_().begun == 1
        lab.states.run_all()
    assert [run[0] for run in lab.runs()] == ["failed"] * 3
    assert lab.told() == ["benchmark_failed"]
    lab.ask()
    assert len(lab.runs()) == 3
    lab.scene.forward(24 * 3600)
    lab.ask()
    assert len(lab.runs()) == 4


class _Unreadable:
    """Device control whose jobs cannot be read."""

    def __init__(self, control: Any) -> None:
        self.submit = control.submit

    def read_back(self, **_: object) -> JobUnreadable:
        return JobUnreadable(cause="simulated")


@pytest.mark.parametrize("after", [False, True])
def test_a_process_may_die_at_any_exchange_of_any_step(database: DatabaseAddress, *, after: bool) -> None:
    """R7.3, R5.3: killed at every third exchange with the database or the service: sent at most once, home, and free."""
    lab = Lab(database)
    try:
        lab.start(**SHORT)
        for at in range(1, 400, 3):
            lab.scene.rows(
                "delete from smart_schedule_benchmark_runs r where not exists"
                " (select from smart_schedule_attempts a where a.benchmark_run_id = r.id)"
            )
            lab.scene.rows(
                "delete from smart_schedule_machine_project_benchmarks where machine_id = 1 and project_id = 2"
            )
            lab.scene.rows("delete from smart_schedule_machine_states")
            lab.scene.rows(
                "update smart_schedule_benchmark_runs set state = 'cancelled' where state = 'failed'"
            )
            lab.ask()
            lab.pass_()
            plan = CrashPlan(at, after=after)
            lab.scene.start(plan, **SHORT)
            _die_once(lab, plan)
            lab.rescue()
            assert (lab.runs_on(), lab.live_locks()) == (COIN_A, 0), plan.died_at
            assert set(lab.scene.posts()) <= {1}
            assert lab.scene.findings() == {}
            if plan.died_at is None:
                return
        pytest.fail("it never survived")
    finally:
        lab.close()


def _die_once(lab: Lab, plan: CrashPlan) -> None:
    """Carry on; the function's container dies with the plan, and the next call gets a new one."""
    take = lab.scene.app.benchmark

    def benchmark(step: str, **call: Any) -> Any:
        try:
            return take(step, **call)
        except Killed as death:
            lab.start(**SHORT)
            raise RuntimeError(plan.died_at) from death

    lab.scene.app.__dict__["benchmark"] = benchmark
    lab.states.run_all()
    lab.start(**SHORT)
