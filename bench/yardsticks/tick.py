"""The bare decision of a tick, three ways: in one statement, over decoded rows with pg8000, and with psycopg 3 and COPY.

None of them explains, locks, batches or logs anything.
"""

from __future__ import annotations

from contextlib import closing
from itertools import count, groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pg8000.dbapi
import psycopg

from bench.measuring import seconds
from blsflow.adapters.postgres.statements import literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from blsflow.adapters.postgres.address import DatabaseAddress
    from blsflow.adapters.postgres.connection import Session

REVENUES: Final = [(0.08 + project * 0.0005) * 7.2 / 1e12 for project in range(1, 11)]
"""CNY per H/s and day of the projects 1 to 10, as `tests.integration.fleets` prices them."""
COSTS: Final = [(0.4 + cluster * 0.01) * 24 / 1000 for cluster in range(1, 5)]
"""CNY per W and day of the clusters 1 to 4."""
_MIN_GAIN, _MIN_RATIO = 1.0, 0.05
_TICKS: Final = count(1)
"""Each round's decisions are put behind those of the rounds before it, which stay, as the product's do."""

_STATEMENT = Path(__file__).with_name("tick.sql")
_TABLES = """
drop table if exists bare_benchmarks, bare_decisions;
create table bare_benchmarks as
    select machine_id, project_id, hashrate_hs, power_w, sampled_at from smart_schedule_machine_project_benchmarks
    order by machine_id, project_id;
create unique index bare_benchmarks_cover
    on bare_benchmarks (machine_id, project_id) include (hashrate_hs, power_w, sampled_at);
create table bare_decisions (
    tick_id bigint, machine_id bigint, action text not null, reason text not null, to_project bigint,
    current_net double precision, best_net double precision, primary key (tick_id, machine_id));
"""
_MACHINES = """
select m.id, m.cluster_id, r.project_id from machines m join machine_mining_runtime r on r.machine_id = m.id
where m.tenant_id = 'acme' and r.status = 'mining' and r.reported_at > now() - interval '1 day' order by m.id
"""
_BENCHMARKS = """
select machine_id, project_id, hashrate_hs, power_w from bare_benchmarks
where sampled_at > now() - interval '30 days' order by machine_id
"""


def make_tables(session: Session) -> None:
    """Copy the fleet's benchmarks into a table with a covering index, and make one for bare decisions."""
    session.run(_TABLES)
    session.run("vacuum analyze bare_benchmarks")
    session.run("set work_mem = '64MB'")


def by_statement(session: Session) -> float:
    """Seconds that the one statement takes, committed."""
    sql = "\n".join(line for line in _STATEMENT.read_text().splitlines() if not line.startswith("--"))
    sql = sql.replace(":revenues", literal(REVENUES)).replace(":costs", literal(COSTS))
    sql = sql.replace(":tick_id", str(next(_TICKS)))
    return seconds(lambda: session.run(sql))


def by_decoded_rows(session: Session) -> float:
    """Seconds that decoded rows, a loop over machines and ``executemany`` take with pg8000, committed."""
    at = session.address
    with closing(
        pg8000.dbapi.connect(
            user=at.user, password=at.password, host=at.host, port=at.port, database=at.dbname
        )
    ) as connection:

        def work() -> None:
            cursor = connection.cursor()
            cursor.execute(_MACHINES)
            machines = cursor.fetchall()
            cursor.execute(_BENCHMARKS)
            cursor.executemany(
                "insert into bare_decisions values (%s, %s, %s, %s, %s, %s, %s)",
                list(_decided(next(_TICKS), machines, cursor.fetchall())),
            )
            connection.commit()

        return seconds(work)


def by_copy(session: Session) -> float:
    """Seconds that decoded rows, a loop over machines and COPY take with psycopg 3, committed."""
    with by_psycopg(session.address) as connection:

        def work() -> None:
            cursor = connection.cursor(binary=True)
            machines = cursor.execute(_MACHINES).fetchall()
            rows = cursor.execute(_BENCHMARKS).fetchall()
            with cursor.copy("copy bare_decisions from stdin (format binary)") as copy:
                copy.set_types(["int8", "int8", "text", "text", "int8", "float8", "float8"])
                for decision in _decided(next(_TICKS), machines, rows):
                    copy.write_row(decision)
            connection.commit()

        return seconds(work)


def _decided(tick_id: int, machines: Iterable[Any], benchmarks: Iterable[Any]) -> Iterator[tuple[Any, ...]]:
    """The bare decisions, from machines and benchmarks that come in the same order."""
    of_machines = groupby(benchmarks, itemgetter(0))
    measured, marks = next(of_machines)
    for machine_id, cluster_id, running in machines:
        while measured < machine_id:
            measured, marks = next(of_machines)
        cost = COSTS[cluster_id - 1]
        nets = {
            project: hashrate_hs * REVENUES[project - 1] - power_w * cost
            for _, project, hashrate_hs, power_w in marks
        }
        best = max(nets, key=nets.__getitem__)
        current, gain = nets[running], nets[best] - nets[running]
        if gain >= _MIN_GAIN and gain >= _MIN_RATIO * abs(current):
            yield tick_id, machine_id, "switch", "better_net", best, current, nets[best]
        else:
            yield (
                tick_id,
                machine_id,
                "keep",
                "gain_below" if gain else "already_best",
                None,
                current,
                nets[best],
            )


def by_psycopg(address: DatabaseAddress) -> psycopg.Connection[Any]:
    """A connection of the quickest driver there is."""
    return psycopg.connect(
        host=address.host,
        port=address.port,
        user=address.user,
        password=address.password,
        dbname=address.dbname,
    )
