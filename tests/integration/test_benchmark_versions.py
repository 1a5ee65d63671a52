"""Decisions name the version of the benchmarks that they were made on, and every version that one may name is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from blsflow.flow import ticks
from blsflow.flow.report import report
from tests.integration.policy_scenes import ACME, RIVAL
from tests.integration.scene import Scene

if TYPE_CHECKING:
    from collections.abc import Iterator

    from blsflow.adapters.postgres.address import DatabaseAddress

_MACHINE: Final = 2
_DAY_SEC: Final = 86_400
_BENCHMARKS: Final = f"smart_schedule_machine_project_benchmarks where machine_id = {_MACHINE}"
_CHANGED: Final = "update smart_schedule_machine_project_benchmarks set hashrate_hs = hashrate_hs / 2"
_CURRENT: Final = """
select e.machine_id, e.version = v.id and e.entries = v.entries
from smart_schedule_machine_benchmark_entries e
full join (select * from smart_schedule_benchmark_versions where superseded_at is null) v on v.machine_id = e.machine_id
order by 1
"""
_WHOLE: Final = """
update smart_schedule_machine_decisions d set figures = d.figures || v.entries, benchmarks_version = null
from smart_schedule_benchmark_versions v where v.id = d.benchmarks_version;
update smart_schedule_ticks set inputs = inputs || '{"layout": 1}'
"""


@pytest.fixture
def scene(database: DatabaseAddress) -> Iterator[Scene]:
    """Six machines on coin A, with coin B earning more."""
    with Scene(database) as made:
        yield made


def decided(scene: Scene) -> int:
    """A tick, by its id."""
    scene.tick()
    (found,) = scene.decide()
    assert found.machines == 6
    return int(found.tick_id)


def versions(scene: Scene) -> int:
    """How many versions are kept."""
    return int(scene.value("select count(*) from smart_schedule_benchmark_versions"))


@pytest.mark.parametrize(
    "change",
    [_CHANGED, f"delete from {_BENCHMARKS}", "truncate smart_schedule_machine_project_benchmarks"],
    ids=["measured anew", "gone", "all gone"],
)
def test_a_decision_is_explained_by_the_benchmarks_that_it_was_made_on(scene: Scene, change: str) -> None:
    """R3.2: whatever becomes of a machine's benchmarks, the figures of an earlier decision stay what they were."""
    tick_id = decided(scene)
    before = ticks.explain_decision(scene.app.store, tick_id, _MACHINE)
    scene.session.run(change)
    after = ticks.explain_decision(scene.app.store, tick_id, _MACHINE)
    assert (after.differences, after.explanation) == ((), before.explanation)
    assert len(after.machine.benchmarks) == 2


def test_decisions_of_the_same_benchmarks_name_the_same_version(scene: Scene) -> None:
    """R3.2: what does not change is stored once, however often it is decided on."""
    scene.session.run("update smart_schedule_policy_groups set execution_mode = 'shadow'")
    first = decided(scene)
    scene.session.run(f"{_CHANGED} where machine_id = {_MACHINE}")
    scene.due()
    scene.report()
    second = decided(scene)
    named = {
        tick_id: dict(
            scene.rows(
                f"select machine_id, benchmarks_version from smart_schedule_machine_decisions where tick_id = {tick_id}"
            )
        )
        for tick_id in (first, second)
    }
    assert {each for each in named[first] if named[first][each] != named[second][each]} == {_MACHINE}
    assert versions(scene) == 7
    assert scene.rows(_CURRENT) == [[machine_id, True] for machine_id in range(1, 7)]
    assert (
        scene.value("select count(distinct octet_length(figures)) from smart_schedule_machine_decisions") == 1
    )


def test_a_machine_without_benchmarks_names_none(scene: Scene) -> None:
    """R3.2: there is nothing to keep of a machine that nobody ever measured, and its decision is explained all the same."""
    scene.session.run("truncate smart_schedule_machine_project_benchmarks")
    tick_id = decided(scene)
    assert scene.value("select count(benchmarks_version) from smart_schedule_machine_decisions") == 0
    found = ticks.explain_decision(scene.app.store, tick_id, _MACHINE)
    assert (found.differences, found.machine.benchmarks) == ((), ())


def test_decisions_that_have_the_whole_record_are_read_as_before(scene: Scene) -> None:
    """R3.2, R4.5: those of an earlier version of this program, which name no version, are explained and reported on.

    Their inputs are of another layout, so that the earlier program does not take a head for a whole record.
    """
    tick_id = decided(scene)
    before = ticks.explain_decision(scene.app.store, tick_id, _MACHINE)
    replayed = report(scene.app.store, 1, days=1 / 24).replayed
    assert scene.value("select inputs ->> 'layout' from smart_schedule_ticks") == "2"
    scene.session.run(_WHOLE)
    after = ticks.explain_decision(scene.app.store, tick_id, _MACHINE)
    assert (after.differences, after.explanation) == ((), before.explanation)
    again = report(scene.app.store, 1, days=1 / 24).replayed
    assert (again.machines, again.moves) == (replayed.machines, replayed.moves) == (6, {"switch": 6})


def test_a_version_is_dropped_once_no_decision_can_name_it(scene: Scene) -> None:
    """R11.1: superseded benchmarks go two days after the decisions of their time; what is in force never does."""
    decided(scene)
    scene.session.run(f"{_CHANGED} where machine_id = {_MACHINE}")
    scene.forward(91 * _DAY_SEC)
    scene.reconcile()
    assert versions(scene) == 7
    scene.forward(2 * _DAY_SEC)
    scene.reconcile()
    assert versions(scene) == 6
    assert scene.rows(_CURRENT) == [[machine_id, True] for machine_id in range(1, 7)]


@pytest.mark.parametrize(
    "gone",
    [
        f"update machines set tenant_id = '{RIVAL}' where id = {_MACHINE}",
        f"delete from machines where id = {_MACHINE}",
    ],
    ids=["to another tenant", "for good"],
)
def test_the_past_stays_when_a_machine_goes(scene: Scene, gone: str) -> None:
    """R3.2, R4.5, R8.9: who decided on a machine is shown what it was decided on; what is measured later is not theirs."""
    tick_id = decided(scene)
    mine, theirs = (scene.app.store.of_tenant(name) for name in (ACME, RIVAL))
    before = ticks.explain_decision(mine, tick_id, _MACHINE, tenant_id=ACME)
    scene.session.run(gone)
    scene.session.run(f"{_CHANGED} where machine_id = {_MACHINE}")
    after = ticks.explain_decision(mine, tick_id, _MACHINE, tenant_id=ACME)
    assert (after.differences, after.explanation) == ((), before.explanation)
    with pytest.raises(ticks.UnknownDecision):
        ticks.explain_decision(theirs, tick_id, _MACHINE, tenant_id=RIVAL)
    with mine.transaction() as tx:
        (row,) = tx._session.query_text(
            "select count(*) filter (where superseded_at is null) as later from smart_schedule_benchmark_versions"
            " where machine_id = :machine_id",
            machine_id=_MACHINE,
        )
    assert row["later"] == 0
    scene.forward(600)
    replayed = report(mine, 1, days=1 / 24, tenant_id=ACME).replayed
    assert replayed.machines == 6
    assert "unreadable" not in replayed.unknown_hours
