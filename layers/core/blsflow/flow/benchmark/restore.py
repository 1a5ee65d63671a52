"""Restore: put the machine back on what it did before, whatever happened until here (R7.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from blsflow.domain.execution import CommandKind
from blsflow.flow.benchmark.command import send
from blsflow.flow.benchmark.confirm import FIRST_LOOK
from blsflow.flow.benchmark.step import COMMAND_VALIDITY, MAX_RESTORES, SUPERSEDED, StepOutcome
from blsflow.ports.benchmark import WayBack

if TYPE_CHECKING:
    from uuid import UUID

    from blsflow.flow.benchmark.step import StepCall
    from blsflow.ports.benchmark import BenchmarkRun, Whereabouts
    from blsflow.ports.store import Transaction

_FIRST_WAIT: Final = 10
_LOOK_EVERY: Final = 5
_STATUS_AFTER: Final = {CommandKind.STOP: "stopped", CommandKind.POWER_OFF: "off"}


def restore(call: StepCall) -> StepOutcome:
    """Send what puts the machine back, if anything has to.

    Answers `sent`; `waiting` while an earlier command's end is open; `back` when nothing is to be done, or an operator holds
    the machine; `refused`, to be tried again after the wait; and, once that was tried often enough, `given_up`.
    """
    with call.store.transaction() as tx:
        run = tx.begin_benchmark_step(call.run_id, call.execution, "restore")
        if run is None:
            return StepOutcome(outcome=SUPERSEDED)
        attempt_id, answer = _next(tx, run)
    if attempt_id is None:
        return StepOutcome(outcome=answer, machine_id=run.machine_id, wait_sec=_LOOK_EVERY)
    sent = send(call, attempt_id)
    if sent.on_its_way:
        return StepOutcome(outcome="sent", machine_id=run.machine_id, wait_sec=FIRST_LOOK)
    wait = _FIRST_WAIT * 2**run.restore_tries
    return StepOutcome(outcome="refused", machine_id=run.machine_id, wait_sec=wait, detail=sent.reason or "")


def _next(tx: Transaction, run: BenchmarkRun) -> tuple[UUID | None, str]:
    """Return the command to send, or why there is none."""
    commands = tx.benchmark_commands(run.run_id)
    unsent = [command.attempt_id for command in commands if command.state == "prepared"]
    if unsent:
        tx.end_unsent(unsent, "benchmark_ends", occurrence_id=None)
        commands = tx.benchmark_commands(run.run_id)  # whoever was about to send one may have been faster
    if any(not command.ended and command.state != "prepared" for command in commands):
        return None, "waiting"
    if commands and commands[0].step == "restore" and commands[0].machine_state == "succeeded":
        return None, "back"
    moved = any(command.may_have_moved for command in commands)
    if run.restore_action is None or not moved or _is_back(run, tx.whereabouts(run)):
        return None, "back"
    if run.restore_tries >= MAX_RESTORES:
        return None, "given_up"
    back = WayBack(
        action=run.restore_action,
        project_id=run.restore_project_id,
        run_config_id=run.restore_run_config_id,
    )
    key = f"benchmark:{run.run_id}:restore:{run.restore_tries + 1}"
    return tx.prepare_benchmark_command(run, back, step="restore", key=key, validity=COMMAND_VALIDITY), "sent"


def _is_back(run: BenchmarkRun, seen: Whereabouts) -> bool:
    """Whether the machine does what it did before by a report since the last command, or an operator has taken it over."""
    if seen.operator_hold:
        return True
    if not seen.fresh or run.restore_action is None:
        return False
    if run.restore_action is CommandKind.SWITCH:
        return seen.status == "mining" and seen.project_id == run.restore_project_id
    return seen.status == _STATUS_AFTER[run.restore_action]
