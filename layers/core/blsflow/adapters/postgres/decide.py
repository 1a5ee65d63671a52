"""What decide reads and writes, in a number of round trips that does not depend on the fleet's size."""

from __future__ import annotations

from typing import TYPE_CHECKING

from blsflow.adapters.postgres.copying import DECISION_COLUMNS, DecisionSpool
from blsflow.adapters.postgres.documents import levels_of, policy_of
from blsflow.adapters.postgres.inputs import classes_of, cluster_of, other_policy_of, project_of, scope_of
from blsflow.adapters.postgres.part import Part
from blsflow.adapters.postgres.statements import as_json
from blsflow.domain.block import Block
from blsflow.domain.errors import InvalidDocument
from blsflow.domain.inputs import TickInputs
from blsflow.domain.machine import Status
from blsflow.domain.prospects import NO_TIME
from blsflow.domain.sampling import ASK_AGAIN_AFTER
from blsflow.ports.decide import BegunTick, LostRaces, PreparedAttempts
from blsflow.ports.execute import NotBegun

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime, timedelta
    from uuid import UUID

    from blsflow.adapters.postgres.connection import Session
    from blsflow.domain.events import LogEvent
    from blsflow.domain.freeze import Freeze
    from blsflow.domain.gates import Gates
    from blsflow.domain.inputs import Overriding
    from blsflow.domain.policy import Policy
    from blsflow.domain.prospects import Span
    from blsflow.domain.sampling import BenchmarkRequest
    from blsflow.ports.decide import NewAttempt, TickResult


class _DecisionSink(DecisionSpool):
    """Spools a tick's decisions and copies them in at the end."""

    def __init__(self, session: Session, begun: BegunTick) -> None:
        at = begun.ticked_at
        super().__init__(tick_id=begun.tick_id, ticked_at_us=int(at.timestamp()) * 1_000_000 + at.microsecond)
        self._session = session

    def close(self) -> None:
        try:
            self._session.copy(
                f"copy smart_schedule_machine_decisions ({DECISION_COLUMNS}) from stdin (format binary)",
                self.finish(),
            )
        finally:
            self.forget()


class DecideQueries(Part):
    """Decide's part of a transaction."""

    def begin_tick(self, occurrence_id: int, gates: Gates) -> BegunTick | NotBegun:
        """Begin a recorded tick, or close it with the reason why not: compare-and-set under the policy's row lock."""
        if not self._session.query("lock_policy_of", occurrence_id=occurrence_id):
            return NotBegun(reason="unknown_occurrence", closed=False)
        row = self._session.query("read_tick", occurrence_id=occurrence_id, holder=gates.holder)[0]
        if row["state"] != "recorded":
            return NotBegun(reason="already_begun", closed=False)
        objection = _objection(row)
        if objection is not None:
            closed = self._session.query("skip_occurrence", occurrence_id=occurrence_id, reason=objection)
            return NotBegun(reason=objection, closed=bool(closed[0]["closed"]))
        try:
            policy = policy_of(row["policy"], row["candidates"], row["windows"])
        except InvalidDocument as error:
            self._session.query("skip_occurrence", occurrence_id=occurrence_id, reason="config_changed")
            self._session.query(
                "tell_invalid_policy", policy_id=row["policy"]["id"], field=error.field, cause=error.cause
            )
            return NotBegun(reason="config_changed", closed=True)
        return BegunTick(
            occurrence_id=occurrence_id,
            tick_id=row["tick_id"],
            policy=policy,
            levels=levels_of(row["candidates"]),
            ticked_at=self.now,
            consecutive_failures=row["policy"]["consecutive_failures"],
            tariff_problems=frozenset(row["policy"]["tariff_problems"]),
            lease_held=row["lease_held"],
        )

    def tick_inputs(self, begun: BegunTick, *, tariffs_from: datetime | None = None) -> TickInputs:
        """Read what all machines of a tick share; tariffs that ended before ``tariffs_from`` (None: now) are left out."""
        policy = begun.policy
        row = self._session.query(
            "tick_inputs",
            policy_id=policy.id,
            tenant_id=policy.tenant_id,
            occurrence_id=begun.occurrence_id,
            tariffs_from=begun.ticked_at if tariffs_from is None else tariffs_from,
        )[0]
        others = []
        for other in row["others"]:
            try:
                others.append(other_policy_of(other))
            except InvalidDocument:
                continue  # its own ticks say what is wrong with it; it stops nothing but itself
        return TickInputs(
            projects=tuple(map(project_of, row["projects"])),
            clusters=tuple(map(cluster_of, row["clusters"])),
            classes=classes_of(row["classes"], row["models"], row["eligibilities"]),
            scope=scope_of(row["scopes"]),
            others=tuple(others),
            levels=begun.levels,
        )

    def adopt_foreign_changes(self, policy: Policy, inputs: TickInputs) -> int:
        """Notice machines that do what nobody here asked for; count each once and take it as the new state."""
        row = self._session.query(
            "adopt_foreign_changes", policy_id=policy.id, **_where_foreign(policy, inputs)
        )[0]
        changes: int = row["changes"]
        return changes

    def foreign_changes(self, policy: Policy, inputs: TickInputs) -> Mapping[int, Status]:
        """Return what adopting would take as the new state, by machine; nothing is changed, and nobody waited for."""
        rows = self._session.query("foreign_changes", **_where_foreign(policy, inputs))
        return {row["machine_id"]: Status[row["status"].upper()] for row in rows}

    def read_machines(
        self,
        policy: Policy,
        inputs: TickInputs,
        overriding: Overriding,
        sink: Callable[[Block], None],
        *,
        fresh: Span = NO_TIME,
    ) -> None:
        """Feed all machines in scope to ``sink``, in blocks, ordered by machine.

        Of machines whose benchmarks may all be decided on, with times within ``fresh``, the figures only.
        """
        classes = inputs.classes
        overridden = sorted(overriding.of_machines.items())
        self._session.stream(
            "read_machines",
            lambda values: sink(Block(*values)),
            tenant_id=policy.tenant_id,
            cluster_ids=[c.cluster_id for c in classes],
            models=[c.model for c in classes],
            covered=[inputs.scope.covers(c.cluster_id, c.model) for c in classes],
            everything=inputs.scope.everything,
            override_ids=[policy_id for policy_id, _ in overriding.of_classes],
            override_ranks=[rank for _, rank in overriding.of_classes],
            overridden_machines=[machine_id for machine_id, _ in overridden],
            overriding_policies=[policy_id for _, (policy_id, _) in overridden],
            overriding_ranks=[rank for _, (_, rank) in overridden],
            machine_ids=sorted(inputs.scope.machine_ids),
            projects=list(policy.considered_projects),
            report_max_age_sec=policy.report_max_age_sec,
            sampled_from=fresh.oldest,
            sampled_until=fresh.newest,
        )

    def decisions(self, begun: BegunTick) -> _DecisionSink:
        """Open the sink for a tick's decisions."""
        return _DecisionSink(self._session, begun)

    def prepare_attempts(
        self, begun: BegunTick, attempts: Sequence[NewAttempt], *, valid_until: datetime, lock_ttl: timedelta
    ) -> PreparedAttempts:
        """Take the locks of all deciding machines and keep the attempts that won any; losers become skip/locked."""
        rows = self._session.query(
            "prepare_attempts",
            tenant_id=begun.policy.tenant_id,
            occurrence_id=begun.occurrence_id,
            policy_id=begun.policy.id,
            tick_id=begun.tick_id,
            valid_until=valid_until,
            lock_ttl=lock_ttl,
            attempts=as_json(
                [
                    {
                        "id": attempt.attempt_id,
                        "key": attempt.key,
                        "action": attempt.action,
                        "project_id": attempt.project_id,
                        "run_config_id": attempt.run_config_id,
                        "machine_ids": attempt.machine_ids,
                    }
                    for attempt in attempts
                ]
            ),
        )
        won: dict[UUID, int] = {row["attempt_id"]: row["machines"] for row in rows}
        lost: list[LostRaces] = []
        if sum(won.values()) < sum(len(attempt.machine_ids) for attempt in attempts):
            rows = self._session.query(
                "skip_lost_races", tick_id=begun.tick_id, ticked_at=begun.ticked_at, ids=list(won)
            )
            lost = [LostRaces(**row) for row in rows]
        return PreparedAttempts(machines=won, lost=tuple(lost))

    def request_benchmarks(self, begun: BegunTick, requests: Sequence[BenchmarkRequest]) -> int:
        """Ask for runs of pairs that have no open one and none that failed for good lately; return how many are new."""
        row = self._session.query(
            "request_benchmarks",
            tenant_id=begun.policy.tenant_id,
            policy_id=begun.policy.id,
            machine_ids=[request.machine_id for request in requests],
            project_ids=[request.project_id for request in requests],
            values=[request.value_cny_per_day for request in requests],
            nets=[request.current_net_cny_per_day for request in requests],
            ask_again_after=ASK_AGAIN_AFTER,
        )[0]
        asked: int = row["asked"]
        return asked

    def withhold_moves(self, begun: BegunTick, reason: str) -> None:
        """Turn every deciding action of the tick into skip with this reason."""
        self._session.query("withhold_moves", tick_id=begun.tick_id, ticked_at=begun.ticked_at, reason=reason)

    def open_freeze(self, policy: Policy, freeze: Freeze, *, by: str) -> bool:
        """Freeze a policy unless it is frozen already; return whether this call froze it."""
        return bool(
            self._session.query(
                "open_freeze",
                policy_id=policy.id,
                tenant_id=policy.tenant_id,
                cause=str(freeze.cause),
                detail=as_json(dict(freeze.detail)),
                frozen_by=by,
            )
        )

    def finish_dry_run(self, begun: BegunTick, detail: Mapping[str, object]) -> None:
        """End the occurrence of a dry run, which stores nothing else."""
        self._session.query("finish_dry_run", occurrence_id=begun.occurrence_id, detail=as_json(detail))

    def finish_tick(self, begun: BegunTick, result: TickResult, event: LogEvent) -> None:
        """Write the tick with its log event, the policy's counters and accepted price levels, and the occurrence's end."""
        policy = begun.policy
        self._session.query(
            "finish_tick",
            tick_id=begun.tick_id,
            tenant_id=policy.tenant_id,
            policy_id=policy.id,
            occurrence_id=begun.occurrence_id,
            execution_mode=str(policy.execution_mode),
            policy_version=policy.version,
            inputs=as_json(result.inputs),
            failure=result.failure,
            machines=result.machines,
            counts=as_json(result.counts),
            gain=result.gain_cny_per_day,
            valid_until=result.valid_until,
            failures=result.consecutive_failures,
            tariff_problems=sorted(result.tariff_problems),
            running=result.running,
            levels=as_json(
                [
                    {
                        "project_id": project_id,
                        "level": level.level,
                        "level_at": level.level_at,
                        "pending_level": level.pending_level,
                        "pending_since": level.pending_since,
                    }
                    for project_id, level in result.levels.items()
                ]
            ),
            event_level=str(event.level),
            event_code=event.code,
            event_params=as_json(dict(event.params)),
        )


def _where_foreign(policy: Policy, inputs: TickInputs) -> dict[str, object]:
    """Say among which machines foreign changes are looked for."""
    covered = [c for c in inputs.classes if inputs.scope.covers(c.cluster_id, c.model)]
    return {
        "tenant_id": policy.tenant_id,
        "cluster_ids": [c.cluster_id for c in covered],
        "models": [c.model for c in covered],
        "machine_ids": sorted(inputs.scope.machine_ids),
        "report_max_age_sec": policy.report_max_age_sec,
    }


def _objection(row: Mapping[str, object]) -> str | None:
    if row["frozen"]:
        return "frozen"
    policy = row["policy"]
    off = not (isinstance(policy, dict) and policy["enabled"] and policy["archived_at"] is None)
    if off or ((row["paused"] or row["archived"]) and row["origin"] == "planned"):
        return "paused"
    return "previous_unfinished" if row["active"] else None
