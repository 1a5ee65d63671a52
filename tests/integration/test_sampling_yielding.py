"""Which of several policies measures a machine, on real PostgreSQL: one that decides for it, by its own newest tick."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.integration.lab import SECOND_POLICY, Lab

if TYPE_CHECKING:
    from collections.abc import Iterator

    from blsflow.adapters.postgres.address import DatabaseAddress

ABOVE = SECOND_POLICY.format(mode="execute", priority=9)
WITHOUT_SAMPLING = "update smart_schedule_policy_groups set max_benchmarks = 0 where id = 2"
QUARTER_HOUR_SEC = 900


@pytest.fixture
def lab(database: DatabaseAddress) -> Iterator[Lab]:
    """A lab over twelve machines, none of them measured on coin B."""
    made = Lab(database, machines=12)
    made.scene.rows("delete from smart_schedule_machine_project_benchmarks where project_id = 2")
    yield made
    made.close()


def test_the_policy_that_decides_for_a_machine_measures_it_while_another_yields(lab: Lab) -> None:
    """R7.4, R3.6: the decisions of the policy that yields do not hold up the runs of the one it yields to."""
    lab.scene.rows(ABOVE)
    lab.ask()
    assert lab.scene.value("select count(*) from smart_schedule_machine_decisions where overridden_by = 2"), (
        "the first policy ticks, and yields"
    )
    assert lab.ask_by_hand(2).policy_id == 2
    assert lab.pass_().begun == 1
    assert lab.begun_machines() == [9]
    lab.states.run_all()
    assert lab.scene.rows(
        "select machine_id, policy_id from smart_schedule_benchmark_runs where state = 'succeeded'"
    ) == [[9, 2]]


@pytest.mark.parametrize("end", ["enabled = false", "archived_at = now()", "execution_mode = 'shadow'"])
def test_a_policy_that_yields_measures_nothing_however_seldom_it_ticks(lab: Lab, end: str) -> None:
    """R7.4, R3.6: what its newest tick found holds until the next one, unless the other policy moves nothing any more."""
    lab.ask()
    lab.scene.rows(ABOVE + WITHOUT_SAMPLING)
    lab.ask()
    assert lab.scene.rows("select distinct policy_id from smart_schedule_benchmark_runs") == [[1]]
    assert lab.pass_().begun == 0
    lab.scene.forward(QUARTER_HOUR_SEC)
    assert lab.pass_().begun == 0
    lab.scene.rows(f"update smart_schedule_policy_groups set {end} where id = 2")
    assert lab.pass_().begun == 1


def test_a_policy_that_yields_no_more_measures_at_once(lab: Lab) -> None:
    """R7.4: its newest tick says so, whatever the one before it said."""
    lab.ask()
    lab.scene.rows(ABOVE + WITHOUT_SAMPLING)
    lab.ask()
    assert lab.pass_().begun == 0
    assert lab.scene.rows("select distinct policy_id from smart_schedule_benchmark_runs") == [[1]]
    lab.scene.rows("update smart_schedule_policy_groups set priority = -9 where id = 2")
    lab.scene.forward(60)
    lab.ask()
    assert lab.pass_().begun == 1


@pytest.mark.parametrize("later_sec", [0, QUARTER_HOUR_SEC])
def test_a_wish_stays_with_the_policy_that_decides_for_the_machine(lab: Lab, later_sec: int) -> None:
    """R7.4: asked for under the policy that yields, a run that waits is not moved to where it could not begin."""
    lab.scene.rows(ABOVE)
    lab.ask()
    lab.scene.forward(later_sec)
    assert lab.ask_by_hand(1).policy_id == 2


def drifted(lab: Lab) -> list[list[object]]:
    """Have machine 1 drift where no run is open; return whose runs were asked for."""
    lab.scene.rows("delete from smart_schedule_benchmark_runs")
    lab.drift_to(1.28, 5)
    return lab.scene.rows(
        "select machine_id, policy_id from smart_schedule_benchmark_runs where origin = 'drift'"
    )


@pytest.mark.parametrize(
    "other",
    [
        SECOND_POLICY.format(mode="shadow", priority=9),
        ABOVE + WITHOUT_SAMPLING,
        ABOVE + "update smart_schedule_policy_groups set enabled = false where id = 2",
        SECOND_POLICY.format(mode="execute", priority=-9),
    ],
    ids=["a shadow", "yielded to", "disabled", "yields"],
)
def test_a_drift_is_asked_for_by_a_policy_that_can_begin_the_run(lab: Lab, other: str) -> None:
    """R7.2, R7.4: also where one that can not ticked last, and where the one that can yields to it."""
    lab.scene.rows(other)
    lab.ask()
    lab.scene.rows(
        "update smart_schedule_machine_decisions set ticked_at = ticked_at + interval '1 second'"
        " where tick_id in (select id from smart_schedule_ticks where policy_id = 2);"
        " update smart_schedule_ticks set ticked_at = ticked_at + interval '1 second' where policy_id = 2"
    )
    assert drifted(lab) == [[1, 1]]


def test_of_two_that_can_the_one_that_decided_for_the_machine_asks(lab: Lab) -> None:
    """R7.2, R3.6: the policy that yields would have to wait."""
    lab.scene.rows(ABOVE)
    lab.ask()
    assert drifted(lab) == [[1, 2]]


def test_a_drift_is_not_asked_for_by_a_policy_that_ticks_no_more(lab: Lab) -> None:
    """R7.2: no tick of it would ever repeat the wish; one that yields for the moment will."""
    lab.scene.rows(SECOND_POLICY.format(mode="execute", priority=-9))
    lab.ask()
    lab.scene.rows(
        "update smart_schedule_machine_decisions set ticked_at = ticked_at - interval '2 days'"
        " where tick_id in (select id from smart_schedule_ticks where policy_id = 1);"
        " update smart_schedule_ticks set ticked_at = ticked_at - interval '2 days' where policy_id = 1"
    )
    assert drifted(lab) == [[1, 2]]


def test_a_drift_is_asked_for_by_a_policy_that_covers_the_machine(lab: Lab) -> None:
    """R7.4: what decided on it yesterday and does not cover it today could not begin the run."""
    lab.scene.rows(SECOND_POLICY.format(mode="shadow", priority=9))
    lab.ask()
    lab.scene.rows(
        "update smart_schedule_policy_scopes set resource_type = 'machine', resource_id = '12' where policy_id = 1"
    )
    assert drifted(lab) == [[1, 2]]
    lab.scene.rows("delete from smart_schedule_policy_scopes where policy_id = 2")
    assert drifted(lab) == []
