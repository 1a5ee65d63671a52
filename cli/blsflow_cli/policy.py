"""Commands on policies' documents, and on what a policy has to work with."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from blsflow.domain.texts import render_finding
from blsflow.flow import policies as flow
from blsflow.flow.readiness import Severity, readiness
from blsflow_cli.deployment import deployment
from blsflow_cli.offline import JsonOption  # noqa: TC001 - typer reads the annotations
from blsflow_cli.options import By, Lang, Language, PolicyArgument, Reason, moment, plain
from blsflow_cli.output import ExitCode, console, print_json, table
from blsflow_cli.policy_document import read_policy_file

if TYPE_CHECKING:
    from blsflow.flow.readiness import Readiness

policy_app = typer.Typer(help="Documents of policy groups.", no_args_is_help=True)

PolicyFile = Annotated[Path, typer.Argument(help="The policy document, or - for standard input.")]
Version = Annotated[
    int, typer.Option("--version", min=1, help="The version that you read, from `blsflow policy show`.")
]


@policy_app.command()
def create(file: PolicyFile, *, by: By, as_json: JsonOption = False) -> None:
    """Store a policy group: disabled, and in shadow (or dry_run, if its document says so).

    `blsflow schema policy` prints the document's shape. What cannot be meant is named, and nothing is stored.

    For example:

        blsflow policy create examples/policy_profit_guard.json
    """
    document = read_policy_file(file)
    with deployment() as application:
        made = flow.create_policy(
            application.store,
            tenant_id=document.tenant,
            by=by,
            document=document.policy(),
            tick_interval_sec=application.settings.tick_interval_sec,
        )
    if as_json:
        print_json(asdict(made))
    else:
        typer.echo(
            f"policy {made.policy_id} is stored, disabled, at version {made.version}; "
            f"`blsflow readiness {made.policy_id}` says what it needs"
        )


@policy_app.command()
def show(
    policy: PolicyArgument,
    *,
    _as_json: Annotated[bool, typer.Option("--json", help="Said or not: it is one document anyway.")] = False,
) -> None:
    """Print a policy's document, as `policy change` takes it, with its version and state beside it.

    For example:

        blsflow policy show 3 | jq .document > policy.json
    """
    with deployment() as application:
        view = flow.read_policy(application.store, policy)
    shown = {**asdict(view), "document": {"tenant": view.tenant_id, **view.document}}
    print_json(plain(shown))


@policy_app.command()
def change(
    policy: PolicyArgument, file: PolicyFile, *, version: Version, by: By, as_json: JsonOption = False
) -> None:
    """Put a document in the place of a policy's own, unless somebody else has changed the policy since that version.

    What was decided before is not sent any more. Mode, state and a freeze stay as they are.

    For example:

        blsflow policy change 3 policy.json --version 1
    """
    document = read_policy_file(file)
    with deployment() as application:
        changed = flow.change_policy(
            application.store,
            policy,
            version=version,
            by=by,
            document=document.policy(),
            tick_interval_sec=application.settings.tick_interval_sec,
            tenant_id=document.tenant,
        )
    if as_json:
        print_json(asdict(changed))
    elif changed.version == version:
        typer.echo(f"policy {policy} says so already, and stays at version {version}")
    else:
        typer.echo(f"policy {policy} is changed, and now at version {changed.version}")


@policy_app.command()
def archive(
    policy: PolicyArgument, *, version: Version, reason: Reason, by: By, as_json: JsonOption = False
) -> None:
    """Take a policy out of use, for good; what it prepared is not sent, what it sent is followed to its end.

    For example:

        blsflow policy archive 3 --version 2 --reason "the site is sold"
    """
    with deployment() as application:
        flow.archive_policy(application.store, policy, version=version, by=by, why=reason)
    if as_json:
        print_json({"policy_id": policy, "archived": True})
    else:
        typer.echo(f"policy {policy} is archived; `blsflow policy show {policy}` still shows it")


def readiness_command(
    policy: PolicyArgument, *, lang: Language = Lang.EN, as_json: JsonOption = False
) -> None:
    """Show what a policy has to work with, and all that would keep it from acting if it ticked now.

    Tariffs are looked at for a year ahead, both DST days included. Exit code 1: it is not ready to act, which a policy
    that is new, or meant to stay in shadow, never is: `policy_disabled` and `mode_not_execute` are expected of it.

    For example:

        blsflow readiness 3 --json | jq -r '.findings[].code'
    """
    with deployment() as application:
        found = readiness(
            application.store,
            policy,
            gates=application.gates,
            rate=application.settings.usdt_to_cny_rate,
        )
    if as_json:
        texts = [render_finding(each.code, each.params) for each in found.findings]
        findings = [
            asdict(each) | {"texts": {"en": said.en, "zh": said.zh}}
            for each, said in zip(found.findings, texts, strict=True)
        ]
        print_json(plain(asdict(found) | {"findings": findings}))
    else:
        _show(found, lang)
    if not found.ready:
        raise typer.Exit(ExitCode.FINDING)


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.add_typer(policy_app, name="policy")
    app.command("readiness")(readiness_command)


def _show(found: Readiness, lang: Lang) -> None:
    out = console()
    names = {price.project_id: price.name for price in found.prices}
    out.print(
        table(
            "Prices of candidates",
            ["project", "name", "price", "why", "age (s)"],
            [(p.project_id, p.name, p.state, p.reason, p.age_sec) for p in found.prices],
        )
    )
    columns = [
        "project", "name", "eligible (n)", "runnable (n)", "valid (n)", "of these shared (n)", "missing (n)",
        "expired (n)", "invalid (n)",
    ]  # fmt: skip
    cells = [
        (c.project_id, names.get(c.project_id), c.eligible, c.runnable, c.valid, c.shared, c.missing, c.expired, c.invalid)
        for c in found.coverage
    ]  # fmt: skip
    out.print(table("Benchmarks of machines that may run them", columns, cells))
    out.print("Findings" if found.findings else "Nothing is wanting", style="italic")
    for each in found.findings:
        said = render_finding(each.code, each.params).of(lang.value)
        out.print(f"{each.severity:<7}  {each.code}: {said}", highlight=False, markup=False, soft_wrap=True)
    machines = "-" if found.machines is None else found.machines.machines
    out.print(
        f"Policy {found.status.policy_id} {_standing(found)}: {machines} machines, as of {moment(found.as_of)}"
    )


def _standing(found: Readiness) -> str:
    """Say whether it would act; a policy that was not told to yet may lack nothing else."""
    errors = {each.code for each in found.findings if each.severity is Severity.ERROR}
    if not errors:
        return "is ready"
    if errors <= {"policy_disabled", "mode_not_execute"}:
        return "does not act, and would if it were enabled and in execute"
    return "is not ready"
