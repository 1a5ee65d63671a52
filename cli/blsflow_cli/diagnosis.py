"""Commands that look into a deployment: its migrations, its invariants, and why a machine was decided as it was."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import typer

from blsflow.adapters.postgres.doctor import examine
from blsflow.domain.valuation import Valuation
from blsflow.flow.ticks import ExplainedDecision, explain_decision
from blsflow_cli import decide_report
from blsflow_cli.decide_inputs import DecideInputs
from blsflow_cli.deployment import deployment
from blsflow_cli.offline import JsonOption  # noqa: TC001 - typer reads the annotations
from blsflow_cli.options import Lang, Language, moment, plain, plain_rows
from blsflow_cli.output import ExitCode, console, print_json, table


def migrate(*, as_json: JsonOption = False) -> None:
    """Bring the database's schema up to date; safe to run again, and beside a running previous version.

    For example:

        blsflow migrate
    """
    with deployment(migrated=False) as application:
        applied = application.migrate()
    if as_json:
        print_json({"applied": applied})
    else:
        typer.echo(f"applied {', '.join(applied)}" if applied else "the database is up to date")


def doctor(
    *,
    patience: Annotated[
        int, typer.Option(min=1, help="Seconds that work under way may take before it counts as stuck.")
    ] = 900,
    limit: Annotated[int, typer.Option(min=1, help="The most rows to list per finding.")] = 20,
    as_json: JsonOption = False,
) -> None:
    """Check every invariant on the live database and list each violation with its rows. Changes nothing.

    Exit code 1: there is a finding.

    For example:

        blsflow doctor --json | jq -r '.findings[].name'
    """
    with deployment() as application:
        session = application.connect()
        try:
            checked = examine(session, patience=timedelta(seconds=patience), limit=limit)
        finally:
            session.close()
    found = [finding for finding in checked if finding.violations or finding.unchecked is not None]
    if as_json:
        print_json(
            {
                "checked": len(checked),
                "findings": [
                    {
                        "name": each.name,
                        "rule": each.rule,
                        "violations": plain_rows(each.violations),
                        "unchecked": each.unchecked,
                    }
                    for each in found
                ],
            }
        )
    else:
        out = console()
        for each in found:
            title = f"{each.name}: not as it should be. {each.rule}"
            if each.unchecked is not None:
                out.print(f"{title} could not be checked: {each.unchecked}\n", highlight=False)
                continue
            rows = ([plain(value) for value in row.values()] for row in each.violations)
            out.print(table(title, list(each.violations[0]), rows))
            out.print()
        out.print(
            f"{len(checked)} invariants looked for, {len(found)} broken or not checked", highlight=False
        )
    if found:
        raise typer.Exit(ExitCode.FINDING)


def explain_command(
    tick: Annotated[int, typer.Argument(help="The tick's id, from `blsflow status` or the log.")],
    machine: Annotated[int, typer.Argument(help="The machine's id.")],
    *,
    lang: Language = Lang.EN,
    as_json: JsonOption = False,
) -> None:
    """Show why a tick decided a machine as it did, computed again from what was stored with the decision.

    Exit code 1: the computation does not agree with what was stored.

    For example:

        blsflow explain 812 1007
    """
    with deployment() as application:
        found = explain_decision(application.store, tick, machine)
    if as_json:
        decision = {name: value for name, value in found.stored.items() if name not in {"inputs", "record"}}
        print_json(
            {
                "stored": plain(decision),
                "recomputed": decide_report.as_json(_report(found))["machines"][0],
                "agrees": not found.differences,
                "differences": list(found.differences),
            }
        )
    else:
        _show(found, lang)
    if found.differences:
        raise typer.Exit(ExitCode.FINDING)


def _report(found: ExplainedDecision) -> decide_report.DecideReport:
    valuation = Valuation(market=found.market, levels={}, flagged=(), worst_jump=1.0)
    return decide_report.DecideReport(
        inputs=DecideInputs(policy=found.policy, valuation=valuation, machines=(found.machine,)),
        explanations=(found.explanation,),
        failure=None,
        freeze=None,
    )


def _show(found: ExplainedDecision, lang: Lang) -> None:
    out, stored = console(), found.stored
    decide_report.show(_report(found), out, lang.value)
    out.print(
        f"\nTick {stored['tick_id']} of policy {stored['policy_id']} ({stored['execution_mode']}) at "
        f"{moment(stored['ticked_at'])} stored: {stored['action']}/{stored['reason']}, proposed {stored['proposed']}, "
        f"attempt {stored['attempt_id'] or '-'}, job {stored['job_id'] or '-'}",
        highlight=False,
    )
    if not found.differences:
        out.print("[green]The computation agrees with what was stored.[/green]")
    for difference in found.differences:
        out.print(f"[red]It does not agree: {difference}[/red]", highlight=False)


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command()(migrate)
    app.command()(doctor)
    app.command("explain")(explain_command)
