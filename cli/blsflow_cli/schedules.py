"""Commands on schedules of conversations: listing, creating, changing, pausing and archiving them."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from blsflow.domain.errors import BlsflowError, InvalidExecutionRequest
from blsflow.domain.occurrence import ScheduleKind
from blsflow.flow import schedules as flow
from blsflow_cli.deployment import deployment, require_tenant
from blsflow_cli.offline import JsonOption, schedule_app
from blsflow_cli.options import By, moment, plain_rows
from blsflow_cli.output import console, print_json, table
from blsflow_cli.schedule_document import read_schedule

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from blsflow.bootstrap import Application

ScheduleArgument = Annotated[int, typer.Argument(metavar="SCHEDULE", help="The schedule's id.", min=1)]
ScheduleFile = Annotated[Path, typer.Argument(help="The schedule document, or - for standard input.")]
TenantOption = Annotated[str | None, typer.Option("--tenant", help="Only this tenant's.")]


def schedules(*, tenant: TenantOption = None, as_json: JsonOption = False) -> None:
    """List the schedules in use, of policies' ticks and of conversations: rule, next run, and how the newest one went.

    For example:

        blsflow schedules --tenant north-mining

        blsflow schedules --json | jq '.[] | select(.broken)'
    """
    with deployment() as application:
        rows = flow.list_schedules(application.store, tenant_id=tenant)
        require_tenant(application, tenant, rows)
    if as_json:
        print_json(plain_rows(rows))
        return
    columns = [
        "schedule", "tenant", "name", "work", "rule", "zone", "state", "version (n)", "next run", "newest run",
    ]  # fmt: skip
    cells = (
        (row["id"], row["tenant_id"], row["name"] or "-", _work(row), _rule(row["rule"]), row["time_zone"],
         _state(row), row["version"], moment(row["next_run_at"]), row["newest_state"])
        for row in rows
    )  # fmt: skip
    console().print(table("Schedules" if rows else "There is no schedule", columns, cells))


@schedule_app.command()
def create(file: ScheduleFile, *, by: By, as_json: JsonOption = False) -> None:
    """Store a schedule of conversations; its first run is the rule's next one from now.

    `blsflow schema schedule` prints the document's shape. What cannot be meant is named, and nothing is stored.

    For example:

        blsflow schedule create examples/schedule_morning_report.json
    """
    document = read_schedule(file)
    with deployment() as application:
        made = flow.create_schedule(
            application.store,
            tenant_id=document.tenant,
            created_by=document.created_by,
            by=by,
            name=document.name,
            work=document.work.model_dump(),
            rule=document.rule_as_given(),
        )
    if as_json:
        print_json({"schedule_id": made.schedule_id, "version": made.version})
    else:
        typer.echo(f"schedule {made.schedule_id} is stored, at version {made.version}")


@schedule_app.command()
def change(
    schedule: ScheduleArgument,
    file: ScheduleFile,
    *,
    version: Annotated[
        int, typer.Option("--version", min=1, help="The version that you read, from `blsflow schedules`.")
    ],
    by: By,
    as_json: JsonOption = False,
) -> None:
    """Replace a schedule's name, rule and work, unless somebody else has changed it since that version.

    A run that was recorded before and has not begun is skipped as `config_changed`. Tenant and creator stay.

    For example:

        blsflow schedule change 7 morning.json --version 1
    """
    document = read_schedule(file)
    with deployment() as application:
        row = _listed(application, schedule, tenant=document.tenant)
        if row["created_by"] != document.created_by:
            raise InvalidExecutionRequest(
                field="created_by",
                value=document.created_by,
                cause=f"runs keep the rights of {row['created_by']}: create a schedule of its own instead",
            )
        with of_conversations("policy change"):
            changed = flow.change_schedule(
                application.store,
                schedule,
                version=version,
                name=document.name,
                work=document.work.model_dump(),
                rule=document.rule_as_given(),
                by=by,
                runs_as=document.created_by,
                tenant_id=document.tenant,
            )
    if as_json:
        print_json({"schedule_id": schedule, "version": changed.version})
    else:
        typer.echo(f"schedule {schedule} is changed, and now at version {changed.version}")


@schedule_app.command()
def pause(schedule: ScheduleArgument, *, by: By, as_json: JsonOption = False) -> None:
    """Plan no further run of a schedule; what is under way is followed to its end.

    For example:

        blsflow schedule pause 7
    """
    _set_paused(schedule, paused=True, by=by, as_json=as_json)


@schedule_app.command()
def resume(schedule: ScheduleArgument, *, by: By, as_json: JsonOption = False) -> None:
    """Go on with a paused schedule, from now and in its own rhythm; nothing is caught up.

    For example:

        blsflow schedule resume 7
    """
    _set_paused(schedule, paused=False, by=by, as_json=as_json)


@schedule_app.command()
def archive(schedule: ScheduleArgument, *, by: By, as_json: JsonOption = False) -> None:
    """Take a schedule of conversations out of use, for good; its history stays.

    For example:

        blsflow schedule archive 7
    """
    with deployment() as application, of_conversations("policy archive"):
        flow.archive_schedule(application.store, schedule, by=by)
    if as_json:
        print_json({"schedule_id": schedule, "archived": True})
    else:
        typer.echo(
            f"schedule {schedule} is archived; `blsflow occurrences --schedule {schedule}` shows its history"
        )


@contextmanager
def of_conversations(instead: str) -> Iterator[None]:
    """Refuse a policy's tick with the command that does the same to its policy."""
    try:
        yield
    except flow.TickOfPolicy as error:
        raise BlsflowError(
            f"schedule {error.schedule_id} is the tick of policy {error.policy_id}: use `blsflow {instead}`"
        ) from error


def register(app: typer.Typer) -> None:
    """Add the commands of this module; those of `blsflow schedule` stand beside its preview."""
    app.command()(schedules)


def _set_paused(schedule: int, *, paused: bool, by: str, as_json: bool) -> None:
    with deployment() as application:
        with of_conversations("disable" if paused else "enable"):
            flow.pause_schedule(application.store, schedule, paused=paused, by=by)
        row = _listed(application, schedule)
    if as_json:
        print_json(
            {"schedule_id": schedule, "paused": paused} | plain_rows([{"next_run_at": row["next_run_at"]}])[0]
        )
    elif paused:
        typer.echo(f"schedule {schedule} is paused; `blsflow schedule resume {schedule}` goes on with it")
    else:
        typer.echo(f"schedule {schedule} goes on; its next run is at {moment(row['next_run_at'])}")


def _listed(application: Application, schedule: int, *, tenant: str | None = None) -> Mapping[str, Any]:
    return flow.read_schedule(application.store, schedule, tenant_id=tenant)


def _work(row: Mapping[str, Any]) -> str:
    if row["kind"] == ScheduleKind.POLICY_TICK:
        return f"tick of policy {row['policy_id']}"
    return f"{row['work']['target']}, {row['work']['conversation_id']}"


def _rule(rule: object) -> str:
    """The rule in a cell: its kind and what it says; one that is no object is shown as it is."""
    if not isinstance(rule, dict):
        return str(rule)
    said = " ".join(f"{name}={value}" for name, value in rule.items() if name != "kind")
    return f"{rule.get('kind')} {said}".strip()


def _state(row: Mapping[str, Any]) -> str:
    if row["broken"]:
        return f"cannot be read: {row['broken']}"
    return "paused" if row["paused"] else "on"
