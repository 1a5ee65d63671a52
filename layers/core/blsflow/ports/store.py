"""The database: transactions that roll back unless their block ends, each under one reading of its clock.

Longer than most, because a transaction is one thing with one list of what it can do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from blsflow.domain.prospects import NO_TIME
from blsflow.ports.benchmark import BenchmarkTransaction
from blsflow.ports.commands import CommandTransaction
from blsflow.ports.logs import LogTransaction
from blsflow.ports.policies import PolicyTransaction
from blsflow.ports.replay import ReplayTransaction
from blsflow.ports.sampling import SamplingTransaction
from blsflow.ports.ticks import TickTransaction

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from datetime import datetime, timedelta
    from uuid import UUID

    from blsflow.domain.block import Block
    from blsflow.domain.conversation import (
        StartOutcome,
    )
    from blsflow.domain.decide import Decided
    from blsflow.domain.events import LogEvent, Notification
    from blsflow.domain.execution import SubmitOutcome
    from blsflow.domain.freeze import Freeze
    from blsflow.domain.gates import Gates
    from blsflow.domain.history import HistoryQuery
    from blsflow.domain.inputs import Overriding, TickInputs
    from blsflow.domain.machine import Status
    from blsflow.domain.notifications import NotificationQuery
    from blsflow.domain.policy import Policy
    from blsflow.domain.prices import ProfitSnapshot
    from blsflow.domain.prospects import Span
    from blsflow.domain.sampling import BenchmarkRequest
    from blsflow.domain.scan import ScanPlan
    from blsflow.domain.settle import OpenAttempt, Settlement
    from blsflow.domain.verdict import Kept
    from blsflow.ports.converse import OpenCancel, OpenRun, SettledRun, StartedRun
    from blsflow.ports.decide import BegunTick, NewAttempt, PreparedAttempts, TickResult
    from blsflow.ports.execute import Dispatch, NotBegun
    from blsflow.ports.notify import PendingNotification
    from blsflow.ports.people import (
        AttemptEnd,
        Cancelled,
        ClosedAttempt,
        Lease,
        LeaseChange,
        ManualFreeze,
        ModeChange,
        NotificationRow,
        OccurrenceRow,
        RequestedRun,
        ScheduleVersion,
        SetEnabled,
        StoredRequest,
        TrialTick,
    )
    from blsflow.ports.reconcile import AttemptStanding, FailedShare, OpenAges
    from blsflow.ports.tick import DueSchedules, FeedFetch, WaitingOccurrences


class DecisionSink(Protocol):
    """Takes a tick's decisions one by one and stores them in one go; memory stays flat whatever the fleet's size."""

    def add(self, decided: Decided, *, action: str, reason: str, attempt_id: UUID | None) -> None:
        """Add one decision, and what was made of its verdict."""

    def keep(self, kept: Kept) -> None:
        """Add the decisions to leave some machines as they are, which no policy outranks."""

    def close(self) -> None:
        """Store all that was added."""


class Transaction(
    SamplingTransaction,
    BenchmarkTransaction,
    PolicyTransaction,
    TickTransaction,
    CommandTransaction,
    LogTransaction,
    ReplayTransaction,
    Protocol,
):
    """One database transaction; ``now`` is its clock."""

    now: datetime

    # tick
    def newest_fetch(self, source: str) -> FeedFetch | None:
        """Return when the feed was last asked, and what came of it."""

    def store_snapshot(self, snapshot: ProfitSnapshot) -> int:
        """Keep the readings of a snapshot; return how many."""

    def store_fetch_failure(self, source: str, reason: str, detail: str) -> None:
        """Keep that the feed could not be read, and why."""

    def due_schedules(self, limit: int) -> Sequence[DueSchedules]:
        """Lock the next due schedules that nobody else has, fair over tenants."""

    def record_scan(self, plans: Sequence[tuple[DueSchedules, ScanPlan]]) -> WaitingOccurrences:
        """Record occurrences and move cursors; return those to run."""

    def mark_broken(self, schedule_ids: Sequence[int], cause: str) -> None:
        """Set schedules aside whose rule cannot be read."""

    def close_unbegun(self, older_than: timedelta, manual_older_than: timedelta, limit: int) -> int:
        """Close planned occurrences that were recorded and never begun (R8.6)."""

    def close_finished_ticks(self) -> int:
        """End running tick occurrences none of whose attempts waits to be sent."""

    def unqueued_occurrences(self, older_than: timedelta, limit: int) -> WaitingOccurrences:
        """Return recorded occurrences that were never enqueued."""

    def mark_occurrences_enqueued(self, ids: Sequence[int]) -> None:
        """Note that messages for these went out."""

    def unqueued_attempts(self, older_than: timedelta, limit: int) -> Sequence[UUID]:
        """Return prepared attempts whose message was never sent, or is overdue."""

    # decide
    def begin_tick(self, occurrence_id: int, gates: Gates) -> BegunTick | NotBegun:
        """Begin a recorded tick, or say (and record) why not: compare-and-set under the policy's row lock."""

    def tick_inputs(self, begun: BegunTick, *, tariffs_from: datetime | None = None) -> TickInputs:
        """Read what all machines of a tick share; tariffs that ended before ``tariffs_from`` (None: now) are left out."""

    def adopt_foreign_changes(self, policy: Policy, inputs: TickInputs) -> int:
        """Notice machines that do what nobody here asked for; count each once and take it as the new state."""

    def foreign_changes(self, policy: Policy, inputs: TickInputs) -> Mapping[int, Status]:
        """Return what adopting would take as the new state, by machine; nothing is changed, and nobody waited for."""

    def read_machines(
        self,
        policy: Policy,
        inputs: TickInputs,
        overriding: Overriding,
        sink: Callable[[Block], None],
        *,
        fresh: Span = NO_TIME,
    ) -> None:
        """Feed all machines in scope to ``sink``, in blocks, ordered by machine.

        Of machines whose benchmarks may all be decided on, with times within ``fresh``, the figures only.
        """

    def decisions(self, begun: BegunTick) -> DecisionSink:
        """Open the sink for a tick's decisions."""

    def prepare_attempts(
        self, begun: BegunTick, attempts: Sequence[NewAttempt], *, valid_until: datetime, lock_ttl: timedelta
    ) -> PreparedAttempts:
        """Take the locks of all deciding machines and keep the attempts that got any; losers become skip/locked."""

    def request_benchmarks(self, begun: BegunTick, requests: Sequence[BenchmarkRequest]) -> int:
        """Ask for runs of pairs that have no open one and none that failed for good lately; return how many are new."""

    def withhold_moves(self, begun: BegunTick, reason: str) -> None:
        """Turn every deciding action of the tick into skip with this reason."""

    def open_freeze(self, policy: Policy, freeze: Freeze, *, by: str) -> bool:
        """Freeze a policy unless it is frozen already; return whether this call froze it."""

    def finish_dry_run(self, begun: BegunTick, detail: Mapping[str, object]) -> None:
        """End the occurrence of a dry run, which stores nothing else."""

    def finish_tick(self, begun: BegunTick, result: TickResult, event: LogEvent) -> None:
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
    def create_schedule(  # noqa: PLR0913 - the whole of what a schedule says
        self,
        *,
        tenant_id: str,
        created_by: str,
        by: str,
        name: str,
        work: Mapping[str, str],
        rule: Mapping[str, Any],
    ) -> ScheduleVersion:
        """Store a conversation's schedule; its first run is the rule's next one from now."""

    def change_schedule(  # noqa: PLR0913 - as above
        self,
        schedule_id: int,
        *,
        version: int,
        name: str,
        work: Mapping[str, str],
        rule: Mapping[str, Any],
        by: str,
        runs_as: str,
    ) -> ScheduleVersion | None:
        """Change a schedule of exactly this version; None if it has moved on."""

    def schedule_row(self, schedule_id: int, *, tenant_id: str | None) -> Mapping[str, Any] | None:
        """Return a schedule, locked; None if there is none of the tenant."""

    def pause_schedule(self, schedule_id: int, *, paused: bool, by: str) -> None:
        """Pause or resume; the cursor continues from now in the rule's own rhythm."""

    def archive_schedule(self, schedule_id: int, *, by: str) -> None:
        """Take a schedule out of use; its history stays."""

    def list_schedules(
        self, *, tenant_id: str | None, schedule_id: int | None, after_id: int, limit: int | None
    ) -> Sequence[Mapping[str, Any]]:
        """Return the schedules in use after an id, or one whether or not it is in use."""

    def request_schedule_run(
        self, schedule_id: int, *, request_id: str, fingerprint: str, by: str
    ) -> RequestedRun:
        """Record a manual run, or return the one that this request made before."""

    def cancel_occurrence(self, schedule_id: int, occurrence_id: int, *, by: str) -> Cancelled | None:
        """Ask an occurrence of this schedule to end; None if the schedule has no such occurrence."""

    def unsent_attempts_of(self, occurrence_id: int) -> Sequence[UUID]:
        """Return the attempts of a tick that were not sent yet, locked."""

    def end_unsent(self, attempt_ids: Sequence[UUID], reason: str, *, occurrence_id: int | None) -> None:
        """End prepared attempts that are not to be sent, and the tick that they were the last of."""

    def cancelling_run_of(self, occurrence_id: int) -> OpenCancel | None:
        """Return the open run that a cancel is to reach."""

    def history(self, query: HistoryQuery) -> Sequence[OccurrenceRow]:
        """Return a page of occurrences, newest planned time first."""

    def occurrence_row(
        self, schedule_id: int, occurrence_id: int, *, tenant_id: str | None
    ) -> OccurrenceRow | None:
        """Return one occurrence if it belongs to that schedule."""

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

    def maintain(self, retention_days: int) -> None:
        """Make the coming days' partitions; drop partitions, and pages of other rows, past retention."""

    # notify
    def claim_notifications(self, limit: int) -> Sequence[PendingNotification]:
        """Lock unpublished outbox rows that nobody else has."""

    def mark_published(self, notification_id: int) -> None:
        """Note that one went out."""

    def mark_unpublished(self, notification_id: int, retry_after: timedelta) -> None:
        """Note that one did not go out and when to try again."""

    def list_notifications(self, query: NotificationQuery) -> Sequence[NotificationRow]:
        """Return a page of a tenant's notifications, newest first."""

    def mark_notification(
        self, notification_id: int, *, tenant_id: str, read_by: str | None
    ) -> NotificationRow | None:
        """Mark one read by somebody, or unread (None); None if the tenant has no such notification."""

    # control; a tenant_id of None is an operator of the whole deployment
    def set_enabled(  # noqa: PLR0913 - what to set, for whom, and who asks
        self, policy_id: int, *, enabled: bool, by: str, why: str, version: int | None, tenant_id: str | None
    ) -> SetEnabled | None:
        """Enable (which lifts a freeze) or disable; None if there is no such policy (at ``version``, if one is given)."""

    def set_mode(  # noqa: PLR0913 - what to set, for whom, and who asks
        self, policy_id: int, *, mode: str, by: str, why: str, version: int | None, tenant_id: str | None
    ) -> ModeChange | None:
        """Say how far a policy goes; None if there is no such policy (at ``version``, if one is given)."""

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

    def knows_tenant(self, tenant_id: str) -> bool:
        """Whether a machine, a cluster or an executor lease is of the tenant."""

    def change_lease(self, tenant_id: str, *, holder: str, by: str, why: str) -> LeaseChange | None:
        """Say which system may act for a tenant; None if nothing is known of the tenant."""

    def schema_version(self) -> str:
        """Return the newest migration that was applied."""

    def lease_of(self, tenant_id: str) -> Lease:
        """Return which system may act for a tenant."""

    # requests that create
    def claim_request(self, tenant_id: str, key: str, *, fingerprint: str, by: str) -> StoredRequest | None:
        """Take a key for a request, or return the one that has it; one that is being carried out is waited for."""

    def answer_request(self, tenant_id: str, key: str, answer: Mapping[str, Any]) -> Mapping[str, Any]:
        """Keep what a request that was taken came to; return it as it was stored."""

    def write_events(self, events: Sequence[LogEvent], notifications: Sequence[Notification] = ()) -> None:
        """Write log events and notifications."""


class Store(Protocol):
    """The database."""

    def transaction(self) -> AbstractContextManager[Transaction]:
        """Open a transaction that commits when its block ends and rolls back when it raises."""

    def snapshot(self) -> AbstractContextManager[Transaction]:
        """Open a transaction that sees one moment throughout, and is rolled back when its block ends."""

    def mark_attempts_enqueued(self, ids: Sequence[UUID]) -> None:
        """Note, in a transaction of its own, that messages for these went out."""
