"""The newest 100 log events of a policy among ten million, as a live stream begins, against the bare index lookup.

Both bring a hundred events to the client: the product as the text that goes out, the lookup as decoded rows.
"""

from __future__ import annotations

import random
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from bench.fleet import market
from bench.measuring import Bound, Row, interleaved, percentile, ratio_row, readable, seconds
from bench.yardsticks.tick import by_psycopg
from blsflow.adapters.postgres.store import PostgresStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from psycopg import Cursor

ROWS: Final = 10_000_000
POLICIES: Final = 1_000
READS: Final = 200
LIMIT: Final = 100
_TRANSACTIONS: Final = 20
_DAYS: Final = 7
"""Partitions that hold the rows."""
_FILL: Final = """
insert into smart_schedule_log_events (at, tenant_id, policy_id, kind, code, params, tick_id)
select now() + interval '{day} days', 'acme', 1 + g % {policies}, case g % 10 when 0 then 'tick' else 'log' end,
       'batch_prepared', '{{"action": "switch", "project_id": 3, "machines": 480}}', g
from generate_series(1, {rows}) g
"""
_BARE: Final = f"""
select * from smart_schedule_log_events where policy_id = %s order by xid desc, id desc limit {LIMIT}
"""


def run() -> Iterator[Row]:
    """Fill the log, then read it for policies at random: ``READS`` reads make one measurement."""
    with market() as session, by_psycopg(session.address) as connection:
        for number in range(_TRANSACTIONS):
            day = number * _DAYS // _TRANSACTIONS
            session.run(_FILL.format(policies=POLICIES, rows=ROWS // _TRANSACTIONS, day=day))
            print(f"    {(number + 1) * ROWS // _TRANSACTIONS:,} rows", flush=True)
        session.run("vacuum analyze smart_schedule_log_events")
        each: list[float] = []
        bare: list[float] = []
        cursor = connection.cursor(binary=True)
        store = PostgresStore(lambda: session)
        found = interleaved({"product": lambda: _read(store, each), "bare": lambda: _bare(cursor, bare)})
    yield ratio_row(
        f"newest 100 log events of a policy as a live stream begins, {ROWS:,} rows in {_DAYS} days' partitions",
        "the bare index lookup, its rows decoded by psycopg",
        [total / READS for total in found["product"]],
        [total / READS for total in found["bare"]],
        Bound(limit=2),
        figures={
            "p99 of single reads": readable(percentile(each, 0.99)),
            "p99 of single lookups": readable(percentile(bare, 0.99)),
        },
    )


def _read(store: PostgresStore, each: list[float]) -> float:
    with store.transaction() as tx:
        took = [
            seconds(partial(tx.newest_frames, policy_id=policy, tenant_id="acme", limit=LIMIT))
            for policy in _policies()
        ]
    each += took
    return sum(took)


def _bare(cursor: Cursor[Any], each: list[float]) -> float:
    took = [seconds(partial(_looked_up, cursor, policy)) for policy in _policies()]
    each += took
    return sum(took)


def _looked_up(cursor: Cursor[Any], policy: int) -> list[Any]:
    rows: list[Any] = cursor.execute(_BARE, (policy,), prepare=True).fetchall()
    return rows


def _policies() -> list[int]:
    return random.Random(1).sample(range(1, POLICIES + 1), READS)  # noqa: S311 - the same policies for both
