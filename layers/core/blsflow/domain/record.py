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
    machine, figures, end = unpack_flat(buffer, offset)
    return with_benchmarks(machine, figures), end


def unpack_flat(buffer: bytes | memoryview, offset: int) -> tuple[Machine, tuple[Any, ...], int]:
    """The machine without its benchmarks, the figures of all of them one after the other, and where the next record starts.

    For most machines of a tick the figures are all that is needed, and named tuples of them cost as much as the decision.
    """
    (
        machine_id, class_index, status, foreign_changes, flags, _, project_id, hashrate_hs, power_w,
        project_since, reported_at, overridden_by, allow_bits, deny_bits, count,
    ) = _HEADER.unpack_from(buffer, offset)  # fmt: skip
    layout = _benchmarks(count)
    start = offset + _HEADER.size
    machine = _as_machine((
        machine_id, class_index, status, project_id, hashrate_hs, power_w, project_since, reported_at,
        flags, foreign_changes, overridden_by, allow_bits, deny_bits, (),
    ))  # fmt: skip
    return machine, layout.unpack_from(buffer, start), start + layout.size


def with_benchmarks(machine: Machine, figures: tuple[Any, ...]) -> Machine:
    """The machine with the benchmarks whose figures these are."""
    each = [iter(figures)] * FIGURES_PER_BENCHMARK
    return machine._replace(benchmarks=tuple(map(_as_benchmark, zip(*each, strict=True))))


@cache
def _benchmarks(count: int) -> struct.Struct:
    return struct.Struct(">" + _BENCHMARK.format.removeprefix(">") * count)


def unpack_all(buffer: bytes | memoryview) -> Iterator[Machine]:
    """Every machine of a buffer of records put end to end."""
    offset, size = 0, len(buffer)
    while offset < size:
        machine, offset = unpack(buffer, offset)
        yield machine
