"""What commands print: JSON for programs, tables for people, and refusals on standard error."""

from __future__ import annotations

import json
import sys
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NoReturn

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class ExitCode(IntEnum):
    """How every command ends."""

    OK = 0
    FINDING = 1  # it ran, and what it looked at has a problem
    BAD_INPUT = 2  # it could not run on what it was given


def print_json(document: Any) -> None:  # noqa: ANN401 - any JSON value
    """Print one JSON document, and nothing else, on standard output; Chinese names stay readable."""
    sys.stdout.write(json.dumps(document, ensure_ascii=False, indent=2, allow_nan=False) + "\n")


def console() -> Console:
    """Standard output for people: colours only on a terminal, and no line shorter than a table needs."""
    plain = Console()
    return plain if plain.is_terminal else Console(width=160)


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """A table in which a column whose name has a unit in brackets is right-aligned."""
    drawn = Table(title=title, title_justify="left", header_style="bold", show_edge=False)
    for column in columns:
        drawn.add_column(column, justify="right" if "(" in column else "left", overflow="fold")
    for row in rows:
        drawn.add_row(*[shown(value) for value in row])
    return drawn


def show_page(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], cursor: str | None
) -> None:
    """Print a page as a table, and how to see the next one."""
    console().print(table(title, columns, rows))
    if cursor is not None:
        sys.stdout.write(f"more: --cursor {cursor}\n")


def shown(value: object) -> str:
    """A cell: two decimals for figures, a dash for what is not known."""
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:.2f}"
        case _:
            return str(value)


def refuse(messages: Iterable[str], *, code: str | None = None, as_json: bool) -> NoReturn:
    """Say what is wrong with the input, one line each, and end with `ExitCode.BAD_INPUT`; programs get its stable code."""
    found = list(messages)
    if as_json:
        print_json({"errors": found} | ({} if code is None else {"code": code}))
    else:
        for message in found:
            sys.stderr.write(f"blsflow: {message}\n")
    raise SystemExit(ExitCode.BAD_INPUT)
