"""What commands print for people: tables where they fit, and nothing ever cut in two."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from blsflow_cli.output import table

ATTEMPT = "0199c5c2-7d4a-7c3e-9f60-6f1a2b3c4d5e"
COLUMNS = ("attempt", "tenant", "state", "sent", "open (machines)", "alerted")
ROW = (ATTEMPT, "north-mining", "reconciling", "2026-11-30 00:34:50Z", 12, None)


def drawn(width: int, *, columns: tuple[str, ...] = COLUMNS, row: tuple[object, ...] = ROW) -> list[str]:
    """The lines of a listing on a terminal of so many columns."""
    console = Console(width=width, file=io.StringIO())
    console.print(table("Under way", columns, [row]))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


@pytest.mark.parametrize("width", [50, 80, 120, 200])
def test_a_cell_is_never_cut_in_two(width: int) -> None:
    """R11.5: ids are copied from any terminal that has a line for one."""
    lines = drawn(width)
    for cell in ROW[:4]:
        assert any(str(cell) in line for line in lines)


def test_a_table_where_it_fits_and_a_paragraph_per_row_where_not() -> None:
    """R11.5: each value with its name, what is not known left out, no line longer than the terminal if it can be."""
    assert len(drawn(200)) == 4
    assert drawn(60) == [
        "Under way",
        f"attempt {ATTEMPT}",
        "  tenant: north-mining  state: reconciling",
        "  sent: 2026-11-30 00:34:50Z  open (machines): 12",
    ]


def test_what_stands_in_a_cell_is_no_markup() -> None:
    """R11.5: brackets in a name are shown."""
    row = ("[red]name[/red]", 1)
    assert "[red]name[/red]" in drawn(80, columns=("name", "n"), row=row)[-1]
