"""Sending a run's command: through the same attempts, and under the same rules, as every other command."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from blsflow.flow.execute import execute

if TYPE_CHECKING:
    from uuid import UUID

    from blsflow.flow.benchmark.step import StepCall


@dataclass(frozen=True, kw_only=True, slots=True)
class Sent:
    """Whether a command may have reached the machine; if it surely did not, why."""

    on_its_way: bool
    reason: str | None


def send(call: StepCall, attempt_id: UUID) -> Sent:
    """Send a prepared command if nobody has, and say where it stands: `prepared -> dispatching` commits before the call."""
    execute(
        call.store,
        attempt_id=attempt_id,
        device_control=call.device_control,
        gates=call.settings.gates,
        request_timeout=call.settings.request_timeout,
    )
    with call.store.transaction() as tx:
        command = next(each for each in tx.benchmark_commands(call.run_id) if each.attempt_id == attempt_id)
        if command.may_have_moved:
            tx.note_benchmark(call.run_id, moved_at=command.dispatched_at)
    refused = command.ended or command.machine_state == "refused"
    return Sent(on_its_way=not refused or command.may_have_moved, reason=command.reason)
