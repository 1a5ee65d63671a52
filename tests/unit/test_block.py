from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING

import pytest

from blsflow.domain.block import Block, alike_of, block_of, machines_of
from blsflow.domain.machine import FLAGGED, Benchmark, Machine
from blsflow.domain.prospects import NO_TIME, Span
from blsflow.domain.record import HEAD_BYTES, pack
from tests.blocks import sent

if TYPE_CHECKING:
    from collections.abc import Sequence

SPAN = Span(100.0, 200.0)


def _machine(machine_id: int, projects: Sequence[int], **changes: float) -> Machine:
    benchmarks = tuple(
        Benchmark(project, 1e14 + machine_id + project, 3000.0 + project, 150.0 + project % 7)
        for project in projects
    )
    if changes:
        benchmarks = (*benchmarks[:-1], benchmarks[-1]._replace(**changes))  # type: ignore[arg-type]
    return Machine(
        machine_id,
        machine_id % 3,
        1,
        project_id=projects[0] if projects else 0,
        hashrate_hs=1e14,
        power_w=3000.0,
        project_since=50.0 + machine_id,
        reported_at=199.0 - machine_id,
        benchmarks=benchmarks,
    )


ALL = [
    _machine(1, (11, 12)),
    _machine(2, (11, 12, -13)),
    _machine(3, (11, 12), flags=FLAGGED),
    _machine(4, ()),
    _machine(5, (11, 12)),
    _machine(6, (12, 11)),
    _machine(7, (11, 12), sampled_at=99.0),
    _machine(8, (11, 2**40 + 12)),
]


def test_machines_that_are_measured_alike_stand_side_by_side() -> None:
    """R3.10: what machines are valued by stands in columns, as it was sent, and nothing of them is lost."""
    alike = {
        (each.projects, bool(each.entries)): each
        for each in alike_of(sent([(machine, machine.machine_id * 10) for machine in ALL], SPAN), SPAN)
    }
    by_projects = {key: [int.from_bytes(head[:8]) for head in each.heads] for key, each in alike.items()}
    assert by_projects == {
        ((11, 12), False): [1, 5],
        ((11, 12, -13), False): [2],
        ((11,), True): [3, 7],
        ((), True): [4],
        ((12, 11), False): [6],
        ((11, 2**40 + 12), False): [8],
    }
    for (projects, _), each in alike.items():
        for index, head in enumerate(each.heads):
            machine = ALL[int.from_bytes(head[:8]) - 1]
            measured = {benchmark.project_id: benchmark for benchmark in machine.benchmarks}
            assert head == pack(machine)[:HEAD_BYTES]
            assert [column[index] for column in each.figures] == [
                figure for project in projects for figure in measured[project][1:3]
            ]
            assert (each.class_indexes[index], each.running[index], each.running_since[index]) == (
                machine.class_index,
                machine.project_id,
                machine.project_since,
            )
            assert (each.reported_at[index], each.versions[index]) == (
                machine.reported_at,
                machine.machine_id * 10,
            )


def test_a_machine_comes_with_its_benchmarks() -> None:
    """R3.10: whole where they were sent whole; else with their figures, and a time that counts for each of them."""
    for alike in alike_of(sent([(machine, 1) for machine in ALL], SPAN), SPAN):
        for index in range(len(alike.heads)):
            machine = alike.machine(index)
            expected = ALL[machine.machine_id - 1]
            if not alike.entries:
                oldest = min(each.sampled_at for each in expected.benchmarks)
                expected = expected._replace(
                    benchmarks=tuple(each._replace(sampled_at=oldest) for each in expected.benchmarks)
                )
            assert machine == expected


def test_machines_that_come_whole_are_what_they_were() -> None:
    """R4.1: who wants all of a machine gets it, in the order of their ids."""
    for block in (
        block_of((machine, 3) for machine in ALL),
        sent(((machine, 3) for machine in ALL), NO_TIME),
    ):
        assert machines_of(block) == ALL
        assert {version for alike in alike_of(block, SPAN) for version in alike.versions} == {3}
    assert (machines_of(block_of([])), list(alike_of(Block(b""), SPAN))) == ([], [])


def test_a_time_that_is_unknown_does_not_count() -> None:
    """R2.3: a benchmark without a known time is none to decide on, and the machine still has it."""
    machine = _machine(1, (11, 12), sampled_at=math.nan)
    (alike,) = alike_of(block_of([(machine, 1)]), SPAN)
    assert alike.projects == (11,)
    assert repr(alike.machine(0)) == repr(machine)


@pytest.mark.parametrize("part", ["records", "figures", "entries", "projects"])
@pytest.mark.parametrize("machines", [ALL, ALL[:1]])
def test_a_block_that_is_not_as_its_records_say_is_refused(machines: list[Machine], part: str) -> None:
    """R3.10: half a machine is not passed over, nor is another's benchmark taken for its own."""
    block = sent([(machine, 1) for machine in machines], SPAN)
    whole: bytes = getattr(block, part)
    spoilt = [whole + bytes(8)] if part in {"figures", "entries"} else []
    spoilt += [whole[:-cut] for cut in (1, 8, 16, 33, len(whole)) if len(whole) >= cut > 0]
    for each in spoilt:
        with pytest.raises(struct.error):
            list(alike_of(block._replace(**{part: each}), SPAN))


@pytest.mark.parametrize("machines", [ALL, ALL[:1]])
def test_a_head_that_counts_other_benchmarks_is_refused(machines: list[Machine]) -> None:
    """R3.2: a head is stored with its decision: it must be one of the benchmarks that were decided on."""
    block = sent([(machine, 1) for machine in machines], SPAN)
    for count in (0, 1, 3):
        records = block.records[:80] + count.to_bytes(2) + block.records[82:]
        with pytest.raises(struct.error):
            list(alike_of(block._replace(records=records), SPAN))
