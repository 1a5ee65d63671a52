"""The simulated fleet, its telemetry and its price feeds behave like what they stand for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from blsflow.domain.confirmation import Confirmed, Contradicted, Observed, confirm
from blsflow.domain.execution import CommandKind
from local.simulators.world import Reading, SimulatedMachine, World

BEGIN = datetime(2026, 3, 1, tzinfo=UTC)
OLD, NEW = 1, 2


class Clock:
    """A clock that tests move."""

    def __init__(self) -> None:
        self.at = BEGIN

    def __call__(self) -> datetime:
        """Tell the time."""
        return self.at

    def after(self, seconds: float) -> None:
        """Go to so many seconds after the beginning."""
        self.at = BEGIN + timedelta(seconds=seconds)


@pytest.fixture
def clock() -> Clock:
    """A clock at the beginning."""
    return Clock()


@pytest.fixture
def world(clock: Clock) -> World:
    """Three machines: one that mines, one that is off, one that is silent."""
    machines = [
        SimulatedMachine(machine_id=1, hashrate_hs=1e14, power_w=3000.0, project_id=OLD),
        SimulatedMachine(machine_id=2, hashrate_hs=1e14, power_w=3000.0, status="off"),
        SimulatedMachine(machine_id=3, hashrate_hs=1e14, power_w=3000.0, project_id=OLD, silent=True),
    ]
    return World(machines, ramp_sec=20.0, now=clock)


def observed(reading: Reading, at: datetime) -> Observed:
    """See a reading as the product does."""
    return Observed(
        project_id=reading.project_id,
        status=reading.status,
        hashrate_hs=reading.hashrate_hs,
        reported_at=at,
        power_w=reading.power_w,
        power_at=at,
        nameplate_power_w=3000.0,
    )


def judged(world: World, clock: Clock, kind: CommandKind, machine_id: int = 1) -> type:
    """Judge the machine now against a command that was sent at the beginning."""
    target = NEW if kind in (CommandKind.SWITCH, CommandKind.START) else None
    return type(
        confirm(
            kind,
            target,
            observed(world.reading(machine_id), clock.at),
            not_before=BEGIN,
            now=clock.at,
            report_max_age_sec=60,
        )
    )


@pytest.mark.parametrize("kind", list(CommandKind))
def test_a_command_is_contradicted_at_first_and_confirmed_after_the_ramp(
    world: World, clock: Clock, kind: CommandKind
) -> None:
    """R5.6: what a simulated machine reports on its way is told from what it reports in the end."""
    machine_id = 2 if kind is CommandKind.START else 1
    world.command(machine_id, kind.value, NEW if kind in (CommandKind.SWITCH, CommandKind.START) else None)
    clock.after(1)
    assert judged(world, clock, kind, machine_id) is Contradicted
    clock.after(21)
    assert judged(world, clock, kind, machine_id) is Confirmed


def test_a_switch_ends_the_old_project_before_the_new_one_starts(world: World, clock: Clock) -> None:
    """R5.6: between two projects a machine hashes on neither, and its time on the project starts anew (C06)."""
    world.command(1, "switch", NEW)
    clock.after(2)
    between = world.reading(1)
    assert (between.project_id, between.hashrate_hs) == (OLD, 0.0)
    assert between.power_w < 100
    clock.after(14)
    rising = world.reading(1)
    assert rising.project_id == NEW
    assert rising.hashrate_hs is not None
    assert 0.4e14 < rising.hashrate_hs < 0.6e14
    clock.after(60)
    assert world.reading(1).project_since == BEGIN + timedelta(seconds=8)


def test_a_machine_that_is_off_reports_no_hashrate(world: World) -> None:
    """R2.4: no report of a hashrate is not a hashrate of zero."""
    reading = world.reading(2)
    assert (reading.status, reading.hashrate_hs, reading.project_id) == ("off", None, None)
    assert reading.power_w < 20


def test_a_silent_machine_is_not_heard(world: World) -> None:
    """R2.4: a machine without a report is missing from the telemetry."""
    assert [reading.machine_id for reading in world.readings()] == [1, 2]


def test_the_same_seed_gives_the_same_readings(clock: Clock) -> None:
    """R11.4: a simulated run can be repeated."""
    machine = SimulatedMachine(machine_id=1, hashrate_hs=1e14, power_w=3000.0, project_id=OLD)
    one, two = (World([machine], seed=7, now=clock) for _ in range(2))
    assert [one.reading(1) for _ in range(5)] == [two.reading(1) for _ in range(5)]
    assert one.reading(1) != one.reading(1)
