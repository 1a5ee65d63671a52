"""The smallest pieces of the end-to-end run: each needs one permission, and can be done again and again.

Schedules and deliveries are off: nothing but these calls functions. A piece prepares what it works on by itself.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Final

from tests.e2e.test_benchmark import MEASURABLE
from tests.e2e.test_main_job import GUARD, RESTLESS, UPSET
from tests.privileges.stage import TENANT, Observed, Stage

if TYPE_CHECKING:
    from collections.abc import Callable

_NOBODY: Final = 10**12
"""An id that nothing has."""

_OF_POLICY: Final = "(select id from smart_schedule_schedules where policy_id = {policy})"
_GIVE_UP: Final = """
update smart_schedule_attempts set valid_until = now() - interval '1 second' where state = 'prepared';
update smart_schedule_occurrences set state = 'skipped', reason = 'previous_unfinished', ended_at = now()
    where state = 'recorded'
"""
"""What earlier pieces left recorded or prepared does not stand in the way of this one."""
_FREE_MACHINE: Final = f"""
select m.id from machines m join machine_mining_runtime r on r.machine_id = m.id and r.status = 'mining'
where m.tenant_id = '{TENANT}' and not m.operator_hold
  and not exists (select from smart_schedule_machine_locks l where l.machine_id = m.id and l.freed_at is null)
order by random() limit 1
"""
_QUIET: Final = (
    "update smart_schedule_benchmark_runs set progressed_at = now() - interval '{ago}' where id = '{run}'"
)


def run(function: str) -> Callable[[Stage], Observed]:
    """A function does its round."""

    def work(stage: Stage) -> Observed:
        return stage.call(function)

    return work


def message(function: str, key: str) -> Callable[[Stage], Observed]:
    """A consumer looks up what a message names; there is none, so nothing moves."""

    def work(stage: Stage) -> Observed:
        return stage.deliver(function, {key: str(uuid.uuid4()) if key == "attempt_id" else _NOBODY})

    return work


def benchmark_step(stage: Stage) -> Observed:
    """The function takes a step of a run that nobody asked for, which ends there."""
    return stage.call("benchmark", {"step": "prepare", "run_id": str(uuid.uuid4()), "execution": "nobody's"})


def due_tick(stage: Stage) -> Observed:
    """A policy is due: tick records it and sends its occurrence to be decided."""
    _make_due(stage, f"policy_id = {GUARD}")
    return _tick_sends(stage, "DecideQueue")


def due_conversation(stage: Stage) -> Observed:
    """A conversation is due: tick records it and sends its occurrence to be executed."""
    _make_due(stage, "kind = 'conversation'")
    return _tick_sends(stage, "ExecuteQueue")


def decided_tick(stage: Stage) -> Observed:
    """A policy finds better projects for its machines: decide prepares batches and sends them to be executed."""
    stage.rows(RESTLESS.format(policy=GUARD))
    stage.rows(UPSET)
    _make_due(stage, f"policy_id = {GUARD}")
    stage.call("tick")
    newest = f"select max(id) from smart_schedule_occurrences where schedule_id = {_OF_POLICY.format(policy=GUARD)}"
    before = stage.waiting("ExecuteQueue")
    observed = stage.deliver("decide", {"occurrence_id": stage.value(newest)})
    return Observed(observed.done and stage.waiting("ExecuteQueue") > before, observed.told)


def api_read(stage: Stage) -> Observed:
    """The API shows a tenant's policies."""
    return stage.ask("GET", "/policies", expected=200)


def api_run(stage: Stage) -> Observed:
    """A person has a policy ticked now."""
    _give_up(stage)
    before = stage.waiting("DecideQueue")
    body = {"requestId": str(uuid.uuid4())}
    observed = stage.ask("POST", f"/policies/{GUARD}/run", expected=202, body=body)
    return Observed(observed.done and stage.waiting("DecideQueue") > before, observed.told)


def api_command(stage: Stage) -> Observed:
    """A person stops a machine."""
    before = stage.waiting("ExecuteQueue")
    body = {"action": "stop", "machine_ids": [stage.value(_FREE_MACHINE)], "reason": "shown to be needed"}
    observed = stage.ask("POST", "/commands", expected=202, body=body)
    return Observed(observed.done and stage.waiting("ExecuteQueue") > before, observed.told)


def api_cancel(stage: Stage) -> Observed:
    """The API looks for a run to cancel at the execution service; there is none."""
    return stage.ask("POST", f"/schedules/{_NOBODY}/occurrences/{_NOBODY}/cancel", expected=404)


def live_read(stage: Stage) -> Observed:
    """The live stream tells the newest events."""
    return stage.ask("GET", "/stream?backfill=5", expected=200, function="live")


def publish(stage: Stage) -> Observed:
    """Something waits in the outbox: notify publishes it."""
    stage.rows(
        "insert into smart_schedule_outbox (tenant_id, code, params, created_at, next_try_at)"
        f" values ('{TENANT}', 'policy_frozen', jsonb_build_object('cause', 'profit_unusable'), now(), now())"
    )
    stage.rows("update smart_schedule_outbox set next_try_at = now() where published_at is null")
    observed = stage.call("notify")
    left = stage.value("select count(*) from smart_schedule_outbox where published_at is null")
    return Observed(observed.done and left == 0, observed.told)


def benchmark_begun(stage: Stage) -> Observed:
    """A run was asked for: reconcile starts an execution of the state machine for it."""
    runs = "select id, execution_name, execution_noted_at is not null from smart_schedule_benchmark_runs"
    open_ = stage.rows(f"{runs} where state in ('pending', 'running', 'restoring') and origin = 'operator'")
    if not open_:
        policy, machine, project, _ = stage.rows(MEASURABLE)[0]
        stage.rows(f"update smart_schedule_policy_groups set max_benchmarks = 1 where id = {policy}")
        stage.blsflow("benchmark", "run", str(policy), str(machine), str(project))
    else:
        stage.rows(_QUIET.format(ago="1 minute", run=open_[0][0]))
    observed = stage.call("reconcile")
    noted = stage.value(
        "select count(*) from smart_schedule_benchmark_runs where origin = 'operator' and execution_noted_at is not null"
    )
    return Observed(observed.done and noted == 1, observed.told)


def benchmark_watched(stage: Stage) -> Observed:
    """A run has been quiet for a minute: reconcile asks after its execution, which goes on."""
    stage.rows(_QUIET.format(ago="1 minute", run=_run_at_work(stage)))
    return stage.call("reconcile")


def benchmark_stopped(stage: Stage) -> Observed:
    """A run has been quiet for longer than the watchdog: reconcile stops its execution and begins another."""
    run_id = _run_at_work(stage)
    stage.rows(_QUIET.format(ago="2 hours", run=run_id))
    name = f"select execution_name from smart_schedule_benchmark_runs where id = '{run_id}'"
    before = stage.value(name)
    observed = stage.call("reconcile")
    arn = stage.output("BenchmarkStateMachineArn").replace(":stateMachine:", ":execution:")
    status = stage.client("stepfunctions").describe_execution(executionArn=f"{arn}:{before}")["status"]
    return Observed(observed.done and status == "ABORTED" and stage.value(name) != before, observed.told)


def _run_at_work(stage: Stage) -> str:
    return str(
        stage.value(
            "select id from smart_schedule_benchmark_runs where execution_noted_at is not null"
            " and state in ('running', 'restoring') and origin = 'operator'"
        )
    )


def _give_up(stage: Stage) -> None:
    for statement in _GIVE_UP.split(";"):
        stage.rows(statement)


def _make_due(stage: Stage, which: str) -> None:
    _give_up(stage)
    stage.rows(f"update smart_schedule_schedules set next_run_at = now() where {which}")


def _tick_sends(stage: Stage, queue: str) -> Observed:
    before = stage.waiting(queue)
    observed = stage.call("tick")
    return Observed(observed.done and stage.waiting(queue) > before, observed.told)
