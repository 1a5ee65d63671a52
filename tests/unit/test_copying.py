from __future__ import annotations

import io
import math
import struct

import pytest

from blsflow.adapters.postgres.copying import DecisionSpool, RecordReader
from blsflow.domain.decide import Decided
from blsflow.domain.machine import Machine
from blsflow.domain.reasons import Action, Reason
from blsflow.domain.record import HEAD_BYTES
from blsflow.domain.verdict import Kept, Verdict

_SIGNATURE = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_TRAILER = struct.pack(">h", -1)


def stream(*values: bytes | None) -> bytes:
    """A binary COPY of one column, by the format's description."""
    rows = [
        struct.pack(">hi", 1, -1) if value is None else struct.pack(">hi", 1, len(value)) + value
        for value in values
    ]
    return _SIGNATURE + b"".join(rows) + _TRAILER


def read(*chunks: bytes) -> list[bytes]:
    """What a sink gets of a stream that arrives in these chunks."""
    found: list[bytes] = []
    reader = RecordReader(found.append)
    assert [reader.write(chunk) for chunk in chunks] == [len(chunk) for chunk in chunks]
    return found


VALUES = (b"first", None, b"", b"\xff\xff" * 3, b"last")
READ = [b"first", b"", b"\xff\xff" * 3, b"last"]


@pytest.mark.parametrize("position", range(len(stream(*VALUES)) + 1))
def test_a_stream_may_be_cut_anywhere(position: int) -> None:
    """R2.4: machines are read the same whatever the packets of the network cut in two; a null is passed over."""
    whole = stream(*VALUES)
    assert read(whole[:position], whole[position:]) == READ


def test_a_stream_may_come_byte_by_byte() -> None:
    """R2.4: nor does it matter how small the packets are."""
    whole = stream(*VALUES)
    assert read(*(whole[i : i + 1] for i in range(len(whole)))) == READ


def test_a_value_goes_on_as_soon_as_it_is_complete() -> None:
    """R2.4: blocks of machines are not kept until the end, so that memory does not grow with the fleet."""
    found: list[bytes] = []
    reader = RecordReader(found.append)
    whole = stream(b"first", b"second")
    end_of_first = len(_SIGNATURE) + 6 + len(b"first")
    reader.write(whole[: end_of_first - 1])
    assert found == []
    reader.write(whole[end_of_first - 1 : end_of_first])
    assert found == [b"first"]
    assert len(reader._pending) == 0


@pytest.mark.parametrize("values", [(), (None,)])
def test_no_rows_are_no_machines(values: tuple[None, ...]) -> None:
    """R2.4: an empty scope gives no row, or one null of an aggregate over nothing: no block either way."""
    assert read(stream(*values)) == []


def test_a_large_value_is_whole() -> None:
    """R2.4: a block of many packets arrives as one."""
    value = bytes(range(256)) * 1000
    whole = stream(value, b"next")
    assert read(*(whole[i : i + 8192] for i in range(0, len(whole), 8192))) == [value, b"next"]


def _head(machine_id: int) -> bytes:
    return struct.pack(">q", machine_id) + bytes(HEAD_BYTES - 8)


def _decided(machine_id: int, version: int, verdict: Verdict) -> Decided:
    return Decided(_head(machine_id), version, Machine(machine_id, 0, 1), verdict)


def _spooled(count: int) -> io.BytesIO:
    spool = DecisionSpool(tick_id=7, ticked_at_us=1_767_225_600_123_456)
    verdict = Verdict(Action.KEEP, Reason.ALREADY_BEST, 1, None, None, math.nan, -1.5)
    for machine_id in range(count):
        spool.add(_decided(machine_id, 0, verdict), action="keep", reason="x", attempt_id=None)
    return io.BytesIO(b"".join(spool.finish()))


def test_machines_kept_in_columns_are_the_same_rows() -> None:
    """R3.2: decisions to keep that are added at once are stored as those that are added one by one, byte for byte."""
    heads, versions = [_head(machine_id) for machine_id in range(3)], [5, 2**40, 6]
    nets = [1.5, -0.0, 2.5], [2.0, 3.0, 4.0]
    kept = Kept(Reason.GAIN_BELOW_RATIO, [0, 1, 2], [7, 8, 7], *nets, heads, versions)
    at_once = DecisionSpool(tick_id=7, ticked_at_us=1_767_225_600_123_456)
    at_once.keep(kept)
    at_once.keep(Kept(Reason.ALREADY_BEST, [], [], [], [], [], []))
    singly = DecisionSpool(tick_id=7, ticked_at_us=1_767_225_600_123_456)
    for number, (version, project, current, best) in enumerate(
        zip(versions, kept.from_projects, *nets, strict=True)
    ):
        verdict = Verdict(Action.KEEP, kept.reason, project, None, None, current, best)
        singly.add(_decided(number, version, verdict), action="keep", reason=kept.reason, attempt_id=None)
    assert b"".join(at_once.finish()) == b"".join(singly.finish())


def test_decisions_beyond_the_limit_wait_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """R3.2: a fleet whose decisions do not fit in memory is written all the same, byte for byte."""
    in_memory = _spooled(200).getvalue()
    monkeypatch.setattr("blsflow.adapters.postgres.copying._SPOOL_BYTES", 1000)
    assert _spooled(200).getvalue() == in_memory


def test_the_spool_rolls_over_to_disk_at_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """R3.2: memory is bounded: beyond the limit the spool is a file."""
    monkeypatch.setattr("blsflow.adapters.postgres.copying._SPOOL_BYTES", 1000)
    monkeypatch.setattr("blsflow.adapters.postgres.copying._PARTS", 1)
    spool = DecisionSpool(tick_id=7, ticked_at_us=0)
    verdict = Verdict(Action.KEEP, Reason.ALREADY_BEST)
    rolled = []
    for _ in range(10):
        spool.add(_decided(0, 1, verdict), action="keep", reason="x", attempt_id=None)
        rolled.append(spool._spool._rolled)  # type: ignore[attr-defined]
    assert not rolled[0]
    assert rolled[-1]
    assert sum(map(len, spool.finish())) > 1000


def test_no_decisions_are_an_empty_copy() -> None:
    """R3.2: a tick of no machines writes a stream that the server takes as empty."""
    assert _spooled(0).getvalue() == _SIGNATURE + _TRAILER
