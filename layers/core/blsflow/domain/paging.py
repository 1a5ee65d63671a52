"""Pages with opaque cursors: where one ended, in a form that only we write and read (R8.12)."""

from __future__ import annotations

import base64
import binascii
import json
from datetime import UTC, datetime
from typing import Final

from blsflow.domain.errors import InvalidExecutionRequest

MOST_ROWS: Final = 500
LARGEST_ID: Final = 2**63 - 1
_END_OF_TIMES: Final = datetime.max.replace(tzinfo=UTC)


def encode_cursor(*parts: int | datetime) -> str:
    """Return the last row's place in the order of its list: a time, an id, or both."""
    text = json.dumps([part if isinstance(part, int) else part.astimezone(UTC).isoformat() for part in parts])
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def id_of_cursor(cursor: str | None, *, first: int) -> int:
    """Read a cursor of a list in order of ids; without one the list begins at ``first``."""
    if cursor is None:
        return first
    parts = _parts(cursor)
    if len(parts) != 1:
        raise _refused(cursor)
    return _id(parts[0], cursor)


def place_of_cursor(cursor: str | None) -> tuple[datetime, int]:
    """Read a cursor of a list in order of times and ids, newest first; without one, at the end of all times."""
    if cursor is None:
        return _END_OF_TIMES, LARGEST_ID
    parts = _parts(cursor)
    try:
        at, row_id = parts
        instant = datetime.fromisoformat(str(at))
        if instant.utcoffset() is None:
            raise _refused(cursor)
        return instant.astimezone(UTC), _id(row_id, cursor)
    except (ValueError, TypeError, OverflowError) as error:
        raise _refused(cursor) from error


def checked_limit(limit: int) -> int:
    """Return the size of a page; one that is none, or too large, is refused."""
    if type(limit) is not int or not 1 <= limit <= MOST_ROWS:
        raise InvalidExecutionRequest(field="limit", value=limit, cause=f"use 1 to {MOST_ROWS}")
    return limit


def is_id(value: object) -> bool:
    """Whether a value can be an id of the database."""
    return type(value) is int and 0 <= value <= LARGEST_ID


def _parts(cursor: str) -> list[object]:
    try:
        parts = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (ValueError, TypeError, RecursionError, binascii.Error) as error:
        raise _refused(cursor) from error
    if not isinstance(parts, list):
        raise _refused(cursor)
    return parts


def _id(value: object, cursor: str) -> int:
    if type(value) is not int or not is_id(value):
        raise _refused(cursor)
    return value


def _refused(cursor: str) -> InvalidExecutionRequest:
    return InvalidExecutionRequest(field="cursor", value=cursor, cause="not a cursor of ours")
