"""The binary record of a machine's inputs: what a tick reads, and what each decision keeps (R3.2).

The database builds it with ``int8send`` and ``float8send`` (big-endian), the tick decodes it, decides on it,
and stores the same bytes beside the decision: what was stored *is* what was decided on.

::

    header  >qiBBBBqddddqQQH   machine_id, class_index, status, foreign_changes, flags, 0, project_id,
                               hashrate_hs, power_w, project_since, reported_at,
                               overridden_by, allow_bits, deny_bits, number of benchmarks
    each    >qdddB             project_id, hashrate_hs, power_w, sampled_at, flags

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
_BENCHMARK = struct.Struct(">qdddB")
_COUNT = struct.Struct(">H")
_COUNT_AT: Final = _HEADER.size - _COUNT.size
PROJECT: Final = 6
PROJECT_SINCE: Final = 9
FIRST_FIGURE: Final = 15
"""Where a row has the running project and since when it runs, and where its benchmarks begin."""
FIGURES_PER_BENCHMARK: Final = 5
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


def unpack(buffer: bytes | memoryview, offset: int = 0) -> tuple[Machine, int]:
    """The machine whose record starts at `offset`, and where the next starts; `struct.error` if cut short."""
    layout = _layout(_count_at(buffer, offset))
    row = layout.unpack_from(buffer, offset)
    return whole_machine_of(row), offset + layout.size


def rows_of(block: bytes) -> Iterator[tuple[list[tuple[Any, ...]], list[bytes]]]:
    """All records of a block with their rows: the fields in their order, those of benchmarks one after the other.

    Records with as many benchmarks come together, in their order, so that their rows have the same columns.
    """
    size = _layout(_count_at(block, 0)).size if block else 1
    high, low = block[_COUNT_AT::size], block[_COUNT_AT + 1 :: size]
    records = [block[start : start + size] for start in range(0, len(block), size)]
    alike = len(records) * size == len(block) and len(set(high)) <= 1 and len(set(low)) <= 1
    for alike_records in [records] if alike else _by_count(block):
        joined = block if alike else b"".join(alike_records)
        yield list(_layout(_count_at(joined, 0)).iter_unpack(joined)), alike_records


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
    return machine_of(row)._replace(benchmarks=_benchmarks_of(row))


def _benchmarks_of(row: tuple[Any, ...]) -> tuple[Benchmark, ...]:
    each = [iter(row[FIRST_FIGURE:])] * FIGURES_PER_BENCHMARK
    return tuple(map(_as_benchmark, zip(*each, strict=True)))


def _by_count(block: bytes) -> list[list[bytes]]:
    found: dict[int, list[bytes]] = {}
    offset, end = 0, len(block)
    while offset < end:
        count = _count_at(block, offset)
        after = offset + _layout(count).size
        found.setdefault(count, []).append(block[offset:after])
        offset = after
    return list(found.values())


def _count_at(buffer: bytes | memoryview, offset: int) -> int:
    (count,) = _COUNT.unpack_from(buffer, offset + _COUNT_AT)
    return int(count)


@cache
def _layout(count: int) -> struct.Struct:
    return struct.Struct(_HEADER.format + _BENCHMARK.format.removeprefix(">") * count)


def unpack_all(buffer: bytes | memoryview) -> Iterator[Machine]:
    """Every machine of a buffer of records put end to end."""
    offset, size = 0, len(buffer)
    while offset < size:
        machine, offset = unpack(buffer, offset)
        yield machine
