"""One tick of 100,000 machines with 10 candidates each, through the product's own decide path, committed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.fleet import Tick, fill, market
from bench.measuring import Bound, Row, interleaved, ratio_row
from bench.yardsticks import whole_tick
from bench.yardsticks.tick import by_copy, by_decoded_rows, by_statement, make_tables

if TYPE_CHECKING:
    from collections.abc import Iterator

    from blsflow.adapters.postgres.connection import Session

MACHINES = 100_000
FEW_MACHINES = 20_000
"""For the yardstick that takes a statement per machine: half a minute a round for all of them."""
ROUNDS = 11
"""More than elsewhere: the loops over decoded rows take one of two times, as their memory suits them."""
_WORK = "one tick, {machines:,} machines x 10 candidates, {share} of them moving"


def run() -> Iterator[Row]:
    """Measure at rest against all yardsticks, then on a morning when nearly everything moves."""
    with market() as session:
        yield from _against_executemany(session)
        yield from _at_rest(session)
        yield from _everything_moves(session)


def _against_executemany(session: Session) -> Iterator[Row]:
    fill(session, FEW_MACHINES)
    make_tables(session)
    tick = Tick(session)
    found = interleaved({"product": tick.seconds, "pg8000": lambda: by_decoded_rows(session)})
    yield ratio_row(
        _WORK.format(machines=FEW_MACHINES, share=_share(tick)),
        "decoded rows (pg8000), loop, `executemany`",
        found["product"],
        found["pg8000"],
        Bound(limit=20, at_least=True),
    )


def _at_rest(session: Session) -> Iterator[Row]:
    fill(session, MACHINES)
    make_tables(session)
    whole_tick.make_tables(session)
    tick = Tick(session)
    found = interleaved(
        {
            "product": tick.seconds,
            "statement": lambda: by_statement(session),
            "psycopg": lambda: by_copy(session),
            "whole tick": lambda: whole_tick.by_copy(session),
        },
        rounds=ROUNDS,
    )
    work, product = _WORK.format(machines=MACHINES, share=_share(tick)), found["product"]
    yield ratio_row(
        work,
        "one SQL statement, bare decisions only",
        product,
        found["statement"],
        Bound(limit=1.5),
        figures=tick.processor_figures(),
    )
    yield ratio_row(
        work,
        "decoded rows (psycopg 3), loop, COPY: bare decisions only",
        product,
        found["psycopg"],
        None,
    )
    yield ratio_row(
        work,
        "decoded rows (psycopg 3), loop, COPY: the same work",
        product,
        found["whole tick"],
        Bound(limit=2, at_least=True),
    )


def _everything_moves(session: Session) -> Iterator[Row]:
    fill(session, MACHINES, at_rest=False)
    make_tables(session)
    tick = Tick(session, vacuum=True)
    found = interleaved({"product": tick.seconds, "statement": lambda: by_statement(session)})
    yield ratio_row(
        _WORK.format(machines=MACHINES, share=_share(tick)),
        "one SQL statement, bare decisions only",
        found["product"],
        found["statement"],
        None,
    )


def _share(tick: Tick) -> str:
    counts = tick.report.counts
    moving = sum(machines for key, machines in counts.items() if key.startswith("switch/"))
    return f"{100 * moving / tick.report.machines:.0f} %"
