"""Commands that need neither a database nor any service: a document in, an answer out (R3.4)."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import Annotated

import typer

from blsflow.documents.rules import RuleDocument
from blsflow.domain.recurrence import preview
from blsflow_cli import benchmark_judge, decide_report, schedule_preview, tariff_check
from blsflow_cli.decide_document import DecideDocument
from blsflow_cli.decide_inputs import inputs_of
from blsflow_cli.documents import json_schema, read
from blsflow_cli.output import ExitCode, console, in_json, print_json
from blsflow_cli.schemas import SCHEMAS, SchemaName
from blsflow_cli.tariff_document import TariffsDocument, tariffs_of

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")]
benchmark_app = typer.Typer(
    help="Benchmarks: judging samples, and the runs that take them.", no_args_is_help=True
)
tariff_app = typer.Typer(help="Electricity tariffs.", no_args_is_help=True)
schedule_app = typer.Typer(help="Schedules of conversations, and what a rule means.", no_args_is_help=True)


def decide(
    file: Annotated[Path, typer.Argument(help="The decide document, or - for standard input.")],
    *,
    as_json: JsonOption = False,
) -> None:
    """Decide every machine of a document and print why.

    Needs no database: policy, machines, benchmarks, tariffs, prices and the time are all in the document.
    Exit code 1: its inputs would make a tick fail, or freeze the policy.

    For example:

        blsflow decide examples/decide_worked_case.json

        blsflow decide --json - < tick.json | jq .counts
    """
    document: DecideDocument = read(file, DecideDocument)
    report = decide_report.report_of(inputs_of(document))
    written = in_json(decide_report.as_json(report))
    if as_json:
        typer.echo(written)
    else:
        decide_report.show(report, console())
    if report.failure is not None or report.freeze is not None:
        raise typer.Exit(ExitCode.FINDING)


@tariff_app.command("check")
def tariff_check_command(
    file: Annotated[
        Path, typer.Argument(help="A tariff document or a list of them, or - for standard input.")
    ],
    year: Annotated[
        int | None, typer.Option(min=1970, max=2999, help="The year to look at; else this one.")
    ] = None,
    at: Annotated[
        list[str] | None,
        typer.Option(
            help="Price this instant, too. Without an offset it is local. May be given more than once."
        ),
    ] = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Validate a tariff, show its gaps and overlaps over a year with both DST days, and price instants.

    Exit code 1: some part of the year, or an instant asked for, has no known price.

    For example:

        blsflow tariff check tariff.json --year 2025

        blsflow tariff check tariff.json --at 2025-08-01T11:00 --at 2025-08-01T03:00Z
    """
    tariffs = tariffs_of(read(file, TariffsDocument))
    found = tariff_check.check(tariffs, year or datetime.now(UTC).year, at or [])
    if as_json:
        print_json(tariff_check.as_json(found))
    else:
        tariff_check.show(found, console())
    if found.has_finding:
        raise typer.Exit(ExitCode.FINDING)


@schedule_app.command("preview")
def schedule_preview_command(
    file: Annotated[
        Path, typer.Argument(help="The rule document (what a schedule has as its `rule`), or -.")
    ],
    count: Annotated[int, typer.Option(min=1, max=1000, help="How many runs.")] = 10,
    after: Annotated[str | None, typer.Option(help="Runs after this instant; else after now.")] = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """List the next runs of a rule, and mark those that DST moves or repeats.

    For example:

        blsflow schedule preview examples/rule_nightly.json --after 2026-03-27T00:00Z --count 4
    """
    rule = schedule_preview.rule_of(read(file, RuleDocument))
    start = datetime.now(UTC) if after is None else schedule_preview.instant(after, field="--after")
    runs = preview(rule, start, count)
    if as_json:
        print_json(schedule_preview.as_json(rule, runs))
    else:
        schedule_preview.show(rule, runs, console())


@benchmark_app.command("judge")
def benchmark_judge_command(
    file: Annotated[Path, typer.Argument(help="The benchmark document, or - for standard input.")],
    *,
    as_json: JsonOption = False,
) -> None:
    """Judge a list of readings: the benchmark that they make, or why they make none.

    Exit code 1: they make none, or they have drifted from the stored benchmark.

    For example:

        blsflow benchmark judge examples/benchmark_cold_start.json
    """
    found = benchmark_judge.judged(read(file, benchmark_judge.BenchmarkDocument))
    if as_json:
        print_json(benchmark_judge.as_json(found))
    else:
        benchmark_judge.show(found, console())
    if found.judgement.fault is not None or found.has_drifted:
        raise typer.Exit(ExitCode.FINDING)


def schema(name: Annotated[SchemaName, typer.Argument(help="Which document.")]) -> None:
    """Print the JSON Schema of a document.

    For example:

        blsflow schema decide > decide.schema.json
    """
    print_json(json_schema(SCHEMAS[name]))


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command()(decide)
    app.command()(schema)
    app.add_typer(benchmark_app, name="benchmark")
    app.add_typer(tariff_app, name="tariff")
    app.add_typer(schedule_app, name="schedule")
