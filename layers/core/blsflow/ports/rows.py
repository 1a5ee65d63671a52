"""What the database gives and takes, where the domain has no word of its own for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from uuid import UUID

    from blsflow.domain.conversation import (
        ConversationCommand,
        RunAlert,
        RunSettlement,
    )
    from blsflow.domain.events import Notification
    from blsflow.domain.execution import CommandKind, MachineTarget
    from blsflow.domain.policy import Policy
    from blsflow.domain.price_level import PriceLevel
    from blsflow.domain.recurrence_rules import Rule


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


@dataclass(frozen=True, kw_only=True, slots=True)
class Dispatch:
    """An attempt that this call moved to dispatching: it is ours to send, exactly once."""

    attempt_id: UUID
    tenant_id: str
    policy_id: int | None
    tick_id: int | None
    occurrence_id: int | None
    ticked_at: datetime
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
class OpenCancel:
    """A run that a cancel is to reach."""

    tenant_id: str
    caller_subject: str
    key: str
    run_id: str | None


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
