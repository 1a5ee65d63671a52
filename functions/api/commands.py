"""Batch commands that operators send themselves, through the same locks and records as automation (R5.8)."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated
from uuid import UUID

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Body, Path, Query
from pydantic import Field

from blsflow.bootstrap import application
from blsflow.documents import Id, Strict, located
from blsflow.domain.catalogue import word
from blsflow.domain.commands import MOST_MACHINES, command_request
from blsflow.domain.execution import CommandKind
from blsflow.flow import commands as flow
from blsflow.web.caller import Scope

from .routing import answer, caller, operation, store
from .shapes import Answer, Cursor, IdempotencyKey, Limit, Page, Texts, Why

TAG = "commands"
CommandId = Annotated[UUID, Path()]


class CommandIn(Strict):
    """What the machines are to do, and why; `project_id` for `switch` and `start` only."""

    action: Annotated[CommandKind, Field(strict=False)]
    machine_ids: Annotated[list[Id], Field(min_length=1, max_length=MOST_MACHINES)]
    project_id: Annotated[Id | None, Field(description="to which; for switch and start", examples=[101])] = (
        None
    )
    reason: Why


class PassedOver(Answer):
    """A machine that was left as it is, and why."""

    machine_id: int
    reason: str
    texts: Texts


class SentCommand(Answer):
    """A command as it was taken; `is_new` is false when an earlier request under the same key had done it."""

    command_id: UUID
    is_new: bool
    taken: int
    passed_over: list[PassedOver]


class Command(Answer):
    """A command; `open` while any of its batches is, `taken` of its `machines` are in one."""

    id: UUID
    action: str
    project_id: int | None
    requested_by: str
    why: str
    requested_at: datetime
    machines: int
    taken: int
    open: bool


class CommandMachine(Answer):
    """What became of a machine: `skipped`, or how it stands in its batch; both null once that is past retention."""

    machine_id: int
    attempt_id: UUID | None
    state: str | None
    reason: str | None
    ended_at: datetime | None


@operation("GET", "/commands", scope=Scope.READ, tag=TAG, makes={"command_id": "/items/0/id"})
def list_commands(
    action: Annotated[CommandKind | None, Query()] = None, cursor: Cursor = None, limit: Limit = 50
) -> Response[Page[Command]]:
    """List the commands that operators sent, the newest first."""
    with located("query"):
        page = flow.commands(store(), tenant_id=caller().tenant_id, action=action, cursor=cursor, limit=limit)
    return answer(Page[Command].of(page.rows, page.cursor, Command))


@operation(
    "POST",
    "/commands",
    scope=Scope.EXECUTE,
    tag=TAG,
    status=202,
    problems=["not_found", "request_conflict", "execution_not_allowed"],
    makes={"command_id": "/command_id"},
)
def send_command(
    command: Annotated[CommandIn, Body()], idempotency_key: IdempotencyKey
) -> Response[SentCommand]:
    """Command machines, whatever their policies say: each is taken under its lock, or passed over with the reason.

    The deployment-wide switch, the lease and a configured device control are needed; without them nothing is done.
    """
    who = caller()
    sent = application().command(
        command_request(
            action=command.action,
            machine_ids=command.machine_ids,
            project_id=command.project_id,
            why=command.reason,
        ),
        tenant_id=who.tenant_id,
        request_id=idempotency_key,
        by=who.subject,
        store=store(),
    )
    passed_over = [
        PassedOver(machine_id=machine_id, reason=why, texts=Texts.model_validate(word(why)))
        for machine_id, why in sorted(sent.passed_over.items())
    ]
    return answer(
        SentCommand(
            command_id=sent.command_id, is_new=sent.is_new, taken=sent.taken, passed_over=passed_over
        ),
        status=202,
        location=f"/commands/{sent.command_id}",
    )


@operation("GET", "/commands/<command_id>", scope=Scope.READ, tag=TAG, problems=["not_found"])
def read_command(command_id: CommandId) -> Response[Command]:
    """Read one command."""
    row, _ = flow.command_with_machines(store(), command_id, tenant_id=caller().tenant_id, limit=1)
    return answer(Command.model_validate(row))


@operation("GET", "/commands/<command_id>/machines", scope=Scope.READ, tag=TAG, problems=["not_found"])
def list_command_machines(
    command_id: CommandId, cursor: Cursor = None, limit: Limit = 50
) -> Response[Page[CommandMachine]]:
    """List what became of each machine of a command, in the order of their ids."""
    with located("query"):
        _, page = flow.command_with_machines(
            store(), command_id, tenant_id=caller().tenant_id, cursor=cursor, limit=limit
        )
    return answer(Page[CommandMachine].of(page.rows, page.cursor, CommandMachine))
