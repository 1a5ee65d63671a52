"""Commands on policies: where they stand, and enabling, disabling, freezing, running and trying them.

Over 300 lines because each command brings its own help, examples and table, and they share one policy's arguments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from blsflow.domain.catalogue import word
from blsflow.domain.explain import explain
from blsflow.domain.occurrence import OccurrenceState
from blsflow.domain.policy import ExecutionMode  # noqa: TC001 - typer reads the annotations
from blsflow.flow import control
from blsflow.flow.control import UnknownPolicy
from blsflow.flow.dry_run import DryRun, dry_run
from blsflow_cli import decide_report
from blsflow_cli.decide_inputs import DecideInputs
from blsflow_cli.deployment import deployment
from blsflow_cli.offline import JsonOption  # noqa: TC001 - typer reads the annotations
from blsflow_cli.options import (
    By,
    Lang,
    Language,
    OptionalPolicy,
    PolicyArgument,
    Reason,
    counted,
    figures,
    moment,
    plain,
    plain_rows,
)
from blsflow_cli.output import ExitCode, console, print_json, table
from blsflow_cli.work import decide_recorded

if TYPE_CHECKING:
    from collections.abc import Mapping

    from blsflow.ports.people import SetEnabled


ReadVersion = Annotated[
    int | None,
    typer.Option(
        "--version", min=1, help="Only if the policy is still at this version, from `blsflow policy show`."
    ),
]


def _holder(name: str) -> str:
    if name not in {"blsflow", "legacy"}:
        raise typer.BadParameter(f"{name!r} is neither blsflow nor legacy")
    return name


def status(policy: OptionalPolicy = None, *, as_json: JsonOption = False) -> None:
    """Show where every policy stands: frozen or not and why, executor lease, last tick, open work, next run.

    For example:

        blsflow status

        blsflow status 3 --json | jq '.[0].frozen_for'
    """
    with deployment() as application, application.store.transaction() as tx:
        rows = tx.policy_status(policy_id=policy)
    if policy is not None and not rows:
        raise UnknownPolicy(policy)
    if as_json:
        print_json(plain_rows(rows))
        return
    columns = [
        "policy", "tenant", "name", "mode", "state", "lease", "last tick", "machines (n)",
        "gain (CNY/day)", "open (n)", "next run",
    ]  # fmt: skip
    out = console()
    out.print(table("Policies", columns, map(_status_row, rows)))
    if not rows:
        out.print("There is no policy yet: `blsflow policy create` stores one.", highlight=False)
    for row in rows:
        for line in _remarks(row):
            out.print(f"  policy {row['id']}: {line}", highlight=False)


def enable(
    policy: PolicyArgument,
    *,
    reason: Reason,
    version: ReadVersion = None,
    by: By,
    as_json: JsonOption = False,
) -> None:
    """Let a policy tick; this lifts its freeze, on the record, and lets machines be moved that others kept changing.

    For example:

        blsflow enable 3 --reason "the pool's prices are right again"
    """
    with deployment() as application:
        done = control.enable(application.store, policy, by=by, why=reason, version=version)
    said = f"policy {policy} ({done.name}) is enabled; its next run is at {moment(done.next_run_at)}"
    if done.lifted is not None:
        said += f"; its freeze ({done.lifted}: {word(done.lifted).en}) is lifted"
    if done.machines_forgiven:
        said += f"; {done.machines_forgiven} machines that others kept changing may be moved again"
    _say(policy, done, said, as_json=as_json)


def disable(policy: PolicyArgument, *, reason: Reason, by: By, as_json: JsonOption = False) -> None:
    """Let a policy tick no more; machines stay as they are, and what was sent is followed to its end.

    For example:

        blsflow disable 3 --reason "site maintenance"
    """
    with deployment() as application:
        done = control.disable(application.store, policy, by=by, why=reason)
    _say(policy, done, f"policy {policy} ({done.name}) is disabled", as_json=as_json)


def mode(  # noqa: PLR0913 - the command's options
    policy: PolicyArgument,
    to: Annotated[ExecutionMode, typer.Argument(help="How far it goes.")],
    *,
    reason: Reason,
    version: ReadVersion = None,
    by: By,
    as_json: JsonOption = False,
) -> None:
    """Say how far a policy goes: dry_run computes, shadow stores too, execute acts (with the switch and the lease).

    For example:

        blsflow mode 3 execute --reason "a week in shadow looked right"
    """
    with deployment() as application:
        done = control.set_mode(application.store, policy, to, by=by, why=reason, version=version)
    if as_json:
        print_json(
            {"policy_id": policy, "version": done.version, "name": done.name, "was": done.was, "is": str(to)}
        )
    else:
        typer.echo(f"policy {policy} ({done.name}) is in {to} now, and was in {done.was}")


def freeze(policy: PolicyArgument, *, reason: Reason, by: By, as_json: JsonOption = False) -> None:
    """Freeze a policy: no new action, nothing stopped or switched; its people are told once. `enable` lifts it.

    For example:

        blsflow freeze 3 --reason "prices look wrong"
    """
    with deployment() as application:
        frozen = control.freeze(application.store, policy, by=by, why=reason)
    if as_json:
        print_json({"policy_id": policy, "name": frozen.name, "froze": frozen.opened})
    elif frozen.opened:
        typer.echo(f"policy {policy} ({frozen.name}) is frozen; `blsflow enable {policy}` lifts it")
    else:
        typer.echo(f"policy {policy} ({frozen.name}) was frozen already: `blsflow status {policy}` says why")


def lease(
    tenant: Annotated[str, typer.Argument(help="The tenant's id.")],
    *,
    to: Annotated[
        str,
        typer.Option("--to", help="blsflow (this system) or legacy.", callback=_holder),
    ],
    reason: Annotated[str, typer.Option("--reason", help="Why, for the record.")] = "",
    by: By,
    as_json: JsonOption = False,
) -> None:
    """Say which system may act for a tenant, on the record: this one, or the legacy tick.

    For example:

        blsflow lease north-mining --to blsflow --reason "cut-over"
    """
    with deployment() as application:
        change = control.lease(application.store, tenant, holder=to, by=by, why=reason)
    if as_json:
        print_json(
            {"tenant_id": tenant, "was": change.was, "holder": to, "open_attempts": change.open_attempts}
        )
        return
    typer.echo(f"tenant {tenant}: {change.was or 'nobody'} held the executor lease, {to} holds it now")
    if to != "blsflow" and change.open_attempts:
        typer.echo(
            f"{change.open_attempts} attempts of ours are still under way and are followed to their end"
        )


def run(
    policy: PolicyArgument,
    *,
    request_id: Annotated[
        str, typer.Option("--request-id", help="Names this request: the same id is the same run.")
    ],
    by: By,
    as_json: JsonOption = False,
) -> None:
    """Tick a policy now. Repeated with the same request id it is the same run, however often.

    Without a decide queue in the settings it decides in this process; `blsflow execute` sends what it prepared.
    Exit code 1: nothing was decided, and the occurrence says why.

    For example:

        blsflow run 3 --request-id "$(uuidgen)"
    """
    with deployment() as application:
        requested = control.run(
            application.store, policy, request_id=request_id, decide_queue=application.decide_queue, by=by
        )
        ticks = decide_recorded(application)
    refused = [tick.report.outcome for tick in ticks if tick.report.policy_id is None]
    if not ticks and requested.state in {OccurrenceState.SKIPPED, OccurrenceState.FAILED}:
        refused = [requested.reason or requested.state]
    if as_json:
        print_json(
            {
                "occurrence_id": requested.occurrence_id,
                "is_new": requested.is_new,
                "state": requested.state,
                "reason": requested.reason,
                "ticks": [tick.document() for tick in ticks],
            }
        )
    else:
        known = "" if requested.is_new else f", asked for before and {requested.state}"
        why = "".join(f": nothing was decided, {code}: {word(code).en}" for code in refused)
        typer.echo(f"occurrence {requested.occurrence_id}{known}{why}")
        for tick in ticks:
            if tick.report.policy_id is not None:
                typer.echo(tick.line())
    if refused:
        raise typer.Exit(ExitCode.FINDING)


def dry_run_command(
    policy: PolicyArgument,
    *,
    limit: Annotated[int, typer.Option(min=0, help="How many machines to show, movers first.")] = 10,
    lang: Language = Lang.EN,
    as_json: JsonOption = False,
) -> None:
    """Decide a policy's machines now, whatever its mode, and store nothing.

    Exit code 1: the tick would count as failed, or freeze the policy.

    For example:

        blsflow dry-run 3 --limit 20
    """
    with deployment() as application:
        trial = dry_run(
            application.store,
            policy,
            gates=application.gates,
            rate=application.settings.usdt_to_cny_rate,
            limit=limit,
        )
    report = _shown(trial)
    if as_json:
        document = decide_report.as_json(report)
        document |= {
            "counts": dict(trial.counts),
            "gain_cny_per_day": trial.gain_cny_per_day,
            "decided_machines": trial.machines,
            "obstacles": list(trial.obstacles),
        }
        print_json(document)
    else:
        out = console()
        decide_report.show(report, out, lang.value)
        gain = f"{trial.gain_cny_per_day:,.2f} CNY per day to gain"
        out.print(f"\n{trial.machines} machines, {gain}: {counted(trial.counts)}", highlight=False)
        if trial.obstacles:
            out.print(f"Nothing would be moved now: {', '.join(trial.obstacles)}", highlight=False)
        out.print("Nothing was stored.")
    if trial.failure is not None or trial.freeze is not None:
        raise typer.Exit(ExitCode.FINDING)


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    for command in (status, enable, disable, mode, freeze, lease, run):
        app.command()(command)
    app.command("dry-run")(dry_run_command)


def _say(policy: int, done: SetEnabled, said: str, *, as_json: bool) -> None:
    if not as_json:
        typer.echo(said)
        return
    print_json(
        {
            "policy_id": policy,
            "version": done.version,
            "name": done.name,
            "lifted": done.lifted,
            "machines_forgiven": done.machines_forgiven,
            "next_run_at": plain(done.next_run_at),
        }
    )


def _shown(trial: DryRun) -> decide_report.DecideReport:
    market = trial.valuation.market
    return decide_report.DecideReport(
        inputs=DecideInputs(policy=trial.policy, valuation=trial.valuation, machines=trial.shown),
        explanations=tuple(explain(trial.policy, market, machine) for machine in trial.shown),
        failure=trial.failure,
        freeze=trial.freeze,
    )


def _status_row(row: Mapping[str, Any]) -> tuple[object, ...]:
    state = "frozen" if row["frozen_for"] else "enabled" if row["enabled"] else "disabled"
    return (
        row["id"], row["tenant_id"], row["name"], f"{row['mode']}, {row['execution_mode']}", state,
        "held" if row["lease_held"] else "not held", moment(row["ticked_at"]), row["machines"],
        row["gain_cny_per_day"], row["open_attempts"], moment(row["next_run_at"] if row["enabled"] else None),
    )  # fmt: skip


def _remarks(row: Mapping[str, Any]) -> list[str]:
    found = []
    if row["frozen_for"]:
        since, by = moment(row["frozen_at"]), row["frozen_by"]
        found.append(
            f"[red]frozen for {row['frozen_for']}[/red] since {since} by {by} ({figures(row['freeze_detail'])})"
        )
    if row["broken"]:
        found.append(f"[red]its schedule cannot be read[/red]: {row['broken']}")
    if row["failure"]:
        found.append(f"its last tick failed: {row['failure']} ({row['consecutive_failures']} in a row)")
    if row["counts"]:
        found.append(f"tick {row['tick_id']}: {counted(row['counts'])}")
    return found
