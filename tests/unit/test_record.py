from __future__ import annotations

import math
import struct

import pytest

from blsflow.domain.machine import FLAGGED, UNKNOWN, Benchmark, Machine
from blsflow.domain.record import pack, unpack, unpack_all
from tests.scenes import a_machine

FULL = Machine(
    machine_id=2**40,
    class_index=3,
    status=1,
    project_id=11,
    hashrate_hs=1e14,
    power_w=3050.0,
    project_since=1.5e9,
    reported_at=1.7e9,
    flags=0b1111111,
    foreign_changes=255,
    overridden_by=9,
    allow_bits=2**63,
    deny_bits=2**64 - 1,
    benchmarks=(Benchmark(11, 1e14, 3050.0, 1.6e9), Benchmark(12, 2e14, UNKNOWN, 1.6e9, FLAGGED)),
)


def test_layout() -> None:
    """R3.2: the layout that the database builds: big-endian, 82 bytes and 33 for each benchmark."""
    record = pack(FULL)
    assert len(record) == 82 + 2 * 33
    assert record[:8] == (2**40).to_bytes(8)
    assert record[12:16] == bytes([1, 255, 0b1111111, 0])
    assert struct.unpack(">d", record[24:32]) == (1e14,)
    assert struct.unpack(">QQH", record[64:82]) == (2**63, 2**64 - 1, 2)
    assert struct.unpack(">qdddB", record[82:115]) == (11, 1e14, 3050.0, 1.6e9, 0)


def test_round_trip() -> None:
    """R3.10: what comes back is what was stored, and unknown stays unknown."""
    machine, end = unpack(pack(FULL))
    assert end == len(pack(FULL))
    assert machine[:-1] == FULL[:-1]
    assert machine.benchmarks[0] == FULL.benchmarks[0]
    assert isinstance(machine.benchmarks[0], Benchmark)
    assert math.isnan(machine.benchmarks[1].power_w)
    assert pack(machine) == pack(FULL)


def test_records_end_to_end() -> None:
    """R3.2: a block of records is read one after the other, from any buffer."""
    machines = [a_machine(machine_id=each, measured=range(1, each)) for each in (1, 5, 2)]
    block = b"".join(map(pack, machines))
    for buffer in (block, memoryview(block)):
        assert [machine.machine_id for machine in unpack_all(buffer)] == [1, 5, 2]
        assert b"".join(map(pack, unpack_all(buffer))) == block
    assert list(unpack_all(b"")) == []


@pytest.mark.parametrize("cut", [1, 33, 34, 100, 147])
def test_cut_record_is_refused(cut: int) -> None:
    """R3.10: half a record is no machine with fewer benchmarks."""
    with pytest.raises(struct.error):
        unpack(pack(FULL)[:-cut])
