"""Commands that carry the work on by hand: one scan, sending what is prepared, what is under way, and releasing it."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, Final
from uuid import UUID  # noqa: TC003 - typer reads the annotations

import typer

from blsflow.adapters.inline import InlineQueue
from blsflow.domain.history import HistoryQuery
from blsflow.domain.occurrence import OccurrenceState, ScheduleKind
from blsflow.domain.pages import MOST_ROWS
from blsflow.flow import control
from blsflow.flow.tick import PAGE
from blsflow_cli.deployment import deployment
from blsflow_cli.offline import JsonOption  # noqa: TC001 - typer reads the annotations
from blsflow_cli.options import By, Reason, counted, moment, plain_rows
from blsflow_cli.output import ExitCode, console, print_json, table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from blsflow.bootstrap import Application
    from blsflow.flow.decide import DecideReport
    from blsflow.flow.reconcile import ReconcileReport
    from blsflow.flow.tick import TickReport

_SCAN_BUDGET_SEC: Final = 40
_PASS_BUDGET_SEC: Final = 20
_BETWEEN_PASSES_SEC: Final = 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class DecidedTick:
    """What became of one recorded occurrence."""

    occurrence_id: int
    report: DecideReport

    def document(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return {"occurrence_id": self.occurrence_id} | asdict(self.report)

    def line(self) -> str:
        """Return it as a line for people."""
        report = self.report
        if report.policy_id is None:
            return f"occurrence {self.occurrence_id}: {report.outcome}"
        frozen = f"; froze for {report.frozen_for}" if report.frozen_for else ""
        return (
            f"policy {report.policy_id}, tick {report.tick_id}: {report.machines} machines, {report.attempts} batches "
            f"prepared, {report.gain_cny_per_day:.2f} CNY/day to gain{frozen} ({counted(report.counts)})"
        )


def decide_recorded(application: Application) -> list[DecidedTick]:
    """Decide what waits in this process's own queue; nothing when ticks go to a queue outside."""
    queue, ticks = application.decide_queue, []
    if isinstance(queue, InlineQueue):

        def take(message: Mapping[str, object]) -> None:
            occurrence_id = int(str(message["occurrence_id"]))
            ticks.append(DecidedTick(occurrence_id=occurrence_id, report=application.decide(occurrence_id)))

        queue.drain(take)
    return ticks


def unsent_messages(application: Application) -> list[Mapping[str, object]]:
    """Return what is prepared or recorded and still valid, whoever did that: sending it twice sends it once.

    A manual conversation that was not begun stays for its caller's retry.
    """
    waiting = HistoryQuery(kind=ScheduleKind.CONVERSATION, state=OccurrenceState.RECORDED, limit=MOST_ROWS)
    with application.store.transaction() as tx:
        attempts = tx.unqueued_attempts(timedelta(0), PAGE)
        recorded = tx.history(waiting)
    conversations = [row.occurrence_id for row in recorded if row.origin == "planned"]
    return [
        *({"attempt_id": str(attempt_id)} for attempt_id in attempts),
        *({"occurrence_id": occurrence_id} for occurrence_id in conversations),
    ]


def tick(*, as_json: JsonOption = False) -> None:
    """Scan once: read the prices, record what is due, and decide it.

    With a decide queue in the settings it is enqueued instead; `blsflow execute` sends what was prepared.
    Exit code 1: the feed gave no prices, or a step of the scan failed; the others were done.

    For example:

        blsflow tick && blsflow execute
    """
    with deployment() as application:
        report = application.tick(budget_sec=_SCAN_BUDGET_SEC)
        ticks = decide_recorded(application)
    if as_json:
        print_json(scan_document(report) | {"ticks": [each.document() for each in ticks]})
    else:
        typer.echo(
            f"prices: {prices_line(report)}; {report.recorded} recorded, {report.missed} missed, "
            f"{report.closed_unbegun} not begun in time, {report.broken} unreadable"
        )
        for each in ticks:
            typer.echo(each.line())
        for step, error in report.failures.items():
            typer.echo(f"{step} failed: {error}", err=True)
    if report.failures or report.feed_failure is not None:
        raise typer.Exit(ExitCode.FINDING)


def prices_line(report: TickReport) -> str:
    """Say what came of asking for prices, or that the newest time it failed, and why."""
    if report.feed_failure is None:
        return f"{report.feed} ({report.prices})"
    again = ", not asked again so soon" if report.feed == "recent" else ""
    return f"NONE from {report.feed_failure}{again}"


def scan_document(report: TickReport) -> dict[str, Any]:
    """Return a scan as a JSON object."""
    return asdict(report) | {"failures": {step: str(error) for step, error in report.failures.items()}}


def reconcile_document(report: ReconcileReport) -> dict[str, Any]:
    """Return a pass of following as a JSON object."""
    return asdict(report) | {"failures": {step: str(error) for step, error in report.failures.items()}}


def execute(
    *,
    wait: Annotated[
        float, typer.Option("--wait", min=0, help="Follow for at most so many seconds; 0 looks once.")
    ] = 120,
    as_json: JsonOption = False,
) -> None:
    """Send prepared batches and due conversations, each at most once, and follow all that is open to its confirmed end.

    Exit code 1: something is still open when the time is over. It is followed by the next passes.

    For example:

        blsflow execute --wait 300
    """
    with deployment() as application:
        ends = time.monotonic() + wait
        sent = [application.send(message) for message in unsent_messages(application)]
        report = application.reconcile(budget_sec=_PASS_BUDGET_SEC)
        ended, settled, alerts = report.ended, report.machines_settled, report.alerts
        while report.open_attempts and time.monotonic() < ends:
            time.sleep(_BETWEEN_PASSES_SEC)
            report = application.reconcile(budget_sec=_PASS_BUDGET_SEC)
            ended, settled, alerts = (
                ended + report.ended,
                settled + report.machines_settled,
                alerts + report.alerts,
            )
    outcomes = dict(sorted(Counter(each.outcome for each in sent).items()))
    if as_json:
        print_json(
            {
                "sent": plain_rows(map(asdict, sent)),
                "outcomes": outcomes,
                "attempts_ended": ended,
                "machines_settled": settled,
                "alerts": alerts,
                "open_attempts": report.open_attempts,
            }
        )
    else:
        typer.echo(f"{len(sent)} to send: {counted(outcomes) or 'nothing'}")
        typer.echo(f"{ended} ended, {settled} machines settled, {report.open_attempts} still open")
    if report.open_attempts:
        raise typer.Exit(ExitCode.FINDING)


def attempts(
    *,
    limit: Annotated[int, typer.Option(min=1, help="How many, oldest first.")] = 100,
    as_json: JsonOption = False,
) -> None:
    """List the batches and runs under way, oldest first: what each waits for, and whether that took too long.

    For example:

        blsflow attempts --json | jq -r '.[] | select(.unresolved_alerted_at) | .id'
    """
    with deployment() as application, application.store.transaction() as tx:
        rows = tx.open_work(tenant_id=None, limit=limit)
    if as_json:
        print_json(plain_rows(rows))
        return
    columns = [
        "attempt", "tenant", "policy", "action", "project", "state", "waits for", "job", "sent",
        "open (machines)", "looks (n)", "alerted",
    ]  # fmt: skip
    cells = (
        (row["id"], row["tenant_id"], row["policy_id"], row["action"], row["project_id"], row["state"],
         row["reason"], row["reference"], moment(row["dispatched_at"]), row["open_machines"], row["checks"],
         moment(row["unresolved_alerted_at"]))
        for row in rows
    )  # fmt: skip
    console().print(table("Under way" if rows else "Nothing is under way", columns, cells))


def release(
    attempt: Annotated[UUID, typer.Argument(help="The attempt's id, from `blsflow attempts`.")],
    *,
    reason: Reason,
    by: By,
    as_json: JsonOption = False,
) -> None:
    """Close a batch or run whose end nobody can confirm, on the record, and free its machines or its schedule.

    The job may still act on them: first make sure that the service has given it up.

    For example:

        blsflow release 0199c5c2-7d4a-7c3e-9f60-6f1a2b3c4d5e --reason "job lost with its database, ticket 4711"
    """
    with deployment() as application:
        closed = control.release(application.store, attempt, by=by, why=reason)
    if as_json:
        print_json(
            {
                "attempt_id": str(attempt),
                "action": closed.action,
                "job_id": closed.job_id,
                "machines": closed.machines,
                "may_still_act": True,
            }
        )
        return
    if closed.action == "converse":
        typer.echo(f"attempt {attempt} is closed, and its schedule is free")
        run = f"run {closed.job_id}" if closed.job_id else "a run, if one was started,"
        typer.echo(f"WARNING: {run} may still be at work in its conversation", err=True)
        return
    job = f"job {closed.job_id}" if closed.job_id else "the command, if it was taken,"
    typer.echo(f"attempt {attempt} ({closed.action}) is closed, {closed.machines} machines are free")
    typer.echo(
        f"WARNING: {job} may still act on these machines, and the next tick may move them at once: "
        "make sure that the device-control service has given it up",
        err=True,
    )


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    for command in (tick, execute, attempts, release):
        app.command()(command)
