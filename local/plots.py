"""Pictures of figures, for where one would rather look than read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import matplotlib as mpl
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_MEASURED, _AGAINST = "#0072b2", "#d55e00"
_REPRODUCIBLE: Final = {"svg.hashsalt": "blsflow"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Plot:
    """A line through points, and the line that it is held against; ``name`` is the file's, without its ending."""

    name: str
    x: str
    y: str
    label: str
    points: Sequence[tuple[float, float]]
    against_label: str = ""
    against: Sequence[tuple[float, float]] = ()
    logarithmic: bool = False
    dots: bool = True


def draw(plot: Plot, path: Path) -> None:
    """Draw what was measured, and what it is held against, as SVG."""
    figure = Figure(figsize=(8, 3.6), layout="constrained")
    axes = figure.subplots()
    for label, points, shown in (
        (plot.against_label, plot.against, {"color": _AGAINST, "linestyle": "--"}),
        (plot.label, plot.points, {"color": _MEASURED, "marker": "o" if plot.dots else ""}),
    ):
        if points:
            axes.plot(*zip(*points, strict=True), label=label, **shown)  # type: ignore[arg-type]
    if plot.logarithmic:
        axes.set_xscale("log")
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    axes.set_xlabel(plot.x)
    axes.set_ylabel(plot.y)
    axes.grid(visible=True, alpha=0.3)
    axes.legend(loc="best", fontsize=9)
    save(figure, path)


def draw_over_time(
    minutes: Sequence[float], panels: Sequence[tuple[str, Sequence[float]]], path: Path
) -> None:
    """Draw each series in a panel of its own, over the same minutes, as SVG."""
    figure = Figure(figsize=(8, 1.5 * len(panels) + 0.5), layout="constrained")
    rows = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
    for axes, (label, values) in zip(rows, panels, strict=True):
        axes.plot(minutes, values, color=_MEASURED, linewidth=1.2)
        axes.set_ylim(bottom=0, top=max(*values, 1) * 1.15)
        axes.set_title(label, loc="left", fontsize=9)
        axes.grid(visible=True, alpha=0.3)
    rows[-1].set_xlabel("minutes")
    save(figure, path)


def save(figure: Figure, path: Path) -> None:
    """Write an SVG that is the same for the same figures."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context(_REPRODUCIBLE):  # type: ignore[arg-type]
        figure.savefig(path, format="svg", metadata={"Date": None})
