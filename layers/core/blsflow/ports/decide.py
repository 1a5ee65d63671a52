"""What decide takes from the database and gives it: a tick that began, its attempts, and what it came to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    from blsflow.domain.policy import Policy
    from blsflow.domain.price_level import PriceLevel


@dataclass(frozen=True, kw_only=True, slots=True)
class BegunTick:
    """A policy's tick that has begun: its occurrence is locked and active in this transaction."""

    occurrence_id: int
    tick_id: int
    policy: Policy
    levels: Mapping[int, PriceLevel]
    ticked_at: datetime
    consecutive_failures: int
    tariff_problems: frozenset[str]
    lease_held: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class NewAttempt:
    """A batch that decide prepared: one action, project and run configuration, for some machines."""

    attempt_id: UUID
    key: str
    action: str
    project_id: int | None
    run_config_id: int | None
    machine_ids: Sequence[int]


@dataclass(frozen=True, kw_only=True, slots=True)
class LostRaces:
    """Machines whose lock somebody else took after they were decided: what they were to do, and the gain forgone."""

    action: str
    reason: str
    machines: int
    gain_cny_per_day: float


@dataclass(frozen=True, kw_only=True, slots=True)
class PreparedAttempts:
    """The attempts that won locks, with how many machines each, and the decisions that won none."""

    machines: Mapping[UUID, int]
    lost: tuple[LostRaces, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class TickResult:
    """What a tick concluded, written with its occurrence's end."""

    inputs: Mapping[str, object]
    failure: str | None
    consecutive_failures: int
    tariff_problems: frozenset[str]
    machines: int
    counts: Mapping[str, int]
    gain_cny_per_day: float
    valid_until: datetime
    levels: Mapping[int, PriceLevel]
    running: bool
