"""What a scan takes from the database: schedules that are due, and occurrences to run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

    from blsflow.domain.recurrence_rules import Rule


@dataclass(frozen=True, kw_only=True, slots=True)
class FeedFetch:
    """One time that a feed was asked; ``outcome`` is ok, or why it gave nothing."""

    fetched_at: datetime
    outcome: str
    detail: str | None


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
class WaitingOccurrence:
    """A recorded occurrence that is to be enqueued."""

    occurrence_id: int
    kind: str
