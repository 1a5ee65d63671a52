"""A fleet in memory: what each machine mines, hashes and draws at any moment, and how it follows commands.

Nothing runs between questions: a machine's state follows from its last command and the time since. A command
is followed over `ramp_sec`::

    switch, start   0 - 40 %    the old project's hashing has ended, idle draw
                    40 - 100 %  restarted on the new project, hashrate and draw rise to the full
    stop                        hashrate and draw fall to the idle draw
    power off                   silent at once, while the draw falls to the meter's residue

Readings carry a seeded noise of about one per cent.
"""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Status = Literal["mining", "stopped", "off"]
Command = Literal["switch", "start", "stop", "power_off"]

RESTART_SHARE = 0.4
IDLE_POWER_SHARE = 0.015
OFF_POWER_W = 2.0
NOISE = 0.008


@dataclass(frozen=True, kw_only=True, slots=True)
class SimulatedMachine:
    """How a machine is when the simulation begins. A silent one mines on but is never heard of."""

    machine_id: int
    hashrate_hs: float
    power_w: float
    status: Status = "mining"
    project_id: int | None = None
    project_since: datetime | None = None
    silent: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """What a machine reports and its meter shows. A machine that is off reports no hashrate."""

    machine_id: int
    status: Status
    project_id: int | None
    hashrate_hs: float | None
    power_w: float
    project_since: datetime | None


@dataclass(slots=True)
class _State:
    machine: SimulatedMachine
    status: Status
    project_id: int | None
    since: datetime | None
    before: _Before
    changed_at: datetime


@dataclass(frozen=True, slots=True)
class _Before:
    """What the machine did when its last command came."""

    project_id: int | None
    since: datetime | None
    share: float


def utc_now() -> datetime:
    """Return the time of this computer."""
    return datetime.now(UTC)


class World:
    """The fleet. Safe to use from many threads."""

    def __init__(
        self,
        machines: Iterable[SimulatedMachine],
        *,
        ramp_sec: float = 20.0,
        seed: int = 1,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self.ramp_sec = ramp_sec
        self.now = now
        self._lock = threading.Lock()
        self._noise = random.Random(seed)  # noqa: S311 - made-up figures
        long_ago = now() - timedelta(days=1)
        self._states = {
            machine.machine_id: _State(
                machine=machine,
                status=machine.status,
                project_id=machine.project_id if machine.status == "mining" else None,
                since=machine.project_since if machine.status == "mining" else None,
                before=_Before(None, None, 0.0),
                changed_at=long_ago,
            )
            for machine in machines
        }

    def __contains__(self, machine_id: int) -> bool:
        return machine_id in self._states

    def is_silent(self, machine_id: int) -> bool:
        """Whether nobody can reach the machine."""
        return self._states[machine_id].machine.silent

    def command(self, machine_id: int, command: Command, project_id: int | None = None) -> None:
        """Have a machine follow a command from now on, whatever it does now."""
        with self._lock:
            state = self._states[machine_id]
            at = self.now()
            project_before, since_before, _, share = self._follow(state, at)
            state.before = _Before(project_before, since_before, share)
            state.changed_at = at
            if command in {"switch", "start"}:
                state.status, state.project_id = "mining", project_id
                state.since = at + timedelta(seconds=self.ramp_sec * RESTART_SHARE)
            else:
                state.status = "stopped" if command == "stop" else "off"
                state.project_id = state.since = None

    def reading(self, machine_id: int) -> Reading:
        """Read one machine now."""
        with self._lock:
            return self._read(self._states[machine_id], self.now())

    def readings(self) -> list[Reading]:
        """Read all machines that can be heard, at one moment, ordered by machine."""
        with self._lock:
            at = self.now()
            return [self._read(s, at) for _, s in sorted(self._states.items()) if not s.machine.silent]

    def _read(self, state: _State, at: datetime) -> Reading:
        project_id, since, status, share = self._follow(state, at)
        machine = state.machine
        idle_w = OFF_POWER_W if status == "off" else machine.power_w * IDLE_POWER_SHARE
        return Reading(
            machine_id=machine.machine_id,
            status=status,
            project_id=project_id,
            hashrate_hs=None if status == "off" else machine.hashrate_hs * share * self._noisy(),
            power_w=(idle_w + (machine.power_w - idle_w) * share) * self._noisy(),
            project_since=since,
        )

    def _follow(self, state: _State, at: datetime) -> tuple[int | None, datetime | None, Status, float]:
        """Return project, since when, status, and the share of full hashrate that the machine has reached."""
        done = min(1.0, (at - state.changed_at).total_seconds() / self.ramp_sec) if self.ramp_sec else 1.0
        if state.status != "mining":
            share = state.before.share * (1 - done)
            return (state.before.project_id if share else None), None, state.status, share
        if done < RESTART_SHARE:
            return state.before.project_id, state.before.since, "mining", 0.0
        share = (done - RESTART_SHARE) / (1 - RESTART_SHARE)
        return state.project_id, state.since, "mining", share

    def _noisy(self) -> float:
        return max(0.9, self._noise.gauss(1.0, NOISE))
