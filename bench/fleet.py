"""A database with a large fleet and one policy, and the product over it: what the parts of the benchmark share."""

from __future__ import annotations

import time
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from bench.measuring import seconds, spread
from blsflow.adapters.postgres.connection import Session
from blsflow.adapters.postgres.migrate import migrate
from local.stack.postgres import EmbeddedPostgres
from tests.integration.counting import counting_store
from tests.integration.fleets import decide_waiting, make_machines, make_market, start

if TYPE_CHECKING:
    from collections.abc import Iterator

    from blsflow.adapters.postgres.address import DatabaseAddress
    from blsflow.flow.decide import DecideReport

SERVER_SETTINGS: Final = {
    "shared_buffers": "1GB",
    "max_wal_size": "8GB",
    "checkpoint_timeout": "30min",
    "autovacuum": "off",  # each part vacuums before its rounds: none is to be hit by it and another not
}

# A fleet at rest: two thirds run what is best, nearly a third what is second best, and 5 % would be switched.
_AT_REST: Final = """
update machine_mining_runtime r set project_id = ranked.projects[case
        when r.machine_id % 20 = 0 then 10 when r.machine_id % 20 between 1 and 6 then 2 else 1 end]
from (select machine_id, array_agg(project_id order by hashrate_hs * (0.08 + project_id * 0.0005) desc) as projects
      from smart_schedule_machine_project_benchmarks group by machine_id) ranked
where ranked.machine_id = r.machine_id
"""
# A price a minute since an hour ago, so that the server knows by its statistics that the newest is worth an index.
_EARLIER_PRICES: Final = """
insert into smart_schedule_profit_readings
    select price_key, algorithm, at, at, source, revenue, unit, currency, flags
    from smart_schedule_profit_readings
    cross join generate_series(now() - interval '1 hour', now() - interval '1 minute', interval '1 minute') at
"""
# What the next tick finds a minute later: the jobs of the last one have failed, so that the same machines are to move again,
# and their locks are free; prices are new, and so are the meters' readings, of which there is one a minute. All that earlier
# ticks decided and logged stays where it is, and nothing is emptied: that would have the server plan everything anew.
_NEXT_TICK: Final = """
update smart_schedule_machine_locks set freed_at = now(), freed_by = 'job_ended' where freed_at is null;
update smart_schedule_attempt_machines set state = 'failed', ended_at = now() where ended_at is null;
update smart_schedule_attempts set state = 'failed', ended_at = now() where ended_at is null;
update smart_schedule_occurrences set state = 'succeeded', ended_at = now() where ended_at is null;
update smart_schedule_schedules set next_run_at = now();
insert into smart_schedule_profit_readings
    select distinct on (price_key) price_key, algorithm, now(), now(), source, revenue, unit, currency, flags
    from smart_schedule_profit_readings order by price_key, received_at desc;
insert into metric_powers
    select id, now(), 3000 from machines m
    where not exists (select from metric_powers p where p.machine_id = m.id and p.measured_at > now() - interval '1 minute');
"""
# What the server's own vacuum does by itself once a fifth of a table is dead: a tick that moves most machines is enough.
_VACUUM: Final = (
    "vacuum analyze smart_schedule_machine_locks, smart_schedule_attempt_machines, smart_schedule_attempts"
)


@contextmanager
def server() -> Iterator[DatabaseAddress]:
    """A PostgreSQL with a migrated database of its own."""
    with EmbeddedPostgres(settings=SERVER_SETTINGS) as postgres:
        address = replace(postgres.address, dbname="bench")
        with closing(Session(postgres.address)) as maintenance:
            maintenance.run("create database bench")
        with closing(Session(address)) as session:
            migrate(session)
        yield address


@contextmanager
def market() -> Iterator[Session]:
    """A session in a database with everything but machines."""
    with server() as address, closing(Session(address, statement_timeout_sec=600)) as session:
        make_market(session)
        session.run(_EARLIER_PRICES)
        session.run("update smart_schedule_policy_groups set report_max_age_sec = 86400")
        yield session


def fill(session: Session, machines: int, *, at_rest: bool = True) -> None:
    """Put a fleet there instead of any other; ``at_rest``: 5 % of it are to move, otherwise nearly four fifths."""
    make_machines(session, machines)
    if at_rest:
        session.run(_AT_REST)
    session.run("vacuum analyze")


def url_of(address: DatabaseAddress) -> str:
    """The address as the product's setting has it."""
    return f"postgresql://{address.user}:{quote(address.password)}@{address.host}:{address.port}/{address.dbname}"


def next_tick(session: Session) -> None:
    """End what the last tick left at work, and make the policy due again."""
    session.run(_NEXT_TICK)
    session.run("checkpoint")


def counted_exchanges(session: Session) -> int:
    """Decide one tick in a session that counts its round trips; a COPY into the server is two of them."""
    next_tick(session)
    application = start(url_of(session.address))
    application.tick(budget_sec=30)
    application.store.close()
    store, exchanges = counting_store(session.address)
    application.__dict__["store"] = store
    decide_waiting(application)
    store.close()
    copies_in = 1
    return sum(exchanges.values()) + copies_in


def _processor_sec(pid: int) -> float:
    """How long a process has run so far, as Linux counts."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


class Tick:
    """The product over a database, deciding one tick after the other in one warm session."""

    report: DecideReport

    def __init__(self, session: Session, *, vacuum: bool = False) -> None:
        """``vacuum`` before each tick what the last one left dead."""
        self._session = session
        self._vacuum = vacuum
        self._application = start(url_of(session.address))
        self.processor: list[tuple[float, float]] = []
        """Of each tick: seconds of processor time that this process, and its server process, took."""

    def seconds(self) -> float:
        """End what the last tick left, record the next, and return how long it takes to be decided and committed."""
        next_tick(self._session)
        if self._vacuum:
            self._session.run(_VACUUM)
        self._application.tick(budget_sec=30)
        with self._application.store.transaction() as tx:
            server = int(tx._session.run("select pg_backend_pid()")[0][0])  # noqa: SLF001 - the product's own session
        before = time.process_time(), _processor_sec(server)
        took = seconds(self._decide)
        self.processor.append((time.process_time() - before[0], _processor_sec(server) - before[1]))
        return took

    def processor_figures(self) -> dict[str, str]:
        """The medians, for people."""
        ours, servers = zip(*self.processor[1:], strict=True)
        return {
            "processor time of decide": spread(ours),
            "processor time of its server process": spread(servers),
        }

    def _decide(self) -> None:
        self.report = decide_waiting(self._application)
