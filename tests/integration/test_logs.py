"""Pages of a tenant's log: settled events, newest first, that hand over to a stream."""

from __future__ import annotations

from contextlib import closing
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from blsflow.adapters.postgres import logs
from blsflow.adapters.postgres.connection import Session
from blsflow.adapters.postgres.store import PostgresStore
from blsflow.domain.errors import InvalidDocument
from blsflow.domain.log import START, LiveQuery, LogQuery, read_place
from blsflow.flow.budget import Budget
from blsflow.flow.control import UnknownPolicy
from blsflow.flow.live import StreamLimits, live
from blsflow.flow.logs import log_page
from tests.integration.control_scenes import connect
from tests.integration.live_scenes import (
    NORTH,
    SOUTH,
    begin,
    frames_of,
    policy_of,
    wait_for_the_server,
    write,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager
    from typing import Any
    from uuid import UUID

    import pg8000.native

    from blsflow.adapters.postgres.address import DatabaseAddress
    from blsflow.ports.logs import LogPage
    from blsflow.ports.store import Store, Transaction


class _Settled:
    """The store of one tenant, which looks once no transaction of the server's own holds the log up."""

    def __init__(self, store: PostgresStore, address: DatabaseAddress) -> None:
        self._of_tenant, self._address = store.of_tenant(NORTH), address

    def transaction(self) -> AbstractContextManager[Transaction]:
        wait_for_the_server(self._address)
        return self._of_tenant.transaction()

    def snapshot(self) -> AbstractContextManager[Transaction]:
        return self._of_tenant.snapshot()

    def mark_attempts_enqueued(self, ids: Sequence[UUID]) -> None:
        self._of_tenant.mark_attempts_enqueued(ids)


@pytest.fixture
def store(database: DatabaseAddress) -> Iterator[Store]:
    """The database as one tenant sees it."""
    opened = PostgresStore(lambda: Session(database))
    yield _Settled(opened, database)
    opened.close()


@pytest.fixture
def writer(database: DatabaseAddress) -> Iterator[pg8000.native.Connection]:
    """A session that writes; each statement is a transaction unless one is open."""
    with closing(connect(database)) as connection:
        yield connection


def page(store: Store, **query: Any) -> LogPage:
    """A page of the tenant's log."""
    return log_page(store, LogQuery(**query), tenant_id=NORTH)


def codes(shown: LogPage) -> list[str]:
    """What a page shows, by code."""
    return [row.code for row in shown.rows]


def all_pages(store: Store, **query: Any) -> list[str]:
    """What all pages of a query show."""
    shown = page(store, **query)
    found = codes(shown)
    while shown.next is not None:
        shown = page(store, **query, after=read_place("cursor", str(shown.next)))
        assert shown.stream_after is None
        found += codes(shown)
    return found


def test_pages_and_the_stream_after_them_show_every_event_once(
    database: DatabaseAddress, store: Store, writer: pg8000.native.Connection
) -> None:
    """R9.3, R9.1: pages while others write and commit late, then the stream: nothing is missing and nothing comes twice."""
    with closing(connect(database)) as older:
        for number in range(5):
            write(writer, f"e{number}")
        begin(older)
        write(writer, "not settled yet")
        write(older, "late")
        first = page(store, limit=2)
        older.run("commit")
    write(writer, "new")
    assert first.next is not None
    second = page(store, limit=2, after=first.next)
    third = page(store, limit=2, after=second.next)
    assert [*codes(first), *codes(second), *codes(third)] == ["e4", "e3", "e2", "e1", "e0"]
    assert third.next is None
    answer = live(
        store,
        LiveQuery(after=first.stream_after),
        tenant_id=NORTH,
        limits=StreamLimits(per_tenant=1, in_all=1),
        hold=Budget(0),
    )
    assert [frame.data["code"] for frame in frames_of(answer.frames)] == ["late", "not settled yet", "new"]


def test_a_page_of_an_empty_log_hands_over_too(store: Store) -> None:
    """R9.1: without events there is no page and no next one, and a stream begins at the beginning."""
    shown = page(store)
    assert (shown.rows, shown.next, shown.stream_after) == ((), None, START)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"level": "error"}, ["e9", "e6", "e3", "e0"]),
        ({"kind": "tick"}, ["e8", "e6", "e4", "e2", "e0"]),
        ({"code": "e7"}, ["e7"]),
        ({"code": "none"}, []),
        ({"level": "error", "kind": "tick"}, ["e6", "e0"]),
    ],
)
@pytest.mark.parametrize("scanned", [3, 20_000])
def test_filters_pass_over_others_in_bounded_stretches(  # noqa: PLR0913, PLR0917 - two parameters and their scene
    store: Store,
    writer: pg8000.native.Connection,
    monkeypatch: pytest.MonkeyPatch,
    query: dict[str, str],
    expected: list[str],
    scanned: int,
) -> None:
    """R9.1: by level, kind and code; a page that looked at its share of events goes on in the next, and loses none."""
    monkeypatch.setattr(logs, "MOST_SCANNED", scanned)
    for number in range(10):
        write(
            writer,
            f"e{number}",
            kind="tick" if number % 2 == 0 else "log",
            level="error" if number % 3 == 0 else "info",
        )
    assert all_pages(store, limit=2, **query) == expected


def test_times_and_policies_filter(store: Store, writer: pg8000.native.Connection) -> None:
    """R9.1: half-open times, and one policy's events alone."""
    own = policy_of(writer, NORTH)
    for number in range(4):
        write(writer, f"e{number}", policy_id=own if number else None)
    everything = page(store)
    third, second = everything.rows[0], everything.rows[1]
    assert codes(page(store, since=second.at, until=third.at)) == ["e2"]
    assert codes(page(store, until=second.at)) == ["e1", "e0"]
    assert codes(page(store, since=third.at + timedelta(hours=1))) == []
    assert all_pages(store, policy_id=own, limit=1) == ["e3", "e2", "e1"]


def test_others_logs_are_as_unknown_as_none(store: Store, writer: pg8000.native.Connection) -> None:
    """R9.1: another tenant's events are in no page, and its policy is not there."""
    theirs = policy_of(writer, SOUTH)
    write(writer, "theirs", tenant_id=SOUTH, policy_id=theirs)
    shown = page(store)
    assert (shown.rows, shown.stream_after) == ((), START)
    with pytest.raises(UnknownPolicy):
        page(store, policy_id=theirs)
    with pytest.raises(UnknownPolicy):
        page(store, policy_id=4711)


def test_a_row_holds_what_was_written(store: Store, writer: pg8000.native.Connection) -> None:
    """R9.1: code, parameters, level, kind and ids come as they were stored."""
    event_id = write(writer, "c", params={"a": [1, None, "北"]}, level="warning", kind="progress")
    (row,) = page(store).rows
    assert (row.code, row.params, row.level, row.kind) == ("c", {"a": [1, None, "北"]}, "warning", "progress")
    assert (row.place.event_id, row.policy_id, row.machine_id) == (event_id, None, None)
    assert row.at.tzinfo is not None


@pytest.mark.parametrize(
    "query",
    [
        {"limit": 0},
        {"limit": 501},
        {"level": "fatal"},
        {"kind": "tock"},
        {"code": "x\n"},
        {"policy_id": -1},
        {"policy_id": 2**63},
    ],
    ids=str,
)
def test_a_query_that_cannot_be_meant_names_its_field(query: dict[str, Any]) -> None:
    """R9.1: a filter with a value that no event can have is refused instead of answered with nothing."""
    with pytest.raises(InvalidDocument) as refusal:
        LogQuery(**query)
    assert refusal.value.field in query


def test_transactions_are_in_the_order_of_their_numbers(
    store: Store, writer: pg8000.native.Connection, database: DatabaseAddress
) -> None:
    """R9.3: the hundredth transaction comes after the ninth, in pages, in the tail and in what follows a place."""
    for xid in (100, 9, 10):
        event_id = write(writer, f"in {xid}")
        writer.run(f"update smart_schedule_log_events set xid = '{xid}' where id = {event_id}")
    expected = ["in 9", "in 10", "in 100"]
    shown = page(store)
    assert codes(shown) == expected[::-1]
    assert shown.stream_after == shown.rows[0].place
    assert all_pages(store, limit=1) == expected[::-1]
    whole = PostgresStore(lambda: Session(database))
    with store.transaction() as tx:
        framed = tx.newest_frames(policy_id=None, tenant_id=NORTH, limit=2)
    assert [frame.data["code"] for frame in frames_of(framed.text)] == expected[1:]
    assert framed.place == shown.stream_after
    with whole.transaction() as tx:
        tail = tx.log_tail(policy_id=None, tenant_id=NORTH, limit=2)
        followed = tx.follow_log(after=START, policy_id=None, tenant_id=NORTH, limit=2)
    whole.close()
    assert [row["code"] for row in tail] == expected[1:]
    assert [row["code"] for row in followed] == expected[:2]
