"""Commands on the runs of schedules: their history, running one now, and cancelling one."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from blsflow.domain.history import HistoryQuery, decode_cursor
from blsflow.domain.occurrence import OccurrenceState, ScheduleKind
from blsflow.domain.pages import MOST_ROWS
from blsflow.flow import occurrences as flow
from blsflow_cli.deployment import deployment, require_tenant
from blsflow_cli.offline import JsonOption, schedule_app
from blsflow_cli.options import By, moment, plain_rows
from blsflow_cli.output import ExitCode, print_json, show_page
from blsflow_cli.schedule_preview import instant
from blsflow_cli.schedules import ScheduleArgument, TenantOption, of_conversations

if TYPE_CHECKING:
    from datetime import datetime

    from blsflow.flow.converse import ConverseReport
    from blsflow.ports.people import OccurrenceRow

# The service has the prompt, or may have it.
_BEGUN = frozenset({"accepted", "ambiguous", "already_begun"})
_RUNS = frozenset(OccurrenceState) - {OccurrenceState.SKIPPED, OccurrenceState.FAILED}


def occurrences(  # noqa: PLR0913 - each is a filter
    *,
    schedule: Annotated[int | None, typer.Option("--schedule", min=1, help="Only this schedule's.")] = None,
    tenant: TenantOption = None,
    kind: Annotated[ScheduleKind | None, typer.Option("--kind", help="Only this kind of work.")] = None,
    state: Annotated[
        OccurrenceState | None, typer.Option("--state", help="Only those in this state.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(help="Planned at or after this instant, with its offset.")
    ] = None,
    until: Annotated[str | None, typer.Option(help="Planned before this instant, with its offset.")] = None,
    limit: Annotated[
        int, typer.Option(min=1, max=MOST_ROWS, help="How many, newest planned time first.")
    ] = 50,
    cursor: Annotated[str | None, typer.Option(help="Goes on where the page before ended.")] = None,
    as_json: JsonOption = False,
) -> None:
    """List the runs of schedules, newest planned time first, with their states, reasons, times and results.

    A page tells how to get the next one; pages neither repeat nor lose a run while others are recorded.

    For example:

        blsflow occurrences --kind conversation --state failed

        blsflow occurrences --schedule 7 --since 2026-03-01T00:00+08:00 --limit 200 --json | jq -r .next_cursor
    """
    query = HistoryQuery(
        tenant_id=tenant,
        schedule_id=schedule,
        kind=kind,
        state=state,
        since=None if since is None else instant(since, field="--since"),
        until=None if until is None else instant(until, field="--until"),
        after=None if cursor is None else decode_cursor(cursor),
        limit=limit,
    )
    with deployment() as application:
        rows, following = flow.history(application.store, query)
        require_tenant(application, tenant, rows)
    if as_json:
        print_json({"occurrences": plain_rows(map(asdict, rows)), "next_cursor": following})
        return
    columns = [
        "occurrence", "schedule", "work", "planned", "origin", "state", "reason", "late (s)", "took (s)",
        "output or error",
    ]  # fmt: skip
    show_page("Occurrences" if rows else "No occurrence", columns, map(_row, rows), following)


@schedule_app.command()
def run(
    schedule: ScheduleArgument,
    *,
    request_id: Annotated[
        str, typer.Option("--request-id", help="Names this request: the same id is the same run.")
    ],
    by: By,
    as_json: JsonOption = False,
) -> None:
    """Run a schedule's conversation now. Repeated with the same request id it is the same run, however often.

    The prompt is sent from this process, with its settings; reconcile, `serve` or `execute` follow the run to its end.
    Exit code 1: nothing runs, and the occurrence says why.

    For example:

        blsflow schedule run 7 --request-id "$(uuidgen)"
    """
    begun: list[ConverseReport] = []
    with deployment() as application:

        def converse(occurrence_id: int) -> ConverseReport:
            begun.append(application.converse(occurrence_id))
            return begun[-1]

        try:
            with of_conversations("run"):
                requested = flow.run_schedule(
                    application.store, schedule, request_id=request_id, by=by, converse=converse
                )
        except flow.ExecutionTargetUnavailable as error:
            occurrence_id, outcome, reason = error.occurrence_id, "execution_target_unavailable", None
        else:
            occurrence_id, reason = requested.occurrence_id, requested.reason
            outcome = begun[-1].outcome if begun else requested.state
    run_id = begun[-1].run_id if begun else None
    if as_json:
        print_json({"occurrence_id": occurrence_id, "outcome": outcome, "reason": reason, "run_id": run_id})
    else:
        asked = "" if begun else ", asked for before"
        said = f"run {run_id}" if run_id else outcome if reason is None else f"{outcome}, {reason}"
        typer.echo(f"occurrence {occurrence_id}{asked}: {said}")
    if outcome not in (_BEGUN if begun else _RUNS):
        raise typer.Exit(ExitCode.FINDING)


@schedule_app.command()
def cancel(
    schedule: ScheduleArgument,
    occurrence: Annotated[
        int, typer.Argument(help="The occurrence's id, from `blsflow occurrences`.", min=1)
    ],
    *,
    by: By,
    as_json: JsonOption = False,
) -> None:
    """Ask a run to end: at once if it was not begun, else its schedule stays taken until its end is confirmed.

    Exit code 1: it had ended otherwise before.

    For example:

        blsflow schedule cancel 7 4711
    """
    with deployment() as application:
        cancelled = flow.cancel_occurrence(
            application.store,
            schedule,
            occurrence,
            by=by,
            execution_service=application.execution_service,
        )
    if as_json:
        print_json({"occurrence_id": occurrence, "state": cancelled.state, "asked": cancelled.asked})
    elif cancelled.state == OccurrenceState.CANCELLING:
        typer.echo(f"occurrence {occurrence} was asked to end; it stays `cancelling` until that is confirmed")
    elif cancelled.state == OccurrenceState.CANCELLED:
        typer.echo(f"occurrence {occurrence} is cancelled")
    else:
        typer.echo(f"occurrence {occurrence} had ended before: {cancelled.state}")
    if cancelled.state not in {OccurrenceState.CANCELLING, OccurrenceState.CANCELLED}:
        raise typer.Exit(ExitCode.FINDING)


def register(app: typer.Typer) -> None:
    """Add the commands of this module; those of `blsflow schedule` stand beside its preview."""
    app.command()(occurrences)


def _row(row: OccurrenceRow) -> tuple[object, ...]:
    reason = row.reason if row.missed_count is None else f"{row.reason} ({row.missed_count})"
    return (
        row.occurrence_id, row.schedule_id, row.kind, moment(row.planned_at), row.origin, row.state, reason,
        _seconds(row.planned_at, row.began_at), _seconds(row.began_at, row.ended_at), row.output_ref or row.error,
    )  # fmt: skip


def _seconds(start: datetime | None, end: datetime | None) -> float | None:
    return None if start is None or end is None else (end - start).total_seconds()
