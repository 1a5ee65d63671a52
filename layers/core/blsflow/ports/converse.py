"""Conversations as the database keeps them while they run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from blsflow.domain.conversation import (
        ConversationCommand,
        RunAlert,
        RunSettlement,
    )


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
