"""What operators read and change: enabling, freezing, manual runs, closing what cannot be resolved, status and log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from blsflow.adapters.postgres.documents import levels_of, policy_of
from blsflow.adapters.postgres.part import Part
from blsflow.adapters.postgres.statements import as_json
from blsflow.domain.errors import InvalidDocument
from blsflow.domain.freeze import FreezeCause
from blsflow.domain.recurrence import next_run
from blsflow.domain.recurrence_document import parse_rule
from blsflow.ports.decide import BegunTick
from blsflow.ports.people import (
    AttemptEnd,
    ClosedAttempt,
    Lease,
    LeaseChange,
    ManualFreeze,
    ModeChange,
    RequestedRun,
    SetEnabled,
    TrialTick,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from typing import Any
    from uuid import UUID

    from blsflow.domain.gates import Gates


class ControlQueries(Part):
    """The operators' part of a transaction. A ``tenant_id`` of None is an operator of the whole deployment."""

    def set_enabled(  # noqa: PLR0913 - what to set, for whom, and who asks
        self, policy_id: int, *, enabled: bool, by: str, why: str, version: int | None, tenant_id: str | None
    ) -> SetEnabled | None:
        """Enable (which lifts a freeze) or disable; None if there is no such policy (at ``version``, if one is given).

        A policy that is enabled has its schedule again, if that was taken out of use.
        """
        if enabled:
            self._session.query("revive_policy_schedule", policy_id=policy_id, tenant_id=tenant_id)
        schedules = self._session.query("policy_schedule", policy_id=policy_id, tenant_id=tenant_id)
        cursor = self._cursor(schedules[0]) if schedules else None
        rows = self._session.query(
            "set_enabled",
            policy_id=policy_id,
            enabled=enabled,
            by=by,
            why=why,
            version=version,
            tenant_id=tenant_id,
            next_run_at=cursor,
        )
        if not rows:
            return None
        return SetEnabled(
            name=rows[0]["name"],
            version=rows[0]["version"],
            lifted=rows[0]["froze_for"],
            machines_forgiven=rows[0]["forgiven"],
            next_run_at=cursor if enabled else None,
        )

    def set_mode(  # noqa: PLR0913 - what to set, for whom, and who asks
        self, policy_id: int, *, mode: str, by: str, why: str, version: int | None, tenant_id: str | None
    ) -> ModeChange | None:
        """Say how far a policy goes; None if there is no such policy (at ``version``, if one is given)."""
        rows = self._session.query(
            "set_mode", policy_id=policy_id, mode=mode, by=by, why=why, version=version, tenant_id=tenant_id
        )
        return ModeChange(**rows[0]) if rows else None

    def freeze_by_hand(
        self, policy_id: int, *, by: str, why: str, tenant_id: str | None
    ) -> ManualFreeze | None:
        """Freeze; None if there is no such policy."""
        policies = self._session.query("policy_for_freeze", policy_id=policy_id, tenant_id=tenant_id)
        if not policies:
            return None
        policy = policies[0]
        opened = self._session.query(
            "open_freeze",
            policy_id=policy_id,
            tenant_id=policy["tenant_id"],
            cause=str(FreezeCause.MANUAL),
            detail=as_json({"why": why}),
            frozen_by=by,
        )
        return ManualFreeze(name=policy["name"], tenant_id=policy["tenant_id"], opened=bool(opened))

    def begin_trial(self, policy_id: int, gates: Gates, *, tenant_id: str | None) -> TrialTick | None:
        """Begin a tick of which nothing is stored; None if there is no such policy."""
        rows = self._session.query(
            "trial_policy", policy_id=policy_id, holder=gates.holder, tenant_id=tenant_id
        )
        if not rows:
            return None
        row = rows[0]
        return TrialTick(
            tick=BegunTick(
                occurrence_id=0,
                tick_id=0,
                policy=policy_of(row["policy"], row["candidates"], row["windows"]),
                levels=levels_of(row["candidates"]),
                ticked_at=self.now,
                consecutive_failures=row["policy"]["consecutive_failures"],
                tariff_problems=frozenset(row["policy"]["tariff_problems"]),
                lease_held=row["lease_held"],
            ),
            enabled=row["enabled"],
            frozen_for=row["frozen_for"],
        )

    def request_run(
        self, policy_id: int, *, request_id: str, fingerprint: str, by: str, tenant_id: str | None
    ) -> RequestedRun | None:
        """Record a manual run, or return the one that this request made before; None if no such policy has a schedule."""
        schedules = self._session.query("policy_schedule", policy_id=policy_id, tenant_id=tenant_id)
        if not schedules:
            return None
        asked = {
            "schedule_id": schedules[0]["id"],
            "request_id": request_id,
            "fingerprint": fingerprint,
            "by": by,
            "tenant_id": tenant_id,
        }
        # A request that another transaction made meanwhile is waited for, and seen only by the next statement.
        rows = self._session.query("request_run", **asked) or self._session.query("request_run", **asked)
        row = rows[0]
        return RequestedRun(
            occurrence_id=row["id"],
            state=row["state"],
            reason=row["reason"],
            fingerprint=row["request_fingerprint"],
            is_new=row["is_new"],
        )

    def close_attempt(
        self, attempt_id: UUID, *, by: str, why: str, tenant_id: str | None
    ) -> ClosedAttempt | AttemptEnd | None:
        """End what nobody can confirm, by an operator's word; else say where it stands; None if it is unknown."""
        rows = self._session.query(
            "close_attempt", attempt_id=attempt_id, by=by, why=why, tenant_id=tenant_id
        )
        if not rows:
            found = self._session.query("attempt_state", attempt_id=attempt_id, tenant_id=tenant_id)
            return AttemptEnd(state=found[0]["state"], ended_at=found[0]["ended_at"]) if found else None
        closed = rows[0]
        if closed["occurrence_id"] is not None:
            self._session.query("end_tick_if_sent", occurrence_id=closed["occurrence_id"])
        return ClosedAttempt(action=closed["action"], job_id=closed["reference"], machines=closed["machines"])

    def knows_tenant(self, tenant_id: str) -> bool:
        """Whether a machine, a cluster or an executor lease is of the tenant."""
        known: bool = self._session.query("knows_tenant", tenant_id=tenant_id)[0]["known"]
        return known

    def change_lease(self, tenant_id: str, *, holder: str, by: str, why: str) -> LeaseChange | None:
        """Say which system may act for a tenant; None if nothing is known of the tenant."""
        rows = self._session.query("change_lease", tenant_id=tenant_id, holder=holder, by=by, why=why)
        if not rows:
            return None
        return LeaseChange(was=rows[0]["was"], open_attempts=rows[0]["open_attempts"])

    def lease_of(self, tenant_id: str) -> Lease:
        """Return which system may act for a tenant."""
        rows = self._session.query("read_lease", tenant_id=tenant_id)
        return (
            Lease(**rows[0])
            if rows
            else Lease(holder=None, expires_at=None, changed_by=None, changed_at=None)
        )

    def policy_status(
        self, *, policy_id: int | None = None, tenant_id: str | None = None
    ) -> Sequence[Mapping[str, Any]]:
        """Return where every policy, or one, stands."""
        return self._session.query("policy_status", policy_id=policy_id, tenant_id=tenant_id)

    def open_work(self, *, tenant_id: str | None, limit: int) -> Sequence[Mapping[str, Any]]:
        """Return the attempts under way, oldest first."""
        return self._session.query("open_work", tenant_id=tenant_id, page_size=limit)

    def schema_version(self) -> str:
        """Return the newest migration that was applied."""
        version: str = self._session.query("schema_version")[0]["version"]
        return version

    def _cursor(self, schedule: Mapping[str, Any]) -> datetime | None:
        """Return a schedule's next run from now; now if its rule cannot be read, so that the next scan says why."""
        try:
            return next_run(parse_rule({**schedule["rule"], "time_zone": schedule["time_zone"]}), self.now)
        except InvalidDocument:
            return self.now
