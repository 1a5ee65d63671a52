"""Cursors of pages: opaque, and read only as they were written."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blsflow.domain.errors import InvalidDocument
from blsflow.domain.pages import (
    COMMANDS,
    JOBS,
    LOCKS,
    MOST_ROWS,
    checked_limit,
    decode,
    encode,
    encode_cursor,
    id_of_cursor,
)

_AT = datetime(2026, 11, 29, 12, 30, tzinfo=timezone(timedelta(hours=8)))
_ID = UUID("0199c5c2-7d4a-7c3e-9f60-6f1a2b3c4d5e")


def _written(document: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(document).encode()).decode()


@given(st.datetimes(timezones=st.just(UTC)), st.uuids(), st.integers(0, 2**63 - 1))
def test_a_cursor_says_what_was_written_into_it(at: datetime, an_id: UUID, number: int) -> None:
    """R8.12: instants, ids and numbers come back as they were."""
    assert decode("list", encode("list", [at, an_id, number]), [datetime, UUID, int]) == [at, an_id, number]


def test_a_listings_cursor_names_the_place_after_a_row() -> None:
    """R8.12: what a row shows besides its place in the order is not part of it."""
    row = {"prepared_at": _AT, "id": _ID, "state": "running"}
    assert JOBS.place(JOBS.cursor(row, {}), {}) == {"prepared_at": _AT, "id": _ID}


@pytest.mark.parametrize(
    "cursor",
    [
        "",
        "?",
        "\ud800",
        _written(None),
        _written({}),
        _written([1]),
        _written([_AT.isoformat()]),
        _written([_AT.isoformat(), "no id"]),
        _written(["2026-11-29T12:30:00", str(_ID)]),
        _written(["0001-01-01T00:00:00+14:00", str(_ID)]),
        _written([_AT.isoformat(), str(_ID), 1]),
        _written([[], {}]),
    ],
)
def test_anything_else_is_refused(cursor: str) -> None:
    """R8.12: a cursor that no page gave is refused by name, and asks nothing of the database."""
    with pytest.raises(InvalidDocument) as refused:
        JOBS.place(cursor, {})
    assert refused.value.field == "cursor"


@pytest.mark.parametrize("number", [-1, 2**63, True, "1", 1.0])
def test_a_number_that_is_no_id_is_refused(number: Any) -> None:
    """R8.12: what the database could not take as an id never reaches it."""
    with pytest.raises(InvalidDocument):
        LOCKS.place(_written([number]), {})


@pytest.mark.parametrize("limit", [0, -1, MOST_ROWS + 1])
def test_a_page_has_one_to_five_hundred_rows(limit: int) -> None:
    """R8.12: a page that is none, or too long, is refused by name."""
    checked_limit(1)
    checked_limit(MOST_ROWS)
    with pytest.raises(InvalidDocument) as refused:
        checked_limit(limit)
    assert refused.value.field == "limit"


def test_a_cursor_is_of_one_list_and_its_filters() -> None:
    """R8.12: elsewhere, or under another filter, its place would pass over rows without a word."""
    row = {"prepared_at": _AT, "requested_at": _AT, "id": _ID}
    cursor = JOBS.cursor(row, {"state": "running", "tenant_id": "a", "open": None})
    assert JOBS.place(cursor, {"state": "running", "tenant_id": "b"})["id"] == _ID
    for listing, filters in ((COMMANDS, {"state": "running"}), (JOBS, {}), (JOBS, {"state": "failed"})):
        with pytest.raises(InvalidDocument):
            listing.place(cursor, filters)
    assert id_of_cursor("policies", encode_cursor("policies", 7), first=0) == 7
    with pytest.raises(InvalidDocument):
        id_of_cursor("schedules", encode_cursor("policies", 7), first=0)


def test_a_changed_cursor_is_refused() -> None:
    """R8.12: it is checked as it was given."""
    cursor = encode_cursor("policies", 7)
    changed = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).replace(b"[7", b"[8")
    with pytest.raises(InvalidDocument):
        id_of_cursor("policies", base64.urlsafe_b64encode(changed).decode().rstrip("="), first=0)
