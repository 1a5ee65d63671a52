"""What commands print: JSON for programs, tables for people, and refusals on standard error."""

from __future__ import annotations

import json
import sys
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, NoReturn

from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rich.console import ConsoleOptions, RenderResult

_UNBOUNDED: Final = 100_000
_NOTHING: Final = "-"


class ExitCode(IntEnum):
    """How every command ends."""

    OK = 0
    FINDING = 1  # it ran, and what it looked at has a problem
    BAD_INPUT = 2  # it could not run on what it was given


def print_json(document: Any) -> None:  # noqa: ANN401 - any JSON value
    """Print one JSON document, and nothing else, on standard output; Chinese names stay readable."""
    sys.stdout.write(in_json(document) + "\n")


def in_json(document: Any) -> str:  # noqa: ANN401 - any JSON value
    """Write a document; `OverflowError` if a figure in it has come out infinite, or as none."""
    try:
        return json.dumps(document, ensure_ascii=False, indent=2, allow_nan=False)
    except ValueError as error:
        raise OverflowError("a result is not finite") from error


def console() -> Console:
    """Standard output for people: colours only on a terminal, and elsewhere no line shorter than what stands in it."""
    plain = Console()
    return plain if plain.is_terminal else Console(width=_UNBOUNDED)


class FittingTable:
    """Rows of columns: a table where it fits, else a paragraph per row. What stands in a cell is never cut in two."""

    def __init__(self, title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        self._title = title
        self._columns = columns
        self._rows = [[shown(value) for value in row] for row in rows]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw what fits into the console's width."""
        drawn = self._table()
        if Measurement.get(console, options.update(max_width=_UNBOUNDED), drawn).maximum <= options.max_width:
            yield drawn
            return
        yield Text(self._title, style="italic")
        for row in self._rows:
            yield Text("\n".join(self._paragraph(row, options.max_width)), overflow="fold")

    def _table(self) -> Table:
        """Draw a table in which a column whose name has a unit in brackets is right-aligned."""
        drawn = Table(title=escape(self._title), title_justify="left", header_style="bold", show_edge=False)
        for column in self._columns:
            drawn.add_column(column, justify="right" if "(" in column else "left", no_wrap=True)
        for row in self._rows:
            drawn.add_row(*map(escape, row))
        return drawn

    def _paragraph(self, row: Sequence[str], width: int) -> Iterator[str]:
        """Write the first cell, and below it each that says something with its name, as many to a line as fit."""
        yield f"{self._columns[0]} {row[0]}".strip()
        line = ""
        for name, cell in zip(self._columns[1:], row[1:], strict=True):
            if cell == _NOTHING:
                continue
            part = f"  {name or '-'}: {cell}"
            if line and len(line) + len(part) > width:
                yield line
                line = ""
            line += part
        if line:
            yield line


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> FittingTable:
    """Rows of columns for a console, as `FittingTable` draws them."""
    return FittingTable(title, columns, rows)


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
            return _NOTHING
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
