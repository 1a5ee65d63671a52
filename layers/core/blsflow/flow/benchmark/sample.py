"""Sample: keep the machine's newest report, until the window is over by the database's clock (R7.1)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from blsflow.flow.benchmark.step import SUPERSEDED, StepOutcome

if TYPE_CHECKING:
    from blsflow.flow.benchmark.step import StepCall


def sample(call: StepCall) -> StepOutcome:
    """Answer `more` or `done`. A machine that falls silent leaves no reading, and the window ends all the same (B08)."""
    settings = call.settings
    with call.store.transaction() as tx:
        run = tx.begin_benchmark_step(call.run_id, call.execution, "sample")
        if run is None:
            return StepOutcome(outcome=SUPERSEDED)
        if run.measuring_from is None:
            return StepOutcome(outcome="done", machine_id=run.machine_id, detail="never_measured")
        tx.add_benchmark_reading(call.run_id)
        left = run.measuring_from + settings.warm_up + settings.window - tx.now
    if left.total_seconds() <= 0:
        return StepOutcome(outcome="done", machine_id=run.machine_id)
    wait = min(left, settings.between_readings)
    return StepOutcome(outcome="more", machine_id=run.machine_id, wait_sec=math.ceil(wait.total_seconds()))
