"""`blsflow`: the operators' command line. Exit codes: 0 fine, 1 a finding or a problem, 2 bad input."""

from __future__ import annotations

import sys
from importlib import metadata
from typing import Annotated

import typer

from blsflow.domain.errors import BlsflowError, InvalidDocument
from blsflow_cli import offline, online
from blsflow_cli.documents import RefusedDocument
from blsflow_cli.output import refuse

app = typer.Typer(
    help="Decides for every mining machine whether to keep, switch, start, stop or power it off.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode="rich",
)


def _show_version(asked: bool) -> None:  # noqa: FBT001 - as typer calls it
    if asked:
        typer.echo(f"blsflow {metadata.version('blsflow-scheduler')}")
        raise typer.Exit


@app.callback()
def options(
    *,
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version and exit.", is_eager=True, callback=_show_version),
    ] = False,
) -> None:
    """Decides for every mining machine whether to keep, switch, start, stop or power it off."""


offline.register(app)
online.register(app)


def run() -> None:
    """Run the command that was asked for; what was wrong with its input is said without a traceback."""
    as_json = "--json" in sys.argv
    try:
        app()
    except RefusedDocument as error:
        refuse(error.problems, code=error.code, as_json=as_json)
    except InvalidDocument as error:
        refuse([str(error)], code=error.code, as_json=as_json)
    except BlsflowError as error:
        refuse([str(error)], as_json=as_json)
    except OverflowError as error:
        refuse([f"a time or a figure is too far out to compute with: {error}"], as_json=as_json)
