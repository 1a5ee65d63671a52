"""PostgreSQL's binary COPY format, as far as a tick needs it.

Format: https://www.postgresql.org/docs/current/sql-copy.html (Binary Format): a signature, then per row the number of
fields and each field's length (-1: null) and bytes, then -1.
"""

from __future__ import annotations

import io
import struct
import tempfile
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO
    from uuid import UUID

    from blsflow.domain.verdict import Verdict

_SIGNATURE: Final = b"PGCOPY\n\xff\r\n\0" + struct.pack(">ii", 0, 0)
_TRAILER: Final = struct.pack(">h", -1)
_SPOOL_BYTES: Final = 8 * 1024 * 1024
"""Decisions above this wait on disk, so that memory does not grow with the fleet."""


class RecordReader(io.RawIOBase):
    """The receiving end of a COPY of single bytea values: hands each value to a sink as it arrives."""

    def __init__(self, sink: Callable[[bytes], None]) -> None:
        super().__init__()
        self._sink = sink
        self._pending = bytearray()
        self._started = False

    def write(self, chunk: bytes) -> int:  # type: ignore[override]
        """Take what the server sent; values that are complete go on at once."""
        self._pending += chunk
        if not self._started:
            if len(self._pending) < len(_SIGNATURE):
                return len(chunk)
            del self._pending[: len(_SIGNATURE)]
            self._started = True
        self._drain()
        return len(chunk)

    def _drain(self) -> None:
        position, pending = 0, self._pending
        while position + 6 <= len(pending):
            (fields,) = struct.unpack_from(">h", pending, position)
            if fields == -1:
                break
            (length,) = struct.unpack_from(">i", pending, position + 2)
            start = position + 6
            if length < 0:
                position = start
                continue
            if start + length > len(pending):
                break
            self._sink(bytes(pending[start : start + length]))
            position = start + length
        del pending[:position]


_INT8: Final = struct.Struct(">iq")
_FLOAT8: Final = struct.Struct(">id")
_NULL: Final = struct.pack(">i", -1)
_EPOCH_OFFSET_US: Final = 946_684_800_000_000
"""Microseconds from 1970 to 2000, where PostgreSQL's timestamps begin."""

DECISION_COLUMNS: Final = (
    "ticked_at, tick_id, machine_id, action, reason, proposed, from_project, to_project, run_config_id, "
    "current_net_cny_per_day, best_net_cny_per_day, overridden_by, attempt_id, figures"
)


class DecisionSpool:
    """Encodes decisions as rows of a binary COPY, in memory up to a limit and on disk beyond it."""

    def __init__(self, *, tick_id: int, ticked_at_us: int) -> None:
        self._spool: BinaryIO = tempfile.SpooledTemporaryFile(max_size=_SPOOL_BYTES)  # type: ignore[assignment]  # noqa: SIM115 - outlives this call, closed by its owner
        self._spool.write(_SIGNATURE)
        self._key = struct.pack(">h iq iq i", 14, 8, ticked_at_us - _EPOCH_OFFSET_US, 8, tick_id, 8)
        self._texts: dict[str, bytes] = {}

    def add(
        self, record: bytes, verdict: Verdict, *, action: str, reason: str, attempt_id: UUID | None
    ) -> None:
        """Append one row; the machine's id is the record's first eight bytes, the overriding policy's stands at 56."""
        text = self._text
        write = self._spool.write
        write(self._key)
        write(record[:8])
        write(text(action) + text(reason) + text(verdict.action))
        write(_id(verdict.from_project) + _id(verdict.to_project) + _id(verdict.run_config_id))
        write(_figure(verdict.current_net) + _figure(verdict.best_net))
        overriding = record[56:64]
        write(_NULL if overriding == b"\0" * 8 else b"\0\0\0\x08" + overriding)
        write(_NULL if attempt_id is None else b"\0\0\0\x10" + attempt_id.bytes)
        write(struct.pack(">i", len(record)))
        write(record)

    def finish(self) -> BinaryIO:
        """Return the stream, complete and at its beginning."""
        self._spool.write(_TRAILER)
        self._spool.seek(0)
        return self._spool

    def _text(self, value: str) -> bytes:
        encoded = self._texts.get(value)
        if encoded is None:
            raw = value.encode()
            encoded = self._texts[value] = struct.pack(">i", len(raw)) + raw
        return encoded


def _id(value: int | None) -> bytes:
    return _NULL if value is None else _INT8.pack(8, value)


def _figure(value: float | None) -> bytes:
    return _NULL if value is None else _FLOAT8.pack(8, value)
