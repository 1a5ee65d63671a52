"""Commands on a deployment: they need its database, and take all settings from the environment as the functions do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from blsflow_cli import (
    benchmarks,
    commands,
    diagnosis,
    fleet,
    locks,
    log,
    occurrences,
    past,
    policies,
    policy,
    replays,
    schedules,
    serve,
    token,
    work,
)

if TYPE_CHECKING:
    import typer


def register(app: typer.Typer) -> None:
    """Add the commands of these modules, in the order in which `--help` lists them."""
    for module in (
        serve,
        fleet,
        policies,
        policy,
        past,
        work,
        commands,
        locks,
        schedules,
        occurrences,
        benchmarks,
        replays,
        log,
        diagnosis,
        token,
    ):
        module.register(app)
