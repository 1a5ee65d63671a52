"""What a scan takes from the database: schedules that are due, and occurrences to run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from blsflow.domain.recurrence_rules import Rule


@dataclass(frozen=True, kw_only=True, slots=True)
class FeedFetch:
    """One time that a feed was asked; ``outcome`` is ok, or why it gave nothing."""

    fetched_at: datetime
    outcome: str
    detail: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class DueSchedules:
    """Schedules of one rule whose cursors have come, all at one time; locked until the transaction ends.

    What one of them makes of a scan, all of them make. ``rule`` is None when it cannot be read.
    """

    schedule_ids: Sequence[int]
    cursor: datetime
    rule: Rule | None
    broken: str | None


WaitingOccurrences: TypeAlias = "Mapping[str, Sequence[int]]"
"""Recorded occurrences that are to be enqueued: by kind, their ids in order."""
