"""The binary record of a machine's inputs: what a tick reads, and what each decision refers to (R3.2).

The database builds it with ``int8send`` and ``float8send`` (big-endian); the tick decodes it and decides on it. Beside the
decision it stores the head of the same bytes, and by its id the version of the benchmarks that followed, which the
database keeps: what a decision refers to *is* what was decided on.

::

    header  >qiBBBBqddddqQQH   machine_id, class_index, status, foreign_changes, flags, 0, project_id,
                               hashrate_hs, power_w, project_since, reported_at,
                               overridden_by, allow_bits, deny_bits, number of benchmarks
    each    >qdddB             project_id, hashrate_hs, power_w, sampled_at, flags

In the block that a tick reads, each record is followed by ``>ddq``: the oldest and the newest sampled_at of its benchmarks
(NaN: one of them is flagged or of unknown time, or there is none), and their version (0: there is none).

NaN is unknown. There is no version in it: a tick's shared inputs say which layout its records have.
"""

from __future__ import annotations

import math
import struct
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from blsflow.domain.machine import FLAGGED, UNKNOWN, Benchmark, Machine

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

LAYOUT: Final = 2
LAYOUTS: Final = frozenset({1, 2})
"""That of records which are stored now, and those that can be read: the first kept its benchmarks in the decision."""

_HEADER = struct.Struct(">qiBBBBqddddqQQH")
HEAD_BYTES: Final = _HEADER.size
_BENCHMARK = struct.Struct(">qdddB")
_COUNT = struct.Struct(">H")
_TRAILER = struct.Struct(">ddq")
_PROJECT_BYTES: Final = 8
_COUNT_AT: Final = _HEADER.size - _COUNT.size
PROJECT, PROJECT_SINCE = 6, 9
"""Where a row has the running project, and since when it runs."""
FIRST_FIGURE: Final = 15
"""Where its benchmarks begin."""
FIGURES_PER_BENCHMARK: Final = 5
"""How many fields each of them has in whole."""
OLDEST, NEWEST, VERSION = -3, -2, -1
"""Where a row has what is said of all of them."""
# Half the cost of _make, once per machine, and per machine and project.
_as_machine = partial(tuple.__new__, Machine)
_as_benchmark = partial(tuple.__new__, Benchmark)


def pack(machine: Machine) -> bytes:
    """The machine's record; `unpack` gives back the same machine, bit for bit."""
    header = _HEADER.pack(
        machine.machine_id,
        machine.class_index,
        machine.status,
        machine.foreign_changes,
        machine.flags,
        0,
        machine.project_id,
        machine.hashrate_hs,
        machine.power_w,
        machine.project_since,
        machine.reported_at,
        machine.overridden_by,
        machine.allow_bits,
        machine.deny_bits,
        len(machine.benchmarks),
    )
    return header + b"".join([_BENCHMARK.pack(*benchmark) for benchmark in machine.benchmarks])


def pack_versioned(machine: Machine, version: int) -> bytes:
    """The machine's record as a tick reads it, followed by what is said of its benchmarks."""
    sampled = [each.sampled_at for each in machine.benchmarks if not each.flags & FLAGGED]
    if not sampled or len(sampled) < len(machine.benchmarks) or any(map(math.isnan, sampled)):
        sampled = [UNKNOWN]
    return pack(machine) + _TRAILER.pack(min(sampled), max(sampled), version)


def unpack(buffer: bytes | memoryview, offset: int = 0) -> tuple[Machine, int]:
    """The machine whose record starts at `offset`, and where the next starts; `struct.error` if cut short."""
    layout = _layout(_count_at(buffer, offset))
    row = layout.unpack_from(buffer, offset)
    each = [iter(row[FIRST_FIGURE:])] * FIGURES_PER_BENCHMARK
    machine = machine_of(row)._replace(benchmarks=tuple(map(_as_benchmark, zip(*each, strict=True))))
    return machine, offset + layout.size


class Alike(NamedTuple):
    """Records of a block that have as many benchmarks measured, in their order, with their heads, and as rows side by side.

    A row has the fields of the head, of each benchmark hashrate_hs and power_w only, and what is said of all benchmarks.
    """

    rows: list[tuple[Any, ...]]
    heads: list[bytes]
    measured: int
    records: bytes

    @property
    def size(self) -> int:
        """How many bytes a record has with what follows it."""
        return len(self.records) // len(self.rows)

    def machine(self, index: int) -> Machine:
        """One of the machines, with its benchmarks."""
        return unpack(self.records, index * self.size)[0]

    def benchmarks(self, indexes: Sequence[int]) -> list[tuple[Any, ...]]:
        """All fields of some machines' benchmarks, five for each."""
        layout = _benchmarks(self.measured)
        return [layout.unpack_from(self.records, index * self.size + HEAD_BYTES) for index in indexes]

    def projects(self) -> tuple[int, ...] | None:
        """The projects that have been measured, in their order; None if they are not the same ones on all machines."""
        records, size, machines = self.records, self.size, len(self.rows)
        starts = range(HEAD_BYTES, HEAD_BYTES + self.measured * _BENCHMARK.size, _BENCHMARK.size)
        for start in starts:
            for at in range(start, start + _PROJECT_BYTES):
                if records[at::size] != records[at : at + 1] * machines:
                    return None
        return tuple(int.from_bytes(records[at : at + _PROJECT_BYTES], signed=True) for at in starts)


def alike_of(block: bytes) -> Iterator[Alike]:
    """All records of a tick's block, those with as many benchmarks together."""
    if not block:
        return
    size = _lean_layout(_count_at(block, 0)).size
    high, low = block[_COUNT_AT::size], block[_COUNT_AT + 1 :: size]
    alike = len(block) % size == 0 and len(set(high)) == len(set(low)) == 1
    for records in [block] if alike else _by_count(block):
        count = _count_at(records, 0)
        layout = _lean_layout(count)
        starts = range(0, len(records), layout.size)
        heads = [records[start : start + HEAD_BYTES] for start in starts]
        yield Alike(list(layout.iter_unpack(records)), heads, count, records)


def machines_of(block: bytes) -> list[Machine]:
    """All machines of a tick's block, in their order."""
    machines = [alike.machine(index) for alike in alike_of(block) for index in range(len(alike.rows))]
    return sorted(machines, key=_machine_id)


def machine_of(row: tuple[Any, ...]) -> Machine:
    """The machine of a row, without its benchmarks."""
    (
        machine_id, class_index, status, foreign_changes, flags, _, project_id, hashrate_hs, power_w,
        project_since, reported_at, overridden_by, allow_bits, deny_bits, _,
    ) = row[:FIRST_FIGURE]  # fmt: skip
    return _as_machine((
        machine_id, class_index, status, project_id, hashrate_hs, power_w, project_since, reported_at,
        flags, foreign_changes, overridden_by, allow_bits, deny_bits, (),
    ))  # fmt: skip


def _machine_id(machine: Machine) -> int:
    return machine.machine_id


def _by_count(block: bytes) -> list[bytes]:
    found: dict[int, list[bytes]] = {}
    offset, end = 0, len(block)
    while offset < end:
        count = _count_at(block, offset)
        after = offset + _lean_layout(count).size
        found.setdefault(count, []).append(block[offset:after])
        offset = after
    return [b"".join(records) for records in found.values()]


def _count_at(buffer: bytes | memoryview, offset: int) -> int:
    (count,) = _COUNT.unpack_from(buffer, offset + _COUNT_AT)
    return int(count)


@cache
def _layout(count: int) -> struct.Struct:
    return struct.Struct(_HEADER.format + _BENCHMARK.format.removeprefix(">") * count)


@cache
def _benchmarks(count: int) -> struct.Struct:
    return struct.Struct(">" + _BENCHMARK.format.removeprefix(">") * count)


@cache
def _lean_layout(count: int) -> struct.Struct:
    lean = f"{_PROJECT_BYTES}xdd{_BENCHMARK.size - _PROJECT_BYTES - 16}x"
    return struct.Struct(_HEADER.format + lean * count + _TRAILER.format.removeprefix(">"))


def unpack_all(buffer: bytes | memoryview) -> Iterator[Machine]:
    """Every machine of a buffer of records put end to end."""
    offset, size = 0, len(buffer)
    while offset < size:
        machine, offset = unpack(buffer, offset)
        yield machine
