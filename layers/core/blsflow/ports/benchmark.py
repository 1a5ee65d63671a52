"""A benchmark run as its steps see it: its rows, and their part of a transaction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime, timedelta
    from uuid import UUID

    from blsflow.domain.benchmarking import Judgement, Measured, Peers, SampleReading
    from blsflow.domain.execution import CommandKind
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
class ModelFigures:
    """How many machines of a model were measured themselves, and their medians."""

    machines: int
    measured: Measured | None
    power_estimated: bool


class BenchmarkTransaction(Protocol):
    """The part of a transaction that the steps of a run need."""

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
