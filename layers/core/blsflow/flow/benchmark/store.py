"""Store: the measured figures become the machine's benchmark, and serve its model once enough machines were measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from blsflow.domain.sampling import shared_age
from blsflow.flow.benchmark.step import SUPERSEDED, StepOutcome

if TYPE_CHECKING:
    from blsflow.flow.benchmark.step import StepCall


def store(call: StepCall) -> StepOutcome:
    """Answer `stored`. Machines of the model without own figures get the model's medians, marked as shared (R7.4)."""
    with call.store.transaction() as tx:
        run = tx.begin_benchmark_step(call.run_id, call.execution, "store")
        if run is None:
            return StepOutcome(outcome=SUPERSEDED)
        tx.take_turn_to_share(call.run_id)
        tx.store_benchmark(call.run_id)
        figures = tx.model_figures(run)
        shared = 0
        if figures.machines >= run.share_after:
            sampled_at = {
                machine_id: tx.now - shared_age(machine_id, run.project_id, run.benchmark_ttl_sec)
                for machine_id in tx.machines_without_own(call.run_id)
            }
            shared = tx.share_benchmark(call.run_id, figures, sampled_at) if sampled_at else 0
    return StepOutcome(outcome="stored", machine_id=run.machine_id, detail=f"shared with {shared}")
