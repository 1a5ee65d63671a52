"""Commands that look back: what a policy would have done by its stored ticks, and on recorded prices (R4.5, R4.6)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from blsflow.domain.backtest import BacktestRun
from blsflow.domain.errors import InvalidDocument
from blsflow.flow.backtest import Backtest, backtest
from blsflow.flow.report import report
from blsflow_cli import replay_chart, replay_report
from blsflow_cli.backtest_document import BacktestDocument, readings_of, scenario_of
from blsflow_cli.deployment import deployment
from blsflow_cli.documents import read
from blsflow_cli.offline import JsonOption  # noqa: TC001 - typer reads the annotations
from blsflow_cli.options import PolicyArgument, counted, moment
from blsflow_cli.output import ExitCode, console, print_json
from blsflow_cli.schedule_preview import instant

if TYPE_CHECKING:
    from blsflow.domain.replay_ledger import Replayed

_STEP_SEC: Final = 300
DEFAULT_LIMIT: Final = 20_000_000
"""Ten minutes' work: a person sees how far it is, and can interrupt it."""

Chart = Annotated[
    Path | None, typer.Option("--chart", help="Write a picture to this file, .png or .svg.", dir_okay=False)
]
Limit = Annotated[int, typer.Option("--limit", min=1, help="The most decisions to replay.")]


def report_command(  # noqa: PLR0913 - which policy, how much of its past, and what to show
    policy: PolicyArgument,
    *,
    days: Annotated[float, typer.Option("--days", help="How far back.")] = 7.0,
    every: Annotated[
        int, typer.Option("--every", min=0, help="Look at one tick per so many seconds; 0: at all.")
    ] = 0,
    chart: Chart = None,
    limit: Limit = DEFAULT_LIMIT,
    as_json: JsonOption = False,
) -> None:
    """Show what a policy would have moved and gained in the last days, by the figures that its ticks stored.

    Against leaving things as they were, and against always on. Hours of which nothing is known are shown as such.
    Exit code 1: no hour is known.

    For example:

        blsflow report 3 --days 7

        blsflow report 3 --days 30 --every 600 --chart month.png
    """
    if chart is not None:
        replay_chart.check_format(chart)
    with deployment() as application, replay_report.shown_progress(f"policy {policy}") as progress:
        found = report(
            application.store,
            policy,
            days=days,
            every=timedelta(seconds=every),
            limit=limit,
            progress=progress,
        )
    title = f"Policy {policy} ({found.name}), {moment(found.since)} to {moment(found.until)}"
    if chart is not None:
        replay_chart.draw(chart, title=title, since=found.since, until=found.until, replayed=found.replayed)
    if as_json:
        print_json(found.document())
    else:
        out = console()
        replay_report.show(title, found.replayed, out)
        out.print(f"Ticks: {counted(found.ticks_by_mode) or 'none'}.", highlight=False)
        if "execute" in found.ticks_by_mode:
            out.print("Where it executed, the figures as they were are those of what it did.")
    _end(found.replayed)


def backtest_command(  # noqa: PLR0913 - a document, or a policy with its period
    what: Annotated[
        str,
        typer.Argument(
            metavar="POLICY|DOCUMENT", help="A policy's id, or a backtest document (- for standard input)."
        ),
    ],
    *,
    since: Annotated[str | None, typer.Option("--since", help="From this instant on; with a policy.")] = None,
    until: Annotated[str | None, typer.Option("--until", help="Until then; else until now.")] = None,
    step: Annotated[
        int | None, typer.Option("--step", min=1, help="Seconds between decisions; else 300.")
    ] = None,
    chart: Chart = None,
    limit: Limit = DEFAULT_LIMIT,
    as_json: JsonOption = False,
) -> None:
    """Try a policy on the past: the same rules over recorded prices and tariffs, step after step.

    A policy's id tries it on what its deployment has on record; a document has everything in it and needs no database.
    Exit code 1: no hour is known, or the policy would have frozen.

    For example:

        blsflow backtest examples/backtest_fujian_day.json --chart day.png

        blsflow backtest 3 --since 2026-11-01T00:00+08:00 --until 2026-11-29T00:00+08:00 --step 600
    """
    if chart is not None:
        replay_chart.check_format(chart)
    if what.isascii() and what.isdigit():
        found = _of_policy(int(what), since, until, step or _STEP_SEC, limit)
    elif (since, until, step) == (None, None, None):
        found = _of_document(Path(what), limit)
    else:
        raise InvalidDocument(
            field="POLICY|DOCUMENT",
            value=what,
            cause="a document names its own period and step; leave the options out",
        )
    tried = found.backtested
    title = f"Backtest of {found.name}, {moment(tried.since)} to {moment(tried.until)}"
    if chart is not None:
        replay_chart.draw(
            chart,
            title=title,
            since=tried.since,
            until=tried.until,
            replayed=tried.replayed,
            tariffs=tried.tariff_spans,
        )
    if as_json:
        print_json(found.document())
    else:
        out = console()
        replay_report.show(title, tried.replayed, out)
        if tried.freeze_count:
            first = tried.freezes[0]
            out.print(
                f"[red]It would have frozen, {tried.freeze_count} x[/red], first at {moment(first.at)} for {first.cause}; "
                "each time somebody is taken to have enabled it again at once.",
                highlight=False,
            )
    _end(tried.replayed, finding=bool(tried.freeze_count))


def _of_policy(policy: int, since: str | None, until: str | None, step_sec: int, limit: int) -> Backtest:
    if since is None:
        raise InvalidDocument(
            field="--since", value=None, cause="say from when on, such as 2026-11-01T00:00+08:00"
        )
    end = datetime.now(UTC) if until is None else instant(until, field="--until")
    with deployment() as application, replay_report.shown_progress(f"policy {policy}") as progress:
        return backtest(
            application.store,
            policy,
            since=instant(since, field="--since"),
            until=end,
            step=timedelta(seconds=step_sec),
            rate=application.settings.usdt_to_cny_rate,
            limit=limit,
            progress=progress,
        )


def _of_document(path: Path, limit: int) -> Backtest:
    document: BacktestDocument = read(path, BacktestDocument)
    scenario = scenario_of(document, limit=limit)
    run = BacktestRun(scenario, readings_of(document))
    with replay_report.shown_progress(scenario.policy.name) as progress:
        for end in run.advance(scenario.until):
            progress((end - scenario.since) / (scenario.until - scenario.since))
    return Backtest(policy_id=None, name=scenario.policy.name, backtested=run.backtested())


def _end(found: Replayed, *, finding: bool = False) -> None:
    if finding or found.gain_cny is None:
        raise typer.Exit(ExitCode.FINDING)


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("report")(report_command)
    app.command("backtest")(backtest_command)
