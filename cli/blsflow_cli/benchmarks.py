"""Commands on benchmark runs: what is asked for, under way and done, what it cost, and asking for one by hand."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from blsflow.domain.texts import render_finding
from blsflow.flow.benchmarks import request_benchmark
from blsflow_cli.deployment import deployment
from blsflow_cli.offline import JsonOption, benchmark_app
from blsflow_cli.options import By, PolicyArgument, moment, plain, plain_rows
from blsflow_cli.output import ExitCode, console, print_json, table


def benchmark_list(
    *,
    policy: Annotated[int | None, typer.Option(min=1, help="Only this policy's runs.")] = None,
    open_only: Annotated[bool, typer.Option("--open", help="Only those that have not ended.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="The most runs to list.")] = 50,
    as_json: JsonOption = False,
) -> None:
    """List benchmark runs, those under way and pending first, and what sampling has cost each policy.

    For example:

        blsflow benchmark list --open
    """
    with deployment() as application, application.store.transaction() as tx:
        runs = tx.list_benchmark_runs(policy_id=policy, open_only=open_only, limit=limit)
        costs = tx.benchmark_costs(policy_id=policy)
    if as_json:
        print_json({"runs": plain_rows(runs), "costs": plain_rows(costs)})
        return
    out = console()
    out.print(
        table(
            "Benchmark runs",
            ("run", "policy", "machine", "project", "state", "step", "reason", "could win (CNY/day)", "since"),
            (
                [
                    str(run["id"]), run["policy_id"], run["machine_id"], run["project_id"], run["state"], run["step"],
                    run["reason"], run["value_cny_per_day"],
                    moment(run["ended_at"] or run["started_at"] or run["requested_at"]),
                ]
                for run in runs
            ),
        )
    )  # fmt: skip
    out.print(
        table(
            "What it cost",
            ("policy", "succeeded", "failed", "open", "lost (minutes)", "lost (CNY)", "unpriced"),
            ([cost[name] for name in _COSTS] for cost in costs),
        )
    )


_COSTS = ("policy_id", "succeeded", "failed", "open", "lost_minutes", "lost_cny", "unpriced")


def benchmark_run(
    policy: PolicyArgument,
    machine: Annotated[int, typer.Argument(help="The machine's id.", min=1)],
    project: Annotated[int, typer.Argument(help="The project's id.", min=1)],
    *,
    by: By,
    as_json: JsonOption = False,
) -> None:
    """Ask for a benchmark of a machine on a project, before all others. Asking again gives the same run.

    It begins within the policy's caps and under its conditions, by the deployed state machine; `blsflow benchmark
    list` shows how far it is. Exit code 1: the policy begins none now, and what it waits for is named.

    For example:

        blsflow benchmark run 3 1042 106
    """
    with deployment() as application:
        asked = request_benchmark(
            application.store,
            policy_id=policy,
            machine_id=machine,
            project_id=project,
            by=by,
        )
    if as_json:
        print_json(plain(asdict(asked)))
    else:
        kept = "" if asked.policy_id == policy else f"; policy {asked.policy_id} carries it out"
        typer.echo(f"run {asked.run_id} is {asked.state}{kept}")
        for code in asked.waits_for:
            typer.echo(f"  policy {asked.policy_id} begins none now, {code}: {render_finding(code, {}).en}")
    if asked.waits_for:
        raise typer.Exit(ExitCode.FINDING)


def register(_: typer.Typer) -> None:
    """Add the commands of this module, beside `blsflow benchmark judge`."""
    benchmark_app.command("list")(benchmark_list)
    benchmark_app.command("run")(benchmark_run)
