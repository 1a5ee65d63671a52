from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest

from blsflow.adapters.postgres import connection
from blsflow.adapters.postgres.address import DatabaseAddress
from blsflow.adapters.postgres.connection import Session
from blsflow.adapters.postgres.copying import RecordReader
from blsflow.adapters.postgres.statements import as_array, literal
from blsflow.ports.errors import InvariantBroken, StoreConflict, StoreError, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def address(module_database: DatabaseAddress) -> DatabaseAddress:
    """A database with two rows that sessions can fight over."""
    with closing(Session(module_database)) as session:
        session.run(
            "create table fought_over (id int primary key, n int not null); insert into fought_over values (1, 0), (2, 0)"
        )
    return module_database


@pytest.fixture
def session(address: DatabaseAddress) -> Iterator[Session]:
    """A session of the product."""
    with closing(Session(address)) as opened:
        yield opened


@pytest.fixture
def other(address: DatabaseAddress) -> Iterator[Session]:
    """A second one."""
    with closing(Session(address)) as opened:
        yield opened


def pid(session: Session) -> int:
    """The server process behind a session."""
    return int(session.run("select pg_backend_pid()")[0][0])


# ---------------------------------------------------------------- values


def test_an_array_arrives_as_it_was_encoded(session: Session) -> None:
    """R8.3: whole numbers and instants to the microsecond, of any zone and year, nulls, and each as often as is said."""
    ids = [1, -2, 2**63 - 1]
    at = [
        datetime(1970, 1, 1, tzinfo=UTC),
        None,
        datetime(9998, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        datetime(2, 1, 1, 0, 0, 1, tzinfo=timezone(timedelta(hours=5, minutes=45))),
    ]
    (row,) = session.query_text(
        "select (:ids)::bigint[] as ids, (:at)::timestamptz[] as at, (:twice)::integer[] as twice, (:none)::bigint[] as none",
        ids=as_array(ids),
        at=as_array(at),
        twice=as_array(iter([7, None, 8]), [2, 1, 0]),
        none=as_array([]),
    )
    assert row == {"ids": ids, "at": at, "twice": [7, 7, None], "none": []}


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("2026-03-29 02:30:00.12345+02", datetime(2026, 3, 29, 0, 30, 0, 123450, tzinfo=UTC)),
        ("2026-03-29 02:30:00+00", datetime(2026, 3, 29, 2, 30, tzinfo=UTC)),
        ("0001-01-01 00:00:00+00", datetime(1, 1, 1, tzinfo=UTC)),
        ("9999-12-31 23:59:59.999999+00", datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)),
        ("infinity", "infinity"),
        ("-infinity", "-infinity"),
        ("10000-01-01 00:00:00+00", "10000-01-01 00:00:00+00"),
        ("0044-03-15 00:00:00+00 BC", "0044-03-15 00:00:00+00 BC"),
    ],
)
def test_an_instant_is_read_to_the_microsecond(session: Session, written: str, read: object) -> None:
    """R8.3: instants come in UTC; what lies outside of the calendar comes as the text that the server writes."""
    assert session.run(f"select '{written}'::timestamptz, null::timestamptz") == [[read, None]]


# ---------------------------------------------------------------- errors


def test_a_deadlock_is_a_lost_race(session: Session, other: Session) -> None:
    """R8.3: of two transactions that wait for each other one is told that it lost a race, and may be tried again."""
    for each, row in ((session, 1), (other, 2)):
        each.run(f"begin; update fought_over set n = n + 1 where id = {row}")
    lost = []

    def cross(each: Session, row: int) -> None:
        try:
            each.run(f"update fought_over set n = n + 1 where id = {row}")
        except StoreConflict as error:
            lost.append(error)
        each.run("rollback")

    with ThreadPoolExecutor(max_workers=2) as pool:
        list(pool.map(cross, (session, other), (2, 1)))
    assert [error.retryable for error in lost] == [True]
    assert str(lost[0]).startswith("40P01")


def test_a_serialization_failure_is_a_lost_race(session: Session, other: Session) -> None:
    """R8.3: a transaction whose snapshot is overtaken may be tried again."""
    session.run("begin isolation level repeatable read; select * from fought_over")
    other.run("update fought_over set n = n + 1 where id = 1")
    with pytest.raises(StoreConflict, match="40001"):
        session.run("update fought_over set n = n + 1 where id = 1")
    session.run("rollback")


def test_a_lock_that_is_not_to_be_had_is_a_lost_race(session: Session, other: Session) -> None:
    """R8.3: whoever waits too long for a lock may try again."""
    other.run("begin; lock table fought_over")
    with pytest.raises(StoreConflict, match="55P03"):
        session.run("begin; set local lock_timeout = '50ms'; select * from fought_over")
    session.run("rollback")
    other.run("rollback")


def test_a_statement_that_takes_too_long_is_a_database_that_does_not_answer(address: DatabaseAddress) -> None:
    """R11.3: a statement ends at its time-out, as something to try again; the session can go on."""
    with closing(Session(address, statement_timeout_sec=0.2)) as session:
        with pytest.raises(StoreUnavailable, match="57014") as error:
            session.run("select pg_sleep(10)")
        assert error.value.retryable
        assert session.run("select 1") == [[1]]


def test_a_session_ended_by_the_server_is_a_database_that_does_not_answer(
    session: Session, other: Session
) -> None:
    """R11.3: a fail-over or a restart is something to try again, at the first notice of it and at every later one."""
    other.run(f"select pg_terminate_backend({pid(session)}, 5000)")
    for _ in range(3):
        with pytest.raises(StoreUnavailable):
            session.run("select 1")
    session.close()
    session.close()


@pytest.mark.parametrize(
    ("statement", "constraint"),
    [
        ("insert into fought_over values (1, 0)", "fought_over_pkey"),
        (
            "insert into smart_schedule_price_aliases values ('BTC', 'btc')",
            "smart_schedule_price_aliases_price_key_check",
        ),
        (
            "insert into smart_schedule_policy_scopes values (9, 'tenant', '*')",
            "smart_schedule_policy_scopes_policy_id_fkey",
        ),
        ("insert into fought_over values (3, null)", None),
    ],
    ids=["unique", "check", "foreign key", "not null"],
)
def test_a_constraint_that_says_no_is_named(session: Session, statement: str, constraint: str | None) -> None:
    """R8.4: what a constraint refuses is a fault of ours that trying again does not mend; the error says which it was."""
    with pytest.raises(InvariantBroken) as error:
        session.run(statement)
    assert not error.value.retryable
    if constraint is not None:
        assert error.value.constraint == constraint


def test_any_other_refusal_is_not_tried_again(session: Session) -> None:
    """R11.3: a statement that the database does not understand is no reason to try again."""
    with pytest.raises(StoreError, match="42P01") as error:
        session.run("select * from nowhere")
    assert type(error.value) is StoreError
    assert not error.value.retryable


def test_nobody_listening_is_a_database_that_does_not_answer() -> None:
    """R11.3: a refused connection is something to try again."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(StoreUnavailable):
        Session(DatabaseAddress(host="127.0.0.1", port=port, user="u", password="p", dbname="d", tls="off"))


def test_a_server_that_says_nothing_is_given_up() -> None:
    """R11.3: a host that accepts connections and never answers costs the connect time-out, not a function's whole life."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        silent_address = DatabaseAddress(
            host="127.0.0.1", port=port, user="u", password="p", dbname="d", tls="off"
        )
        with pytest.raises(StoreUnavailable):
            Session(silent_address, connect_timeout_sec=0.2)


def test_a_wrong_password_is_not_shown(address: DatabaseAddress) -> None:
    """R11.3: an error of signing in shows no password."""
    wrong = replace(address, password="hunter2")
    with pytest.raises(StoreError) as error:
        Session(wrong)
    assert "hunter2" not in f"{error.value!r} {error.value} {wrong!r}"


# ---------------------------------------------------------------- the session


def test_small_packets_are_not_held_back(session: Session) -> None:
    """R2.4: the socket sends at once, or a COPY of about one segment waits 43 ms for an acknowledgement."""
    assert session._connection._usock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("statement_timeout", "1min"),
        ("lock_timeout", "10s"),
        ("idle_in_transaction_session_timeout", "2min"),
        ("jit", "off"),
        ("TimeZone", "UTC"),
        ("application_name", "blsflow-scheduler"),
    ],
)
def test_limits_are_in_force(session: Session, setting: str, value: str) -> None:
    """R11.3: every session has its time-outs, its zone and its name from the beginning."""
    assert session.run(f"show {setting}") == [[value]]


def test_a_repeated_query_is_prepared_once(session: Session) -> None:
    """R2.4: a statement is parsed the first time only."""
    for _ in range(3):
        session.query("newest_fetch", source="test")
    assert session.run("select count(*) from pg_prepared_statements") == [[1]]


@pytest.mark.parametrize(
    "text", ["", "plain", "o'brien", r"back\slash\'", "a:b", "$1 $$", "北矿", 'q"q', "new\nline"]
)
def test_literals_mean_what_they_quote(session: Session, text: str) -> None:
    """R2.4: a value put into a statement's text arrives as it was, whatever characters it holds."""
    assert session.run(f"select {literal(text)}") == [[text]]


def test_a_sink_that_fails_ends_the_session(session: Session) -> None:
    """R11.3: answers of a COPY cut short are not taken for those of the next statement: the session is closed instead."""

    def fail(_: bytes) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        session.copy(
            "copy (select int8send(g) from generate_series(1, 100000) g) to stdout (format binary)",
            RecordReader(fail),
        )
    with pytest.raises(StoreUnavailable):
        session.run("select 1")


_STREAMED = "select int8send(g) || :told::bytea, ''::bytea, int2send(7::int2) from generate_series(1, :rows::bigint) g"


@pytest.fixture
def streamed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A named statement of three values, one of them empty."""
    monkeypatch.setattr(connection, "statements", lambda: {"streamed": _STREAMED})


@pytest.mark.usefixtures("streamed")
def test_a_stream_hands_on_values_as_the_server_has_them(session: Session) -> None:
    """R3.10: bytes arrive as they are, row after row, and the session goes on as if nothing had been."""
    for rows in (0, 1, 3_000):
        found: list[list[bytes]] = []
        session.stream("streamed", found.append, rows=rows, told=bytes(range(256)))
        assert found == [
            [number.to_bytes(8) + bytes(range(256)), b"", b"\0\x07"] for number in range(1, rows + 1)
        ]
        assert session.query_text("select 1 as one, null as nothing") == [{"one": 1, "nothing": None}]


@pytest.mark.usefixtures("streamed")
def test_a_stream_that_fails_says_why(session: Session) -> None:
    """R11.3: a statement that the server gives up is told by its kind, and the session goes on."""
    session.run("begin; set local statement_timeout = 20")
    with pytest.raises(StoreUnavailable, match="57014"):
        session.stream("streamed", lambda _: None, rows=10**9, told=b"")
    session.run("rollback")
    found: list[list[bytes]] = []
    session.stream("streamed", found.append, rows=1, told=b"!")
    assert found == [[b"\0\0\0\0\0\0\0\1!", b"", b"\0\x07"]]


@pytest.mark.usefixtures("streamed")
def test_a_sink_of_a_stream_that_fails_ends_the_session(session: Session) -> None:
    """R11.3: rows that were not read are not taken for those of the next statement: the session is closed instead."""

    def fail(_: list[bytes]) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        session.stream("streamed", fail, rows=100_000, told=b"")
    with pytest.raises(StoreUnavailable):
        session.run("select 1")
