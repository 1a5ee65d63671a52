from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING

import pytest

from blsflow.domain.machine import FLAGGED, UNKNOWN, Benchmark, Machine
from blsflow.domain.record import HEAD_BYTES, alike_of, machines_of, pack, pack_versioned, unpack, unpack_all
from tests.scenes import a_machine

if TYPE_CHECKING:
    from collections.abc import Sequence

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


def _block(machines: Sequence[Machine]) -> bytes:
    return b"".join(pack_versioned(machine, machine.machine_id * 10) for machine in machines)


def test_a_tick_reads_machines_with_as_many_benchmarks_side_by_side() -> None:
    """R3.2: a row has its head's fields, what each benchmark measured, and what is said of all of them; nothing is lost."""
    machines = [
        a_machine(machine_id=each, measured=range(1, most)) for each, most in ((1, 3), (2, 5), (3, 3), (4, 1))
    ]
    found = list(alike_of(_block(machines)))
    by_id = {
        row[0]: (row, head, alike.machine(index), alike.benchmarks([index]))
        for alike in found
        for index, (row, head) in enumerate(zip(alike.rows, alike.heads, strict=True))
    }
    assert [len(alike.rows) for alike in found] == [2, 1, 1]
    for machine in machines:
        row, head, same, benchmarks = by_id[machine.machine_id]
        assert (pack(same), head) == (pack(machine), pack(machine)[:HEAD_BYTES])
        assert row[15:-3] == tuple(figure for each in machine.benchmarks for figure in each[1:3])
        assert row[-1] == machine.machine_id * 10
        assert benchmarks == [tuple(figure for each in machine.benchmarks for figure in each)]
    assert list(map(pack, machines_of(_block(machines)))) == list(map(pack, machines))
    assert (machines_of(b""), list(alike_of(b""))) == ([], [])


def test_what_is_said_of_all_benchmarks() -> None:
    """R2.3: the oldest and the newest time of them; neither if one may not be decided on, or there is none."""
    times = [
        Benchmark(1, 1e14, 3000.0, 5.5),
        Benchmark(2, 1e14, 3000.0, 4.25),
        Benchmark(3, 1e14, 3000.0, 7.0),
    ]
    flagged = [*times[:2], times[2]._replace(flags=FLAGGED)]
    for benchmarks, said in ((times, (4.25, 7.0)), (flagged, None), ([], None)):
        (alike,) = alike_of(_block([a_machine()._replace(benchmarks=tuple(benchmarks))]))
        ((*_, oldest, newest, _version),) = alike.rows
        assert (oldest, newest) == said if said else math.isnan(oldest) and math.isnan(newest)


@pytest.mark.parametrize(
    ("others", "projects"),
    [((1, 2, -3), (1, 2, -3)), ((1, 2, -4), None), ((1, 2**40 + 2, -3), None), ((2, 1, -3), None)],
)
def test_projects_measured_on_all_machines(others: Sequence[int], projects: tuple[int, ...] | None) -> None:
    """R3.10: machines are valued together only if the same projects were measured on them, in the same order."""
    one, other = (
        a_machine(machine_id=number)._replace(
            benchmarks=tuple(Benchmark(each, 1e14, 3000.0, 1.0) for each in measured)
        )
        for number, measured in ((1, (1, 2, -3)), (2, others))
    )
    (alike,) = alike_of(_block([one, other, one._replace(machine_id=3)]))
    assert alike.projects() == projects


def test_a_cut_block_is_refused() -> None:
    """R3.10: half a machine at the end of a block is not passed over."""
    block = pack_versioned(FULL, 1) + pack_versioned(a_machine(machine_id=2**41), 2)
    for cut in (1, 8, 24, 25, 40):
        with pytest.raises(struct.error):
            list(alike_of(block[:-cut]))


@pytest.mark.parametrize("cut", [1, 33, 34, 100, 147])
def test_cut_record_is_refused(cut: int) -> None:
    """R3.10: half a record is no machine with fewer benchmarks."""
    with pytest.raises(struct.error):
        unpack(pack(FULL)[:-cut])
