"""What following open attempts leaves in the database, and what is still open."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from uuid import UUID

    from blsflow.domain.policy import Policy


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
