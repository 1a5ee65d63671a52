"""A replay as a picture: what had come together on each path, when hours were unknown, and what electricity cost (R4.6)."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from blsflow.domain.errors import BlsflowError
from blsflow.domain.tariff import TariffPrice

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    from matplotlib.axes import Axes

    from blsflow.domain.replay_ledger import Replayed
    from blsflow.domain.tariff_survey import TariffSegment

FORMATS: Final = (".png", ".svg")
_PATHS: Final = (
    ("policy_cny", "policy", "#0072b2", "-", 2.2),
    ("as_is_cny", "as it was", "#d55e00", "-", 1.4),
    ("always_on_cny", "always on", "#555555", "--", 1.2),
)
_UNKNOWN: Final = "#cccccc"


class ChartRefused(BlsflowError):
    """A picture of a kind that is not drawn, or in a place where nothing can be written."""


def check_format(path: Path) -> None:
    """Refuse a file whose name does not say png or svg, before anything is computed."""
    if path.suffix.lower() not in FORMATS:
        raise ChartRefused(f"{path}: a chart is written as {' or '.join(FORMATS)}, by the file's name")


def draw(  # noqa: PLR0913 - where to, which period, and what came of it
    path: Path,
    *,
    title: str,
    since: datetime,
    until: datetime,
    replayed: Replayed,
    tariffs: Mapping[int, Sequence[TariffSegment]] | None = None,
) -> None:
    """Write the picture; stretches in which hours were added that nobody knows are grey.

    Raises:
        ChartRefused: the file cannot be written.
    """
    # imported here: it takes half a second, and most commands draw nothing
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    panels = 2 if tariffs else 1
    figure = Figure(figsize=(11, 4.2 + 1.8 * (panels - 1)), dpi=130, layout="constrained")
    axes = figure.subplots(panels, 1, sharex=True, squeeze=False, height_ratios=[3, 1][:panels])[:, 0]
    _draw_paths(axes[0], title, since, replayed)
    if tariffs:
        _draw_tariffs(axes[1], tariffs)
    locator = AutoDateLocator()  # type: ignore[no-untyped-call]
    axes[-1].xaxis.set_major_locator(locator)
    axes[-1].xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
    axes[-1].set_xlabel("UTC")
    axes[-1].set_xlim(since, until)
    try:
        figure.savefig(path)
    except OSError as error:
        raise ChartRefused(f"{path}: {error.strerror}") from error


def _draw_paths(axes: Axes, title: str, since: datetime, replayed: Replayed) -> None:
    times = [since, *(point.at for point in replayed.series)]
    for field, label, colour, style, width in (
        _PATHS if replayed.known_hours else ()
    ):  # no line where nothing is known
        sums = [0.0, *(getattr(point, field) for point in replayed.series)]
        shown: dict[str, Any] = {"color": colour, "linestyle": style, "linewidth": width}
        axes.plot(times, sums, label=f"{label}: {sums[-1]:,.2f} CNY", **shown)  # type: ignore[arg-type]  # dates are fine
    hours = [0.0, *(point.unknown_hours for point in replayed.series)]
    label = f"{hours[-1]:,.1f} machine hours unknown"
    for start, end in _growing(times, hours):
        axes.axvspan(start, end, color=_UNKNOWN, linewidth=0, label=label)  # type: ignore[arg-type]
        label = "_"  # once in the legend is enough
    axes.axhline(0, color="black", linewidth=0.6)
    gain = replayed.gain_cny
    said = "no hour is known" if gain is None else f"{gain:+,.2f} CNY against as it was"
    axes.set_title(f"{title}: {said}", loc="left", fontsize=11)
    axes.set_ylabel("CNY, cumulated")
    axes.grid(visible=True, alpha=0.3)
    if replayed.series:
        axes.legend(loc="best", fontsize=9)


def _growing(times: Sequence[datetime], sums: Sequence[float]) -> list[tuple[datetime, datetime]]:
    """Return the unbroken stretches in which a sum grew."""
    found: list[tuple[datetime, datetime]] = []
    for (start, before), (end, after) in pairwise(zip(times, sums, strict=True)):
        if after > before:
            joins = bool(found) and found[-1][1] == start
            found.append((found.pop()[0] if joins else start, end))
    return found


def _draw_tariffs(axes: Axes, tariffs: Mapping[int, Sequence[TariffSegment]]) -> None:
    for cluster, segments in tariffs.items():
        edges = [*(segment.start for segment in segments), *(segment.end for segment in segments[-1:])]
        prices = [
            segment.status.price_cny_per_kwh if isinstance(segment.status, TariffPrice) else float("nan")
            for segment in segments
        ]
        axes.stairs(prices, edges, label=f"cluster {cluster}", baseline=None)  # type: ignore[arg-type]
    axes.set_ylabel("CNY/kWh")
    axes.grid(visible=True, alpha=0.3)
    axes.legend(loc="best", fontsize=8)
