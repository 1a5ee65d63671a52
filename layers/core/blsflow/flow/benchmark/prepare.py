"""Prepare: take the machine's lock, and remember what it runs and how to get back there."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import TYPE_CHECKING

from blsflow.domain.execution import CommandKind
from blsflow.flow.benchmark.step import SUPERSEDED, StepOutcome
from blsflow.ports.benchmark import WayBack

if TYPE_CHECKING:
    from datetime import datetime

    from blsflow.domain.gates import Gates
    from blsflow.flow.benchmark.step import StepCall
    from blsflow.ports.benchmark import BenchmarkRun, Prospect


def prepare(call: StepCall) -> StepOutcome:
    """Answer `switch` or `measure` (the machine runs the project anyway), or `postponed`: nothing was touched then."""
    settings = call.settings
    with call.store.transaction() as tx:
        run = tx.begin_benchmark_step(call.run_id, call.execution, "prepare")
        if run is None:
            return StepOutcome(outcome=SUPERSEDED)
        if run.fencing_token is not None:
            return _outcome(run, measures=run.measuring_from, call=call, now=tx.now)
        prospect = tx.benchmark_prospect(call.run_id, settings.gates.holder)
        if prospect is None or not _may_act(settings.gates):
            tx.postpone_benchmark(call.run_id, "conditions_changed")
            return StepOutcome(outcome="postponed", machine_id=run.machine_id, detail="conditions_changed")
        measuring_from = _measuring_from(run, prospect, call, now=tx.now)
        token = tx.take_benchmark_lock(
            call.run_id,
            run_config_id=prospect.run_config_id,
            way_back=_way_back(run, prospect),
            measuring_from=measuring_from,
            lock_ttl=settings.lock_ttl,
        )
        if token is None:
            tx.postpone_benchmark(call.run_id, "locked")
            return StepOutcome(outcome="postponed", machine_id=run.machine_id, detail="locked")
        return _outcome(run, measures=measuring_from, call=call, now=tx.now)


def _may_act(gates: Gates) -> bool:
    return gates.execute_enabled and gates.executor_configured


def _way_back(run: BenchmarkRun, prospect: Prospect) -> WayBack | None:
    """Return what undoes the move, or None if there is none."""
    if prospect.status == "mining":
        if prospect.runs_project == run.project_id:
            return None
        return WayBack(
            action=CommandKind.SWITCH,
            project_id=prospect.runs_project,
            run_config_id=prospect.back_run_config_id,
        )
    return WayBack(action=CommandKind.STOP if prospect.status == "stopped" else CommandKind.POWER_OFF)


def _measuring_from(
    run: BenchmarkRun, prospect: Prospect, call: StepCall, *, now: datetime
) -> datetime | None:
    """Return since when the machine may be measured; one that has run the project for long is warm already."""
    if prospect.status != "mining" or prospect.runs_project != run.project_id:
        return None
    since = prospect.project_since
    if since is None or since > now:
        return now
    return max(since, now - call.settings.warm_up)


def _outcome(run: BenchmarkRun, *, measures: datetime | None, call: StepCall, now: datetime) -> StepOutcome:
    if measures is None:
        return StepOutcome(outcome="switch", machine_id=run.machine_id)
    left = max(timedelta(0), measures + call.settings.warm_up - now)
    return StepOutcome(outcome="measure", machine_id=run.machine_id, wait_sec=math.ceil(left.total_seconds()))
