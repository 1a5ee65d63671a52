"""A laboratory for benchmark runs: a scene that lacks a benchmark, and the state machine that is to measure it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from blsflow.flow.benchmarks import request_benchmark
from tests.integration.scene import Scene
from tests.integration.state_machine import StateMachine

if TYPE_CHECKING:
    from blsflow.adapters.postgres.address import DatabaseAddress
    from blsflow.ports.sampling import RequestedBenchmark

QUICK = {"BENCHMARK_SAMPLE_WINDOW_SEC": "60", "BLSFLOW_SCHEDULER_BENCHMARK_WARM_UP_SEC": "10"}

SECOND_POLICY = """
insert into smart_schedule_policy_groups
    (tenant_id, name, mode, execution_mode, enabled, created_by, priority, min_dwell_sec, switch_cost_sec)
    values ('acme', 'trial', 'profit_guard', '{mode}', true, 'test', {priority}, 0, 60);
insert into smart_schedule_policy_scopes values (2, 'cluster', '1');
insert into smart_schedule_policy_candidates (policy_id, project_id, position) values (2, 1, 0), (2, 2, 1);
insert into smart_schedule_schedules (tenant_id, created_by, kind, policy_id, rule, next_run_at)
    values ('acme', 'test', 'policy_tick', 2, '{{"kind": "interval", "every_sec": 60}}', now());
"""


class Lab:
    """A scene whose machine 1 lacks its benchmark on coin B, with the state machine beside it."""

    def __init__(self, address: DatabaseAddress, *, machines: int = 6) -> None:
        self.scene = Scene(address, machines=machines)
        self.scene.rows(
            "delete from smart_schedule_machine_project_benchmarks where machine_id = 1 and project_id = 2"
        )
        self.scene.rows("update smart_schedule_policy_groups set min_gain_cny_per_day = 1000")
        self.states = StateMachine(self.scene)
        self.start()

    def start(self, **settings: str) -> None:
        """Start the product's process anew."""
        self.scene.start(None, **(QUICK | settings)).__dict__["workflow"] = self.states

    def close(self) -> None:
        """Close the scene."""
        self.scene.__exit__()

    def ask(self) -> None:
        """Let a tick ask for what is missing."""
        self.scene.due()
        self.scene.prices()
        self.scene.report()
        self.scene.tick()
        self.scene.decide()

    def pass_(self) -> Any:
        """Rescue, watch and begin once, as reconcile does."""
        self.scene.report()
        report = self.scene.app.sampling(budget_sec=10)
        assert report.failures == {}
        return report

    def begin(self) -> list[str]:
        """Ask, begin and carry out; return the states that were visited."""
        self.ask()
        assert self.pass_().begun == 1
        return self.states.run_all()

    def ask_by_hand(self, policy_id: int, machine_id: int = 9) -> RequestedBenchmark:
        """Have an operator ask for a run on coin B under a policy."""
        return request_benchmark(
            self.scene.app.store, policy_id=policy_id, machine_id=machine_id, project_id=2, by="wei"
        )

    def drift_to(self, share: float, readings: int) -> list[Any]:
        """Have machine 1 hash at a share of its benchmark for so many minutes; return the passes."""
        reports = []
        for _ in range(readings):
            self.scene.forward(60)
            self.scene.report()
            self.scene.rows(
                f"update machine_mining_runtime set hashrate_hs = 1e14 * {share} where machine_id = 1"
            )
            reports.append(self.scene.app.sampling(budget_sec=10))
        return reports

    def begun_machines(self) -> list[int]:
        """The machines of the runs that are under way."""
        return [
            int(row[0])
            for row in self.scene.rows(
                "select machine_id from smart_schedule_benchmark_runs where state in ('running', 'restoring') order by 1"
            )
        ]

    def runs(self) -> list[list[Any]]:
        """State, reason and how the machine fared, of every run in order."""
        return self.scene.rows(
            "select state, reason, restore_status from smart_schedule_benchmark_runs order by requested_at, attempt_no"
        )

    def silence(self, machine_id: int = 1, *, silent: bool = True) -> None:
        """Have a machine fall silent, or be heard again."""
        state = self.scene.world._states[machine_id]
        state.machine = replace(state.machine, silent=silent)

    def faults(self, **changes: float) -> None:
        """Change what device control does wrong."""
        switch = self.scene.device_control.faults
        switch.profile = replace(switch.profile, **changes)

    def rescue(self) -> None:
        """Let reconcile follow, rescue and put back, until nothing is under way or a quarter of an hour has passed."""
        for _ in range(15):
            self.scene.forward(60)
            self.scene.report()
            self.scene.reconcile()
            self.pass_()
            self.states.run_all()
            if not self.scene.value(
                "select count(*) from smart_schedule_benchmark_runs where state in ('running', 'restoring')"
            ):
                return

    def told(self) -> list[str]:
        """The codes of the notifications, in order."""
        return [str(row[0]) for row in self.scene.rows("select code from smart_schedule_outbox order by id")]

    def runs_on(self, machine_id: int = 1) -> Any:
        """What a machine does now, by itself."""
        return self.scene.world.reading(machine_id).project_id

    def live_locks(self) -> int:
        """How many locks are held."""
        found: int = self.scene.value(
            "select count(*) from smart_schedule_machine_locks where freed_at is null"
        )
        return found
