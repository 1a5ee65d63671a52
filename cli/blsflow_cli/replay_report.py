"""What a replay came to, as a table for people (R4.5, R4.6)."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import Progress

from blsflow_cli.options import counted
from blsflow_cli.output import table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from blsflow.domain.replay_ledger import Replayed


@contextmanager
def shown_progress(title: str) -> Iterator[Callable[[float], None]]:
    """Show how much is done on standard error, if that is a terminal."""
    screen = Console(stderr=True)
    with Progress(console=screen, transient=True, disable=not screen.is_terminal) as bar:
        task = bar.add_task(title, total=1.0)
        yield lambda share: bar.update(task, completed=share)


def show(title: str, found: Replayed, out: Console) -> None:
    """Print the three paths, what the policy did, and which hours are not known."""
    rows = [
        ("policy", _money(found, found.policy_cny), None),
        ("as it was", _money(found, found.as_is_cny), found.gain_cny),
        ("always on", _money(found, found.always_on_cny), found.gain_over_always_on_cny),
    ]
    out.print(title, highlight=False, markup=False)
    out.print(table("What came together", ["path", "net (CNY)", "policy gains (CNY)"], rows))
    hours = sum(found.unknown_hours.values())
    out.print(
        f"{found.machines} machines at {found.instants} instants: {counted(found.moves) or 'no moves'}; "
        f"{found.lost_hours:.1f} machine hours and {found.switch_cost_cny:.2f} CNY lost by changes, which is deducted.",
        highlight=False,
    )
    out.print(f"{found.known_hours:.1f} machine hours are known, {hours:.1f} are not.", highlight=False)
    for reason, unknown in sorted(found.unknown_hours.items(), key=lambda each: -each[1]):
        out.print(f"  [bold]{reason}[/bold]: {unknown:.1f} machine hours", highlight=False)
    if found.gain_cny is None:
        out.print("[red]No hour is known: there is no gain to speak of, neither 0 nor any other.[/red]")


def _money(found: Replayed, cny: float) -> float | None:
    return cny if found.known_hours else None
