"""Policies in people's hands: their documents, where they stand, and what they have to work with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    from blsflow.domain.inputs import TickInputs
    from blsflow.domain.policy_document import PolicyDocument
    from blsflow.ports.decide import BegunTick


@dataclass(frozen=True, kw_only=True, slots=True)
class PolicyVersion:
    """A policy as it was written; ``version`` is what a change must name."""

    policy_id: int
    version: int


@dataclass(frozen=True, kw_only=True, slots=True)
class PolicyView:
    """A policy as it is stored: its document, and what verbs made of it.

    ``scope_count`` is how many entries its scope has; in lists, which may be long, the document itself is without it.
    ``frozen_for`` is the cause of its open freeze. ``next_run_at`` is None while no run is ahead; ``schedule_broken`` says
    why its rule cannot be read.
    """

    policy_id: int
    tenant_id: str
    version: int
    document: Mapping[str, Any]
    scope_count: int
    enabled: bool
    execution_mode: str
    frozen_for: str | None
    next_run_at: datetime | None
    schedule_broken: str | None
    created_by: str
    created_at: datetime
    updated_at: datetime
    archived_at: datetime | None


@dataclass(frozen=True, kw_only=True, slots=True)
class UnknownReferences:
    """What a document names and the tenant does not have."""

    clusters: frozenset[str]
    models: frozenset[str]
    machines: frozenset[str]
    projects: frozenset[int]


@dataclass(frozen=True, kw_only=True, slots=True)
class FreezeRow:
    """A freeze: why, with which figures, by whom; lifted by whom and why, or open."""

    freeze_id: int
    cause: str
    detail: Mapping[str, Any]
    frozen_at: datetime
    frozen_by: str
    lifted_at: datetime | None
    lifted_by: str | None
    lift_reason: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class CandidateCoverage:
    """How the machines of a policy stand to one candidate.

    The last five count eligible machines with a run configuration only, by the state of their benchmark; ``shared`` are
    those of the valid ones that were measured on another machine.
    """

    project_id: int
    machines: int
    eligible: int
    runnable: int
    valid: int
    missing: int
    expired: int
    invalid: int
    shared: int


@dataclass(frozen=True, kw_only=True, slots=True)
class MachineReports:
    """How many machines a policy covers, and how many of them a tick would find wanting.

    ``reports_stale`` are offline to a tick (R2.4). The last three count machines without an eligible candidate, without one
    that is also runnable, and with a runnable one but no valid benchmark of any.
    """

    machines: int
    reports_stale: int
    power_missing: int
    held: int
    locked: int
    without_eligible: int
    without_runnable: int
    without_benchmark: int


class PolicyTransaction(Protocol):
    """What a transaction does with policies. A ``tenant_id`` of None is an operator of the whole deployment."""

    def unknown_references(self, document: PolicyDocument, *, tenant_id: str) -> UnknownReferences:
        """Return what the document names and the tenant does not have."""

    def insert_policy(
        self, document: PolicyDocument, *, tenant_id: str, execution_mode: str, by: str
    ) -> PolicyVersion:
        """Store a new policy, disabled, with its schedule at rest, on the record."""

    def lock_policy(self, policy_id: int, *, tenant_id: str | None) -> PolicyView | None:
        """Return a policy under its row lock; None if there is no such policy, or it is archived."""

    def replace_policy(
        self, stored: PolicyView, document: PolicyDocument, *, changed: Sequence[str], by: str
    ) -> PolicyVersion:
        """Write a locked policy anew, on the record; candidates that stay keep their price levels."""

    def archive_policy(self, stored: PolicyView, *, by: str, why: str) -> None:
        """Take a locked policy out of use, on the record: nothing that it prepared is sent any more."""

    def unsent_attempts_of_policy(self, policy_id: int) -> Mapping[int | None, Sequence[UUID]]:
        """Return what the policy's ticks prepared and nobody began to send, locked, by occurrence."""

    def policy_view(self, policy_id: int, *, tenant_id: str | None) -> PolicyView | None:
        """Return a policy, archived ones too; None if there is no such policy."""

    def list_policies(
        self, *, tenant_id: str, after: int, limit: int, include_archived: bool
    ) -> Sequence[PolicyView]:
        """Return a page of a tenant's policies, in order of their ids."""

    def policy_status(
        self, *, policy_id: int | None = None, tenant_id: str | None = None
    ) -> Sequence[Mapping[str, Any]]:
        """Return where every policy that is not archived, or one, stands."""

    def freezes(
        self, policy_id: int, *, tenant_id: str | None, before: tuple[datetime, int], limit: int
    ) -> Sequence[FreezeRow]:
        """Return a page of a policy's freezes, newest first; ``before`` is a time and an id."""

    def tick_at_rest(self, policy_id: int, *, tenant_id: str | None) -> BegunTick | None:
        """Return a policy as a tick would read it now, without lock or trace; None if there is no such policy."""

    def coverage(
        self, begun: BegunTick, inputs: TickInputs
    ) -> tuple[Sequence[CandidateCoverage], MachineReports]:
        """Count, over all machines in scope, what a tick would find of reports, eligibility and benchmarks."""
