"""Commands that move machines by hand, and what became of them."""

from __future__ import annotations

import uuid
from collections import Counter
from typing import Annotated, Any
from uuid import UUID

import typer

from blsflow.adapters.inline import InlineQueue
from blsflow.domain.catalogue import word
from blsflow.domain.commands import command_request
from blsflow.domain.execution import CommandKind
from blsflow.flow import commands
from blsflow_cli.deployment import deployment, require_tenant
from blsflow_cli.offline import JsonOption  # noqa: TC001 - typer reads the annotations
from blsflow_cli.options import By, Cursor, Limit, Reason, counted, moment, plain, plain_rows
from blsflow_cli.output import ExitCode, print_json, show_page

command_app = typer.Typer(help="Move machines by hand, and see what became of it.", no_args_is_help=True)

Machines = Annotated[list[int], typer.Argument(metavar="MACHINE...", help="The machines' ids.", min=1)]
Tenant = Annotated[str, typer.Option("--tenant", help="Whose machines they are.")]
Project = Annotated[int, typer.Option("--project", help="The project's id.", min=1)]
RequestId = Annotated[
    str | None,
    typer.Option("--request-id", help="Asked again under the same id, it is done once.", show_default="new"),
]


def command_switch(  # noqa: PLR0913 - what to do, and who asks
    machines: Machines,
    *,
    tenant: Tenant,
    project: Project,
    reason: Reason,
    by: By,
    request_id: RequestId = None,
    as_json: JsonOption = False,
) -> None:
    """Switch machines that mine to a project.

    Machines that it cannot move are passed over, each with its reason; exit code 1: all of them were.

    For example:

        blsflow command switch 1042 1043 --tenant north-mining --project 106 --reason "pool moved, ticket 4711"
    """
    _send(CommandKind.SWITCH, machines, project, tenant, reason, by, request_id, as_json=as_json)


def command_start(  # noqa: PLR0913 - what to do, and who asks
    machines: Machines,
    *,
    tenant: Tenant,
    project: Project,
    reason: Reason,
    by: By,
    request_id: RequestId = None,
    as_json: JsonOption = False,
) -> None:
    """Start machines that do not mine, on a project.

    Machines that it cannot move are passed over, each with its reason; exit code 1: all of them were.

    For example:

        blsflow command start 1042 --tenant north-mining --project 106 --reason "repaired"
    """
    _send(CommandKind.START, machines, project, tenant, reason, by, request_id, as_json=as_json)


def command_stop(  # noqa: PLR0913 - what to do, and who asks
    machines: Machines,
    *,
    tenant: Tenant,
    reason: Reason,
    by: By,
    request_id: RequestId = None,
    as_json: JsonOption = False,
) -> None:
    """Stop machines; automation starts none of them again.

    Machines that it cannot move are passed over, each with its reason; exit code 1: all of them were.

    For example:

        blsflow command stop 1042 --tenant north-mining --reason "fan noise, ticket 4711"
    """
    _send(CommandKind.STOP, machines, None, tenant, reason, by, request_id, as_json=as_json)


def command_power_off(  # noqa: PLR0913 - what to do, and who asks
    machines: Machines,
    *,
    tenant: Tenant,
    reason: Reason,
    by: By,
    request_id: RequestId = None,
    as_json: JsonOption = False,
) -> None:
    """Power machines off; automation starts none of them again.

    Machines that it cannot move are passed over, each with its reason; exit code 1: all of them were.

    For example:

        blsflow command power-off 1042 --tenant north-mining --reason "work on the row's breaker"
    """
    _send(CommandKind.POWER_OFF, machines, None, tenant, reason, by, request_id, as_json=as_json)


def _send(  # noqa: PLR0913, PLR0917 - what to do, and who asks
    kind: CommandKind,
    machines: list[int],
    project: int | None,
    tenant: str,
    reason: str,
    by: str,
    request_id: str | None,
    *,
    as_json: bool,
) -> None:
    request = command_request(action=kind, machine_ids=machines, project_id=project, why=reason)
    key = request_id or str(uuid.uuid4())
    with deployment() as application:
        require_tenant(application, tenant, ())
        sent = application.command(request, tenant_id=tenant, request_id=key, by=by)
        by_hand = isinstance(application.execute_queue, InlineQueue)
    if as_json:
        print_json(
            {
                "command_id": str(sent.command_id),
                "request_id": key,
                "is_new": sent.is_new,
                "taken": sent.taken,
                "passed_over": {str(machine): str(why) for machine, why in sent.passed_over.items()},
            }
        )
    else:
        again = "" if sent.is_new else " (asked for before)"
        typer.echo(f"command {sent.command_id}{again}: {sent.taken} of {len(request.machine_ids)} machines")
        for why, count in sorted(Counter(sent.passed_over.values()).items()):
            typer.echo(f"  {count} passed over, {why}: {word(why).en}")
        if sent.taken and by_hand:
            typer.echo(
                f"the next tick sends it, or `blsflow execute` now; `blsflow command show {sent.command_id}` follows it"
            )
    if not sent.taken:
        raise typer.Exit(ExitCode.FINDING)


def command_list(
    *,
    tenant: Annotated[str | None, typer.Option("--tenant", help="Only this tenant's.")] = None,
    cursor: Cursor = None,
    limit: Limit = 50,
    as_json: JsonOption = False,
) -> None:
    """List commands, the newest first.

    For example:

        blsflow command list --tenant north-mining
    """
    with deployment() as application:
        page = commands.commands(application.store, tenant_id=tenant, cursor=cursor, limit=limit)
        require_tenant(application, tenant, page.rows)
    if as_json:
        print_json({"commands": plain_rows(page.rows), "cursor": page.cursor})
        return
    columns = ("command", "tenant", "action", "project", "taken", "of", "open", "at", "by", "why")
    cells = (
        (row["id"], row["tenant_id"], row["action"], row["project_id"], row["taken"], row["machines"], row["open"],
         moment(row["requested_at"]), row["requested_by"], row["why"])
        for row in page.rows
    )  # fmt: skip
    show_page("Commands", columns, cells, page.cursor)


def command_show(
    command: Annotated[UUID, typer.Argument(help="The command's id.")],
    *,
    cursor: Cursor = None,
    limit: Limit = 50,
    as_json: JsonOption = False,
) -> None:
    """Show what became of each machine of a command.

    For example:

        blsflow command show 0199c5c2-7d4a-7c3e-9f60-6f1a2b3c4d5e
    """
    with deployment() as application:
        row, page = commands.command_with_machines(
            application.store, command, tenant_id=None, cursor=cursor, limit=limit
        )
    if as_json:
        document: dict[str, Any] = plain(dict(row))
        print_json(document | {"outcomes": plain_rows(page.rows), "cursor": page.cursor})
        return
    typer.echo(
        f"{row['action']} by {row['requested_by']} at {moment(row['requested_at'])}: {row['taken']} of {row['machines']} "
        f"machines, {'open' if row['open'] else 'over'}; {row['why']}"
    )
    typer.echo(counted(Counter(str(each["state"]) for each in page.rows)))
    columns = ("machine", "state", "reason", "attempt", "ended")
    cells = (
        (each["machine_id"], each["state"], each["reason"], each["attempt_id"], moment(each["ended_at"]))
        for each in page.rows
    )
    show_page("Machines", columns, cells, page.cursor)


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.add_typer(command_app, name="command")
    for name, command in (
        ("switch", command_switch),
        ("start", command_start),
        ("stop", command_stop),
        ("power-off", command_power_off),
        ("list", command_list),
        ("show", command_show),
    ):
        command_app.command(name)(command)
