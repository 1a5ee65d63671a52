"""Step Functions calls this with a run and a step of it; what came of it is data, on which the state machine chooses."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from blsflow.bootstrap import application
from blsflow.observability import count, summarized


def handler(event: dict[str, Any], context: object) -> dict[str, object]:
    """Carry out one step; an exception is a fault of ours or of the database, and the state machine puts the machine back."""
    with summarized("benchmark", context) as line:
        line |= {"step": event["step"], "run_id": event["run_id"], "execution": event["execution"]}
        came_to = application().benchmark(
            event["step"], run_id=UUID(event["run_id"]), execution=event["execution"]
        )
        line |= {
            "outcome": came_to.outcome,
            "machine_id": came_to.machine_id,
            "detail": came_to.detail,
        }
        if came_to.outcome == "released":
            count("BenchmarksEnded", 1, dimensions={"outcome": came_to.detail})
        if came_to.not_restored:
            count("BenchmarksNotRestored", 1)
    return {"outcome": came_to.outcome, "wait_sec": came_to.wait_sec}
