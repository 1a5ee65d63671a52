"""What the steps of a benchmark run read and write."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from blsflow.adapters.postgres.part import Part
from blsflow.adapters.postgres.reconcile import open_attempt_of
from blsflow.adapters.postgres.statements import as_json
from blsflow.domain.benchmarking import Measured, Peers, SampleReading
from blsflow.domain.execution import CommandKind
from blsflow.ports.benchmark import BenchmarkCommand, BenchmarkRun, ModelFigures, Prospect, Whereabouts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta
    from typing import Any
    from uuid import UUID

    from blsflow.domain.benchmarking import Judgement
    from blsflow.domain.settle import OpenAttempt
    from blsflow.ports.benchmark import WayBack


class BenchmarkQueries(Part):
    """A benchmark run's part of a transaction."""

    def begin_benchmark_step(self, run_id: UUID, execution: str, step: str) -> BenchmarkRun | None:
        """Lock the run and note the step; None if it has ended or another execution carries it out."""
        rows = self._session.query("begin_benchmark_step", run_id=run_id, execution=execution, step=step)
        return _run_of(rows[0]) if rows else None

    def benchmark_prospect(self, run_id: UUID, holder: str) -> Prospect | None:
        """Return what the run's machine does; None if anything keeps the run from beginning."""
        rows = self._session.query("benchmark_prospects", run_id=run_id, holder=holder, page_size=1)
        if not rows:
            return None
        row = rows[0]
        return Prospect(
            status=row["status"],
            runs_project=row["runs_project"],
            project_since=row["project_since"],
            run_config_id=row["run_config_id"],
            back_run_config_id=row["back_run_config_id"],
        )

    def take_benchmark_lock(
        self,
        run_id: UUID,
        *,
        run_config_id: int,
        way_back: WayBack | None,
        measuring_from: datetime | None,
        lock_ttl: timedelta,
    ) -> int | None:
        """Take the machine's lock and remember the way back; None if somebody holds it."""
        rows = self._session.query(
            "take_benchmark_lock",
            run_id=run_id,
            run_config_id=run_config_id,
            restore_action=None if way_back is None else str(way_back.action),
            restore_project_id=None if way_back is None else way_back.project_id,
            restore_run_config_id=None if way_back is None else way_back.run_config_id,
            measuring_from=measuring_from,
            lock_ttl=lock_ttl,
        )
        token: int | None = rows[0]["fencing_token"] if rows else None
        return token

    def postpone_benchmark(self, run_id: UUID, reason: str) -> None:
        """Put a run that touched nothing back among the pending ones."""
        self._session.query("postpone_benchmark", run_id=run_id, reason=reason)

    def prepare_benchmark_command(
        self, run: BenchmarkRun, command: WayBack, *, step: str, key: str, validity: timedelta
    ) -> UUID:
        """Prepare a command under the run's lock, or return the one that the key stands for already."""
        attempt_id: UUID = self._session.query(
            "insert_benchmark_attempt",
            run_id=run.run_id,
            key=key,
            step=step,
            action=str(command.action),
            project_id=command.project_id,
            run_config_id=command.run_config_id,
            validity=validity,
        )[0]["id"]
        return attempt_id

    def benchmark_commands(self, run_id: UUID) -> Sequence[BenchmarkCommand]:
        """Return the run's commands, newest first."""
        return [
            BenchmarkCommand(
                attempt_id=row["id"],
                step=row["benchmark_step"],
                state=row["state"],
                reason=row["reason"],
                machine_state=row["machine_state"],
                dispatched_at=row["dispatched_at"],
                ended=row["ended_at"] is not None,
            )
            for row in self._session.query("benchmark_commands", run_id=run_id)
        ]

    def claim_benchmark_attempt(self, run_id: UUID, lease: timedelta) -> OpenAttempt | None:
        """Claim the run's open command for a look, if it is due and nobody else looks."""
        rows = self._session.query("claim_benchmark_attempt", run_id=run_id, lease=lease)
        if not rows:
            return None
        return open_attempt_of(rows[0], self._session.query("open_machines", attempt_ids=[rows[0]["id"]]))

    def note_benchmark(
        self,
        run_id: UUID,
        *,
        moved_at: datetime | None = None,
        measuring_from: datetime | None = None,
        failed_for: str | None = None,
    ) -> None:
        """Keep what a step learnt; what is known already stays, and so does an outcome."""
        self._session.query(
            "note_benchmark",
            run_id=run_id,
            moved_at=moved_at,
            measuring_from=measuring_from,
            outcome=None if failed_for is None else "failed",
            reason=failed_for,
        )

    def add_benchmark_reading(self, run_id: UUID) -> int | None:
        """Keep the machine's newest report on the project, once; return how many there are, None if it is nothing new."""
        rows = self._session.query("add_benchmark_reading", run_id=run_id)
        return int(rows[0]["readings"]) if rows else None

    def benchmark_sample(self, run: BenchmarkRun) -> tuple[Sequence[SampleReading], Peers]:
        """Return the run's readings and what they are held against."""
        row = self._session.query("benchmark_sample", run_id=run.run_id, ttl_sec=run.benchmark_ttl_sec)[0]
        since = run.measuring_from
        readings = [
            SampleReading(
                at_sec=(datetime.fromisoformat(each["at"]) - since).total_seconds(),
                hashrate_hs=each["hashrate_hs"],
                power_w=each["power_w"],
            )
            for each in row["readings"]
            if since is not None
        ]
        peers = Peers(
            measured=tuple(Measured(hashrate_hs=rate, power_w=power) for rate, power in row["peers"]),
            nameplate_hashrate_hs=row["nameplate_hashrate_hs"],
            nameplate_power_w=row["nameplate_power_w"],
        )
        return readings, peers

    def record_judgement(self, run_id: UUID, judgement: Judgement) -> None:
        """Keep what a sample came to; the first judgement stands."""
        result = {
            "hashrate_hs": judgement.hashrate_hs,
            "power_w": judgement.power_w,
            "power_estimated": judgement.power_estimated,
            "spread": judgement.spread,
            "readings": judgement.used,
            "detail": judgement.detail,
        }
        self._session.query(
            "record_judgement",
            run_id=run_id,
            outcome="measured" if judgement.fault is None else "failed",
            reason=None if judgement.fault is None else str(judgement.fault),
            result=as_json(result),
        )

    def take_turn_to_share(self, run_id: UUID) -> None:
        """Wait until no other run of the model is storing and sharing; held until the transaction ends."""
        self._session.query("take_turn_to_share", run_id=run_id)

    def store_benchmark(self, run_id: UUID) -> None:
        """Store the measured figures as the machine's own benchmark."""
        self._session.query("store_benchmark", run_id=run_id)

    def model_figures(self, run: BenchmarkRun) -> ModelFigures:
        """Return the model's own measurements on the project."""
        row = self._session.query("model_figures", run_id=run.run_id, ttl_sec=run.benchmark_ttl_sec)[0]
        return ModelFigures(
            machines=row["machines"],
            measured=Measured(hashrate_hs=row["hashrate_hs"], power_w=row["power_w"])
            if row["machines"]
            else None,
            power_estimated=bool(row["power_estimated"]),
        )

    def machines_without_own(self, run_id: UUID) -> Sequence[int]:
        """Return the model's machines that were never measured themselves on the project."""
        return [row["id"] for row in self._session.query("machines_without_own", run_id=run_id)]

    def share_benchmark(self, run_id: UUID, figures: ModelFigures, sampled_at: Mapping[int, datetime]) -> int:
        """Give figures to machines that have none of their own, each with its sampling time; return to how many."""
        if figures.measured is None:
            return 0
        shared: int = self._session.query(
            "share_benchmark",
            run_id=run_id,
            hashrate_hs=figures.measured.hashrate_hs,
            power_w=figures.measured.power_w,
            power_estimated=figures.power_estimated,
            machine_ids=list(sampled_at),
            sampled_at=list(sampled_at.values()),
        )[0]["shared"]
        return shared

    def whereabouts(self, run: BenchmarkRun) -> Whereabouts:
        """Return what the machine does since the run's last command."""
        row = self._session.query(
            "benchmark_whereabouts", run_id=run.run_id, report_max_age_sec=run.report_max_age_sec
        )[0]
        return Whereabouts(
            operator_hold=row["operator_hold"],
            fresh=bool(row["fresh"]),
            status=row["status"],
            project_id=row["project_id"],
        )

    def end_benchmark(
        self,
        run_id: UUID,
        *,
        restore_status: str,
        lost_minutes: float,
        lost_cny: float | None,
        retry_after: timedelta | None,
    ) -> str:
        """End the run, free its lock, plan the next try or tell people that there is none; return its final state."""
        state: str = self._session.query(
            "end_benchmark",
            run_id=run_id,
            restore_status=restore_status,
            lost_minutes=lost_minutes,
            lost_cny=lost_cny,
            retry_after=retry_after,
        )[0]["state"]
        return state


def _run_of(row: Mapping[str, Any]) -> BenchmarkRun:
    action = row["restore_action"]
    return BenchmarkRun(
        run_id=row["id"],
        tenant_id=row["tenant_id"],
        policy_id=row["policy_id"],
        machine_id=row["machine_id"],
        project_id=row["project_id"],
        attempt_no=row["attempt_no"],
        fencing_token=row["fencing_token"],
        run_config_id=row["run_config_id"],
        restore_action=None if action is None else CommandKind(action),
        restore_project_id=row["restore_project_id"],
        restore_run_config_id=row["restore_run_config_id"],
        restore_tries=row["restore_tries"],
        measuring_from=row["measuring_from"],
        outcome=row["outcome"],
        moved_at=row["moved_at"],
        current_net_cny_per_day=row["current_net_cny_per_day"],
        result=row["result"],
        report_max_age_sec=row["report_max_age_sec"],
        benchmark_ttl_sec=row["benchmark_ttl_sec"],
        share_after=row["share_after"],
    )
