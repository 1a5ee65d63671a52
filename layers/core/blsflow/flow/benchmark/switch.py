"""Switch: send the machine to the project that is to be sampled, at most once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from blsflow.domain.execution import CommandKind
from blsflow.flow.benchmark.command import send
from blsflow.flow.benchmark.confirm import FIRST_LOOK
from blsflow.flow.benchmark.step import COMMAND_VALIDITY, SUPERSEDED, StepOutcome
from blsflow.ports.benchmark import WayBack

if TYPE_CHECKING:
    from blsflow.flow.benchmark.step import StepCall


def switch(call: StepCall) -> StepOutcome:
    """Answer `sent`, or `refused`: the service took nothing, or what allowed it is gone."""
    with call.store.transaction() as tx:
        run = tx.begin_benchmark_step(call.run_id, call.execution, "switch")
        if run is None:
            return StepOutcome(outcome=SUPERSEDED)
        starts = run.restore_action is not CommandKind.SWITCH
        there = WayBack(
            action=CommandKind.START if starts else CommandKind.SWITCH,
            project_id=run.project_id,
            run_config_id=run.run_config_id,
        )
        attempt_id = tx.prepare_benchmark_command(
            run, there, step="switch", key=f"benchmark:{run.run_id}:switch", validity=COMMAND_VALIDITY
        )
    sent = send(call, attempt_id)
    if sent.on_its_way:
        return StepOutcome(outcome="sent", wait_sec=FIRST_LOOK, machine_id=run.machine_id)
    reason = sent.reason or "not_sent"
    with call.store.transaction() as tx:
        tx.note_benchmark(call.run_id, failed_for=reason)
    return StepOutcome(outcome="refused", machine_id=run.machine_id, detail=reason)
