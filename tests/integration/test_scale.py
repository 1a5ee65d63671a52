"""Round trips and memory of a tick do not grow with the fleet."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import closing
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from blsflow.adapters.postgres.connection import Session
from tests.integration.counting import counting_store
from tests.integration.fleets import decide_waiting, make_machines, make_market, start
from tests.rules import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from blsflow.adapters.postgres.address import DatabaseAddress
    from blsflow.flow.decide import DecideReport

# Ten exchanges in the tick's own transaction, and one to note that its attempts were enqueued; a COPY into the server is two
# round trips, since the server asks for the rows first.
MOST_ROUND_TRIPS = 12
MOST_GROWTH_MB = 16.0


def _url(address: DatabaseAddress) -> str:
    return f"postgresql://{address.user}:{quote(address.password)}@{address.host}:{address.port}/{address.dbname}"


@pytest.fixture
def session(database: DatabaseAddress) -> Iterator[Session]:
    """A session beside the product's, in a database with everything but machines."""
    with closing(Session(database)) as opened:
        make_market(opened)
        yield opened


def _counted(session: Session, machines: int) -> tuple[DecideReport, Mapping[str, int]]:
    """Decide one tick over a fleet of that size; the report, and what decide exchanged with the database."""
    make_machines(session, machines)
    application = start(_url(session.address))
    application.tick(budget_sec=30)
    application.store.close()
    store, exchanges = counting_store(session.address)
    application.__dict__["store"] = store
    report = decide_waiting(application)
    store.close()
    return report, exchanges


@pytest.mark.timeout(240)
def test_a_ticks_round_trips_do_not_depend_on_the_fleet(session: Session) -> None:
    """R3.10: 100 or 20,000 machines with 10 candidates each, decided, locked and batched by the same few exchanges."""
    counts = []
    for machines in (100, 20_000):
        report, exchanges = _counted(session, machines)
        assert report.machines == sum(report.counts.values()) == machines
        assert report.attempts > 0
        counts.append(exchanges)
    assert counts[0] == counts[1]
    copies_in = 1
    assert sum(counts[1].values()) + copies_in <= MOST_ROUND_TRIPS


@pytest.mark.timeout(240)
def test_a_ticks_memory_does_not_depend_on_the_fleet(session: Session) -> None:
    """R3.10: twenty times the machines, decided and stored, take hardly more memory: records come and go in blocks."""
    peaks_mb = []
    for machines in (2_000, 40_000):
        make_machines(session, machines)
        answer = subprocess.run(
            [sys.executable, "-m", "tests.integration.fleets"],
            env={**os.environ, "BLSFLOW_SCHEDULER_DATABASE_URL": _url(session.address)},
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        )
        decided, peak_mb = answer.stdout.split()
        assert int(decided) == machines
        peaks_mb.append(float(peak_mb))
    assert peaks_mb[1] - peaks_mb[0] < MOST_GROWTH_MB
