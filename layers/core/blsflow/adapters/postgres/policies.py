"""Policies as people write and read them: stored whole, changed under their row lock, and what they have to work with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from blsflow.adapters.postgres.documents import levels_of, policy_of
from blsflow.adapters.postgres.history import IN_ORDER
from blsflow.adapters.postgres.part import Part
from blsflow.adapters.postgres.statements import as_json
from blsflow.domain.errors import InvalidDocument
from blsflow.domain.policy_document import FIGURES, LIMITS, Scope, scope_order
from blsflow.domain.recurrence import next_run
from blsflow.domain.recurrence_document import parse_rule, to_document
from blsflow.ports.decide import BegunTick
from blsflow.ports.policies import (
    CandidateCoverage,
    FreezeRow,
    MachineReports,
    PolicyVersion,
    PolicyView,
    UnknownReferences,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    from blsflow.domain.inputs import TickInputs
    from blsflow.domain.policy_document import PolicyDocument

_SCALARS = ("name", "mode", "time_zone", "priority", *LIMITS)
_WINDOW = ("priority", "starts", "ends", "weekdays", "action", "project_id")


class PolicyQueries(Part):
    """The part of a transaction that handles policies for people."""

    def unknown_references(self, document: PolicyDocument, *, tenant_id: str) -> UnknownReferences:
        """Return what the document names and the tenant does not have."""

        def named(kind: str) -> list[str]:
            return [each.resource_id for each in document.scope if each.resource_type == kind]

        row = self._session.query(
            "unknown_references",
            tenant_id=tenant_id,
            clusters=named("cluster"),
            models=named("model"),
            machines=named("machine"),
            projects=[project for _, project in document.named_projects()],
        )[0]
        return UnknownReferences(**{kind: frozenset(found) for kind, found in row.items()})

    def insert_policy(
        self, document: PolicyDocument, *, tenant_id: str, execution_mode: str, by: str
    ) -> PolicyVersion:
        """Store a new policy, disabled, with its schedule at rest, on the record."""
        made = self._session.query(
            "insert_policy",
            tenant_id=tenant_id,
            execution_mode=execution_mode,
            by=by,
            settings=_settings(document),
        )[0]
        policy_id: int = made["id"]
        self._write_scope(policy_id, document.scope)
        self._write_candidates(policy_id, document.candidates, {})
        self._write_windows(policy_id, document)
        self._session.query("insert_policy_schedule", policy_id=policy_id, by=by, **self._rule(document))
        return PolicyVersion(policy_id=policy_id, version=made["version"])

    def lock_policy(self, policy_id: int, *, tenant_id: str | None) -> PolicyView | None:
        """Return a policy under its row lock; None if there is no such policy, or it is archived."""
        if not self._session.query("lock_policy", policy_id=policy_id, tenant_id=tenant_id):
            return None
        return self.policy_view(policy_id, tenant_id=tenant_id)

    def replace_policy(
        self, stored: PolicyView, document: PolicyDocument, *, changed: Sequence[str], by: str
    ) -> PolicyVersion:
        """Write a locked policy anew, on the record; candidates that stay keep their price levels."""
        policy_id = stored.policy_id
        row = self._session.query(
            "update_policy",
            policy_id=policy_id,
            by=by,
            changed=list(changed),
            settings=_settings(document),
        )[0]
        if "scope" in changed:
            self._session.query("clear_scopes", policy_id=policy_id)
            self._write_scope(policy_id, document.scope)
        if "candidates" in changed:
            taken = self._session.query("take_candidates", policy_id=policy_id)
            kept = {each["project_id"]: each["candidate"] for each in taken}
            self._write_candidates(policy_id, document.candidates, kept)
        if "windows" in changed:
            self._session.query("clear_windows", policy_id=policy_id)
            self._write_windows(policy_id, document)
        if "schedule" in changed:
            rule = self._rule(document)
            if not self._session.query("change_policy_schedule", policy_id=policy_id, **rule):
                self._session.query("insert_policy_schedule", policy_id=policy_id, by=by, **rule)
        return PolicyVersion(policy_id=policy_id, version=row["version"])

    def archive_policy(self, stored: PolicyView, *, by: str, why: str) -> None:
        """Take a locked policy out of use, on the record: nothing that it prepared is sent any more."""
        self._session.query("archive_policy", policy_id=stored.policy_id, by=by, why=why)

    def unsent_attempts_of_policy(self, policy_id: int) -> Mapping[int | None, Sequence[UUID]]:
        """Return what the policy's ticks prepared and nobody began to send, locked, by occurrence."""
        found: dict[int | None, list[UUID]] = {}
        for row in self._session.query("unsent_attempts_of_policy", policy_id=policy_id):
            found.setdefault(row["occurrence_id"], []).append(row["id"])
        return found

    def policy_view(self, policy_id: int, *, tenant_id: str | None) -> PolicyView | None:
        """Return a policy, archived ones too; None if there is no such policy."""
        rows = self._session.query("policy_view", policy_id=policy_id, tenant_id=tenant_id)
        return _view(rows[0]) if rows else None

    def list_policies(
        self, *, tenant_id: str, after: int, limit: int, include_archived: bool
    ) -> Sequence[PolicyView]:
        """Return a page of a tenant's policies, in order of their ids."""
        rows = self._session.query(
            "list_policies",
            tenant_id=tenant_id,
            after=after,
            page_size=limit,
            include_archived=include_archived,
        )
        return [_view(row) for row in rows]

    def freezes(
        self, policy_id: int, *, tenant_id: str | None, before: tuple[datetime, int], limit: int
    ) -> Sequence[FreezeRow]:
        """Return a page of a policy's freezes, newest first."""
        self._session.run(IN_ORDER)
        rows = self._session.query(
            "freezes_of_policy",
            policy_id=policy_id,
            tenant_id=tenant_id,
            before_at=before[0],
            before_id=before[1],
            page_size=limit,
        )
        return [FreezeRow(freeze_id=row.pop("id"), **row) for row in rows]

    def tick_at_rest(self, policy_id: int, *, tenant_id: str | None) -> BegunTick | None:
        """Return a policy as a tick would read it now, without lock or trace; None if there is no such policy."""
        rows = self._session.query("policy_view", policy_id=policy_id, tenant_id=tenant_id)
        if not rows:
            return None
        row = rows[0]
        return BegunTick(
            occurrence_id=0,
            tick_id=0,
            policy=policy_of(row["policy"], row["candidates"], row["windows"]),
            levels=levels_of(row["candidates"]),
            ticked_at=self.now,
            consecutive_failures=row["policy"]["consecutive_failures"],
            tariff_problems=frozenset(row["policy"]["tariff_problems"]),
            lease_held=row["lease_held"],
        )

    def coverage(
        self, begun: BegunTick, inputs: TickInputs
    ) -> tuple[Sequence[CandidateCoverage], MachineReports]:
        """Count, over all machines in scope, what a tick would find of reports, eligibility and benchmarks."""
        policy, classes, scope = begun.policy, inputs.classes, inputs.scope
        members = {
            "tenant_id": policy.tenant_id,
            "cluster_ids": [each.cluster_id for each in classes],
            "models": [each.model for each in classes],
            "covered": [scope.covers(each.cluster_id, each.model) for each in classes],
            "machine_ids": sorted(scope.machine_ids),
        }
        pairs = [
            (place, each, project) for place, each in enumerate(classes) for project in policy.candidates
        ]
        row = self._session.query(
            "benchmark_coverage",
            **members,
            pair_classes=[place for place, _, _ in pairs],
            pair_projects=[project for _, _, project in pairs],
            pair_allowed=[project in each.allowed for _, each, project in pairs],
            pair_denied=[project in each.denied for _, each, project in pairs],
            pair_runnable=[project in each.run_configs for _, each, project in pairs],
            benchmark_ttl_sec=policy.benchmark_ttl_sec,
        )[0]
        by_project = {each["project_id"]: each for each in row["of_candidates"]}
        reports = self._session.query(
            "machine_reports", **members, report_max_age_sec=policy.report_max_age_sec
        )[0]
        nothing = dict.fromkeys(
            ("machines", "eligible", "runnable", "valid", "missing", "expired", "invalid", "shared"), 0
        )
        return (
            [
                CandidateCoverage(**{**nothing, **by_project.get(project, {}), "project_id": project})
                for project in policy.candidates
            ],
            MachineReports(
                **reports,
                without_eligible=row["without_eligible"],
                without_runnable=row["without_runnable"],
                without_benchmark=row["without_benchmark"],
            ),
        )

    def _write_scope(self, policy_id: int, scope: Sequence[Scope]) -> None:
        self._session.query(
            "write_scopes",
            policy_id=policy_id,
            kinds=[each.resource_type for each in scope],
            ids=[each.resource_id for each in scope],
        )

    def _write_candidates(
        self, policy_id: int, candidates: Sequence[int], kept: Mapping[int, Mapping[str, Any]]
    ) -> None:
        rows = [
            {**kept.get(project, {}), "project_id": project, "position": position}
            for position, project in enumerate(candidates)
        ]
        self._session.query("write_candidates", policy_id=policy_id, candidates=as_json(rows))

    def _write_windows(self, policy_id: int, document: PolicyDocument) -> None:
        windows = document.to_document()["windows"]
        assert isinstance(windows, list)  # noqa: S101 - it is one
        rows = [{**window, "place": place} for place, window in enumerate(windows)]
        self._session.query("write_windows", policy_id=policy_id, windows=as_json(rows))

    def _rule(self, document: PolicyDocument) -> dict[str, object]:
        rule = dict(document.schedule)
        return {
            "next_run_at": next_run(parse_rule(rule), self.now),
            "time_zone": rule.pop("time_zone"),
            "rule": as_json(rule),
        }


def _settings(document: PolicyDocument) -> str:
    whole = document.to_document()
    return as_json({name: whole[name] for name in _SCALARS})


def _view(row: Mapping[str, Any]) -> PolicyView:
    policy = row["policy"]
    document = {name: policy[name] for name in _SCALARS}
    for name in FIGURES:
        document[name] = None if document[name] is None else float(document[name])
    if "scopes" in row:
        document["scope"] = _scope(row["scopes"])
    document["candidates"] = [each["project_id"] for each in row["candidates"]]
    document["windows"] = [{name: each[name] for name in _WINDOW} for each in row["windows"]]
    document["schedule"] = _stored_rule(row)
    return PolicyView(
        policy_id=policy["id"],
        tenant_id=policy["tenant_id"],
        version=policy["version"],
        document=document,
        scope_count=row["scope_count"] if "scope_count" in row else len(row["scopes"]),
        enabled=policy["enabled"],
        execution_mode=policy["execution_mode"],
        frozen_for=row["frozen_for"],
        next_run_at=row["next_run_at"],
        schedule_broken=row["broken"],
        created_by=policy["created_by"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        archived_at=row["archived_at"],
    )


def _scope(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    scope = [Scope(resource_type=each["resource_type"], resource_id=each["resource_id"]) for each in rows]
    return [
        {"resource_type": each.resource_type, "resource_id": each.resource_id}
        for each in sorted(scope, key=scope_order)
    ]


def _stored_rule(row: Mapping[str, Any]) -> Mapping[str, object] | None:
    """Return the rule with all its fields; one that cannot be read as it stands, and None if there is none."""
    if row["rule"] is None:
        return None
    rule = {**row["rule"], "time_zone": row["time_zone"]}
    try:
        return to_document(parse_rule(rule))
    except InvalidDocument:
        return rule
