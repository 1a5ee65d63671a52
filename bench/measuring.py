"""Interleaved rounds, and the rows that they come to: every ratio is of runs that stood side by side."""

from __future__ import annotations

import statistics
import time
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from local.plots import Plot

ROUNDS: Final = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class Bound:
    """What a row is to reach: ``at most`` or ``at least`` a limit."""

    limit: float
    at_least: bool = False

    def met_by(self, value: float) -> bool:
        """Whether a value reaches it."""
        return value >= self.limit if self.at_least else value <= self.limit

    def __str__(self) -> str:
        return f"at {'least' if self.at_least else 'most'} {self.limit:g}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One line of the table: a median with its spread, and the figures that it was made of.

    ``unit`` is ``x`` for a ratio to the yardstick.
    """

    work: str
    yardstick: str
    value: float
    low: float
    high: float
    unit: str
    bound: Bound | None
    figures: Mapping[str, str] = field(default_factory=dict)
    plot: Plot | None = None

    def as_document(self) -> dict[str, Any]:
        """The row in plain JSON values."""
        return asdict(self) | {"met": self.bound is None or self.bound.met_by(self.value)}


def seconds(work: Callable[[], object]) -> float:
    """How long one call takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def interleaved(
    contenders: Mapping[str, Callable[[], float]], *, rounds: int = ROUNDS
) -> dict[str, list[float]]:
    """Run all contenders in every round, after one round that is thrown away; each returns what it measured."""
    for run in contenders.values():
        run()
    found: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(rounds):
        order = list(contenders.items())
        for name, run in order if number % 2 else reversed(order):
            found[name].append(run())
        print(
            f"    round {number + 1}/{rounds}: "
            + ", ".join(f"{name} {readable(runs[-1])}" for name, runs in found.items()),
            flush=True,
        )
    return found


def ratio_row(  # noqa: PLR0913 - the columns of the table
    work: str,
    yardstick: str,
    measured: Sequence[float],
    against: Sequence[float],
    bound: Bound | None,
    *,
    figures: Mapping[str, str] | None = None,
) -> Row:
    """The ratio of two contenders' medians; its spread is that of the rounds' own ratios.

    A bound of *at least* asks how many times quicker than the yardstick, so the ratio is turned over.
    """
    faster = bound is not None and bound.at_least
    over, under = (against, measured) if faster else (measured, against)
    ratios = [one / other for one, other in zip(over, under, strict=True)]
    return Row(
        work=work,
        yardstick=yardstick,
        value=statistics.median(over) / statistics.median(under),
        low=min(ratios),
        high=max(ratios),
        unit="x",
        bound=bound,
        figures={"product": spread(measured), "yardstick": spread(against), **(figures or {})},
    )


def plain_row(  # noqa: PLR0913 - the columns of the table
    work: str,
    values: Sequence[float],
    unit: str,
    bound: Bound | None,
    *,
    yardstick: str = "-",
    figures: Mapping[str, str] | None = None,
    plot: Plot | None = None,
) -> Row:
    """A figure that is held against a limit of its own."""
    return Row(
        work=work,
        yardstick=yardstick,
        value=statistics.median(values),
        low=min(values),
        high=max(values),
        unit=unit,
        bound=bound,
        figures=figures or {},
        plot=plot,
    )


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which that share of all values lies; of the values themselves, none made up between them."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def spread(values: Sequence[float]) -> str:
    """Seconds for people: median, and least to most."""
    return f"{readable(statistics.median(values))} ({readable(min(values))} - {readable(max(values))})"


def readable(duration_sec: float) -> str:
    """A duration with three digits."""
    if duration_sec >= 1:
        return f"{duration_sec:.3g} s"
    if duration_sec >= 1e-3:  # noqa: PLR2004 - a millisecond
        return f"{duration_sec * 1e3:.3g} ms"
    return f"{duration_sec * 1e6:.3g} µs"
