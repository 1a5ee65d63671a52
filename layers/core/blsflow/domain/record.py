"""The binary record of a machine's inputs: what a tick reads, and what each decision refers to (R3.2).

The database builds it with ``int8send`` and ``float8send`` (big-endian); the tick decodes it and decides on it. Beside the
decision it stores the head of the same bytes, and by its id the version of the benchmarks that followed, which the
database keeps: what a decision refers to *is* what was decided on.

::

    header  >qiBBBBqddddqQQH   machine_id, class_index, status, foreign_changes, flags, 0, project_id,
                               hashrate_hs, power_w, project_since, reported_at,
                               overridden_by, allow_bits, deny_bits, number of benchmarks
    each    >qdddB             project_id, hashrate_hs, power_w, sampled_at, flags

In the block that a tick reads, each record is followed by the version of its benchmarks, ``>q`` (0: it has none).

NaN is unknown. There is no version in it: a tick's shared inputs say which layout its records have.
"""

from __future__ import annotations

import struct
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

from blsflow.domain.machine import Benchmark, Machine

if TYPE_CHECKING:
    from collections.abc import Iterator

LAYOUT = 1

_HEADER = struct.Struct(">qiBBBBqddddqQQH")
HEAD_BYTES: Final = _HEADER.size
_BENCHMARK = struct.Struct(">qdddB")
_COUNT = struct.Struct(">H")
_VERSION = struct.Struct(">q")
_COUNT_AT: Final = _HEADER.size - _COUNT.size
PROJECT: Final = 6
PROJECT_SINCE: Final = 9
FIRST_FIGURE: Final = 15
"""Where a row has the running project and since when it runs, and where its benchmarks begin."""
FIGURES_PER_BENCHMARK: Final = 5
VERSION: Final = -1
"""Where a row has the version of its benchmarks."""
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
    """The machine's record as a tick reads it, followed by the version of its benchmarks."""
    return pack(machine) + _VERSION.pack(version)


def unpack(buffer: bytes | memoryview, offset: int = 0) -> tuple[Machine, int]:
    """The machine whose record starts at `offset`, and where the next starts; `struct.error` if cut short."""
    layout = _layout(_count_at(buffer, offset))
    row = layout.unpack_from(buffer, offset)
    return _machine(row, row[FIRST_FIGURE:]), offset + layout.size


def rows_of(block: bytes) -> Iterator[tuple[list[tuple[Any, ...]], list[bytes]]]:
    """All records of a tick's block as rows, with their heads.

    A row has the fields in their order, those of benchmarks one after the other, and the version. Records with as many
    benchmarks come together, in their order, so that their rows have the same columns.
    """
    if not block:
        return
    size = _versioned_layout(_count_at(block, 0)).size
    high, low = block[_COUNT_AT::size], block[_COUNT_AT + 1 :: size]
    alike = len(block) % size == 0 and len(set(high)) == len(set(low)) == 1
    for records in [block] if alike else _by_count(block):
        layout = _versioned_layout(_count_at(records, 0))
        starts = range(0, len(records), layout.size)
        yield list(layout.iter_unpack(records)), [records[start : start + HEAD_BYTES] for start in starts]


def machines_of(block: bytes) -> list[Machine]:
    """All machines of a tick's block, in their order."""
    machines = [whole_machine_of(row) for rows, _ in rows_of(block) for row in rows]
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


def whole_machine_of(row: tuple[Any, ...]) -> Machine:
    """The machine of a row, with its benchmarks."""
    return _machine(row, row[FIRST_FIGURE:VERSION])


def _machine(row: tuple[Any, ...], figures: tuple[Any, ...]) -> Machine:
    each = [iter(figures)] * FIGURES_PER_BENCHMARK
    return machine_of(row)._replace(benchmarks=tuple(map(_as_benchmark, zip(*each, strict=True))))


def _machine_id(machine: Machine) -> int:
    return machine.machine_id


def _by_count(block: bytes) -> list[bytes]:
    found: dict[int, list[bytes]] = {}
    offset, end = 0, len(block)
    while offset < end:
        count = _count_at(block, offset)
        after = offset + _versioned_layout(count).size
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
def _versioned_layout(count: int) -> struct.Struct:
    return struct.Struct(_layout(count).format + _VERSION.format.removeprefix(">"))


def unpack_all(buffer: bytes | memoryview) -> Iterator[Machine]:
    """Every machine of a buffer of records put end to end."""
    offset, size = 0, len(buffer)
    while offset < size:
        machine, offset = unpack(buffer, offset)
        yield machine
