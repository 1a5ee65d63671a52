"""Pages of history on real PostgreSQL: each row once, whatever is added meanwhile, and a plan that size does not change."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from blsflow.domain.errors import InvalidDocument
from blsflow.domain.history import HistoryCursor, HistoryQuery, decode_cursor
from blsflow.flow import occurrences
from tests.integration.conversing import ConversationScene

if TYPE_CHECKING:
    from collections.abc import Iterator

    from blsflow.adapters.postgres.address import DatabaseAddress

AT = datetime(2026, 3, 8, 7, tzinfo=UTC)
ROWS = 240_000
PAGE = 50


@pytest.fixture
def scene(database: DatabaseAddress) -> Iterator[ConversationScene]:
    """Two tenants without any conversation yet."""
    with ConversationScene(database) as made:
        yield made


def _ended(
    scene: ConversationScene, schedule: int, *, at: str = "2026-03-08T07:00Z", state: str = "succeeded"
) -> int:
    """Record a manual occurrence that has ended, planned at a given time."""
    found: int = scene.value(
        f"""insert into smart_schedule_occurrences
                (tenant_id, schedule_id, kind, origin, planned_at, request_id, state, reason, recorded_at, ended_at)
            select tenant_id, id, kind, 'manual', '{at}', gen_random_uuid(), '{state}', 'busy', now(), now()
            from smart_schedule_schedules where id = {schedule} returning id"""
    )
    return found


def _ids(pages: list[list[Any]]) -> list[int]:
    return [row.occurrence_id for page in pages for row in page]


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 6])
def test_tied_rows_are_all_shown_once(scene: ConversationScene, limit: int) -> None:
    """R8.12 (K41): five rows of one time come in pages of any size, each once, newest id first."""
    schedule = scene.schedule()
    made = [_ended(scene, schedule) for _ in range(5)]
    pages = scene.pages(HistoryQuery(tenant_id="acme", limit=limit))
    assert _ids(pages) == made[::-1]
    assert [len(page) for page in pages[:-1]] == [limit] * (len(pages) - 1)


def test_pages_stay_whole_while_rows_are_added(scene: ConversationScene) -> None:
    """R8.12: rows that come between two pages, at newer, older and equal times, neither repeat nor hide one."""
    schedule = scene.schedule()
    before = [_ended(scene, schedule, at=f"2026-03-08T07:0{minute}Z") for minute in range(8)]
    query: HistoryQuery | None = HistoryQuery(schedule_id=schedule, limit=3)
    seen: list[int] = []
    while query is not None:
        rows, cursor = occurrences.history(scene.app.store, query)
        seen += [row.occurrence_id for row in rows]
        query = None if cursor is None else replace(query, after=decode_cursor(cursor))
        for at in ("2026-03-08T08:00Z", "2026-03-08T07:03Z", f"2026-03-08T07:0{len(seen) // 3}Z"):
            _ended(scene, schedule, at=at)
    assert len(seen) == len(set(seen))
    assert [each for each in seen if each in before] == before[::-1]


def test_a_running_row_that_ends_between_pages_keeps_its_place(scene: ConversationScene) -> None:
    """R8.12: what a cursor names never changes: a row's planned time and id are those it was recorded with."""
    first, second = scene.schedule("c1"), scene.schedule("c2")
    scene.minute()
    rows, cursor = occurrences.history(scene.app.store, HistoryQuery(tenant_id="acme", limit=1))
    assert cursor is not None
    scene.later(40)
    query = HistoryQuery(tenant_id="acme", limit=1, after=decode_cursor(cursor))
    (further,), _ = occurrences.history(scene.app.store, query)
    assert {rows[0].schedule_id, further.schedule_id} == {first, second}
    assert further.state == "succeeded"
    assert further.output_ref is not None


def test_filters_show_what_they_name_and_nothing_else(scene: ConversationScene) -> None:
    """R8.12: by tenant, schedule, kind, state and half-open time, and all of them together."""
    ours, theirs = scene.schedule("c1"), scene.schedule("c2", tenant="umbra")
    tick: int = scene.value("select id from smart_schedule_schedules where kind = 'policy_tick'")
    for hour in (1, 2, 3):
        at = f"2026-03-08T0{hour}:00Z"
        for schedule in (ours, theirs, tick):
            _ended(scene, schedule, at=at)
            _ended(scene, schedule, at=at, state="skipped")

    def count(**filters: Any) -> int:
        counts = {len(_ids(scene.pages(HistoryQuery(limit=limit, **filters)))) for limit in (2, 100)}
        assert len(counts) == 1, "the size of a page does not change what is shown"
        return counts.pop()

    two, three = datetime(2026, 3, 8, 2, tzinfo=UTC), datetime(2026, 3, 8, 3, tzinfo=UTC)
    assert count() == 18
    assert (count(tenant_id="acme"), count(tenant_id="umbra"), count(tenant_id="nobody")) == (12, 6, 0)
    assert (count(kind="conversation"), count(tenant_id="acme", kind="conversation")) == (12, 6)
    assert (count(state="skipped"), count(tenant_id="acme", state="skipped")) == (9, 6)
    assert (count(state="no such state"), count(kind="no such kind")) == (0, 0)
    assert (count(schedule_id=ours), count(schedule_id=ours, state="skipped")) == (6, 3)
    assert (count(schedule_id=ours, tenant_id="umbra"), count(schedule_id=ours, kind="policy_tick")) == (0, 0)
    assert (count(since=two), count(until=two), count(since=two, until=three)) == (12, 6, 6)
    everything: dict[str, Any] = {
        "tenant_id": "acme",
        "schedule_id": ours,
        "kind": "conversation",
        "state": "skipped",
    }
    assert count(**everything, since=two, until=three) == 1
    rows, _ = occurrences.history(scene.app.store, HistoryQuery(**everything))
    assert [(row.tenant_id, row.state, row.reason, row.origin) for row in rows] == [
        ("acme", "skipped", "busy", "manual")
    ] * 3
    assert [row.planned_at.hour for row in rows] == [3, 2, 1]


def _written(document: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(document).encode()).decode().rstrip("=")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "!",
        "é",
        "bm9uc2Vuc2U",
        _written([AT.isoformat()]),
        _written([AT.isoformat(), "7"]),
        _written([AT.isoformat(), 7.0]),
        _written([AT.isoformat(), True]),
        _written([AT.isoformat(), -1]),
        _written([AT.isoformat(), 2**63]),
        _written(["2026-03-08T07:00:00", 7]),
        _written(["yesterday", 7]),
        _written([7, 7]),
        _written({"planned_at": 1, "id": 2}),
        _written(None),
        base64.urlsafe_b64encode(b"[" * 100_000).decode(),
    ],
)
def test_a_cursor_that_is_none_of_ours_is_refused_by_name(text: str) -> None:
    """R8.12: whatever is sent as a cursor is either ours or refused as the field `cursor`, and never reaches the database."""
    with pytest.raises(InvalidDocument) as refused:
        decode_cursor(text)
    assert refused.value.field == "cursor"


@pytest.mark.parametrize("limit", [0, -1, 501])
def test_a_page_has_1_to_500_rows(limit: int) -> None:
    """R8.12: another size is refused as the field `limit`."""
    with pytest.raises(InvalidDocument) as refused:
        HistoryQuery(limit=limit)
    assert refused.value.field == "limit"


def test_a_cursor_comes_back_as_it_was_to_the_microsecond() -> None:
    """R8.12: what was encoded in any zone is decoded as the same instant and id."""
    cursor = HistoryCursor(planned_at=AT + timedelta(microseconds=1), occurrence_id=2**63 - 1)
    assert decode_cursor(cursor.encode()) == cursor
    assert "=" not in cursor.encode()
