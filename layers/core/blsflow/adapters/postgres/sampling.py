"""What beginning, rescuing, watching and listing benchmark runs read and write."""

from __future__ import annotations

from typing import TYPE_CHECKING

from blsflow.adapters.postgres.part import Part
from blsflow.domain.sampling import PendingRun, Room
from blsflow.ports.sampling import ClaimedRun, RequestedBenchmark, RunAtWork, SamplingCost

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta
    from typing import Any
    from uuid import UUID


class SamplingQueries(Part):
    """The part of a transaction that sampling a fleet needs."""

    # ------------------------------------------------------------ beginning

    def startable_benchmarks(self, holder: str, limit: int) -> Sequence[PendingRun]:
        """Return pending runs that nothing keeps from beginning but caps; none while somebody else is choosing."""
        if not self._session.query("lock_benchmark_starts")[0]["alone"]:
            return []
        rows = self._session.query("benchmark_prospects", run_id=None, holder=holder, page_size=limit)
        return [
            PendingRun(
                run_id=row["id"],
                policy_id=row["policy_id"],
                machine_id=row["machine_id"],
                value_cny_per_day=row["value_cny_per_day"],
                by_operator=row["by_operator"],
            )
            for row in rows
        ]

    def benchmark_rooms(self, policy_ids: Sequence[int]) -> Mapping[int, Room]:
        """Return each policy's caps."""
        rows = self._session.query("benchmark_rooms", policy_ids=list(policy_ids))
        return {
            row["id"]: Room(
                machines=row["machines"],
                under_benchmark=row["under_benchmark"],
                max_benchmarks=row["max_benchmarks"],
                max_benchmark_share=row["max_benchmark_share"],
            )
            for row in rows
        }

    def machines_under_benchmark(self) -> frozenset[int]:
        """Return the machines that a run works on."""
        return frozenset(row["machine_id"] for row in self._session.query("machines_under_benchmark"))

    def claim_benchmarks(self, run_ids: Sequence[UUID]) -> Sequence[ClaimedRun]:
        """Mark runs as under way, with the names of their executions."""
        rows = self._session.query("claim_benchmarks", run_ids=list(run_ids))
        return [ClaimedRun(run_id=row["id"], execution=row["execution_name"]) for row in rows]

    def note_execution(self, claimed: ClaimedRun) -> None:
        """Note that the state machine has taken a run."""
        self._session.query("note_execution", run_id=claimed.run_id, execution=claimed.execution)

    def drop_unwanted_benchmarks(self) -> int:
        """Cancel pending runs that nothing asks for any more."""
        dropped: int = self._session.query("drop_unwanted_benchmarks")[0]["dropped"]
        return dropped

    # ------------------------------------------------------------ rescue

    def benchmark_runs_at_work(self, quiet_for: timedelta, limit: int) -> Sequence[RunAtWork]:
        """Return runs under way that made no step for so long, the quietest first."""
        rows = self._session.query("benchmark_runs_at_work", quiet_for=quiet_for, page_size=limit)
        return [
            RunAtWork(
                run_id=row["id"],
                execution=row["execution_name"],
                noted=row["noted"],
                commanded=row["commanded"],
                restoring=row["state"] == "restoring",
                progressed_at=row["progressed_at"],
                rescues=row["rescues"],
                alerted=row["alerted"],
            )
            for row in rows
        ]

    def rescue_benchmark(self, run: RunAtWork, reason: str) -> ClaimedRun | None:
        """Hand a run to a new execution that only puts the machine back; None if somebody else did."""
        rows = self._session.query(
            "rescue_benchmark", run_id=run.run_id, execution=run.execution, reason=reason
        )
        return ClaimedRun(run_id=run.run_id, execution=rows[0]["execution_name"]) if rows else None

    def alert_benchmark(self, run_id: UUID) -> None:
        """Tell people, once, that a machine could not be put back so far."""
        self._session.query("alert_benchmark", run_id=run_id)

    # ------------------------------------------------------------ drift

    def watch_drift(self, tolerance: float, keep: int) -> Sequence[tuple[int, int, float, Sequence[float]]]:
        """Keep readings that differ from benchmarks; return machine, project, benchmark and readings (oldest first)."""
        rows = self._session.query("watch_drift", tolerance=tolerance, keep=keep)
        return [
            (row["machine_id"], row["project_id"], row["hashrate_hs"], row["drift_hashrates_hs"][::-1])
            for row in rows
            if row["drift_hashrates_hs"]
        ]

    def request_drifted(self, pairs: Sequence[tuple[int, int]], ask_again_after: timedelta) -> int:
        """Ask for new benchmarks of these pairs; return how many are new."""
        rows = self._session.query(
            "request_drifted",
            machine_ids=[machine_id for machine_id, _ in pairs],
            project_ids=[project_id for _, project_id in pairs],
            ask_again_after=ask_again_after,
        )
        return len(rows)

    # ------------------------------------------------------------ operators

    def covers_machine(self, policy_id: int, machine_id: int, *, tenant_id: str | None) -> bool | None:
        """Whether a policy's scope has a machine; None if they are not of one tenant."""
        rows = self._session.query(
            "policy_covers_machine", policy_id=policy_id, machine_id=machine_id, tenant_id=tenant_id
        )
        return bool(rows[0]["covers"]) if rows else None

    def request_benchmark_by_hand(
        self, policy_id: int, machine_id: int, project_id: int, *, by: str, tenant_id: str | None
    ) -> RequestedBenchmark | None:
        """Ask for a run before all others; None if policy, machine or project are not of one tenant."""
        rows = self._session.query(
            "request_benchmark_by_hand",
            policy_id=policy_id,
            machine_id=machine_id,
            project_id=project_id,
            by=by,
            tenant_id=tenant_id,
        )
        if not rows:
            return None
        row = rows[0]
        return RequestedBenchmark(run_id=row["id"], state=row["state"], policy_id=row["policy_id"])

    def list_benchmark_runs(
        self, *, policy_id: int | None, open_only: bool, limit: int
    ) -> Sequence[Mapping[str, Any]]:
        """Return runs, open ones first, then the newest."""
        return self._session.query(
            "list_benchmark_runs", policy_id=policy_id, open_only=open_only, page_size=limit
        )

    def benchmark_costs(self, *, policy_id: int | None) -> Sequence[Mapping[str, Any]]:
        """Return what sampling has cost each policy."""
        return self._session.query("benchmark_costs", policy_id=policy_id)

    def sampling_cost(self, policy_id: int, *, tenant_id: str) -> SamplingCost:
        """Return what sampling has cost one policy."""
        return SamplingCost(
            **self._session.query("sampling_cost", policy_id=policy_id, tenant_id=tenant_id)[0]
        )
