"""Where a policy stands: how far it goes, what it froze for, its newest tick, and what it has under way (R9.1)."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from blsflow.flow.control import UnknownPolicy

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from blsflow.ports.store import Store, Transaction


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenFreeze:
    """What a policy is frozen for, with the figures that crossed their limit."""

    cause: str
    detail: Mapping[str, Any]
    frozen_by: str
    frozen_at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class NewestTick:
    """A policy's newest stored tick; ``failure`` is why it had nothing usable to decide on."""

    tick_id: int
    ticked_at: datetime
    machines: int
    counts: Mapping[str, int]
    failure: str | None
    gain_cny_per_day: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Lease:
    """Which system may act for the tenant; ``held`` if it is this one, now."""

    holder: str | None
    expires_at: datetime | None
    held: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class SamplingCost:
    """How many benchmark runs a policy had, and what they took from its machines' own work.

    ``lost_cny`` is the sum over runs whose machine's net was known; ``unpriced`` is how many lost time beside these.
    """

    succeeded: int = 0
    failed: int = 0
    open: int = 0
    lost_minutes: float = 0.0
    lost_cny: float = 0.0
    unpriced: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class PolicyStatus:
    """Where a policy that is not archived stands.

    ``consecutive_failures`` counts failed ticks in a row (R6.4), ``tariff_problems`` are those of the newest tick.
    ``live_locks`` are machines that its batches and benchmark runs hold.
    """

    policy_id: int
    tenant_id: str
    name: str
    version: int
    mode: str
    execution_mode: str
    enabled: bool
    freeze: OpenFreeze | None
    consecutive_failures: int
    tariff_problems: tuple[str, ...]
    newest_tick: NewestTick | None
    open_attempts: int
    live_locks: int
    lease: Lease
    next_run_at: datetime | None
    schedule_broken: str | None
    sampling: SamplingCost


def policy_status(store: Store, policy_id: int, *, tenant_id: str | None = None) -> PolicyStatus:
    """Return where a policy stands; one that is archived stands nowhere."""
    with store.transaction() as tx:
        return policy_status_in(tx, policy_id, tenant_id=tenant_id)


def policy_status_in(tx: Transaction, policy_id: int, *, tenant_id: str | None) -> PolicyStatus:
    """Do as `policy_status` in a transaction that reads more."""
    rows = tx.policy_status(policy_id=policy_id, tenant_id=tenant_id)
    if not rows:
        raise UnknownPolicy(policy_id)
    costs = tx.benchmark_costs(policy_id=policy_id)
    return _status(rows[0], _sampling(costs[0]) if costs else SamplingCost())


def _sampling(row: Mapping[str, Any]) -> SamplingCost:
    return SamplingCost(**{field.name: row[field.name] for field in fields(SamplingCost)})


def _status(row: Mapping[str, Any], sampling: SamplingCost) -> PolicyStatus:
    frozen = row["frozen_for"] is not None
    return PolicyStatus(
        policy_id=row["id"],
        tenant_id=row["tenant_id"],
        name=row["name"],
        version=row["version"],
        mode=row["mode"],
        execution_mode=row["execution_mode"],
        enabled=row["enabled"],
        freeze=OpenFreeze(
            cause=row["frozen_for"],
            detail=row["freeze_detail"],
            frozen_by=row["frozen_by"],
            frozen_at=row["frozen_at"],
        )
        if frozen
        else None,
        consecutive_failures=row["consecutive_failures"],
        tariff_problems=tuple(row["tariff_problems"]),
        newest_tick=None
        if row["tick_id"] is None
        else NewestTick(
            **{
                name: row[name]
                for name in ("tick_id", "ticked_at", "machines", "counts", "failure", "gain_cny_per_day")
            }
        ),
        open_attempts=row["open_attempts"],
        live_locks=row["live_locks"],
        lease=Lease(holder=row["lease_holder"], expires_at=row["lease_expires_at"], held=row["lease_held"]),
        next_run_at=row["next_run_at"],
        schedule_broken=row["broken"],
        sampling=sampling,
    )
