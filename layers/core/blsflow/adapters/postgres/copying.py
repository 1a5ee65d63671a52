"""PostgreSQL's binary COPY format, as far as a tick needs it.

Format: https://www.postgresql.org/docs/current/sql-copy.html (Binary Format): a signature, then per row the number of
fields and each field's length (-1: null) and bytes, then -1.
"""

from __future__ import annotations

import io
import struct
import tempfile
from functools import cache, partial
from itertools import repeat
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from blsflow.domain.record import HEAD_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import BinaryIO
    from uuid import UUID

    from blsflow.domain.decide import Decided
    from blsflow.domain.verdict import Kept, Verdict

_SIGNATURE: Final = b"PGCOPY\n\xff\r\n\0" + struct.pack(">ii", 0, 0)
_TRAILER: Final = struct.pack(">h", -1)
_ROW: Final = struct.Struct(">hi")
"""How many fields a row has, and the length of the first."""
_SPOOL_BYTES: Final = 8 * 1024 * 1024
"""Decisions above this wait on disk, so that memory does not grow with the fleet."""

_PIECE_BYTES: Final = 64 * 1024
"""So much of them is sent at a time."""


class RecordReader(io.RawIOBase):
    """The receiving end of a COPY of single bytea values: hands each value to a sink as it arrives."""

    def __init__(self, sink: Callable[[bytes], None]) -> None:
        super().__init__()
        self._sink = sink
        self._pending = bytearray()
        self._started = False

    def write(self, chunk: bytes) -> int:  # type: ignore[override]
        """Take what the server sent, a row each time as a rule; values that are complete go on at once."""
        if self._started and not self._pending and _is_row(chunk):
            self._sink(chunk[_ROW.size :])
            return len(chunk)
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
        while position + _ROW.size <= len(pending):
            fields, length = _ROW.unpack_from(pending, position)
            if fields == -1:
                break
            start = position + _ROW.size
            if length < 0:
                position = start
                continue
            if start + length > len(pending):
                break
            self._sink(bytes(pending[start : start + length]))
            position = start + length
        del pending[:position]


def _is_row(chunk: bytes) -> bool:
    """Whether this is one row of a single value, and nothing else."""
    return len(chunk) > _ROW.size and _ROW.unpack_from(chunk) == (1, len(chunk) - _ROW.size)


_INT8: Final = struct.Struct(">iq")
_FLOAT8: Final = struct.Struct(">id")
_LENGTH: Final = struct.Struct(">i")
_KEPT: Final = struct.Struct(">iq i i id id")
_MOVED: Final = struct.Struct(">iq iq iq id id")
_NULL: Final = struct.pack(">i", -1)
_NOBODY: Final = bytes(8)
_EIGHT: Final = struct.pack(">i", 8)
_NOWHERE: Final = _NULL + _NULL + _EIGHT
"""No project and no configuration, and a net follows."""
_NOBODYS: Final = _NULL + _NULL + _EIGHT
"""No overriding policy and no attempt, and a version follows."""
_HEAD_LENGTH: Final = struct.pack(">i", HEAD_BYTES)
_MACHINE: Final = itemgetter(slice(0, 8))
_PARTS: Final = 4096
"""So many pieces of rows, half a thousand rows, are put together before they are written."""
_EPOCH_OFFSET_US: Final = 946_684_800_000_000
"""Microseconds from 1970 to 2000, where PostgreSQL's timestamps begin."""

DECISION_COLUMNS: Final = (
    "ticked_at, tick_id, machine_id, action, reason, proposed, from_project, to_project, run_config_id, "
    "current_net_cny_per_day, best_net_cny_per_day, overridden_by, attempt_id, benchmarks_version, figures"
)


class DecisionSpool:
    """Encodes decisions as rows of a binary COPY, in memory up to a limit and on disk beyond it."""

    def __init__(self, *, tick_id: int, ticked_at_us: int) -> None:
        self._spool: BinaryIO = tempfile.SpooledTemporaryFile(max_size=_SPOOL_BYTES)  # type: ignore[assignment]  # noqa: SIM115 - outlives this call, closed by its owner
        self._spool.write(_SIGNATURE)
        self._key = struct.pack(">h iq iq i", 15, 8, ticked_at_us - _EPOCH_OFFSET_US, 8, tick_id, 8)
        self._texts: dict[tuple[str, str, str], bytes] = {}
        self._parts: list[bytes] = []

    def add(self, decided: Decided, *, action: str, reason: str, attempt_id: UUID | None) -> None:
        """Append one row; the machine's id is the head's first eight bytes, the overriding policy's stands at 56."""
        head, version, _, verdict = decided
        texts = action, reason, verdict.action
        encoded = self._texts.get(texts)
        if encoded is None:
            encoded = self._texts[texts] = b"".join(map(_text, texts))
        overriding = head[56:64]
        self._parts += (
            self._key,
            head[:8],
            encoded,
            _outcome(verdict),
            _NULL if overriding == _NOBODY else b"\0\0\0\x08" + overriding,
            _NULL if attempt_id is None else b"\0\0\0\x10" + attempt_id.bytes,
            _INT8.pack(8, version) if version else _NULL,
            _HEAD_LENGTH,
            head,
        )
        if len(self._parts) >= _PARTS:
            self._flush()

    def keep(self, kept: Kept) -> None:
        """Append a row per machine, all of them at once."""
        if not kept.heads:
            return
        texts = _text("keep") + _text(kept.reason) + _text("keep") + _EIGHT
        pack = _kept_row(len(self._key), len(texts))
        self._flush()
        self._spool.write(
            b"".join(
                map(
                    pack, repeat(self._key), map(_MACHINE, kept.heads), repeat(texts), kept.from_projects,
                    repeat(_NOWHERE), kept.current_nets, repeat(_EIGHT), kept.best_nets, repeat(_NOBODYS), kept.versions,
                    repeat(_HEAD_LENGTH), kept.heads,
                )
            )
        )  # fmt: skip

    def finish(self) -> Iterator[bytes]:
        """Complete the rows, and return them in pieces."""
        self._parts.append(_TRAILER)
        self._flush()
        self._spool.seek(0)
        return iter(partial(self._spool.read, _PIECE_BYTES), b"")

    def forget(self) -> None:
        """Leave nothing of the rows."""
        self._spool.close()

    def _flush(self) -> None:
        self._spool.write(b"".join(self._parts))
        self._parts.clear()


@cache
def _kept_row(key: int, texts: int) -> Callable[..., bytes]:
    """Packs: key, machine, texts, running project, nowhere to go, net, length, best net, nobody's, version, length, head.

    What comes in other lengths is said in bytes.
    """
    return struct.Struct(
        f">{key}s8s{texts}sq{len(_NOWHERE)}sd4sd{len(_NOBODYS)}sq{len(_HEAD_LENGTH)}s{HEAD_BYTES}s"
    ).pack


def _text(value: str) -> bytes:
    raw = value.encode()
    return _LENGTH.pack(len(raw)) + raw


def _outcome(verdict: Verdict) -> bytes:
    """The fields from_project to best_net; the two shapes that nearly all verdicts have are packed in one go."""
    _, _, from_project, to_project, run_config_id, current_net, best_net, _ = verdict
    if from_project is not None and current_net is not None and best_net is not None:
        if to_project is None:
            return _KEPT.pack(8, from_project, -1, -1, 8, current_net, 8, best_net)
        if run_config_id is not None:
            return _MOVED.pack(8, from_project, 8, to_project, 8, run_config_id, 8, current_net, 8, best_net)
    ids = (from_project, to_project, run_config_id)
    figures = (current_net, best_net)
    return b"".join(
        [
            *(_NULL if value is None else _INT8.pack(8, value) for value in ids),
            *(_NULL if value is None else _FLOAT8.pack(8, value) for value in figures),
        ]
    )
