"""`blsflow`: the operators' command line. Exit codes: 0 fine, 1 a finding or a problem, 2 bad input."""

from __future__ import annotations

import sys

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
