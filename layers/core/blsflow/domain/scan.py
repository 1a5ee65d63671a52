"""What one scan makes of one due schedule: what runs, what was missed, where the cursor goes (R8.3, R8.5).

After downtime nothing is caught up. The newest due time still runs when it is at most the grace ago; everything
older is one missed record with its count, and the cursor continues from now.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from blsflow.domain.recurrence import missed_between, next_run

if TYPE_CHECKING:
    from blsflow.domain.recurrence_rules import Rule

_INSTANT = timedelta(microseconds=1)


@dataclass(frozen=True, kw_only=True, slots=True)
class ScanPlan:
    """The outcome of a scan for one schedule; all instants are UTC.

    ``run_at`` is recorded and enqueued, ``missed_count`` runs from ``missed_from`` on are recorded as one
    ``skipped`` / ``missed``, and ``next_run_at`` is the new cursor (None: the rule has no further run).
    """

    run_at: datetime | None
    missed_from: datetime | None
    missed_count: int
    next_run_at: datetime | None


def plan_scan(rule: Rule, *, cursor: datetime, now: datetime, grace: timedelta) -> ScanPlan:
    """Plan one schedule whose ``cursor`` (its next planned time) is not after ``now``."""
    due = 1 + missed_between(rule, cursor, now)
    newest = _newest_due(rule, cursor=cursor, now=now, grace=grace)
    missed = due if newest is None else due - 1
    return ScanPlan(
        run_at=newest,
        missed_from=cursor if missed else None,
        missed_count=missed,
        next_run_at=next_run(rule, now),
    )


def _newest_due(rule: Rule, *, cursor: datetime, now: datetime, grace: timedelta) -> datetime | None:
    """Return the latest planned time in [now - grace, now], looking no further back than the grace."""
    newest = cursor if cursor >= now - grace else None
    planned = next_run(rule, max(cursor, now - grace - _INSTANT))
    while planned is not None and planned <= now:
        newest = planned
        planned = next_run(rule, planned)
    return newest
