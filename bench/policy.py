"""A small policy, warm; how the time grows with the fleet; and how often decide and the database exchange anything."""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING, Final

from bench.fleet import Tick, counted_exchanges, fill, market
from bench.measuring import Bound, Row, interleaved, plain_row, ratio_row, seconds, spread
from bench.yardsticks.tick import by_statement, make_tables
from local.plots import Plot

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from blsflow.adapters.postgres.connection import Session

SIZES: Final = (1_000, 10_000, 100_000)
SMALL_ROUNDS: Final = 15
MOST_ROUND_TRIPS: Final = 12


def run() -> Iterator[Row]:
    """Measure the smallest size against its yardstick, then the growth."""
    with market() as session:
        times: dict[int, list[float]] = {}
        exchanges = []
        for machines in SIZES:
            fill(session, machines)
            make_tables(session)
            tick = Tick(session)
            print(f"    {machines:,} machines", flush=True)
            if machines == SIZES[0]:
                found = interleaved(
                    {"product": tick.seconds, "yardstick": lambda: _yardstick(session)}, rounds=SMALL_ROUNDS
                )
                yield ratio_row(
                    "a policy of 1,000 machines, warm: whole decide, committed",
                    "the statement at that size, and twelve empty round trips",
                    found["product"],
                    found["yardstick"],
                    Bound(limit=2),
                )
            else:
                found = interleaved({"product": tick.seconds})
            times[machines] = found["product"]
            exchanges.append(float(counted_exchanges(session)))
        yield plain_row(
            f"round trips of a decide, {SIZES[0]:,} to {SIZES[-1]:,} machines",
            exchanges,
            "round trips",
            Bound(limit=MOST_ROUND_TRIPS),
        )
        fill(session, 1)
        fixed = statistics.median(
            interleaved({"product": Tick(session).seconds}, rounds=SMALL_ROUNDS)["product"]
        )
        yield _growth(fixed, times)


def _yardstick(session: Session) -> float:
    def twelve() -> None:
        for _ in range(MOST_ROUND_TRIPS):
            session.run("select 1")

    return by_statement(session) + seconds(twelve)


def _growth(fixed: float, times: Mapping[int, list[float]]) -> Row:
    """The exponent between the smallest and the largest size, above what a policy of one machine takes."""
    least, most = min(times), max(times)
    exponents = [
        math.log((large - fixed) / (small - fixed)) / math.log(most / least)
        for small, large in zip(sorted(times[least])[: len(times[most])], sorted(times[most]), strict=True)
        if small > fixed
    ]
    middle = math.log(
        (statistics.median(times[most]) - fixed) / (statistics.median(times[least]) - fixed)
    ) / math.log(most / least)
    return Row(
        work=f"growth from {least:,} to {most:,} machines, above the fixed cost",
        yardstick="linear: exponent 1",
        value=middle,
        low=min(exponents),
        high=max(exponents),
        unit="exponent",
        bound=Bound(limit=1.0),
        figures={
            "one machine": spread([fixed]),
            **{f"{size:,}": spread(found) for size, found in times.items()},
        },
        plot=_plot(fixed, {size: statistics.median(found) for size, found in times.items()}),
    )


def _plot(fixed: float, medians: Mapping[int, float]) -> Plot:
    """The times by size, beside what the smallest size would take at others if its machines cost the same there."""
    least = min(medians)
    each = (medians[least] - fixed) / least
    return Plot(
        name="growth",
        x="machines",
        y="seconds",
        label="one tick, decided and committed",
        points=[(1, fixed), *sorted(medians.items())],
        against_label=f"linear from {least:,} machines",
        against=[(size, fixed + each * size) for size in (1, *sorted(medians))],
        logarithmic=True,
    )
