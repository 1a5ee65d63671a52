"""Where a policy stands: how far it goes, what it froze for, its newest tick, and what it has under way (R9.1)."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from blsflow.flow.control import UnknownPolicy

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from blsflow.ports.sampling import SamplingCost
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
class Standing:
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


@dataclass(frozen=True, kw_only=True, slots=True)
class PolicyStatus(Standing):
    """Where a policy stands, and what its sampling has cost so far."""

    sampling: SamplingCost


def policy_status(store: Store, policy_id: int, *, tenant_id: str | None = None) -> PolicyStatus:
    """Return where a policy stands; one that is archived stands nowhere."""
    with store.transaction() as tx:
        standing = standing_in(tx, policy_id, tenant_id=tenant_id)
        sampling = tx.sampling_cost(policy_id, tenant_id=standing.tenant_id)
    told = {field.name: getattr(standing, field.name) for field in fields(standing)}
    return PolicyStatus(**told, sampling=sampling)


def standing_in(tx: Transaction, policy_id: int, *, tenant_id: str | None) -> Standing:
    """Return where a policy stands, in a transaction that reads more."""
    rows = tx.policy_status(policy_id=policy_id, tenant_id=tenant_id)
    if not rows:
        raise UnknownPolicy(policy_id)
    return _standing(rows[0])


def _standing(row: Mapping[str, Any]) -> Standing:
    frozen = row["frozen_for"] is not None
    return Standing(
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
    )
