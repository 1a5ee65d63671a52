from __future__ import annotations

import contextlib
import os
import signal
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from blsflow.adapters.postgres.connection import Session
from blsflow.adapters.postgres.copying import RecordReader
from blsflow.adapters.postgres.store import PostgresStore
from blsflow.ports.errors import InvariantBroken, StoreError, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from blsflow.adapters.postgres.address import DatabaseAddress

_INSERT = "insert into kept values (77)"
_AGAIN = "insert into kept values (1)"


class Connector:
    """Opens sessions and keeps them."""

    def __init__(self, address: DatabaseAddress) -> None:
        self._address = address
        self.opened: list[Session] = []

    def connect(self) -> Session:
        """Open another one."""
        self.opened.append(Session(self._address))
        return self.opened[-1]


@pytest.fixture(scope="module")
def observer(module_database: DatabaseAddress) -> Iterator[Session]:
    """A session of its own on a database with one row."""
    with closing(Session(module_database)) as session:
        session.run("create table kept (id int primary key); insert into kept values (1)")
        yield session


@pytest.fixture
def connector(module_database: DatabaseAddress, observer: Session) -> Connector:
    """How a store connects."""
    observer.run("delete from kept where id <> 1")
    return Connector(module_database)


@pytest.fixture
def store(connector: Connector) -> Iterator[PostgresStore]:
    """A store that has no session yet."""
    opened = PostgresStore(connector.connect)
    yield opened
    opened.close()


def transact(store: PostgresStore, *steps: str | Callable[[Session], object]) -> list[list[object]]:
    """Take the steps in one transaction; return what the last statement did."""
    rows: list[list[object]] = []
    with store.transaction() as tx:
        for step in steps:
            if isinstance(step, str):
                rows = tx._session.run(step)
            else:
                step(tx._session)
    return rows


def kept(session: Session) -> list[int]:
    """What is committed."""
    return [row[0] for row in session.run("select id from kept order by id")]


def pid(session: Session) -> int:
    """The server process behind a session."""
    return int(session.run("select pg_backend_pid()")[0][0])


def fails(_: object) -> None:
    """Code of ours that is wrong."""
    raise ZeroDivisionError


def is_interrupted(_: object) -> None:
    """A person that has enough of it."""
    raise KeyboardInterrupt


def copies_into_what_fails(session: Session) -> None:
    """A COPY whose reader is wrong."""
    session.copy(
        "copy (select int8send(g) from generate_series(1, 100000) g) to stdout (format binary)",
        RecordReader(fails),
    )


def test_a_block_that_ends_is_committed(store: PostgresStore, observer: Session) -> None:
    """R11.3: what a transaction wrote is there once its block has ended."""
    transact(store, _INSERT)
    assert kept(observer) == [1, 77]


@pytest.mark.parametrize(
    ("fault", "error"), [(fails, ZeroDivisionError), (is_interrupted, KeyboardInterrupt)]
)
def test_whatever_is_raised_rolls_back(
    store: PostgresStore,
    connector: Connector,
    observer: Session,
    fault: Callable[[object], None],
    error: type[BaseException],
) -> None:
    """R11.3: a transaction whose block does not end leaves nothing, and its session serves the next one."""
    with pytest.raises(error):
        transact(store, _INSERT, fault)
    assert kept(observer) == [1]
    transact(store, _INSERT)
    assert len(connector.opened) == 1


def test_a_refused_statement_rolls_back(store: PostgresStore, observer: Session) -> None:
    """R11.3: what stood before a refused statement is undone with it."""
    with pytest.raises(InvariantBroken):
        transact(store, _INSERT, _AGAIN)
    assert kept(observer) == [1]


def test_a_refusal_that_was_passed_over_is_not_committed_silently(
    store: PostgresStore, observer: Session
) -> None:
    """R11.3: a block that swallows the database's refusal does not end as if all had been committed."""

    def swallow(session: Session) -> None:
        with contextlib.suppress(InvariantBroken):
            session.run(_AGAIN)

    with pytest.raises(StoreError):
        transact(store, _INSERT, swallow)
    assert kept(observer) == [1]


def test_a_session_dropped_while_idle_is_renewed(
    store: PostgresStore, connector: Connector, observer: Session
) -> None:
    """R11.3: a connection that the server closed between two transactions is renewed, and the next one just works."""
    transact(store, _INSERT)
    observer.run(f"select pg_terminate_backend({pid(connector.opened[0])}, 5000)")
    assert transact(store, "select count(*) from kept") == [[2]]
    assert len(connector.opened) == 2


def test_a_session_dropped_in_a_transaction_ends_it(store: PostgresStore, observer: Session) -> None:
    """R11.3: a transaction is never continued on another session; the next one is on a new one."""

    def drop(session: Session) -> None:
        observer.run(f"select pg_terminate_backend({pid(session)}, 5000)")

    with pytest.raises(StoreUnavailable):
        transact(store, _INSERT, drop, "select 1")
    assert kept(observer) == [1]
    assert transact(store, "select 1") == [[1]]


def test_a_session_dropped_before_the_commit_is_no_success(store: PostgresStore, observer: Session) -> None:
    """R11.3: a commit that could not be sent is an error to the caller."""

    def drop(session: Session) -> None:
        observer.run(f"select pg_terminate_backend({pid(session)}, 5000)")

    with pytest.raises(StoreUnavailable):
        transact(store, _INSERT, drop)
    assert kept(observer) == [1]


def test_a_database_that_stays_away_is_asked_once() -> None:
    """R11.3: a fresh session that fails is not tried over and over: the caller decides when to come again."""
    asked = []

    def connect() -> Session:
        asked.append(1)
        raise StoreUnavailable("away")

    with pytest.raises(StoreUnavailable):
        transact(PostgresStore(connect), "select 1")
    assert asked == [1]


def test_a_transaction_that_could_not_begin_leaves_nothing_behind(
    connector: Connector, observer: Session
) -> None:
    """R11.3: a refused beginning fails that transaction alone; the session that stands in it is given up."""
    observer.run("create role not_ours")
    observer.run("create role lowly login password 'low'; grant select on kept to lowly")
    lowly = Connector(replace(connector._address, user="lowly", password="low"))
    refused = PostgresStore(lowly.connect)
    for _ in range(2):
        with pytest.raises(StoreError, match="42501"), refused.transaction("; set local role not_ours"):
            pytest.fail("it began")
    assert transact(refused, "select count(*) from kept") == [[1]]
    refused.close()


def test_a_database_that_falls_silent_is_given_up_once(module_database: DatabaseAddress) -> None:
    """R9.2, R11.3: no answer within the time-out ends the transaction, and nobody waits once more to roll it back."""
    opened: list[Session] = []

    def connect() -> Session:
        opened.append(Session(module_database, statement_timeout_sec=0.5))
        return opened[-1]

    store = PostgresStore(connect)
    silenced: list[int] = []

    def falls_silent(session: Session) -> None:
        silenced.append(pid(session))
        os.kill(silenced[0], signal.SIGSTOP)

    try:
        with pytest.raises(StoreUnavailable, match=r"(?i)timed out|network"):
            transact(store, falls_silent, "select 1")
    finally:
        os.kill(silenced[0], signal.SIGCONT)
    with pytest.raises(StoreUnavailable):
        opened[0].run("select 1")
    assert transact(store, "select 1") == [[1]]
    assert len(opened) == 2
    store.close()


def test_a_reader_that_fails_is_the_error_that_is_seen(store: PostgresStore, connector: Connector) -> None:
    """R11.3: rolling back hides nothing: the caller sees what its own code raised, and the next transaction works."""
    with pytest.raises(ZeroDivisionError):
        transact(store, copies_into_what_fails)
    assert transact(store, "select 1") == [[1]]
    assert len(connector.opened) == 2


def test_the_time_of_a_transaction_is_the_databases(store: PostgresStore) -> None:
    """R8.3: a transaction's now is the database's clock, aware and in UTC, and does not move while it lasts."""
    with store.transaction() as tx:
        assert tx._session.run("select pg_sleep(0.01), now(), now() at time zone 'UTC'")[0][1:] == [
            tx.now,
            tx.now.replace(tzinfo=None),
        ]
