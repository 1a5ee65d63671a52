"""Commands: operators move machines themselves, under the same gates, locks and records as automation (R5.8).

One transaction records a command, decides what is to become of each machine, takes the locks and prepares the batches; what
comes after its commit is what comes after a tick's. A policy's mode and its freezes bind automation and no operator.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from blsflow.domain.commands import PassedOver
from blsflow.domain.errors import BlsflowError
from blsflow.domain.execution import CommandKind
from blsflow.domain.gates import Withheld, closed_gate
from blsflow.domain.pages import COMMAND_MACHINES, COMMANDS
from blsflow.flow.batches import Batches
from blsflow.flow.enqueuing import enqueue_attempts
from blsflow.flow.pages import read
from blsflow.flow.requests import fingerprint, once

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta

    from blsflow.domain.commands import CommandRequest
    from blsflow.domain.gates import Gates
    from blsflow.domain.pages import Page
    from blsflow.ports.services import Queue
    from blsflow.ports.store import Store, Transaction

_CAUSES = {
    Withheld.EXECUTE_DISABLED: "BLSFLOW_SCHEDULER_EXECUTE_ENABLED is off for the whole deployment",
    Withheld.EXECUTOR_UNCONFIGURED: "no device-control service is configured",
    Withheld.LEASE_NOT_HELD: "another system holds the tenant's executor lease; see `blsflow lease`",
}


class CommandWithheld(BlsflowError):
    """A gate is closed to everything that would move a machine: the command came to nothing, and nothing is locked."""

    def __init__(self, gate: Withheld) -> None:
        super().__init__(f"no machine can be commanded ({gate}): {_CAUSES[gate]}")
        self.gate = gate


class UnknownProject(BlsflowError):
    """The tenant has no such project."""

    def __init__(self, project_id: int) -> None:
        super().__init__(f"there is no project {project_id}")
        self.project_id = project_id


class UnknownCommand(BlsflowError):
    """There is no such command, or it is someone else's."""

    def __init__(self, command_id: UUID) -> None:
        super().__init__(
            f"there is no command {command_id}: `blsflow command list` lists those that there are"
        )
        self.command_id = command_id


@dataclass(frozen=True, kw_only=True, slots=True)
class CommandSettings:
    """What bounds a command's actions; it is not sent any more once ``lock_ttl`` has passed."""

    gates: Gates
    batch_size: int
    lock_ttl: timedelta


@dataclass(frozen=True, kw_only=True, slots=True)
class SentCommand:
    """A command as it was taken: how many machines it moves, and why it passes the others over.

    ``is_new`` is False when an earlier request under the same id had done it.
    """

    command_id: UUID
    is_new: bool
    taken: int
    passed_over: Mapping[int, PassedOver]


def command(  # noqa: PLR0913 - what to do, for whom, and who asks
    store: Store,
    request: CommandRequest,
    *,
    tenant_id: str,
    request_id: str,
    by: str,
    execute_queue: Queue,
    settings: CommandSettings,
) -> SentCommand:
    """Prepare a command for all of its machines that can be moved; the same request id gives the same command.

    Raises `CommandWithheld`, `UnknownProject`, `KeyConflict` and `InvalidExecutionRequest`, each before anything is done.
    """
    prepared: list[UUID] = []

    def make() -> dict[str, Any]:
        command_id, attempts = _prepare(tx, request, tenant_id=tenant_id, by=by, settings=settings)
        prepared.extend(attempts)
        return {"command_id": str(command_id)}

    with store.transaction() as tx:
        asked = fingerprint("commands", request.body)
        answer = once(tx, tenant_id=tenant_id, key=request_id, fingerprint=asked, by=by, make=make)
        command_id = UUID(answer.document["command_id"])
        passed_over = {machine_id: PassedOver(why) for machine_id, why in tx.passed_over(command_id).items()}
    enqueue_attempts(store, execute_queue, prepared)
    return SentCommand(
        command_id=command_id,
        is_new=answer.is_new,
        taken=len(request.machine_ids) - len(passed_over),
        passed_over=passed_over,
    )


def _prepare(
    tx: Transaction, request: CommandRequest, *, tenant_id: str, by: str, settings: CommandSettings
) -> tuple[UUID, Sequence[UUID]]:
    grounds = tx.command_grounds(tenant_id, request.project_id, settings.gates.holder)
    gate = closed_gate(settings.gates, lease_held=grounds.lease_held)
    if gate is not None:
        raise CommandWithheld(gate)
    if request.project_id is not None and not grounds.project_known:
        raise UnknownProject(request.project_id)
    command_id = uuid.uuid4()
    batches = Batches(f"command-{command_id}", settings.batch_size)
    placed: dict[int, UUID] = {}
    passed_over: dict[int, str] = {}
    at_rest: dict[int, str] = {}
    rests = request.action in {CommandKind.STOP, CommandKind.POWER_OFF}
    for machine in tx.command_prospects(tenant_id, request):
        if machine.passed_over is None:
            kind = (str(request.action), request.project_id, machine.run_config_id)
            placed[machine.machine_id] = batches.place(kind, machine.machine_id)
            continue
        passed_over[machine.machine_id] = str(machine.passed_over)
        if rests and machine.passed_over is PassedOver.ALREADY_SO:
            at_rest[machine.machine_id] = machine.doing
    won = tx.prepare_command(
        command_id,
        tenant_id,
        request,
        by=by,
        attempts=batches.attempts(),
        placed=placed,
        passed_over=passed_over,
        lock_ttl=settings.lock_ttl,
    )
    if at_rest:
        tx.leave_at_rest(tenant_id, at_rest)
    return command_id, won


def commands(
    store: Store,
    *,
    tenant_id: str | None,
    action: str | None = None,
    cursor: str | None = None,
    limit: int = 50,
) -> Page:
    """Return a page of commands, the newest first."""
    with store.transaction() as tx:
        filters = {"tenant_id": tenant_id, "action": action}
        return read(tx, COMMANDS, filters=filters, cursor=cursor, limit=limit)


def command_with_machines(  # noqa: PLR0913 - which command, for whom, and which page of its machines
    store: Store,
    command_id: UUID,
    *,
    tenant_id: str | None,
    state: str | None = None,
    cursor: str | None = None,
    limit: int = 50,
) -> tuple[Mapping[str, Any], Page]:
    """Return a command and a page of its machines, by id, each with what became of it."""
    with store.transaction() as tx:
        whose = {"tenant_id": tenant_id, "id": command_id}
        found = tx.read_page(COMMANDS, filters=whose, after=None, limit=1)
        if not found:
            raise UnknownCommand(command_id)
        filters = {"command_id": command_id, "state": state}
        return found[0], read(tx, COMMAND_MACHINES, filters=filters, cursor=cursor, limit=limit)
