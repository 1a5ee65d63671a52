"""What ticks left behind: themselves, their decisions, and what those came from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from typing import TypeAlias
    from uuid import UUID

    TickPlace: TypeAlias = tuple[datetime, int]
    """A tick's place among others: its time, and its id."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TickRow:
    """A tick as lists show it. ``counts`` is by "action/reason", over ``machines``; ``failure`` why it had nothing usable."""

    tick_id: int
    tenant_id: str
    policy_id: int
    policy_version: int
    occurrence_id: int
    execution_mode: str
    ticked_at: datetime
    valid_until: datetime
    failure: str | None
    machines: int
    counts: Mapping[str, int]
    gain_cny_per_day: float
    took_ms: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredTick:
    """A tick with all that its machines shared, as `domain.stored_inputs` wrote it."""

    tick: TickRow
    inputs: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class DecisionRow:
    """A decision; nets in CNY per day, None if unknown. ``proposed`` is what the figures alone asked for."""

    tick_id: int
    ticked_at: datetime
    machine_id: int
    action: str
    reason: str
    proposed: str
    from_project: int | None
    to_project: int | None
    run_config_id: int | None
    current_net_cny_per_day: float | None
    best_net_cny_per_day: float | None
    overridden_by: int | None
    attempt_id: UUID | None
    job_id: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class DecisionFilter:
    """Which decisions of a tick; None leaves a filter out."""

    action: str | None = None
    reason: str | None = None
    machine_id: int | None = None


class TickTransaction(Protocol):
    """What a transaction reads of ticks. A ``tenant_id`` of None is an operator of the whole deployment."""

    def ticks(
        self, policy_id: int, *, tenant_id: str | None, before: TickPlace, limit: int
    ) -> Sequence[TickRow]:
        """Return a page of a policy's ticks, newest first; ``before`` is a time and an id."""

    def tick(self, tick_id: int, *, tenant_id: str | None) -> TickRow | None:
        """Return a tick; None if there is no such tick."""

    def stored_tick(self, tick_id: int, *, tenant_id: str | None) -> StoredTick | None:
        """Return a tick with its inputs; None if there is no such tick."""

    def decisions_of_tick(
        self, tick: TickRow, only: DecisionFilter, *, after: int, limit: int
    ) -> Sequence[DecisionRow]:
        """Return a page of a tick's decisions, in order of their machines."""

    def tenant_of_machine(self, machine_id: int, *, tenant_id: str | None) -> str | None:
        """Return whose machine it is; None if there is no such machine."""

    def decisions_of_machine(
        self, machine_id: int, *, tenant_id: str, before: TickPlace, limit: int
    ) -> tuple[Sequence[DecisionRow], TickPlace | None]:
        """Return a page of one machine's decisions by a tenant's ticks, newest first, and where the next page goes on.

        So many ticks are looked at; where that ends a page, it is short, or empty, and yet has a next one. It is read in a
        snapshot: the rows and the end of what was looked at are of one moment.
        """

    def stored_decision(
        self, tick_id: int, machine_id: int, *, tenant_id: str | None
    ) -> Mapping[str, Any] | None:
        """Return a decision with the inputs that it came from; None if the tick had none for the machine."""
