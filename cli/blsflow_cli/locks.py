"""Commands on the locks that keep everybody else's hands off a machine."""

from __future__ import annotations

from typing import Annotated

import typer

from blsflow.flow import jobs
from blsflow_cli.deployment import deployment, require_tenant
from blsflow_cli.offline import JsonOption  # noqa: TC001 - typer reads the annotations
from blsflow_cli.options import By, Cursor, Limit, Reason, moment, plain_rows
from blsflow_cli.output import print_json, show_page


def locks(  # noqa: PLR0913 - the filters of a page
    *,
    tenant: Annotated[str | None, typer.Option("--tenant", help="Only this tenant's.")] = None,
    machine: Annotated[int | None, typer.Option(min=1, help="Only this machine's.")] = None,
    policy: Annotated[int | None, typer.Option(min=1, help="Only those held for this policy.")] = None,
    cursor: Cursor = None,
    limit: Limit = 50,
    as_json: JsonOption = False,
) -> None:
    """List the machines that somebody acts on: for whom, since when, and how far that is.

    For example:

        blsflow locks --policy 3
    """
    with deployment() as application:
        page = jobs.locks(
            application.store,
            tenant_id=tenant,
            machine_id=machine,
            policy_id=policy,
            cursor=cursor,
            limit=limit,
        )
        require_tenant(application, tenant, page.rows)
    if as_json:
        print_json({"locks": plain_rows(page.rows), "cursor": page.cursor})
        return
    columns = ("machine", "tenant", "held by", "id", "policy", "does", "stands", "for (s)", "expires")
    cells = (
        (row["machine_id"], row["tenant_id"], row["owner_kind"], row["owner_id"], row["policy_id"], row["owner_does"],
         row["owner_state"], row["age_sec"], moment(row["expires_at"]))
        for row in page.rows
    )  # fmt: skip
    show_page("Locks", columns, cells, page.cursor)


def unlock(
    machine: Annotated[int, typer.Argument(help="The machine's id.", min=1)],
    *,
    reason: Reason,
    by: By,
    as_json: JsonOption = False,
) -> None:
    """Free one machine of a batch whose end nobody can confirm, on the record; the others stay locked.

    The job may still act on it: first make sure that the service has given it up. `blsflow release` closes a whole batch.

    For example:

        blsflow unlock 1042 --reason "control board replaced, ticket 4711"
    """
    with deployment() as application:
        closed = jobs.release_machine(application.store, machine, by=by, why=reason)
    if as_json:
        print_json(
            {
                "machine_id": machine,
                "attempt_id": None if closed.attempt_id is None else str(closed.attempt_id),
                "action": closed.action,
                "job_id": closed.job_id,
                "attempt_ended": closed.attempt_ended,
                "may_still_act": True,
            }
        )
        return
    typer.echo(f"machine {machine} is free" + ("; its attempt has ended" if closed.attempt_ended else ""))
    job = f"job {closed.job_id}" if closed.job_id else "the command, if it was taken,"
    typer.echo(
        f"WARNING: {job} may still {closed.action or 'move'} it, and others may move it at once", err=True
    )


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    for command in (locks, unlock):
        app.command()(command)
