"""The peak memory of a process that decides one tick, by the size of the fleet."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Final

from bench.fleet import fill, market, next_tick, url_of
from bench.measuring import ROUNDS, Bound, Row, plain_row
from local.plots import Plot

if TYPE_CHECKING:
    from collections.abc import Iterator

    from blsflow.adapters.postgres.address import DatabaseAddress

SIZES: Final = (10_000, 50_000, 100_000, 200_000)
MOST_MB: Final = 96


def run() -> Iterator[Row]:
    """Decide in a process of its own, so that each has its own peak."""
    peaks: dict[int, list[float]] = {}
    with market() as session:
        for machines in SIZES:
            fill(session, machines)
            peaks[machines] = []
            for _ in range(ROUNDS):
                next_tick(session)
                peaks[machines].append(_peak_mb(session.address))
            print(f"    {machines:,} machines: {peaks[machines]}", flush=True)
    yield plain_row(
        f"peak memory of the deciding process, {SIZES[-1]:,} machines x 10 candidates",
        peaks[SIZES[-1]],
        "MB",
        Bound(limit=MOST_MB),
        figures={f"{size:,} machines": f"{max(found):.1f} MB" for size, found in peaks.items()},
        plot=Plot(
            name="memory",
            x="machines",
            y="MB",
            label="peak memory of the deciding process",
            points=[(size, max(found)) for size, found in peaks.items()],
            against_label="at most",
            against=[(size, MOST_MB) for size in SIZES],
        ),
    )
    growth = [large - small for small, large in zip(peaks[SIZES[0]], peaks[SIZES[-1]], strict=True)]
    yield plain_row(f"its growth from {SIZES[0]:,} to {SIZES[-1]:,} machines", growth, "MB", Bound(limit=8))


def _peak_mb(address: DatabaseAddress) -> float:
    answer = subprocess.run(
        [sys.executable, "-m", "tests.integration.fleets"],
        env={**os.environ, "BLSFLOW_SCHEDULER_DATABASE_URL": url_of(address)},
        capture_output=True,
        text=True,
        check=True,
    )
    return float(answer.stdout.split()[1])
