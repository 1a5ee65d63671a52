"""Benchmark runs as the use cases see them: their rows, their part of a transaction, and the service that runs them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime, timedelta
    from uuid import UUID

    from blsflow.domain.benchmarking import Judgement, Measured, Peers, SampleReading
    from blsflow.domain.execution import CommandKind
    from blsflow.domain.sampling import PendingRun, Room
    from blsflow.domain.settle import OpenAttempt


@dataclass(frozen=True, kw_only=True, slots=True)
class BenchmarkRun:
    """A run that the calling execution carries out; its row is locked until the transaction ends.

    ``measuring_from`` is since when the machine is confirmed to run the project, ``moved_at`` when the first command that may
    have reached it went out.
    """

    run_id: UUID
    tenant_id: str
    policy_id: int | None
    machine_id: int
    project_id: int
    attempt_no: int
    fencing_token: int | None
    run_config_id: int | None
    restore_action: CommandKind | None
    restore_project_id: int | None
    restore_run_config_id: int | None
    restore_tries: int
    measuring_from: datetime | None
    outcome: str | None
    moved_at: datetime | None
    current_net_cny_per_day: float | None
    result: Mapping[str, Any]
    report_max_age_sec: int
    benchmark_ttl_sec: int
    share_after: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Prospect:
    """What a run's machine does now, and with which run configurations it would go there and come back."""

    status: str
    runs_project: int | None
    project_since: datetime | None
    run_config_id: int
    back_run_config_id: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class WayBack:
    """The command that puts the machine back on what it did before; None stands for nothing to undo."""

    action: CommandKind
    project_id: int | None = None
    run_config_id: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class BenchmarkCommand:
    """One command of a run, and what became of its machine in it."""

    attempt_id: UUID
    step: str
    state: str
    reason: str | None
    machine_state: str
    dispatched_at: datetime | None
    ended: bool

    @property
    def may_have_moved(self) -> bool:
        """Whether the machine may have followed it: it went out, and the service did not say that it took nothing."""
        return self.dispatched_at is not None and self.machine_state not in {"refused", "dropped"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Whereabouts:
    """What the machine reports since the run's last command; without a fresh report nothing is known."""

    operator_hold: bool
    fresh: bool
    status: str | None
    project_id: int | None


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
class ModelFigures:
    """How many machines of a model were measured themselves, and their medians."""

    machines: int
    measured: Measured | None
    power_estimated: bool


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
    """The part of a transaction that benchmark runs need."""

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

    # steps
    def begin_benchmark_step(self, run_id: UUID, execution: str, step: str) -> BenchmarkRun | None:
        """Lock the run and note the step; None if it has ended or another execution carries it out."""

    def benchmark_prospect(self, run_id: UUID, holder: str) -> Prospect | None:
        """Return what the run's machine does; None if anything keeps the run from beginning."""

    def take_benchmark_lock(
        self,
        run_id: UUID,
        *,
        run_config_id: int,
        way_back: WayBack | None,
        measuring_from: datetime | None,
        lock_ttl: timedelta,
    ) -> int | None:
        """Take the machine's lock and remember the way back; None if somebody holds it."""

    def postpone_benchmark(self, run_id: UUID, reason: str) -> None:
        """Put a run that touched nothing back among the pending ones."""

    def prepare_benchmark_command(
        self, run: BenchmarkRun, command: WayBack, *, step: str, key: str, validity: timedelta
    ) -> UUID:
        """Prepare a command under the run's lock, or return the one that the key stands for already."""

    def benchmark_commands(self, run_id: UUID) -> Sequence[BenchmarkCommand]:
        """Return the run's commands, newest first."""

    def claim_benchmark_attempt(self, run_id: UUID, lease: timedelta) -> OpenAttempt | None:
        """Claim the run's open command for a look, if it is due and nobody else looks."""

    def note_benchmark(
        self,
        run_id: UUID,
        *,
        moved_at: datetime | None = None,
        measuring_from: datetime | None = None,
        failed_for: str | None = None,
    ) -> None:
        """Keep what a step learnt; what is known already stays, and so does an outcome."""

    def add_benchmark_reading(self, run_id: UUID) -> int | None:
        """Keep the machine's newest report on the project, once; return how many there are, None if it is nothing new."""

    def benchmark_sample(self, run: BenchmarkRun) -> tuple[Sequence[SampleReading], Peers]:
        """Return the run's readings and what they are held against."""

    def record_judgement(self, run_id: UUID, judgement: Judgement) -> None:
        """Keep what a sample came to; the first judgement stands."""

    def take_turn_to_share(self, run_id: UUID) -> None:
        """Wait until no other run of the model is storing and sharing; held until the transaction ends."""

    def store_benchmark(self, run_id: UUID) -> None:
        """Store the measured figures as the machine's own benchmark."""

    def model_figures(self, run: BenchmarkRun) -> ModelFigures:
        """Return the model's own measurements on the project."""

    def machines_without_own(self, run_id: UUID) -> Sequence[int]:
        """Return the model's machines that were never measured themselves on the project."""

    def share_benchmark(self, run_id: UUID, figures: ModelFigures, sampled_at: Mapping[int, datetime]) -> int:
        """Give figures to machines that have none of their own, each with its sampling time; return to how many."""

    def whereabouts(self, run: BenchmarkRun) -> Whereabouts:
        """Return what the machine does since the run's last command."""

    def end_benchmark(
        self,
        run_id: UUID,
        *,
        restore_status: str,
        lost_minutes: float,
        lost_cny: float | None,
        retry_after: timedelta | None,
    ) -> str:
        """End the run, free its lock, plan the next try or tell people that there is none; return its final state."""

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
