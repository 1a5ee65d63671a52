"""Blocks of machines as the server sends them to a tick."""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, Final

from blsflow.domain.block import Block
from blsflow.domain.machine import UNKNOWN
from blsflow.domain.prospects import Span, is_valid
from blsflow.domain.record import HEAD_BYTES, pack

if TYPE_CHECKING:
    from collections.abc import Iterable

    from blsflow.domain.machine import Machine

_ALWAYS: Final = Span(-math.inf, math.inf)


def sent(machines: Iterable[tuple[Machine, int]], span: Span) -> Block:
    """The block of these machines and the versions of their benchmarks, if those within the span need not come whole."""
    records, figures, entries = [], [], []
    numbers: dict[tuple[int, ...], int] = {}
    for machine, version in machines:
        record = pack(machine)
        projects = tuple(each.project_id for each in machine.benchmarks)
        whole = not projects or not all(is_valid(each, span) for each in machine.benchmarks)
        number, oldest = 0, _oldest(machine)
        if whole:
            entries.append(record[HEAD_BYTES:])
        else:
            number = numbers.setdefault(projects, len(numbers) + 7)
            figures += [struct.pack(">dd", each.hashrate_hs, each.power_w) for each in machine.benchmarks]
        records.append(record[:HEAD_BYTES] + struct.pack(">qqd", number, version, oldest))
    projects_sent = [
        struct.pack(f">qq{len(each)}q", number, len(each), *each) for each, number in numbers.items()
    ]
    return Block(b"".join(records), b"".join(figures), b"".join(entries), b"".join(projects_sent))


def _oldest(machine: Machine) -> float:
    """The oldest time; unknown if a benchmark is flagged or implausible, or there is none."""
    if not machine.benchmarks or not all(is_valid(each, _ALWAYS) for each in machine.benchmarks):
        return UNKNOWN
    return min(each.sampled_at for each in machine.benchmarks)
