"""Machines as a tick reads them: in blocks, their benchmarks no longer than it needs them (R3.10).

Each record's head is followed by ``>qqd``: a number for the projects that were measured, the version of the benchmarks
(0: there is none), and the oldest sampled_at (NaN: one of them is flagged or implausible, or there is none). Of benchmarks
that may all be decided on, sampled within the span which the tick asked for, only ``>dd`` each is sent, hashrate_hs and
power_w: what else is known of them decides nothing. The benchmarks of the other machines, whose number is 0, are sent whole.
"""

from __future__ import annotations

import struct
import sys
from array import array
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from blsflow.domain.machine import UNKNOWN, Benchmark, Machine
from blsflow.domain.prospects import NO_TIME, is_valid
from blsflow.domain.record import BENCHMARK_BYTES, HEAD_BYTES, machine_of, pack, unpack

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import TypeAlias

    from blsflow.domain.prospects import Span

    _Measured: TypeAlias = "tuple[tuple[int, ...], Sequence[float], bytes | None]"
    """Projects, what was measured on each, and a machine's benchmarks if they came whole."""

_SAID = struct.Struct(">qqd")
_GLANCE = struct.Struct(">8x i 4x q 16x dd 24x Hqqd")
"""Of a head and what follows it, all that machines are valued by side by side."""
_MEASURED = struct.Struct(">qq")
_PROJECT_BYTES: Final = 8
_OF_HEADS: Final = 7
"""So many columns of `Alike` are known without benchmarks."""


class Block(NamedTuple):
    """Machines as they are sent.

    ``records`` are their heads, each with what follows it; ``figures`` and ``entries`` the benchmarks of those whose projects
    have a number, and of those that come whole; ``projects`` which are meant by a number: ``>qq``, the number and how many,
    and then they, ``>q`` each.
    """

    records: bytes
    figures: bytes = b""
    entries: bytes = b""
    projects: bytes = b""


class Alike(NamedTuple):
    """Machines of a block, side by side, on which the same projects were measured: those, that is, that may be decided on.

    There are plausible ``figures`` for each of the projects, the machines' hashrate_hs and then their power_w. ``entries``
    are the benchmarks of machines that came whole, with those that may not be decided on.
    """

    heads: Sequence[bytes]
    class_indexes: Sequence[int]
    running: Sequence[int]
    running_since: Sequence[float]
    reported_at: Sequence[float]
    versions: Sequence[int]
    oldest: Sequence[float]
    projects: tuple[int, ...] = ()
    figures: Sequence[Sequence[float]] = ()
    entries: Sequence[bytes] = ()

    def machine(self, index: int) -> Machine:
        """One of the machines with its benchmarks; if they did not come whole, each with the time of the oldest."""
        if self.entries:
            return unpack(self.heads[index] + self.entries[index])[0]
        figures, sampled_at = iter(self.figures), self.oldest[index]
        benchmarks = [
            Benchmark(project, hashrates[index], powers[index], sampled_at)
            for project, hashrates, powers in zip(self.projects, figures, figures, strict=True)
        ]
        return machine_of(self.heads[index])._replace(benchmarks=tuple(benchmarks))


def block_of(machines: Iterable[tuple[Machine, int]]) -> Block:
    """A block of these machines, each with the version of its benchmarks, which come whole."""
    records, entries = [], []
    for machine, version in machines:
        record = pack(machine)
        records.append(record[:HEAD_BYTES] + _SAID.pack(0, version, UNKNOWN))
        entries.append(record[HEAD_BYTES:])
    return Block(b"".join(records), entries=b"".join(entries))


def alike_of(block: Block, span: Span) -> Iterator[Alike]:
    """All machines of a block, those together that are alike; ``span`` is the one that the tick asked for.

    Raises:
        struct.error: a part of the block has not as many bytes as its machines' records say.
    """
    columns = list(zip(*_GLANCE.iter_unpack(block.records), strict=True))
    if not columns:
        if block.figures or block.entries:
            raise _not_as_said()
        return
    starts = range(0, len(block.records), _GLANCE.size)
    heads = [block.records[at : at + HEAD_BYTES] for at in starts]
    counts, numbers = columns[4:6]
    machines = Alike(heads, *columns[:4], *columns[6:])
    if len(block.figures) % 8:
        raise _not_as_said()
    figures = array("d", block.figures)
    if sys.byteorder == "little":
        figures.byteswap()
    projects = _numbered(block.projects)
    if not projects.keys() >= set(numbers) - {0}:
        raise _not_as_said()
    (number, *others) = set(numbers)
    if others or not number:
        measured = _one_by_one(heads, counts, numbers, figures, block.entries, projects, span)
        yield from _group_by_group(machines, measured)
        return
    named = projects[number]
    width = 2 * len(named)
    if set(counts) != {len(named)} or len(figures) != width * len(heads) or block.entries:
        raise _not_as_said()
    yield machines._replace(projects=named, figures=[figures[at::width].tolist() for at in range(width)])


def machines_of(block: Block) -> list[Machine]:
    """All machines of a block, in their order."""
    machines = [
        alike.machine(index) for alike in alike_of(block, NO_TIME) for index in range(len(alike.heads))
    ]
    return sorted(machines, key=_machine_id)


def _machine_id(machine: Machine) -> int:
    return machine.machine_id


def _one_by_one(  # noqa: PLR0913, PLR0917 - the parts of a block
    heads: Sequence[bytes],
    counts: Sequence[int],
    numbers: Sequence[int],
    figures: array[float],
    entries: bytes,
    projects: Mapping[int, tuple[int, ...]],
    span: Span,
) -> list[_Measured]:
    """What was measured on each machine, where that are not the same projects on all, or some come whole."""
    measured: list[_Measured] = []
    figures_at = entries_at = 0
    for head, count, number in zip(heads, counts, numbers, strict=True):
        if number:
            row = figures[figures_at : figures_at + 2 * count]
            figures_at += 2 * count
            if len(projects[number]) != count:
                raise _not_as_said()
            measured.append((projects[number], row, None))
        else:
            entry = entries[entries_at : entries_at + count * BENCHMARK_BYTES]
            entries_at += count * BENCHMARK_BYTES
            measured.append((*_usable(head + entry, span), entry))
    if (figures_at, entries_at) != (len(figures), len(entries)):
        raise _not_as_said()
    return measured


def _group_by_group(machines: Alike, measured: list[_Measured]) -> Iterator[Alike]:
    groups: dict[tuple[bool, tuple[int, ...]], list[int]] = {}
    for index, (named, _, entry) in enumerate(measured):
        groups.setdefault((entry is not None, named), []).append(index)
    known: Sequence[Sequence[Any]] = machines[:_OF_HEADS]
    for (_, named), indexes in groups.items():
        rows = [measured[index][1] for index in indexes]
        entries = [measured[index][2] for index in indexes]
        yield Alike._make(
            [
                *[[column[index] for index in indexes] for column in known],
                named,
                list(zip(*rows, strict=True)),
                [entry for entry in entries if entry is not None],
            ]
        )


def _usable(record: bytes, span: Span) -> tuple[tuple[int, ...], Sequence[float]]:
    """The projects of benchmarks that may be decided on, and what was measured on each."""
    usable = [each for each in unpack(record)[0].benchmarks if is_valid(each, span)]
    figures = [figure for each in usable for figure in (each.hashrate_hs, each.power_w)]
    return tuple(each.project_id for each in usable), figures


def _numbered(projects: bytes) -> dict[int, tuple[int, ...]]:
    """Which projects a number means."""
    found: dict[int, tuple[int, ...]] = {}
    at = 0
    while at < len(projects):
        number, count = _MEASURED.unpack_from(projects, at)
        at += _MEASURED.size
        found[number] = struct.unpack_from(f">{count}q", projects, at)
        at += _PROJECT_BYTES * count
    return found


def _not_as_said() -> struct.error:
    return struct.error("a block has not the benchmarks that its records say")
