from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from blsflow.adapters.postgres.connection import Session
from blsflow.ports.errors import StoreConflict

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import date

    from blsflow.adapters.postgres.address import DatabaseAddress

PARENTS = {
    "smart_schedule_machine_decisions": "ticked_at",
    "smart_schedule_log_events": "at",
    "smart_schedule_profit_readings": "received_at",
}
AHEAD = 7
KEEP = 30
_STATEMENTS = {
    "smart_schedule_machine_decisions": (
        "insert into smart_schedule_machine_decisions (ticked_at, tick_id, machine_id, action, reason, proposed, figures)"
        " values ('{at}', 1, 1, 'keep', 'x', 'keep', '')"
    ),
    "smart_schedule_log_events": "insert into smart_schedule_log_events (at, tenant_id, code) values ('{at}', 't', 'x')",
    "smart_schedule_profit_readings": (
        "insert into smart_schedule_profit_readings (price_key, taken_at, received_at, source, unit, currency)"
        " values ('BTC', now(), '{at}', 'test', 'TH/s', 'USDT')"
    ),
}


@pytest.fixture
def session(database: DatabaseAddress) -> Iterator[Session]:
    """A session on a database that was migrated today: a week of partitions is there."""
    with closing(Session(database)) as opened:
        yield opened


@pytest.fixture
def today() -> datetime:
    """Noon of this day, so that a test's days do not end within it."""
    return datetime.now(UTC).replace(hour=12, minute=0, second=0, microsecond=0)


def maintain(session: Session, at: datetime, keep_days: int = KEEP) -> tuple[int, int]:
    """Run maintenance as of an instant; how many partitions were made and dropped."""
    row = session.run(f"select * from smart_schedule_maintain_partitions('{at}', {AHEAD}, {keep_days})")[0]
    return row[0], row[1]


def days(session: Session, parent: str) -> set[date]:
    """The days that have a partition of their own."""
    rows = session.run(
        f"select to_date(right(inhrelid::regclass::text, 8), 'YYYYMMDD') from pg_inherits"
        f" where inhparent = '{parent}'::regclass and inhrelid::regclass::text ~ '[0-9]{{8}}$'"
    )
    return {row[0] for row in rows}


def insert(session: Session, parent: str, at: datetime) -> None:
    """Write one row of that instant."""
    session.run(_STATEMENTS[parent].format(at=at))


def homes(session: Session, parent: str) -> list[str]:
    """Where each row lies: the end of its partition's name, in the order of time."""
    rows = session.run(f"select tableoid::regclass::text from {parent} order by {PARENTS[parent]}")
    return [row[0].removeprefix(parent + "_") for row in rows]


@pytest.mark.parametrize("parent", PARENTS)
def test_days_ahead_are_made(session: Session, today: datetime, parent: str) -> None:
    """R11.1: after a run each day of the coming week has its partition, and rows go there; a second run makes nothing."""
    at = today + timedelta(days=3)
    assert maintain(session, at) == (3 * len(PARENTS), 0)
    assert {at.date() + timedelta(days=day) for day in range(AHEAD + 1)} <= days(session, parent)
    insert(session, parent, at + timedelta(days=AHEAD))
    assert homes(session, parent) == [f"{at + timedelta(days=AHEAD):%Y%m%d}"]
    assert maintain(session, at) == (0, 0)


@pytest.mark.parametrize("parent", PARENTS)
def test_rows_that_the_default_partition_caught_are_moved(
    session: Session, today: datetime, parent: str
) -> None:
    """R11.1: after weeks without maintenance no row is lost: those of past and of coming days go to their partitions."""
    late = today + timedelta(days=20)
    caught = [late - timedelta(days=2), late, late.replace(hour=23, minute=59), late + timedelta(days=1)]
    for at in caught:
        insert(session, parent, at)
    assert homes(session, parent) == ["default"] * 4
    maintain(session, late)
    assert homes(session, parent) == [f"{at:%Y%m%d}" for at in caught]


def test_a_row_keeps_its_id_and_transaction_when_it_is_moved(session: Session, today: datetime) -> None:
    """R9.3: followers of the log know a moved event as the one that they have seen."""
    late = today + timedelta(days=20)
    insert(session, "smart_schedule_log_events", late)
    before = session.run("select id, xid::text, at from smart_schedule_log_events")
    maintain(session, late)
    assert session.run("select id, xid::text, at from smart_schedule_log_events") == before


@pytest.mark.parametrize("parent", PARENTS)
def test_midnight_belongs_to_the_day_that_it_begins(session: Session, today: datetime, parent: str) -> None:
    """R11.1: days are UTC's and half open, whatever zone the session is in."""
    session.run("set time zone 'America/New_York'")
    maintain(session, today + timedelta(days=2))
    midnight = (today + timedelta(days=9)).replace(hour=0)
    for at in (midnight - timedelta(microseconds=1), midnight):
        insert(session, parent, at)
    assert homes(session, parent) == [f"{midnight - timedelta(days=1):%Y%m%d}", f"{midnight:%Y%m%d}"]


@pytest.mark.parametrize("parent", PARENTS)
def test_only_days_past_retention_are_dropped(session: Session, today: datetime, parent: str) -> None:
    """R11.1: the last day of retention stays with its rows, the one before it goes; the default partition always stays."""
    at = today + timedelta(days=KEEP + 2)
    for day in range(3):
        insert(session, parent, today + timedelta(days=day))
    maintain(session, at)
    assert maintain(session, at) == (0, 2 * len(PARENTS))
    assert min(days(session, parent)) == at.date() - timedelta(days=KEEP)
    assert homes(session, parent) == [f"{today + timedelta(days=2):%Y%m%d}"]
    assert session.run(f"select to_regclass('{parent}_default') is not null") == [[True]]


def test_rows_past_retention_leave_the_default_partition_too(session: Session, today: datetime) -> None:
    """R11.1: retention holds wherever a row lies."""
    insert(session, "smart_schedule_log_events", today - timedelta(days=KEEP + 1))
    insert(session, "smart_schedule_log_events", today - timedelta(days=KEEP))
    maintain(session, today)
    maintain(session, today)
    assert homes(session, "smart_schedule_log_events") == [f"{today - timedelta(days=KEEP):%Y%m%d}"]


def test_rows_of_no_day_within_reach_stay_where_they_are(session: Session, today: datetime) -> None:
    """R11.1: a row of a day far ahead, or of none, neither stops the maintenance nor is lost."""
    insert(session, "smart_schedule_log_events", today + timedelta(days=3000))
    session.run(_STATEMENTS["smart_schedule_log_events"].format(at="infinity"))
    assert maintain(session, today + timedelta(days=1)) == (len(PARENTS), 0)
    assert homes(session, "smart_schedule_log_events") == ["default", "default"]


def test_two_at_once_make_each_partition_once(database: DatabaseAddress, today: datetime) -> None:
    """R11.1: of runs at the same time one does the work and the others leave it to that one, without an error."""
    at = today + timedelta(days=5)

    def run(_: int) -> tuple[int, int]:
        with closing(Session(database)) as session:
            return maintain(session, at)

    with ThreadPoolExecutor(max_workers=4) as pool:
        reports = list(pool.map(run, range(4)))
    assert sorted(reports) == [(0, 0)] * 3 + [(5 * len(PARENTS), 0)]


def test_nothing_to_do_locks_nothing(session: Session, database: DatabaseAddress, today: datetime) -> None:
    """R11.1: a run that finds all partitions there only reads, and waits for nobody: not even for a table being altered."""
    session.run("begin")
    assert maintain(session, today) == (0, 0)
    with closing(Session(database)) as other:
        held = other.run(
            "select distinct mode from pg_locks where locktype = 'relation' and pid <> pg_backend_pid()"
        )
        assert held == [["AccessShareLock"]]
        other.run("begin; " + "; ".join(_STATEMENTS[parent].format(at=today) for parent in PARENTS))
        other.run("commit")
    session.run("commit")


def test_a_long_reader_keeps_a_partition_and_holds_up_nobody(
    session: Session, database: DatabaseAddress, today: datetime
) -> None:
    """R11.1: what somebody still reads is dropped by a later run; this one neither fails nor makes ticks wait for long."""
    at = today + timedelta(days=KEEP + 1)
    maintain(session, at)
    with closing(Session(database)) as reader:
        reader.run("begin; " + "; ".join(f"select * from {parent}" for parent in PARENTS))
        began = datetime.now(UTC)
        assert maintain(session, at) == (0, 0)
        assert datetime.now(UTC) - began < timedelta(seconds=1)  # before a deadlock would be looked for
        reader.run("commit")
    assert maintain(session, at) == (0, len(PARENTS))


def test_a_writer_of_the_default_partition_is_not_overtaken(
    session: Session, database: DatabaseAddress, today: datetime
) -> None:
    """R11.1: while a row that the default partition caught is not committed, its day's partition waits for the next run."""
    late = today + timedelta(days=20)
    with closing(Session(database)) as writer:
        writer.run("begin")
        insert(writer, "smart_schedule_log_events", late)
        with pytest.raises(StoreConflict):
            maintain(session, late)
        writer.run("commit")
    maintain(session, late)
    assert homes(session, "smart_schedule_log_events") == [f"{late:%Y%m%d}"]


def test_the_session_keeps_its_own_lock_timeout(session: Session, today: datetime) -> None:
    """R11.1: the short patience of the maintenance is its own."""
    maintain(session, today + timedelta(days=1))
    assert session.run("show lock_timeout") == [["10s"]]
