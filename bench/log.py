"""The newest 100 log events of a policy among ten million, as they are read for people, against the bare index lookup."""

from __future__ import annotations

import random
from functools import partial
from typing import TYPE_CHECKING, Final

from bench.fleet import market
from bench.measuring import Bound, Row, interleaved, percentile, ratio_row, readable, seconds
from blsflow.adapters.postgres.store import PostgresStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from blsflow.adapters.postgres.connection import Session

ROWS: Final = 10_000_000
POLICIES: Final = 1_000
READS: Final = 200
_TRANSACTIONS: Final = 20
_FILL: Final = """
insert into smart_schedule_log_events (at, tenant_id, policy_id, kind, code, params, tick_id)
select now(), 'acme', 1 + g % {policies}, case g % 10 when 0 then 'tick' else 'log' end, 'batch_prepared',
       '{{"action": "switch", "project_id": 3, "machines": 480}}', g
from generate_series(1, {rows}) g
"""
_BARE: Final = """
select id from smart_schedule_log_events where policy_id = :policy_id::bigint order by id desc limit 100
"""


def run() -> Iterator[Row]:
    """Fill the log, then read it for policies at random: ``READS`` reads make one measurement."""
    with market() as session:
        for number in range(_TRANSACTIONS):
            session.run(_FILL.format(policies=POLICIES, rows=ROWS // _TRANSACTIONS))
            print(f"    {(number + 1) * ROWS // _TRANSACTIONS:,} rows", flush=True)
        session.run("vacuum analyze smart_schedule_log_events")
        each: list[float] = []
        store = PostgresStore(lambda: session)
        found = interleaved({"product": lambda: _read(store, each), "bare": lambda: _bare(session)})
    yield ratio_row(
        f"newest 100 log events of a policy, {ROWS:,} rows",
        "the bare index lookup of their ids",
        [total / READS for total in found["product"]],
        [total / READS for total in found["bare"]],
        Bound(limit=2),
        figures={"p99 of single reads": readable(percentile(each, 0.99))},
    )


def _read(store: PostgresStore, each: list[float]) -> float:
    with store.transaction() as tx:
        took = [
            seconds(partial(tx.log_tail, policy_id=policy, tenant_id="acme", limit=100))
            for policy in _policies()
        ]
    each += took
    return sum(took)


def _bare(session: Session) -> float:
    return sum(seconds(partial(session.query_text, _BARE, policy_id=policy)) for policy in _policies())


def _policies() -> list[int]:
    return random.Random(1).sample(range(1, POLICIES + 1), READS)  # noqa: S311 - the same policies for both
