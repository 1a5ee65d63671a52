"""Release: end the run, free the machine's lock, and write down what it cost (R7.3, R7.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from blsflow.domain.execution import CommandKind
from blsflow.domain.sampling import lost_cny, retry_after
from blsflow.flow.benchmark.step import SUPERSEDED, StepOutcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from blsflow.flow.benchmark.step import StepCall
    from blsflow.ports.benchmark import BenchmarkCommand, BenchmarkRun, Whereabouts


def release(call: StepCall) -> StepOutcome:
    """Answer `released`, or `held`: a command's end is open, and only that may free the machine (reconcile follows on)."""
    with call.store.transaction() as tx:
        run = tx.begin_benchmark_step(call.run_id, call.execution, "release")
        if run is None:
            return StepOutcome(outcome=SUPERSEDED)
        commands = tx.benchmark_commands(call.run_id)
        if any(not command.ended for command in commands):
            return StepOutcome(outcome="held", machine_id=run.machine_id)
        if run.outcome == "measured" and not run.result.get("stored"):
            tx.store_benchmark(call.run_id)  # an execution that died between judging and storing
        fared = _restore_status(run, commands, tx.whereabouts(run))
        minutes = 0.0
        if run.moved_at is not None:
            minutes = max(0.0, (tx.now - run.moved_at).total_seconds() / 60)
        mined = run.restore_action is None or run.restore_action is CommandKind.SWITCH
        state = tx.end_benchmark(
            call.run_id,
            restore_status=fared,
            lost_minutes=minutes if mined else 0.0,
            lost_cny=0.0 if not mined or not minutes else lost_cny(minutes, run.current_net_cny_per_day),
            retry_after=retry_after(run.attempt_no),
        )
    return StepOutcome(
        outcome="released", machine_id=run.machine_id, detail=state, not_restored=fared == "failed"
    )


def _restore_status(run: BenchmarkRun, commands: Sequence[BenchmarkCommand], seen: Whereabouts) -> str:
    """Say how the machine fared: never moved, put back, left to the operator who holds it, or not put back."""
    if run.restore_action is None or not any(command.may_have_moved for command in commands):
        return "not_moved"
    newest = commands[0]
    if newest.step == "restore" and newest.machine_state == "succeeded":
        return "restored"
    if seen.operator_hold:
        return "left_to_operator"
    home = seen.status == "mining" and seen.project_id == run.restore_project_id
    idle = seen.status in {"stopped", "off"} and run.restore_action is not CommandKind.SWITCH
    return "restored" if seen.fresh and (home or idle) else "failed"
