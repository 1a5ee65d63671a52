"""Benchmark runs on the deployed template: the real state machine, function and roles, with a fleet that obeys quickly."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.conftest import Watched

pytestmark = pytest.mark.timeout(420)

# A machine at rest that may be measured on another project and come back, of a policy that executes and decides for it.
MEASURABLE = """
select p.id, m.id, x.project_id, r.project_id
from smart_schedule_policy_groups p
join machines m on m.tenant_id = p.tenant_id and not m.operator_hold
join machine_mining_runtime r on r.machine_id = m.id and r.status = 'mining' and r.reported_at > now() - interval '1 minute'
join project_run_configurations x on x.model = m.model and x.runnable and x.project_id <> r.project_id
join project_run_configurations b on b.model = m.model and b.runnable and b.project_id = r.project_id
where p.execution_mode = 'execute' and p.enabled
  and exists (select from smart_schedule_policy_scopes c
              where c.policy_id = p.id
                and (c.resource_type = 'tenant'
                     or (c.resource_type, c.resource_id) in
                        (('cluster', m.cluster_id::text), ('model', m.model), ('machine', m.id::text))))
  and not exists (select from smart_schedule_machine_decisions d
                  where d.machine_id = m.id and d.overridden_by is not null)
  and not exists (select from smart_schedule_freezes f where f.policy_id = p.id and f.lifted_at is null)
  and exists (select from projects j where j.id = x.project_id and j.tenant_id = m.tenant_id)
  and not exists (select from smart_schedule_resource_eligibilities e where e.project_id = x.project_id and not e.allowed)
  and not exists (select from smart_schedule_machine_locks l where l.machine_id = m.id and l.freed_at is null)
  and not exists (select from smart_schedule_machine_states s where s.machine_id = m.id and s.retry_at > now())
  and not exists (select from smart_schedule_benchmark_runs o where o.machine_id = m.id)
order by m.id limit 1
"""

_NEXT_TICK = "update smart_schedule_schedules set next_run_at = {at} where policy_id = {policy}"


class Asked(NamedTuple):
    """A run that was asked for by hand, and what its machine runs."""

    run_id: str
    machine_id: int
    project_id: int
    home: int


@contextlib.contextmanager
def asked(product: Watched) -> Iterator[Asked]:
    """Ask for a run, with room for it in its policy, and without ticks that would move the machine meanwhile."""
    policy, machine, project, home = product.rows(MEASURABLE)[0]
    product.rows(f"update smart_schedule_policy_groups set max_benchmarks = 5 where id = {policy}")
    product.rows(_NEXT_TICK.format(policy=policy, at="now() + interval '1 hour'"))
    try:
        run = product.blsflow("benchmark", "run", str(policy), str(machine), str(project))
        product.invoke("reconcile", wait=False)
        product.wait(
            "the run is under way", lambda: state(product, run["run_id"])[0] != "pending", within_sec=120
        )
        yield Asked(run["run_id"], machine, project, home)
    finally:
        product.rows(f"update smart_schedule_policy_groups set max_benchmarks = 0 where id = {policy}")
        product.rows(_NEXT_TICK.format(policy=policy, at="now()"))


def state(product: Watched, run_id: str) -> list[Any]:
    """Where a run stands."""
    found: list[Any] = product.rows(
        f"select state, step, reason, restore_status from smart_schedule_benchmark_runs where id = '{run_id}'"
    )[0]
    return found


def ends(product: Watched, run_id: str) -> list[Any]:
    """Wait for a run's end; return its state, reason and how its machine fared."""
    product.wait("the run ends", lambda: state(product, run_id)[0] in {"succeeded", "failed"}, within_sec=180)
    end, _, reason, fared = state(product, run_id)
    return [end, reason, fared]


def at_home(product: Watched, run: Asked) -> bool:
    """Whether the machine runs what it ran before, and the run holds no lock."""
    runs = product.value(f"select project_id from machine_mining_runtime where machine_id = {run.machine_id}")
    held = product.value(
        f"select count(*) from smart_schedule_machine_locks where owner_id = '{run.run_id}' and freed_at is null"
    )
    return bool(runs == run.home and held == 0)


def execution(product: Watched, run_id: str) -> str:
    """The address of the run's newest execution."""
    name = product.value(f"select execution_name from smart_schedule_benchmark_runs where id = '{run_id}'")
    arn = product.output("BenchmarkStateMachineArn").replace(":stateMachine:", ":execution:")
    return f"{arn}:{name}"


def test_a_machine_is_measured_and_put_back(product: Watched) -> None:
    """R7.1, R11.1: asked for, begun by reconcile, carried out by the state machine under the deployed roles."""
    with asked(product) as run:
        assert ends(product, run.run_id) == ["succeeded", None, "restored"]
        ((hashrate_hs, shared_from),) = product.rows(
            "select hashrate_hs, shared_from from smart_schedule_machine_project_benchmarks"
            f" where machine_id = {run.machine_id} and project_id = {run.project_id}"
        )
        assert hashrate_hs > 0
        assert shared_from is None
        assert at_home(product, run)
        described = product.client("stepfunctions").describe_execution(
            executionArn=execution(product, run.run_id)
        )
        assert (described["status"], json.loads(described["input"])["run_id"]) == ("SUCCEEDED", run.run_id)


def test_a_busy_service_ends_the_run_where_it_began(product: Watched) -> None:
    """R7.3, R5.3: the switch is not taken; the run fails with the reason, and nothing was moved."""
    with product.faults(product.product.device_control_url, busy_rate=1.0), asked(product) as run:
        assert ends(product, run.run_id) == ["failed", "busy", "not_moved"]
        assert at_home(product, run)


def test_an_execution_that_is_stopped_is_rescued(product: Watched) -> None:
    """R7.3: stopped from outside while the machine is away: reconcile begins another execution that puts it back."""
    with asked(product) as run:
        product.wait("it samples", lambda: state(product, run.run_id)[1] == "sample", within_sec=90)
        product.client("stepfunctions").stop_execution(executionArn=execution(product, run.run_id))
        product.rows(
            "update smart_schedule_benchmark_runs set progressed_at = now() - interval '1 minute'"
            f" where id = '{run.run_id}'"
        )
        product.invoke("reconcile", wait=False)
        assert ends(product, run.run_id) == ["failed", "execution_aborted", "restored"]
        assert at_home(product, run)
