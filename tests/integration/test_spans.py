from __future__ import annotations

import math
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from blsflow.adapters.postgres.connection import Session
from blsflow.domain.block import Block, machines_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from blsflow.adapters.postgres.address import DatabaseAddress
    from blsflow.domain.machine import Machine

SPAN = 256


@pytest.fixture(scope="module")
def session(module_database: DatabaseAddress) -> Iterator[Session]:
    """A session on a migrated database, with a cluster."""
    with closing(Session(module_database)) as opened:
        opened.run("insert into clusters values (1, 'acme', 'site', 'UTC')")
        yield opened


def _fleet(session: Session, machines: int) -> None:
    """So many machines of acme's, the first of them with a negative id; and others' before, between and behind."""
    session.run(
        f"truncate machines cascade;"
        f"insert into machines select case g when 1 then -3 else g * 3 end, 'acme', 1, 'M' || g % 2, 'm', g % 5 = 0"
        f"    from generate_series(1, {machines}) g;"
        f"insert into machines select g * 3 + 1, 'aaa', 1, 'M0', 'm', false from generate_series(0, {machines}) g;"
        f"insert into machines select g * 3 + 2, 'zeta', 1, 'M1', 'm', false from generate_series(0, {machines}) g"
    )


def _read(  # noqa: PLR0913 - what a scope may be, and who outranks its policy
    session: Session,
    *,
    everything: bool = False,
    models: Sequence[str] = ("M0", "M1"),
    covered: Sequence[str] = ("M0", "M1"),
    machine_ids: Sequence[int] = (),
    override_ranks: Sequence[int] | None = None,
    overridden: Sequence[tuple[int, int, int]] = (),
) -> list[list[Machine]]:
    """The machines of each block."""
    blocks: list[list[Machine]] = []
    session.stream(
        "read_machines",
        lambda values: blocks.append(machines_of(Block(*values))),
        tenant_id="acme",
        cluster_ids=[1] * len(models),
        models=list(models),
        covered=[everything or model in covered for model in models],
        everything=everything,
        override_ids=[70 + place for place in range(len(models))] if override_ranks else [0] * len(models),
        override_ranks=list(override_ranks or [2**31 - 1] * len(models)),
        overridden_machines=[machine for machine, _, _ in overridden],
        overriding_policies=[policy for _, policy, _ in overridden],
        overriding_ranks=[rank for _, _, rank in overridden],
        machine_ids=list(machine_ids),
        projects=[1],
        report_max_age_sec=600,
        sampled_from=-math.inf,
        sampled_until=math.inf,
    )
    return blocks


def _ids(machines: int) -> list[int]:
    return [-3, *(3 * g for g in range(2, machines + 1))]


@pytest.mark.parametrize("machines", [1, 255, 256, 257, 512, 700])
@pytest.mark.parametrize("everything", [True, False], ids=["of a tenant", "of its classes"])
def test_spans_hold_each_machine_once_in_order(session: Session, machines: int, *, everything: bool) -> None:
    """R3.10, R9.4: whatever the fleet's size, all machines of the tenant, in full blocks but the last, and nobody else's."""
    _fleet(session, machines)
    blocks = _read(session, everything=everything)
    assert [machine.machine_id for block in blocks for machine in block] == _ids(machines)
    assert [len(block) for block in blocks[:-1]] == [SPAN] * (len(blocks) - 1)
    assert 0 < len(blocks[-1]) <= SPAN


@pytest.mark.parametrize("everything", [True, False], ids=["of a tenant", "of its classes"])
def test_nothing_is_read_of_a_tenant_without_machines(session: Session, *, everything: bool) -> None:
    """R3.10: no machines, no blocks."""
    _fleet(session, 0)
    assert _read(session, everything=everything) == []


def test_both_ways_say_the_same_of_each_machine(session: Session) -> None:
    """R3.10: a tenant's machines are the same whether they are walked along or read class by class, overriding included."""
    _fleet(session, 600)
    ranks, overridden = (5, 2**31 - 1), [(12, 80, 4), (15, 81, 6), (18, 82, 9), (1, 83, 1)]
    walked, sorted_ = (
        [
            machine
            for block in _read(session, everything=everything, override_ranks=ranks, overridden=overridden)
            for machine in block
        ]
        for everything in (True, False)
    )
    assert len(walked) == 600
    assert [repr(machine) for machine in walked] == [repr(machine) for machine in sorted_]
    found = {machine.machine_id: machine.overridden_by for machine in walked}
    assert (found[12], found[15], found[18], found[24], found[21]) == (80, 81, 70, 70, 71)


def test_a_class_that_was_not_yet_known_ends_no_walk(session: Session) -> None:
    """R3.10: machines of a class newer than the reading of classes are the next tick's; those behind are not lost."""
    _fleet(session, 1000)
    session.run("update machines set model = 'NEW' where tenant_id = 'acme' and id between 100 and 2000")
    blocks = _read(session, everything=True)
    assert [m.machine_id for block in blocks for m in block] == [
        i for i in _ids(1000) if not 100 <= i <= 2000
    ]


def test_single_machines_are_read_with_their_classes(session: Session) -> None:
    """R1.2: of machines that are named, these only, whatever else is of their class."""
    _fleet(session, 600)
    (block,) = _read(session, covered=(), machine_ids=[9, 1500, 7, 99_999])
    assert [machine.machine_id for machine in block] == [9, 1500]


def test_classes_and_single_machines_make_one_scope(session: Session) -> None:
    """R1.2: all of a class that is covered, and of another the machines that are named, each once and in order."""
    _fleet(session, 600)
    read = [
        machine for block in _read(session, covered=["M1"], machine_ids=[12, 9, 1800]) for machine in block
    ]
    odd = [-3, *(3 * g for g in range(3, 601, 2))]
    assert [machine.machine_id for machine in read] == sorted([*odd, 12, 1800])
    assert {machine.class_index for machine in read if machine.machine_id in {12, 1800}} == {0}
