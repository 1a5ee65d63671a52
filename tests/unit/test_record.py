from __future__ import annotations

import math
import struct

import pytest

from blsflow.domain.machine import FLAGGED, UNKNOWN, Benchmark, Machine
from blsflow.domain.record import HEAD_BYTES, machines_of, pack, pack_versioned, rows_of, unpack, unpack_all
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


def test_a_tick_reads_each_record_with_the_version_of_its_benchmarks() -> None:
    """R3.2: a row has its record's fields and the version after them; its head is what a decision keeps of the record."""
    machines = [
        a_machine(machine_id=each, measured=range(1, most)) for each, most in ((1, 3), (2, 5), (3, 3), (4, 1))
    ]
    versions = {1: 2**40, 2: 7, 3: -1, 4: 0}
    block = b"".join(pack_versioned(machine, versions[machine.machine_id]) for machine in machines)
    found = {
        row[0]: (len(row), row[-1], head)
        for rows, heads in rows_of(block)
        for row, head in zip(rows, heads, strict=True)
    }
    assert found == {
        machine.machine_id: (
            15 + 5 * len(machine.benchmarks) + 1,
            versions[machine.machine_id],
            pack(machine)[:HEAD_BYTES],
        )
        for machine in machines
    }
    assert list(map(pack, machines_of(block))) == list(map(pack, machines))
    assert machines_of(b"") == []
    assert list(rows_of(b"")) == []


def test_a_cut_block_is_refused() -> None:
    """R3.10: half a machine at the end of a block is not passed over."""
    block = pack_versioned(FULL, 1) + pack_versioned(a_machine(machine_id=2**41), 2)
    for cut in (1, 8, 9, 40):
        with pytest.raises(struct.error):
            list(rows_of(block[:-cut]))


@pytest.mark.parametrize("cut", [1, 33, 34, 100, 147])
def test_cut_record_is_refused(cut: int) -> None:
    """R3.10: half a record is no machine with fewer benchmarks."""
    with pytest.raises(struct.error):
        unpack(pack(FULL)[:-cut])
