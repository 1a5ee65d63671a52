"""What every step is given, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from blsflow.domain.benchmarking import Criteria

if TYPE_CHECKING:
    from uuid import UUID

    from blsflow.domain.gates import Gates
    from blsflow.domain.settle import Limits
    from blsflow.ports.services import DeviceControl
    from blsflow.ports.store import Store

SUPERSEDED: Final = "superseded"
"""The run has ended, or another execution carries it out: this one has nothing left to do."""
COMMAND_VALIDITY: Final = timedelta(seconds=120)
"""A command that was prepared and not sent by then is not sent any more."""
MAX_RESTORES: Final = 5
"""Commands to put a machine back; after the last one people are told."""
_READINGS_PER_WINDOW: Final = 20
_SLOWEST: Final = timedelta(seconds=15)
_FASTEST: Final = timedelta(seconds=1)


@dataclass(frozen=True, kw_only=True, slots=True)
class BenchmarkSettings:
    """Durations of a run, when a sample counts, and what bounds its commands."""

    warm_up: timedelta
    window: timedelta
    lock_ttl: timedelta
    request_timeout: timedelta
    limits: Limits
    gates: Gates
    criteria: Criteria = field(default_factory=Criteria)

    @property
    def between_readings(self) -> timedelta:
        """How long to wait for the next reading; reports come when they come, and each is kept once."""
        return min(_SLOWEST, max(_FASTEST, self.window / _READINGS_PER_WINDOW))


@dataclass(frozen=True, kw_only=True, slots=True)
class StepCall:
    """One call of a step: for which run, in the name of which execution, on what."""

    store: Store
    run_id: UUID
    execution: str
    device_control: DeviceControl | None
    settings: BenchmarkSettings


@dataclass(frozen=True, kw_only=True, slots=True)
class StepOutcome:
    """What a step came to, and how long the state machine waits if it waits then, in whole seconds.

    ``not_restored``: the run ended, and its machine could not be put back.
    """

    outcome: str
    wait_sec: int = 0
    machine_id: int | None = None
    detail: str = ""
    not_restored: bool = False
