"""Requests that create, under keys: what is asked twice is done once, whoever is first."""

from __future__ import annotations

import threading
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from blsflow.adapters.postgres.connection import Session
from blsflow.adapters.postgres.store import PostgresStore
from blsflow.domain.errors import InvalidExecutionRequest
from blsflow.flow.requests import LONGEST_KEY, Answer, KeyConflict, fingerprint, once
from tests.integration.control_scenes import look
from tests.integration.racing import at_once

if TYPE_CHECKING:
    from collections.abc import Callable

    from blsflow.adapters.postgres.address import DatabaseAddress

_ROWS = "select tenant_id, key, answer from smart_schedule_requests order by tenant_id, key"


class _Failed(Exception):
    """What was to be created could not be."""


class _Caller:
    """A caller that creates notifications, as something that one can count."""

    def __init__(self, address: DatabaseAddress) -> None:
        self.address = address
        self.store = PostgresStore(lambda: Session(address))

    def ask(
        self,
        key: str = "r1",
        body: str = "a",
        *,
        tenant_id: str = "acme",
        first: Callable[[], object] = lambda: None,
    ) -> Answer:
        """Ask for a creation as a tenant of the API does; ``first`` happens within it."""
        with self.store.of_tenant(tenant_id).transaction() as tx:

            def make() -> dict[str, Any]:
                first()
                row = tx._session.query_text(
                    "insert into smart_schedule_outbox (tenant_id, code, created_at, next_try_at)"
                    " values (:tenant_id, 'x', now(), now()) returning id",
                    tenant_id=tenant_id,
                )[0]
                return {"id": row["id"], "body": body}

            return once(
                tx,
                tenant_id=tenant_id,
                key=key,
                fingerprint=fingerprint("x", {"body": body}),
                by="op",
                make=make,
            )

    def created(self) -> int:
        """How many were created."""
        count: int = look(self.address, "select count(*) from smart_schedule_outbox")[0][0]
        return count


@pytest.fixture
def caller(database: DatabaseAddress) -> _Caller:
    """A caller of an empty database."""
    return _Caller(database)


def test_a_request_asked_again_gets_the_first_answer(caller: _Caller) -> None:
    """R8.8: the same key and body create once; the answer is the same to the letter."""
    first, second = caller.ask(), caller.ask()
    assert (first.is_new, second.is_new) == (True, False)
    assert list(first.document.items()) == list(second.document.items())
    assert caller.created() == 1


def test_a_key_that_stands_for_another_request_is_refused(caller: _Caller) -> None:
    """R8.8: the same key with another body creates nothing, and says which key."""
    caller.ask(body="a")
    with pytest.raises(KeyConflict) as refused:
        caller.ask(body="b")
    assert refused.value.key == "r1"
    assert caller.created() == 1


def test_a_key_is_its_tenants_own(caller: _Caller) -> None:
    """R8.8: two tenants may use one key; neither learns of the other's request."""
    assert caller.ask().is_new
    assert caller.ask(body="b", tenant_id="other").is_new
    assert [row[:2] for row in look(caller.address, _ROWS)] == [["acme", "r1"], ["other", "r1"]]


def test_a_request_that_failed_leaves_its_key_free(caller: _Caller) -> None:
    """R8.8: what could not be created is kept neither as a row nor as an answer, and may be asked again."""

    def fail() -> None:
        raise _Failed

    with pytest.raises(_Failed):
        caller.ask(first=fail)
    assert look(caller.address, _ROWS) == []
    assert caller.ask().is_new


def test_of_twins_at_once_one_creates_and_all_get_its_answer(caller: _Caller) -> None:
    """R8.8: a request that comes while its twin is carried out waits for it, and repeats its answer."""
    answers: list[Answer] = []
    works = [lambda: answers.append(_Caller(caller.address).ask()) for _ in range(6)]
    at_once(*works)
    assert sorted(answer.is_new for answer in answers) == [False] * 5 + [True]
    assert len({answer.document["id"] for answer in answers}) == 1
    assert caller.created() == 1


def test_a_twin_of_one_that_fails_takes_its_place(caller: _Caller) -> None:
    """R8.8: who waited for a request that came to nothing carries it out."""
    begun, seen = threading.Event(), threading.Event()
    answers: list[Answer] = []

    def fail() -> None:
        begun.set()
        assert seen.wait(30)
        raise _Failed

    def first() -> None:
        with pytest.raises(_Failed):
            _Caller(caller.address).ask(first=fail)

    def second() -> None:
        assert begun.wait(30)
        answers.append(_Caller(caller.address).ask())

    def third() -> None:
        """Let the first one fail once the second waits for it."""
        waits = "select count(*) from pg_locks where not granted"
        while not look(caller.address, waits)[0][0]:
            pass
        seen.set()

    at_once(first, second, third)
    assert [answer.is_new for answer in answers] == [True]
    assert caller.created() == 1


@pytest.mark.parametrize("key", ["", "x" * (LONGEST_KEY + 1), "a\x00b", "a\nb", "\ud800"])
def test_what_is_no_key_is_refused_by_name(caller: _Caller, key: str) -> None:
    """R8.2: a key that could not be stored or shown is refused before anything is done."""
    with pytest.raises(InvalidExecutionRequest) as refused:
        caller.ask(key)
    assert refused.value.field == "requestId"
    assert caller.created() == 0


def test_the_order_of_fields_does_not_make_another_request() -> None:
    """R8.8: a fingerprint is of what is asked, not of how it is written down."""
    assert fingerprint("x", {"a": 1, "b": [2]}) == fingerprint("x", {"b": [2], "a": 1})
    assert len({fingerprint("x", {"a": 1}), fingerprint("y", {"a": 1}), fingerprint("x", {"a": 2})}) == 3


def test_answers_are_kept_for_a_week(caller: _Caller) -> None:
    """R11.1: maintenance drops answers older than seven days, and no younger one."""
    caller.ask("old")
    caller.ask("young")
    with closing(Session(caller.address)) as session:
        session.run(
            "update smart_schedule_requests set made_at = now() - interval '7 days 1 minute' where key = 'old';"
            "update smart_schedule_requests set made_at = now() - interval '6 days 23 hours' where key = 'young'"
        )
    with caller.store.transaction() as tx:
        tx.maintain(90)
    assert [row[1] for row in look(caller.address, _ROWS)] == ["young"]
