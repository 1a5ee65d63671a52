"""What operators read and change: enabling, freezing, manual runs, closing what cannot be resolved, status and log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from blsflow.adapters.postgres.connection import as_json
from blsflow.domain.errors import InvalidDocument
from blsflow.domain.recurrence import next_run, parse_rule

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from typing import Any
    from uuid import UUID

    from blsflow.adapters.postgres.connection import Session


class ControlQueries:
    """The operators' part of a transaction. A ``tenant_id`` of None is an operator of the whole deployment."""

    _session: Session
    now: datetime

    def set_enabled(
        self, policy_id: int, *, enabled: bool, by: str, why: str, tenant_id: str | None
    ) -> Mapping[str, Any] | None:
        """Enable (which lifts a freeze) or disable; None if there is no such policy."""
        schedules = self._session.query("policy_schedule", policy_id=policy_id, tenant_id=tenant_id)
        cursor = None
        if schedules:
            try:
                rule = parse_rule({**schedules[0]["rule"], "time_zone": schedules[0]["time_zone"]})
                cursor = next_run(rule, self.now)
            except InvalidDocument:
                cursor = self.now  # the next scan sets the schedule aside and says why
        rows = self._session.query(
            "set_enabled",
            policy_id=policy_id,
            enabled=enabled,
            by=by,
            why=why,
            tenant_id=tenant_id,
            next_run_at=cursor,
        )
        return rows[0] if rows else None

    def freeze_by_hand(
        self, policy_id: int, *, by: str, why: str, tenant_id: str | None
    ) -> Mapping[str, Any] | None:
        """Freeze; None if there is no such policy. ``froze`` is False when it was frozen already."""
        policies = self._session.query("policy_for_freeze", policy_id=policy_id, tenant_id=tenant_id)
        if not policies:
            return None
        policy = policies[0]
        froze = self._session.query(
            "open_freeze",
            policy_id=policy_id,
            tenant_id=policy["tenant_id"],
            cause="manual",
            detail=as_json({"why": why}),
            frozen_by=by,
        )
        return {**policy, "froze": bool(froze)}

    def policy_status(
        self, *, policy_id: int | None = None, tenant_id: str | None = None
    ) -> Sequence[Mapping[str, Any]]:
        """Return where every policy, or one, stands."""
        return self._session.query("policy_status", policy_id=policy_id, tenant_id=tenant_id)

    def follow_log(
        self, *, after_id: int, policy_id: int | None, tenant_id: str | None, limit: int
    ) -> Sequence[Mapping[str, Any]]:
        """Return the next log events after an id; none is ever passed over, also when transactions commit out of order."""
        return self._session.query(
            "follow_log", after_id=after_id, policy_id=policy_id, tenant_id=tenant_id, page_size=limit
        )

    def log_tail_id(self, *, policy_id: int | None, tenant_id: str | None, limit: int) -> int:
        """Return the id after which the newest ``limit`` log events begin."""
        row = self._session.query("newest_log_id", policy_id=policy_id, tenant_id=tenant_id, page_size=limit)[
            0
        ]
        after_id: int = row["after_id"]
        return after_id

    def policy_schedule(self, policy_id: int, *, tenant_id: str | None) -> Mapping[str, Any] | None:
        """Return the schedule of a policy."""
        rows = self._session.query("policy_schedule", policy_id=policy_id, tenant_id=tenant_id)
        return rows[0] if rows else None

    def request_run(
        self, schedule_id: int, *, request_id: str, fingerprint: str, tenant_id: str | None
    ) -> Mapping[str, Any] | None:
        """Record a manual run, or return the one that this request made before; None if there is no such schedule."""
        rows = self._session.query(
            "request_run",
            schedule_id=schedule_id,
            request_id=request_id,
            fingerprint=fingerprint,
            tenant_id=tenant_id,
        )
        return rows[0] if rows else None

    def close_attempt(
        self, attempt_id: UUID, *, by: str, why: str, tenant_id: str | None
    ) -> Mapping[str, Any] | None:
        """End what nobody can confirm, by an operator's word; None if there is nothing open by that id."""
        rows = self._session.query(
            "close_attempt", attempt_id=attempt_id, by=by, why=why, tenant_id=tenant_id
        )
        if rows and rows[0]["occurrence_id"] is not None:
            self._session.query("end_tick_if_sent", occurrence_id=rows[0]["occurrence_id"])
        return rows[0] if rows else None

    def open_work(self, *, tenant_id: str | None, limit: int) -> Sequence[Mapping[str, Any]]:
        """Return the attempts under way, oldest first."""
        return self._session.query("open_work", tenant_id=tenant_id, page_size=limit)
