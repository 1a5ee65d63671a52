from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from blsflow.adapters.postgres.connection import Session
from blsflow.adapters.postgres.store import PostgresStore
from blsflow.domain.log import LogPlace
from tests.integration.control_scenes import connect

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pg8000.native

    from blsflow.adapters.postgres.address import DatabaseAddress


@pytest.fixture
def store(database: DatabaseAddress) -> Iterator[PostgresStore]:
    """The product's own way into a migrated database."""
    opened = PostgresStore(lambda: Session(database))
    yield opened
    opened.close()


class Follower:
    """Follows the log as `blsflow logs --follow` does, and keeps the codes that it saw."""

    def __init__(self, store: PostgresStore, *, lines: int = 0, policy_id: int | None = None) -> None:
        self._store = store
        self._policy_id = policy_id
        with store.transaction() as tx:
            xid = tx.log_position()
            rows = tx.log_tail(policy_id=policy_id, tenant_id=None, limit=lines, before_xid=xid)
        self.seen = [row["code"] for row in rows]
        self._after = LogPlace(xid=int(xid), event_id=0)

    def poll(self, limit: int = 100) -> None:
        """Read the next page, once."""
        with self._store.transaction() as tx:
            rows = tx.follow_log(after=self._after, policy_id=self._policy_id, tenant_id=None, limit=limit)
        self.seen += [row["code"] for row in rows]
        if rows:
            self._after = LogPlace(xid=int(rows[-1]["xid"]), event_id=rows[-1]["id"])


def write(connection: pg8000.native.Connection, code: str, policy_id: int | None = None) -> None:
    """Insert an event in whatever transaction is open."""
    connection.run(
        "insert into smart_schedule_log_events (at, tenant_id, policy_id, code) values (now(), 't', :policy_id, :code)",
        code=code,
        policy_id=policy_id,
    )


def begin(connection: pg8000.native.Connection) -> None:
    """Open a transaction that has its id before it writes anything."""
    connection.run("begin")
    connection.run("select pg_current_xact_id()")


@pytest.mark.parametrize("older_commits_first", [True, False])
def test_an_event_that_commits_late_is_not_lost(
    database: DatabaseAddress, store: PostgresStore, *, older_commits_first: bool
) -> None:
    """R9.3: whichever of two transactions takes the lower id and whichever commits first, both events are shown."""
    with closing(connect(database)) as older, closing(connect(database)) as younger:
        follower = Follower(store)
        begin(older)
        begin(younger)
        write(younger, "of the younger")  # the lower id
        write(older, "of the older")
        first, second = (older, younger) if older_commits_first else (younger, older)
        first.run("commit")
        follower.poll()
        second.run("commit")
        follower.poll()
        follower.poll()
    assert sorted(follower.seen) == ["of the older", "of the younger"]


def test_an_event_under_way_when_following_begins_is_not_lost(
    database: DatabaseAddress, store: PostgresStore
) -> None:
    """R9.3: a transaction that wrote before the first page and commits after it is shown, whatever its id."""
    with closing(connect(database)) as late, closing(connect(database)) as prompt:
        begin(late)
        write(late, "late")
        for code in ("a", "b", "c"):
            write(prompt, code)
        follower = Follower(store, lines=2)
        follower.poll()
        late.run("commit")
        follower.poll()
    assert sorted(follower.seen) == ["a", "b", "c", "late"]


def test_a_tail_that_is_not_followed_shows_all_that_is_committed(
    database: DatabaseAddress, store: PostgresStore
) -> None:
    """R9.1: an old transaction that is still open hides no event from whoever only looks."""
    with closing(connect(database)) as late, closing(connect(database)) as prompt:
        begin(late)
        write(prompt, "committed")
        with store.transaction() as tx:
            rows = tx.log_tail(policy_id=None, tenant_id=None, limit=10)
        late.run("rollback")
    assert [row["code"] for row in rows] == ["committed"]


def test_pages_neither_repeat_nor_lose_an_event(database: DatabaseAddress, store: PostgresStore) -> None:
    """R9.3: following in small pages shows every event once and in order, also many of one transaction."""
    follower = Follower(store)
    with closing(connect(database)) as connection:
        connection.run("begin")
        for number in range(5):
            write(connection, f"event {number}")
        connection.run("commit")
    for _ in range(4):
        follower.poll(limit=2)
    assert follower.seen == [f"event {number}" for number in range(5)]


def test_the_tail_is_the_newest_and_only_of_the_policy(
    database: DatabaseAddress, store: PostgresStore
) -> None:
    """R9.1: the first page holds the newest events, oldest first; with a policy, only its own."""
    with closing(connect(database)) as connection:
        for number in range(6):
            write(connection, f"event {number}", policy_id=number % 2)
    assert Follower(store, lines=3).seen == ["event 3", "event 4", "event 5"]
    only = Follower(store, lines=2, policy_id=0)
    with closing(connect(database)) as connection:
        write(connection, "other", policy_id=1)
        write(connection, "own", policy_id=0)
    only.poll()
    assert only.seen == ["event 2", "event 4", "own"]
