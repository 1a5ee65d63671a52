"""Judge: whether the readings make a benchmark (R7.2)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from blsflow.domain import benchmarking
from blsflow.flow.benchmark.step import SUPERSEDED, StepOutcome

if TYPE_CHECKING:
    from blsflow.flow.benchmark.step import StepCall


def judge(call: StepCall) -> StepOutcome:
    """Answer `measured` or `failed`, with the fault; the readings and figures are kept with the run either way."""
    with call.store.transaction() as tx:
        run = tx.begin_benchmark_step(call.run_id, call.execution, "judge")
        if run is None:
            return StepOutcome(outcome=SUPERSEDED)
        readings, peers = tx.benchmark_sample(run)
        criteria = replace(call.settings.criteria, warm_up_sec=call.settings.warm_up.total_seconds())
        judgement = benchmarking.judge(readings, peers, criteria)
        tx.record_judgement(call.run_id, judgement)
    if judgement.fault is None:
        return StepOutcome(outcome="measured", machine_id=run.machine_id)
    return StepOutcome(outcome="failed", machine_id=run.machine_id, detail=str(judgement.fault))
