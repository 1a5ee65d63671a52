"""Schedules and their occurrences as people see them: creating, changing, pausing, running, cancelling."""

from __future__ import annotations

from typing import TYPE_CHECKING

from blsflow.adapters.postgres.history import HistoryQueries
from blsflow.adapters.postgres.statements import as_json
from blsflow.domain.errors import InvalidDocument
from blsflow.domain.recurrence import next_run
from blsflow.domain.recurrence_document import parse_rule
from blsflow.ports.converse import OpenCancel
from blsflow.ports.people import Cancelled, RequestedRun, ScheduleVersion

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any
    from uuid import UUID


class ScheduleQueries(HistoryQueries):
    """The part of a transaction that handles schedules and occurrences for people."""

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
        row = self._session.query(
            "create_schedule",
            tenant_id=tenant_id,
            created_by=created_by,
            by=by,
            name=name,
            **self._written(work, rule),
        )[0]
        return ScheduleVersion(schedule_id=row["id"], version=row["version"])

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
        """Change a schedule of exactly this version; None if it has moved on. Other work is sent as ``runs_as``."""
        rows = self._session.query(
            "change_schedule",
            schedule_id=schedule_id,
            version=version,
            name=name,
            by=by,
            runs_as=runs_as,
            **self._written(work, rule),
        )
        return ScheduleVersion(schedule_id=schedule_id, version=rows[0]["version"]) if rows else None

    def schedule_row(self, schedule_id: int, *, tenant_id: str | None) -> Mapping[str, Any] | None:
        """Return a schedule, locked; None if there is none of the tenant."""
        rows = self._session.query("lock_schedule", schedule_id=schedule_id, tenant_id=tenant_id)
        return rows[0] if rows else None

    def pause_schedule(self, schedule_id: int, *, paused: bool, by: str) -> None:
        """Pause or resume; the cursor continues from now in the rule's own rhythm."""
        row = self._session.query("lock_schedule", schedule_id=schedule_id, tenant_id=None)[0]
        try:
            cursor = next_run(parse_rule({**row["rule"], "time_zone": row["time_zone"]}), self.now)
        except InvalidDocument:
            cursor = self.now  # the next scan sets it aside and says why
        self._session.query(
            "pause_schedule", schedule_id=schedule_id, paused=paused, by=by, next_run_at=cursor
        )

    def archive_schedule(self, schedule_id: int, *, by: str) -> None:
        """Take a schedule out of use; its history stays."""
        self._session.query("archive_schedule", schedule_id=schedule_id, by=by)

    def list_schedules(
        self, *, tenant_id: str | None, schedule_id: int | None, after_id: int, limit: int | None
    ) -> Sequence[Mapping[str, Any]]:
        """Return the schedules in use after an id, or one whether or not it is in use."""
        return self._session.query(
            "list_schedules", tenant_id=tenant_id, schedule_id=schedule_id, after_id=after_id, page_size=limit
        )

    def request_schedule_run(
        self, schedule_id: int, *, request_id: str, fingerprint: str, by: str
    ) -> RequestedRun:
        """Record a manual run, or return the one that this request made before."""
        row = self._session.query(
            "request_schedule_run",
            schedule_id=schedule_id,
            request_id=request_id,
            fingerprint=fingerprint,
            by=by,
        )[0]
        return RequestedRun(
            occurrence_id=row["id"],
            state=row["state"],
            reason=row["reason"],
            fingerprint=row["request_fingerprint"],
            is_new=row["is_new"],
        )

    def cancel_occurrence(self, schedule_id: int, occurrence_id: int, *, by: str) -> Cancelled | None:
        """Ask an occurrence of this schedule to end; None if the schedule has no such occurrence."""
        self._session.query("lock_attempts_of", occurrence_id=occurrence_id)
        rows = self._session.query(
            "cancel_occurrence", schedule_id=schedule_id, occurrence_id=occurrence_id, by=by
        )
        found = rows or self._session.query(
            "occurrence_of_schedule", schedule_id=schedule_id, occurrence_id=occurrence_id
        )
        return Cancelled(state=found[0]["state"], asked=bool(rows)) if found else None

    def unsent_attempts_of(self, occurrence_id: int) -> Sequence[UUID]:
        """Return the attempts of a tick that were not sent yet, locked."""
        return [row["id"] for row in self._session.query("unsent_attempts_of", occurrence_id=occurrence_id)]

    def cancelling_run_of(self, occurrence_id: int) -> OpenCancel | None:
        """Return the open run that a cancel is to reach."""
        rows = self._session.query("open_attempt_of", occurrence_id=occurrence_id)
        if not rows:
            return None
        row = rows[0]
        return OpenCancel(
            tenant_id=row["tenant_id"],
            caller_subject=row["caller_subject"],
            key=row["idempotency_key"],
            run_id=row["reference"],
        )

    def _written(self, work: Mapping[str, str], rule: Mapping[str, Any]) -> dict[str, object]:
        stored = {name: value for name, value in rule.items() if name != "time_zone"}
        return {
            "work": as_json(dict(work)),
            "rule": as_json(stored),
            "time_zone": rule["time_zone"],
            "next_run_at": next_run(parse_rule(rule), self.now),
        }
