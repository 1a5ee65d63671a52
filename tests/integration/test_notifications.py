"""The list of notifications on real PostgreSQL: each once, marks on the record, and nobody else's."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from blsflow.adapters.postgres.connection import Session
from blsflow.adapters.postgres.notifications import PLANNED_BY_VALUES
from blsflow.adapters.postgres.statements import statements
from blsflow.adapters.postgres.store import _AS, _BEGIN, PostgresStore
from blsflow.domain.errors import InvalidDocument
from blsflow.domain.notifications import NotificationQuery
from blsflow.domain.pages import encode_cursor, id_of_cursor
from blsflow.flow import notifications
from blsflow.flow.notifications import UnknownNotification
from tests.integration.plans import explained, nodes, rows_read
from tests.integration.racing import at_once

if TYPE_CHECKING:
    from collections.abc import Iterator

    from blsflow.adapters.postgres.address import DatabaseAddress
    from blsflow.ports.people import NotificationRow
    from blsflow.ports.store import Store

ROWS = 200_000
TENANTS = 4
FEW = 40


@pytest.fixture
def session(database: DatabaseAddress) -> Iterator[Session]:
    """A session that the product does not know of."""
    with closing(Session(database)) as opened:
        yield opened


@pytest.fixture(params=["whole deployment", "tenant's view"])
def store(request: pytest.FixtureRequest, database: DatabaseAddress) -> Iterator[Store]:
    """The store, as a worker and as acme's own API call has it: the use cases keep tenants apart in both."""
    opened = PostgresStore(lambda: Session(database))
    yield opened if request.param == "whole deployment" else opened.of_tenant("acme")
    opened.close()


def _tell(session: Session, tenant_id: str = "acme", code: str = "policy_frozen", policy_id: int = 1) -> int:
    found: int = session.run(
        f"""insert into smart_schedule_outbox (tenant_id, policy_id, code, params, created_at, next_try_at)
            values ('{tenant_id}', {policy_id}, '{code}', '{{"cause": "manual", "why": "storm"}}', now(), now())
            returning id"""
    )[0][0]
    return found


def _pages(store: Store, query: NotificationQuery) -> list[list[int]]:
    pages = []
    while True:
        rows, cursor = notifications.list_notifications(store, query)
        pages.append([row.notification_id for row in rows])
        if cursor is None:
            return pages
        query = replace(query, before_id=id_of_cursor("notifications", cursor, first=0))


def test_a_notification_is_listed_in_words_before_it_is_published(store: Store, session: Session) -> None:
    """R9.4, R10.1: what was written with its event is there at once, with code, parameters and both texts, unread."""
    told = _tell(session)
    (row,), cursor = notifications.list_notifications(store, NotificationQuery(tenant_id="acme"))
    assert (row.notification_id, row.policy_id, row.code, cursor) == (told, 1, "policy_frozen", None)
    assert row.params == {"cause": "manual", "why": "storm"}
    assert (row.read_at, row.read_by) == (None, None)
    assert "an operator froze it; why: storm" in row.texts.en
    assert "操作人手动冻结；原因：storm" in row.texts.zh


@pytest.mark.parametrize("limit", [1, 2, 3, 7])
def test_pages_show_each_once_while_others_come(store: Store, session: Session, limit: int) -> None:
    """R10.1: newest first, each once, though new ones come between two pages."""
    told = [_tell(session) for _ in range(6)]
    query: NotificationQuery | None = NotificationQuery(tenant_id="acme", limit=limit)
    seen: list[int] = []
    while query is not None:
        rows, cursor = notifications.list_notifications(store, query)
        seen += [row.notification_id for row in rows]
        _tell(session)
        query = (
            None
            if cursor is None
            else replace(query, before_id=id_of_cursor("notifications", cursor, first=0))
        )
    assert seen == told[::-1]


def test_filters_leave_out_what_was_not_asked_for(store: Store, session: Session) -> None:
    """R10.1: by code, by policy, read or unread, also together and over pages."""
    frozen, other, of_two = _tell(session), _tell(session, code="tariff_unknown"), _tell(session, policy_id=2)
    notifications.mark_read(store, frozen, by="ann", tenant_id="acme")

    def found(**filters: Any) -> list[int]:
        pages = _pages(store, NotificationQuery(tenant_id="acme", limit=1, **filters))
        return [each for page in pages for each in page]

    assert found() == [of_two, other, frozen]
    assert found(code="policy_frozen") == [of_two, frozen]
    assert found(policy_id=1) == [other, frozen]
    assert found(unread=True) == [of_two, other]
    assert found(unread=False) == [frozen]
    assert found(unread=True, code="policy_frozen", policy_id=1) == []


def test_a_mark_is_on_the_record_and_stays_the_first_readers(store: Store, session: Session) -> None:
    """R10.1: who read it and when; a second reader, or the same one again, changes nothing."""
    told = _tell(session)
    first = notifications.mark_read(store, told, by="ann", tenant_id="acme")
    assert first.read_by == "ann"
    assert first.read_at is not None
    assert notifications.mark_read(store, told, by="bob", tenant_id="acme") == first
    (row,), _ = notifications.list_notifications(store, NotificationQuery(tenant_id="acme"))
    assert row == first


def test_a_mark_can_be_taken_away_and_set_anew(store: Store, session: Session) -> None:
    """R10.1: unread again is as if nobody had read it, twice too; the next reader is then the first."""
    told = _tell(session)
    notifications.mark_read(store, told, by="ann", tenant_id="acme")
    for _ in range(2):
        row = notifications.mark_unread(store, told, tenant_id="acme")
        assert (row.read_at, row.read_by) == (None, None)
    assert notifications.mark_read(store, told, by="bob", tenant_id="acme").read_by == "bob"


def test_two_readers_at_once_leave_one_mark(database: DatabaseAddress, session: Session) -> None:
    """R10.1: whoever of two is first stays on the record, and both are told the same."""
    told = _tell(session)
    stores = [PostgresStore(lambda: Session(database)) for _ in range(2)]
    rows: list[NotificationRow] = []

    def read(store: PostgresStore, by: str) -> None:
        rows.append(notifications.mark_read(store, told, by=by, tenant_id="acme"))

    at_once(lambda: read(stores[0], "ann"), lambda: read(stores[1], "bob"))
    assert rows[0] == rows[1]
    assert rows[0].read_by in {"ann", "bob"}
    for opened in stores:
        opened.close()


@pytest.mark.parametrize("which", ["someone else's", "none", "beyond all ids", "negative"])
def test_someone_elses_notification_is_as_unknown_as_none(store: Store, session: Session, which: str) -> None:
    """R10.1: another tenant's is neither listed nor marked, and nothing tells it from one that does not exist."""
    theirs = _tell(session, tenant_id="rival")
    wanted = {"someone else's": theirs, "none": theirs + 1, "beyond all ids": 2**63, "negative": -1}[which]
    with pytest.raises(UnknownNotification, match=f"there is no notification {wanted}"):
        notifications.mark_read(store, wanted, by="ann", tenant_id="acme")
    with pytest.raises(UnknownNotification, match=f"there is no notification {wanted}"):
        notifications.mark_unread(store, wanted, tenant_id="acme")
    assert notifications.list_notifications(store, NotificationQuery(tenant_id="acme")) == ([], None)
    assert session.run("select read_at, read_by from smart_schedule_outbox") == [[None, None]]


def test_the_view_of_a_tenant_is_a_wall_of_its_own(database: DatabaseAddress, session: Session) -> None:
    """R10.1: even a use case that is given another tenant's name finds nothing through acme's view of the database."""
    theirs = _tell(session, tenant_id="rival")
    opened = PostgresStore(lambda: Session(database))
    view = opened.of_tenant("acme")
    assert notifications.list_notifications(view, NotificationQuery(tenant_id="rival")) == ([], None)
    with pytest.raises(UnknownNotification):
        notifications.mark_read(view, theirs, by="ann", tenant_id="rival")
    opened.close()


def test_marking_and_publishing_leave_each_other_alone(database: DatabaseAddress, session: Session) -> None:
    """R10.1: a notification that was read before it went out still goes out, and publishing keeps the mark."""
    told = _tell(session)
    opened = PostgresStore(lambda: Session(database))
    notifications.mark_read(opened, told, by="ann", tenant_id="acme")
    with opened.transaction() as tx:
        assert [each.notification_id for each in tx.claim_notifications(10)] == [told]
        tx.mark_published(told)
    assert session.run("select read_by, published_at is not null from smart_schedule_outbox") == [
        ["ann", True]
    ]
    opened.close()


@pytest.mark.parametrize(
    "text", ["", "!", "e30", "W10", "WyIxIl0", "Wy0xXQ", "WzEsMl0", "W3RydWVd", "[" * 9999]
)
def test_a_cursor_that_is_none_is_refused(text: str) -> None:
    """R10.1: only what the list gave out names a place in it."""
    with pytest.raises(InvalidDocument) as refused:
        id_of_cursor("notifications", text, first=0)
    assert refused.value.field == "cursor"


def test_a_cursor_leads_back_to_its_place() -> None:
    """R10.1: the cursor is opaque, and stands for the last id of its page."""
    assert id_of_cursor("x", encode_cursor("x", 2**63 - 1), first=0) == 2**63 - 1


@pytest.mark.parametrize(
    ("field", "value"),
    [("limit", 0), ("limit", 501), ("policy_id", -1), ("policy_id", 2**63), ("code", "a\x00b")],
)
def test_a_filter_that_cannot_be_meant_is_refused_by_name(field: str, value: Any) -> None:
    """R10.1: the caller learns which filter was wrong."""
    with pytest.raises(InvalidDocument) as refused:
        NotificationQuery(tenant_id="acme", **{field: value})
    assert refused.value.field == field


@pytest.mark.parametrize("begin", [_BEGIN, _BEGIN + _AS], ids=["whole deployment", "tenant's view"])
@pytest.mark.parametrize("before_id", [2**63 - 1, ROWS // 2])
@pytest.mark.parametrize(("tenant_id", "most_read"), [("t1", 50), ("few", FEW), ("none", 0)])
@pytest.mark.parametrize(
    ("filters", "one_in"), [({}, 1), ({"unread": True}, 2), ({"policy_id": 3}, 5), ({"code": "policy_frozen"}, 20)]
)  # fmt: skip
def test_a_page_among_many_is_read_from_an_index(  # noqa: PLR0913, PLR0917 - each combination counts
    large_outbox: Session,
    filters: dict[str, Any],
    one_in: int,
    tenant_id: str,
    most_read: int,
    before_id: int,
    begin: str,
) -> None:
    """R10.1: among 200,000 notifications a page costs its own rows, times how rare they are; a small tenant's even less."""
    params: dict[str, Any] = {"tenant_id": tenant_id, "before_id": before_id, "unread": None, "code": None,
                              "policy_id": None, "page_size": 50, **filters}  # fmt: skip
    found = explained(
        large_outbox,
        statements()["list_notifications"],
        params,
        settings=PLANNED_BY_VALUES,
        begin=begin.format(tenant=f"'{tenant_id}'"),
    )
    scans = [node for node in nodes(found) if node.get("Relation Name") == "smart_schedule_outbox"]
    assert not any(node["Node Type"] == "Seq Scan" for node in scans)
    read = rows_read(scans)
    # by id all four tenants' rows are passed, by tenant only its own
    assert read <= most_read * one_in * TENANTS + TENANTS * one_in
    assert found["Shared Hit Blocks"] + found["Shared Read Blocks"] <= 200 + read


@pytest.fixture(scope="module")
def large_outbox(module_database: DatabaseAddress) -> Iterator[Session]:
    """Four tenants with 50,000 each, one with few; every second unread, every fifth of a policy, every 20th of a code."""
    with closing(Session(module_database)) as opened:
        for tenant, count in (("'few'", FEW), (f"'t' || g % {TENANTS}", ROWS)):
            opened.run(
                f"""insert into smart_schedule_outbox
                        (tenant_id, policy_id, code, created_at, next_try_at, published_at, read_at)
                    select {tenant}, (g / {TENANTS}) % 5,
                           case when (g / {TENANTS}) % 20 = 0 then 'policy_frozen' else 'tariff_unknown' end,
                           now(), now(), now(), case when (g / {TENANTS}) % 2 = 0 then now() end
                    from generate_series(1, {count}) g"""
            )
        opened.run("vacuum analyze smart_schedule_outbox")
        yield opened
