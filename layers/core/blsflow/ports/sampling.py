"""Sampling: which benchmark runs are to begin or to be rescued, who asked for them, and the service that runs them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime, timedelta
    from uuid import UUID

    from blsflow.domain.sampling import PendingRun, Room


@dataclass(frozen=True, kw_only=True, slots=True)
class ClaimedRun:
    """A run that is to be handed to the state machine under this name."""

    run_id: UUID
    execution: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RunAtWork:
    """A run under way. ``noted``: the state machine is known to have taken it; ``commanded``: a command's end is open."""

    run_id: UUID
    execution: str
    noted: bool
    commanded: bool
    restoring: bool
    progressed_at: datetime
    rescues: int
    alerted: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class RequestedBenchmark:
    """A run that an operator asked for, where it stands, and the policy within whose limits it is carried out.

    ``waits_for``: what keeps that policy from beginning any run, by the codes of readiness and `sampling_off`.
    """

    run_id: UUID
    state: str
    policy_id: int | None = None
    waits_for: tuple[str, ...] = ()


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


class ExecutionStatus(StrEnum):
    """Where an execution of the state machine stands; UNKNOWN: there is none of that name."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


class Workflow(Protocol):
    """The state machine that carries benchmark runs out; each method raises `WorkflowUnavailable` if it cannot be asked."""

    def start(self, name: str, document: Mapping[str, object]) -> None:
        """Begin an execution; one of that name that exists already is left as it is."""

    def status(self, name: str) -> ExecutionStatus:
        """Say where an execution stands."""

    def stop(self, name: str, cause: str) -> None:
        """End an execution; one that has ended already is left as it is."""


class SamplingTransaction(Protocol):
    """The part of a transaction that choosing, rescuing and listing runs needs."""

    # beginning
    def startable_benchmarks(self, holder: str, limit: int) -> Sequence[PendingRun]:
        """Return pending runs that nothing keeps from beginning but caps; none while somebody else is choosing."""

    def benchmark_rooms(self, policy_ids: Sequence[int]) -> Mapping[int, Room]:
        """Return each policy's caps."""

    def machines_under_benchmark(self) -> frozenset[int]:
        """Return the machines that a run works on."""

    def claim_benchmarks(self, run_ids: Sequence[UUID]) -> Sequence[ClaimedRun]:
        """Mark runs as under way, with the names of their executions."""

    def note_execution(self, claimed: ClaimedRun) -> None:
        """Note that the state machine has taken a run."""

    def drop_unwanted_benchmarks(self) -> int:
        """Cancel pending runs that nothing asks for any more."""

    # rescue
    def benchmark_runs_at_work(self, quiet_for: timedelta, limit: int) -> Sequence[RunAtWork]:
        """Return runs under way that made no step for so long, the quietest first."""

    def rescue_benchmark(self, run: RunAtWork, reason: str) -> ClaimedRun | None:
        """Hand a run to a new execution that only puts the machine back; None if somebody else did."""

    def alert_benchmark(self, run_id: UUID) -> None:
        """Tell people, once, that a machine could not be put back so far."""

    # drift
    def watch_drift(self, tolerance: float, keep: int) -> Sequence[tuple[int, int, float, Sequence[float]]]:
        """Keep readings that differ from benchmarks; return machine, project, benchmark and readings (oldest first)."""

    def request_drifted(self, pairs: Sequence[tuple[int, int]], ask_again_after: timedelta) -> int:
        """Ask for new benchmarks of these pairs; return how many are new."""

    # operators
    def covers_machine(self, policy_id: int, machine_id: int, *, tenant_id: str | None) -> bool | None:
        """Whether a policy's scope has a machine; None if they are not of one tenant."""

    def request_benchmark_by_hand(
        self, policy_id: int, machine_id: int, project_id: int, *, by: str, tenant_id: str | None
    ) -> RequestedBenchmark | None:
        """Ask for a run before all others; None if policy, machine or project are not of one tenant."""

    def list_benchmark_runs(
        self, *, policy_id: int | None, open_only: bool, limit: int
    ) -> Sequence[Mapping[str, Any]]:
        """Return runs, open ones first, then the newest."""

    def benchmark_costs(self, *, policy_id: int | None) -> Sequence[Mapping[str, Any]]:
        """Return what sampling has cost each policy."""

    def sampling_cost(self, policy_id: int, *, tenant_id: str) -> SamplingCost:
        """Return what sampling has cost one policy."""
