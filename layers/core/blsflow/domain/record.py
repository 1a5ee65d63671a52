"""The binary record of a machine's inputs: what a tick reads, and what each decision refers to (R3.2).

The database builds it with ``int8send`` and ``float8send`` (big-endian); the tick reads its parts (`block`) and decides
on them. Beside the decision it stores the head of the same bytes, and by its id the version of the benchmarks that belong
to it, which the database keeps: what a decision refers to *is* what was decided on.

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

LAYOUT: Final = 2
LAYOUTS: Final = frozenset({1, 2})
"""That of records which are stored now, and those that can be read: the first kept its benchmarks in the decision."""

_HEADER = struct.Struct(">qiBBBBqddddqQQH")
HEAD_BYTES: Final = _HEADER.size
_BENCHMARK = struct.Struct(">qdddB")
BENCHMARK_BYTES: Final = _BENCHMARK.size
_COUNT = struct.Struct(">H")
_COUNT_AT: Final = _HEADER.size - _COUNT.size
_BENCHMARKS_AT: Final = 15
"""Where in a record's fields its benchmarks begin."""
_FIELDS: Final = 5
"""How many fields each of them has."""
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
    each = [iter(row[_BENCHMARKS_AT:])] * _FIELDS
    machine = _machine_of(row[:_BENCHMARKS_AT])._replace(
        benchmarks=tuple(map(_as_benchmark, zip(*each, strict=True)))
    )
    return machine, offset + layout.size


def machine_of(head: bytes) -> Machine:
    """The machine of a record's head, without its benchmarks."""
    return _machine_of(_HEADER.unpack(head))


def _machine_of(row: tuple[Any, ...]) -> Machine:
    (
        machine_id, class_index, status, foreign_changes, flags, _, project_id, hashrate_hs, power_w,
        project_since, reported_at, overridden_by, allow_bits, deny_bits, _,
    ) = row  # fmt: skip
    return _as_machine((
        machine_id, class_index, status, project_id, hashrate_hs, power_w, project_since, reported_at,
        flags, foreign_changes, overridden_by, allow_bits, deny_bits, (),
    ))  # fmt: skip


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
