"""What a scan reads and writes: prices as they came, due schedules, occurrences, and what a crash left behind."""

from __future__ import annotations

import json
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Final

from blsflow.adapters.postgres.part import Part
from blsflow.adapters.postgres.statements import as_array
from blsflow.domain.errors import InvalidDocument
from blsflow.domain.recurrence_document import parse_rule
from blsflow.ports.tick import DueSchedules, FeedFetch

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta
    from uuid import UUID

    from blsflow.domain.prices import ProfitSnapshot
    from blsflow.domain.recurrence_rules import Rule
    from blsflow.domain.scan import ScanPlan
    from blsflow.ports.tick import WaitingOccurrences

_RULES_KEPT: Final = 1024
"""Most schedules share a rule with others; so many different ones are read once, and not at every scan."""


@lru_cache(_RULES_KEPT)
def _parsed(text: str, time_zone: str) -> Rule:
    try:
        rule = json.loads(text)
    except (ValueError, RecursionError) as error:  # a number of too many digits, or nested too deeply
        raise InvalidDocument(field="rule", value=f"{text[:50]}...", cause="not readable as JSON") from error
    return parse_rule({**rule, "time_zone": time_zone})


class TickQueries(Part):
    """The tick's part of a transaction."""

    def newest_fetch(self, source: str) -> FeedFetch | None:
        """Return when the feed was last asked, and what came of it."""
        rows = self._session.query("newest_fetch", source=source)
        return FeedFetch(**rows[0]) if rows else None

    def store_snapshot(self, snapshot: ProfitSnapshot) -> int:
        """Keep the readings of a snapshot as they came."""
        prices = snapshot.prices
        self._session.query(
            "store_readings",
            source=snapshot.source,
            keys=[price.key for price in prices],
            algorithms=[price.algorithm for price in prices],
            taken_at=[price.taken_at for price in prices],
            revenues=[float(price.revenue) for price in prices],
            units=[price.unit for price in prices],
            currencies=[price.currency for price in prices],
            flags=[",".join(price.flags) for price in prices],
        )
        detail = "; ".join(f"{row.key} {row.field}: {row.cause}" for row in snapshot.rejected[:20]) or None
        self._session.query(
            "store_fetch",
            source=snapshot.source,
            outcome="ok",
            detail=detail,
            prices=len(prices),
            flags=list(snapshot.flags),
        )
        return len(prices)

    def store_fetch_failure(self, source: str, reason: str, detail: str) -> None:
        """Keep that the feed could not be read, and why."""
        self._session.query("store_fetch", source=source, outcome=reason, detail=detail, prices=0, flags=[])

    def due_schedules(self, limit: int) -> Sequence[DueSchedules]:
        """Lock the next due schedules that nobody else has, fair over tenants."""
        found = []
        for row in self._session.query("due_schedules", page_size=limit):
            rule, broken = None, None
            try:
                rule = _parsed(row["rule"], row["time_zone"])
            except InvalidDocument as error:
                broken = str(error)
            found.append(
                DueSchedules(
                    schedule_ids=row["schedule_ids"], cursor=row["next_run_at"], rule=rule, broken=broken
                )
            )
        return found

    def record_scan(self, plans: Sequence[tuple[DueSchedules, ScanPlan]]) -> WaitingOccurrences:
        """Record occurrences and move cursors; return those to run."""
        times = [len(due.schedule_ids) for due, _ in plans]
        rows = self._session.query(
            "record_scan",
            schedule_ids=as_array(chain.from_iterable(due.schedule_ids for due, _ in plans)),
            run_at=as_array((plan.run_at for _, plan in plans), times),
            missed_from=as_array((plan.missed_from for _, plan in plans), times),
            missed_counts=as_array((plan.missed_count for _, plan in plans), times),
            next_run_at=as_array((plan.next_run_at for _, plan in plans), times),
        )
        return {row["kind"]: row["ids"] for row in rows}

    def mark_broken(self, schedule_ids: Sequence[int], cause: str) -> None:
        """Set schedules aside whose rule cannot be read."""
        self._session.query("mark_broken", schedule_ids=list(schedule_ids), cause=cause)

    def close_unbegun(self, older_than: timedelta, manual_older_than: timedelta, limit: int) -> int:
        """Close occurrences that were recorded and never begun."""
        return self._count(
            "close_unbegun",
            "closed",
            older_than=older_than,
            manual_older_than=manual_older_than,
            page_size=limit,
        )

    def close_finished_ticks(self) -> int:
        """End running tick occurrences none of whose attempts waits to be sent."""
        return self._count("close_finished_ticks", "closed")

    def unqueued_occurrences(self, older_than: timedelta, limit: int) -> WaitingOccurrences:
        """Return recorded occurrences that were never enqueued, and manual ones whose message is overdue."""
        rows = self._session.query("unqueued_occurrences", older_than=older_than, page_size=limit)
        return {row["kind"]: row["ids"] for row in rows}

    def mark_occurrences_enqueued(self, ids: Sequence[int]) -> None:
        """Note that messages for these went out."""
        self._session.query("mark_occurrences_enqueued", ids=as_array(ids), lowest=min(ids), highest=max(ids))

    def unqueued_attempts(self, older_than: timedelta, limit: int) -> Sequence[UUID]:
        """Return prepared attempts whose message was never sent, or is overdue."""
        rows = self._session.query("unqueued_attempts", older_than=older_than, page_size=limit)
        return [row["id"] for row in rows]

    def mark_attempts_enqueued(self, ids: Sequence[UUID]) -> None:
        """Note that messages for these went out."""
        self._session.query("mark_attempts_enqueued", ids=list(ids))

    def _count(self, name: str, column: str, **params: object) -> int:
        count: int = self._session.query(name, **params)[0][column]
        return count
