"""The outside world as the use cases see it.

`Store` is the database: a transaction rolls back unless its block ends, and everything in it happens under one reading
of the database's clock (`Transaction.now`). The other ports are services: none raises for a fault of the other side
unless it says so.

Errors::

    BlsflowError
    ├── StoreError            the database refused or did not answer
    │   ├── StoreUnavailable  no connection, fail-over, time-out: the whole use case may be tried again later
    │   ├── StoreConflict     lost a race (serialization, deadlock, lock time-out): likewise
    │   └── InvariantBroken   a constraint said no: a fault of ours, never tried again
    ├── EnqueueFailed         a queue did not take the messages: the rows are found and enqueued again
    ├── PublishFailed         a notification did not go out: its row waits for the next try
    └── FeedUnavailable       no price snapshot this time (`domain.prices`)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from blsflow.domain.errors import BlsflowError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from datetime import datetime, timedelta
    from uuid import UUID

    from blsflow.domain.conversation import (
        CancelOutcome,
        ConversationCommand,
        RunAlert,
        RunReport,
        RunSettlement,
        StartOutcome,
    )
    from blsflow.domain.events import LogEvent, Notification
    from blsflow.domain.execution import BatchCommand, CommandKind, JobReport, MachineTarget, SubmitOutcome
    from blsflow.domain.freeze import Freeze
    from blsflow.domain.gates import Gates
    from blsflow.domain.history import HistoryQuery
    from blsflow.domain.inputs import Overriding, TickInputs
    from blsflow.domain.policy import Policy
    from blsflow.domain.price_level import PriceLevel
    from blsflow.domain.prices import ProfitSnapshot
    from blsflow.domain.recurrence_rules import Rule
    from blsflow.domain.scan import ScanPlan
    from blsflow.domain.settle import OpenAttempt, Settlement
    from blsflow.domain.verdict import Verdict


class StoreError(BlsflowError):
    """The database refused or did not answer; the transaction is rolled back."""

    retryable: ClassVar[bool] = False


class StoreUnavailable(StoreError):
    """No connection, a fail-over or a time-out."""

    retryable = True


class StoreConflict(StoreError):
    """A race was lost: serialization failure, deadlock or lock time-out."""

    retryable = True


class InvariantBroken(StoreError):
    """A constraint said no; ``constraint`` names it."""

    def __init__(self, message: str, *, constraint: str | None) -> None:
        super().__init__(message)
        self.constraint = constraint


class EnqueueFailed(BlsflowError):
    """A queue did not take all the messages."""


class PublishFailed(BlsflowError):
    """A notification did not go out."""


# ---------------------------------------------------------------- services


class ProfitFeed(Protocol):
    """A source of profit snapshots (R2.1)."""

    source: str

    def fetch(self) -> ProfitSnapshot:
        """Return the newest snapshot; raise `FeedUnavailable` when there is none to be had now."""


class DeviceControl(Protocol):
    """The device-control service: takes batches, reports on jobs (R5.2, R5.3)."""

    def submit(self, command: BatchCommand) -> SubmitOutcome:
        """Send once; never again whatever the answer."""

    def read_back(self, *, caller: str, key: str, job_id: str | None) -> JobReport:
        """Ask what became of a command, with the caller and key under which it was sent."""


class Queue(Protocol):
    """Where the next step's messages go; delivery is at least once, in any order."""

    def send(self, messages: Sequence[Mapping[str, object]]) -> None:
        """Enqueue all messages; `EnqueueFailed` means that any of them may not have been."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Queues:
    """The queue of each next step."""

    decide: Queue
    execute: Queue


class ExecutionService(Protocol):
    """The execution service: runs prompts in conversations (R8.1)."""

    def start(self, command: ConversationCommand) -> StartOutcome:
        """Send once; never again whatever the answer."""

    def read_back(
        self, *, caller_tenant: str, caller_subject: str, key: str, run_id: str | None
    ) -> RunReport:
        """Ask what became of a run, in its user's name."""

    def cancel(
        self, *, caller_tenant: str, caller_subject: str, key: str, run_id: str | None
    ) -> CancelOutcome:
        """Ask a run to end; asking again does no harm."""


class Publisher(Protocol):
    """Where notifications go."""

    def publish(self, *, notification_id: int, subject: str, body: Mapping[str, object]) -> None:
        """Publish one; `PublishFailed` means that it may not have been."""


# ---------------------------------------------------------------- rows


@dataclass(frozen=True, kw_only=True, slots=True)
class DueSchedule:
    """A schedule whose cursor has come; locked until the transaction ends. ``rule`` is None when it cannot be read."""

    schedule_id: int
    tenant_id: str
    kind: str
    cursor: datetime
    rule: Rule | None
    broken: str | None


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
class NotBegun:
    """Why a tick did not begin; ``closed`` tells whether this call closed the occurrence as skipped."""

    reason: str
    closed: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class NewAttempt:
    """A batch that decide prepared: one action, project and run configuration, for so many machines."""

    attempt_id: UUID
    key: str
    action: str
    project_id: int | None
    run_config_id: int | None
    machines: int


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


@dataclass(frozen=True, kw_only=True, slots=True)
class Dispatch:
    """An attempt that this call moved to dispatching: it is ours to send, exactly once."""

    attempt_id: UUID
    tenant_id: str
    policy_id: int | None
    tick_id: int | None
    occurrence_id: int | None
    key: str
    action: CommandKind
    project_id: int | None
    run_config_id: int | None
    request_expires_at: datetime
    targets: tuple[MachineTarget, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class WaitingOccurrence:
    """A recorded occurrence that is to be enqueued."""

    occurrence_id: int
    kind: str


@dataclass(frozen=True, kw_only=True, slots=True)
class StartedRun:
    """A conversation that this call began: its prompt is ours to send, exactly once."""

    attempt_id: UUID
    occurrence_id: int
    command: ConversationCommand


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenRun:
    """A conversation that may have been sent and has not ended."""

    attempt_id: UUID
    tenant_id: str
    caller_subject: str
    key: str
    run_id: str | None
    cancelling: bool
    dispatched_at: datetime
    request_expires_at: datetime
    checks: int
    alerted: frozenset[RunAlert]


@dataclass(frozen=True, kw_only=True, slots=True)
class SettledRun:
    """What a read-back settled for an open run, and when to look again."""

    run: OpenRun
    settlement: RunSettlement
    next_check_at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class ScheduleVersion:
    """A schedule as it was written; ``version`` is what a change must name."""

    schedule_id: int
    version: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Cancelled:
    """Where an occurrence stands after a cancel; ``asked`` is False when it had ended or was cancelled before."""

    state: str
    asked: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenCancel:
    """A run that a cancel is to reach."""

    tenant_id: str
    caller_subject: str
    key: str
    run_id: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class OccurrenceRow:
    """An occurrence as history shows it."""

    occurrence_id: int
    schedule_id: int
    tenant_id: str
    kind: str
    origin: str
    planned_at: datetime
    state: str
    reason: str | None
    missed_count: int | None
    request_id: str | None
    recorded_at: datetime
    began_at: datetime | None
    ended_at: datetime | None
    output_ref: str | None
    error: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptStanding:
    """Where an attempt stands after it was looked at."""

    attempt_id: UUID
    policy_id: int | None
    state: str
    ended: bool
    alert: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenAges:
    """How many sent attempts are open, and the ages in seconds of the oldest of them and of the oldest live lock."""

    open_attempts: int
    oldest_open_sec: float
    oldest_lock_sec: float


@dataclass(frozen=True, kw_only=True, slots=True)
class FailedShare:
    """How many machines of a policy's actions ended within its window, and how many of them failed."""

    policy: Policy
    failed: int
    finished: int


@dataclass(frozen=True, kw_only=True, slots=True)
class PendingNotification:
    """An outbox row claimed for publishing."""

    notification_id: int
    notification: Notification
    created_at: datetime
    tries: int


@dataclass(frozen=True, kw_only=True, slots=True)
class SetEnabled:
    """A policy that an operator enabled or disabled.

    ``lifted`` is the cause of the freeze that ended with it, ``machines_forgiven`` how many machines may be moved again
    although others kept changing them.
    """

    name: str
    lifted: str | None
    machines_forgiven: int
    next_run_at: datetime | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ManualFreeze:
    """A policy that an operator froze; ``opened`` is False when it was frozen already."""

    name: str
    tenant_id: str
    opened: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class TrialTick:
    """A tick of which nothing is stored: it has neither an id nor an occurrence (both 0)."""

    tick: BegunTick
    enabled: bool
    frozen_for: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class RequestedRun:
    """The occurrence of a manual run; ``fingerprint`` is that of the body with which it was first asked for."""

    occurrence_id: int
    state: str
    reason: str | None
    fingerprint: str
    is_new: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class ClosedAttempt:
    """An attempt that an operator closed: how many machines were still open, and the job that may still act on them."""

    action: str
    job_id: str | None
    machines: int


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptEnd:
    """An attempt that nobody has to close: it has ended, or was never sent (``ended_at`` is None)."""

    state: str
    ended_at: datetime | None


@dataclass(frozen=True, kw_only=True, slots=True)
class LeaseChange:
    """Who held a tenant's executor lease until now, and how many attempts are still under way."""

    was: str | None
    open_attempts: int


# ---------------------------------------------------------------- the database


class DecisionSink(Protocol):
    """Takes a tick's decisions one by one and stores them in one go; memory stays flat whatever the fleet's size."""

    def add(
        self, record: bytes, verdict: Verdict, *, action: str, reason: str, attempt_id: UUID | None
    ) -> None:
        """Add one decision; ``record`` is the machine's packed input, stored as the explanation."""

    def close(self) -> None:
        """Store all that was added."""


class Transaction(Protocol):
    """One database transaction; ``now`` is its clock."""

    now: datetime

    # tick
    def newest_fetch_at(self, source: str) -> datetime | None:
        """Return when the feed was last asked."""

    def store_snapshot(self, snapshot: ProfitSnapshot) -> int:
        """Keep the readings of a snapshot; return how many."""

    def store_fetch_failure(self, source: str, reason: str, detail: str) -> None:
        """Keep that the feed could not be read, and why."""

    def due_schedules(self, limit: int) -> Sequence[DueSchedule]:
        """Lock the next due schedules that nobody else has, fair over tenants."""

    def record_scan(self, plans: Sequence[tuple[DueSchedule, ScanPlan]]) -> Sequence[WaitingOccurrence]:
        """Record occurrences and move cursors; return those to run."""

    def mark_broken(self, schedule_id: int, cause: str) -> None:
        """Set a schedule aside whose rule cannot be read."""

    def close_unbegun(self, older_than: timedelta, limit: int) -> int:
        """Close planned occurrences that were recorded and never begun (R8.6)."""

    def close_finished_ticks(self) -> int:
        """End running tick occurrences none of whose attempts waits to be sent."""

    def unqueued_occurrences(self, limit: int) -> Sequence[WaitingOccurrence]:
        """Return recorded occurrences that were never enqueued."""

    def mark_occurrences_enqueued(self, ids: Sequence[int]) -> None:
        """Note that messages for these went out."""

    def unqueued_attempts(self, older_than: timedelta, limit: int) -> Sequence[UUID]:
        """Return prepared attempts whose message was never sent, or is overdue."""

    def mark_attempts_enqueued(self, ids: Sequence[UUID]) -> None:
        """Note that messages for these went out."""

    # decide
    def begin_tick(self, occurrence_id: int, gates: Gates) -> BegunTick | NotBegun:
        """Begin a recorded tick, or say (and record) why not: compare-and-set under the policy's row lock."""

    def tick_inputs(self, begun: BegunTick) -> TickInputs:
        """Read what all machines of a tick share."""

    def adopt_foreign_changes(self, policy: Policy, inputs: TickInputs) -> int:
        """Notice machines that do what nobody here asked for; count each once and take it as the new state."""

    def read_machines(
        self, policy: Policy, inputs: TickInputs, overriding: Overriding, sink: Callable[[bytes], None]
    ) -> None:
        """Feed the packed records of all machines in scope to ``sink``, in blocks, ordered by machine."""

    def decisions(self, begun: BegunTick) -> DecisionSink:
        """Open the sink for a tick's decisions."""

    def prepare_attempts(
        self, begun: BegunTick, attempts: Sequence[NewAttempt], *, valid_until: datetime, lock_ttl: timedelta
    ) -> Mapping[UUID, int]:
        """Take the locks of all deciding machines and keep the attempts that got any; losers become skip/locked.

        Return the machines won per attempt kept.
        """

    def request_benchmarks(self, begun: BegunTick, requests: Sequence[tuple[int, int]]) -> int:
        """Ask for benchmark runs of (machine, project) pairs that have no open one; return how many are new."""

    def withhold_moves(self, begun: BegunTick, reason: str) -> None:
        """Turn every deciding action of the tick into skip with this reason."""

    def open_freeze(self, policy: Policy, freeze: Freeze, *, by: str) -> bool:
        """Freeze a policy unless it is frozen already; return whether this call froze it."""

    def finish_dry_run(self, begun: BegunTick, detail: Mapping[str, object]) -> None:
        """End the occurrence of a dry run, which stores nothing else."""

    def finish_tick(self, begun: BegunTick, result: TickResult) -> None:
        """Write the tick, the policy's counters and accepted price levels, and the occurrence's end."""

    # execute
    def begin_dispatch(
        self, attempt_id: UUID, gates: Gates, *, request_timeout: timedelta
    ) -> Dispatch | NotBegun:
        """Move a prepared attempt to dispatching, exactly once; end it unsent when it may no longer be sent."""

    def record_outcome(self, dispatch: Dispatch, outcome: SubmitOutcome, *, check_after: timedelta) -> None:
        """Write what the service answered, with what it frees."""

    # conversations
    def begin_conversation(
        self, occurrence_id: int, gates: Gates, *, request_timeout: timedelta
    ) -> StartedRun | NotBegun:
        """Begin a recorded conversation, exactly once, or close it with the reason why not."""

    def record_start(self, started: StartedRun, outcome: StartOutcome, *, check_after: timedelta) -> None:
        """Write what the service answered; where it surely started nothing, the occurrence ends."""

    def open_runs(self, limit: int, lease: timedelta) -> Sequence[OpenRun]:
        """Claim a page of conversations that are due for a look, fair over tenants."""

    def record_runs(self, settled: Sequence[SettledRun]) -> int:
        """Write what read-backs settled; return how many ended."""

    # schedules and occurrences
    def create_schedule(
        self, *, tenant_id: str, created_by: str, name: str, work: Mapping[str, str], rule: Mapping[str, Any]
    ) -> ScheduleVersion:
        """Store a conversation's schedule; its first run is the rule's next one from now."""

    def change_schedule(
        self, schedule_id: int, *, version: int, name: str, work: Mapping[str, str], rule: Mapping[str, Any]
    ) -> ScheduleVersion | None:
        """Change a schedule of exactly this version; None if it has moved on."""

    def schedule_row(self, schedule_id: int, *, tenant_id: str | None) -> Mapping[str, Any] | None:
        """Return a schedule, locked; None if there is none of the tenant."""

    def pause_schedule(self, schedule_id: int, *, paused: bool) -> None:
        """Pause or resume; the cursor continues from now in the rule's own rhythm."""

    def archive_schedule(self, schedule_id: int) -> None:
        """Take a schedule out of use; its history stays."""

    def list_schedules(self, *, tenant_id: str | None) -> Sequence[Mapping[str, Any]]:
        """Return the schedules in use."""

    def request_schedule_run(
        self, schedule_id: int, *, request_id: str, fingerprint: str, by: str
    ) -> RequestedRun:
        """Record a manual run, or return the one that this request made before."""

    def cancel_occurrence(self, schedule_id: int, occurrence_id: int, *, by: str) -> Cancelled | None:
        """Ask an occurrence of this schedule to end; None if the schedule has no such occurrence."""

    def unsent_attempts_of(self, occurrence_id: int) -> Sequence[UUID]:
        """Return the attempts of a tick that were not sent yet, locked."""

    def end_unsent(self, attempt_ids: Sequence[UUID], reason: str, *, occurrence_id: int) -> None:
        """End prepared attempts that are not to be sent, and the tick that they were the last of."""

    def cancelling_run_of(self, occurrence_id: int) -> OpenCancel | None:
        """Return the open run that a cancel is to reach."""

    def history(self, query: HistoryQuery) -> Sequence[OccurrenceRow]:
        """Return a page of occurrences, newest planned time first."""

    # reconcile
    def expire_prepared(self, limit: int) -> int:
        """End attempts whose decision expired before anything was sent; their locks are freed."""

    def overdue_dispatching(self, older_than: timedelta, limit: int) -> int:
        """Move attempts whose sender died to reconciling."""

    def open_attempts(self, limit: int, lease: timedelta) -> Sequence[OpenAttempt]:
        """Claim a page of attempts that are due for a look, fair over tenants."""

    def record_settlements(self, settlements: Sequence[Settlement]) -> Sequence[AttemptStanding]:
        """Write what read-backs settled: ends, freed locks, expectations, events, notifications."""

    def failed_shares(self, policy_ids: Sequence[int]) -> Sequence[FailedShare]:
        """Return how the machines of each policy's actions fared lately; frozen policies are left out."""

    def open_ages(self) -> OpenAges:
        """Return what is still open and how old the oldest of it is."""

    def maintain_partitions(self, retention_days: int) -> None:
        """Make the coming days' partitions, drop those past retention."""

    # notify
    def claim_notifications(self, limit: int) -> Sequence[PendingNotification]:
        """Lock unpublished outbox rows that nobody else has."""

    def mark_published(self, notification_id: int) -> None:
        """Note that one went out."""

    def mark_unpublished(self, notification_id: int, retry_after: timedelta) -> None:
        """Note that one did not go out and when to try again."""

    # control; a tenant_id of None is an operator of the whole deployment
    def set_enabled(
        self, policy_id: int, *, enabled: bool, by: str, why: str, tenant_id: str | None
    ) -> SetEnabled | None:
        """Enable (which lifts a freeze) or disable; None if there is no such policy."""

    def freeze_by_hand(
        self, policy_id: int, *, by: str, why: str, tenant_id: str | None
    ) -> ManualFreeze | None:
        """Freeze; None if there is no such policy."""

    def begin_trial(self, policy_id: int, gates: Gates, *, tenant_id: str | None) -> TrialTick | None:
        """Begin a tick of which nothing is stored; None if there is no such policy."""

    def request_run(
        self, policy_id: int, *, request_id: str, fingerprint: str, by: str, tenant_id: str | None
    ) -> RequestedRun | None:
        """Record a manual run, or return the one that this request made before; None if there is no such policy."""

    def close_attempt(
        self, attempt_id: UUID, *, by: str, why: str, tenant_id: str | None
    ) -> ClosedAttempt | AttemptEnd | None:
        """End what nobody can confirm, by an operator's word; else say where it stands; None if it is unknown."""

    def change_lease(self, tenant_id: str, *, holder: str, by: str, why: str) -> LeaseChange | None:
        """Say which system may act for a tenant; None if nothing is known of the tenant."""

    def write_events(self, events: Sequence[LogEvent], notifications: Sequence[Notification] = ()) -> None:
        """Write log events and notifications."""


class Store(Protocol):
    """The database."""

    def transaction(self) -> AbstractContextManager[Transaction]:
        """Open a transaction that commits when its block ends and rolls back when it raises."""
