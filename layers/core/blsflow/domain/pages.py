"""Pages of rows in an order that does not change: opaque cursors, which neither repeat nor lose a row (R8.12)."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, cast
from uuid import UUID

from blsflow.domain.errors import InvalidDocument

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MOST_ROWS: Final = 500
LARGEST_ID: Final = 2**63 - 1
_END_OF_TIMES: Final = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, kw_only=True, slots=True)
class Page:
    """Rows, and the cursor of the next page; None when this is the last."""

    rows: Sequence[Mapping[str, Any]]
    cursor: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Listing:
    """Rows that are read in pages: in the order of ``columns``, narrowed by any of ``filters``, each with its type.

    ``name`` is that of the rows, in the singular. The columns go all upwards, or all downwards.
    """

    name: str
    columns: Mapping[str, type]
    filters: Mapping[str, type]
    newest_first: bool = False

    def cursor(self, row: Mapping[str, Any], filters: Mapping[str, object]) -> str:
        """Return the cursor of the page that begins after this row of the list with these filters."""
        return encode(self._filtered(filters), [row[name] for name in self.columns])

    def place(self, cursor: str, filters: Mapping[str, object]) -> Mapping[str, object]:
        """Return the row after which a page begins; anything but a cursor of this list is refused."""
        values = decode(self._filtered(filters), cursor, list(self.columns.values()))
        return dict(zip(self.columns, values, strict=True))

    def _filtered(self, filters: Mapping[str, object]) -> str:
        narrowed = sorted((name, str(value)) for name, value in filters.items() if value is not None)
        return f"{self.name} {[each for each in narrowed if each[0] != 'tenant_id']}"


_NEWEST: Final[Mapping[str, type]] = {"requested_at": datetime, "id": UUID}
_BY_MACHINE: Final[Mapping[str, type]] = {"machine_id": int}

COMMANDS: Final = Listing(
    name="command", columns=_NEWEST, filters={"tenant_id": str, "id": UUID, "action": str}, newest_first=True
)
COMMAND_MACHINES: Final = Listing(
    name="command_machine", columns=_BY_MACHINE, filters={"command_id": UUID, "state": str}
)
JOBS: Final = Listing(
    name="job",
    columns={"prepared_at": datetime, "id": UUID},
    filters={
        "tenant_id": str, "id": UUID, "state": str, "policy_id": int, "command_id": UUID, "benchmark_run_id": UUID,
        "open": bool,
    },
    newest_first=True,
)  # fmt: skip
JOB_MACHINES: Final = Listing(
    name="job_machine", columns=_BY_MACHINE, filters={"attempt_id": UUID, "state": str}
)
LOCKS: Final = Listing(
    name="live_lock", columns=_BY_MACHINE, filters={"tenant_id": str, "machine_id": int, "policy_id": int}
)
_BY_ID: Final[Mapping[str, type]] = {"id": int}
CLUSTERS: Final = Listing(name="cluster", columns=_BY_ID, filters={"tenant_id": str})
PROJECTS: Final = Listing(name="project", columns=_BY_ID, filters={"tenant_id": str})
MACHINES: Final = Listing(
    name="machine",
    columns=_BY_ID,
    filters={"tenant_id": str, "cluster_id": int, "model": str, "status": str},
)
BENCHMARK_RUNS: Final = Listing(
    name="benchmark_run",
    columns=_NEWEST,
    filters={
        "tenant_id": str, "id": UUID, "policy_id": int, "machine_id": int, "project_id": int, "state": str, "open": bool,
    },
    newest_first=True,
)  # fmt: skip
BENCHMARKS: Final = Listing(
    name="benchmark",
    columns={"machine_id": int, "project_id": int},
    filters={"tenant_id": str, "machine_id": int, "project_id": int},
)


def encode(of: str, values: Sequence[object]) -> str:
    """Return the values of a cursor as an opaque text; ``of`` names the list, with what narrows it."""
    plain = [value if isinstance(value, int) else _text(value) for value in values]
    plain.append(hashlib.sha256(json.dumps([of, *plain]).encode()).hexdigest()[:8])
    return base64.urlsafe_b64encode(json.dumps(plain).encode()).decode().rstrip("=")


def decode(of: str, text: str, kinds: Sequence[type]) -> list[object]:
    """Read a cursor of this list, with values of these types; anything else is refused."""
    try:
        *plain, _ = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        values = [_value(value, kind) for value, kind in zip(plain, kinds, strict=True)]
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError, binascii.Error) as error:
        raise _refused(text) from error
    if encode(of, values) != text:  # of another list, changed, or written another way
        raise _refused(text)
    return values


def _refused(cursor: str) -> InvalidDocument:
    return InvalidDocument(field="cursor", value=cursor, cause="not a cursor of this list")


def encode_cursor(of: str, *values: object) -> str:
    """Return the last row's place in the order of its list: a time, an id, or both."""
    return encode(of, values)


def id_of_cursor(of: str, cursor: str | None, *, first: int) -> int:
    """Read a cursor of a list in order of ids; without one the list begins at ``first``."""
    if cursor is None:
        return first
    (row_id,) = decode(of, cursor, [int])
    return cast("int", row_id)


def place_of_cursor(of: str, cursor: str | None) -> tuple[datetime, int]:
    """Read a cursor of a list in order of times and ids, newest first; without one, at the end of all times."""
    if cursor is None:
        return _END_OF_TIMES, LARGEST_ID
    at, row_id = decode(of, cursor, [datetime, int])
    return cast("datetime", at), cast("int", row_id)


def checked_limit(limit: int) -> int:
    """Return the size of a page; one that is none, or too large, is refused."""
    if type(limit) is not int or not 1 <= limit <= MOST_ROWS:
        raise InvalidDocument(field="limit", value=limit, cause=f"use 1 to {MOST_ROWS}")
    return limit


def is_id(value: object) -> bool:
    """Whether a value can be an id of the database."""
    return type(value) is int and 0 <= value <= LARGEST_ID


def _text(value: object) -> str:
    return value.astimezone(UTC).isoformat() if isinstance(value, datetime) else str(value)


def _value(value: object, kind: type) -> object:
    """Return one value of a cursor; `ValueError` or its like if it is none of the kind."""
    if kind is int:
        if not is_id(value):
            raise ValueError
        return value
    if not isinstance(value, str):
        raise TypeError
    if kind is UUID:
        return UUID(value)
    instant = datetime.fromisoformat(value)
    if instant.utcoffset() is None:
        raise ValueError
    instant.astimezone(UTC)
    return instant
