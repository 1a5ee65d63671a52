"""The main job by the deployed clockwork, with everything taken away that the emulator does not ask for."""

from __future__ import annotations

import json
import time
import uuid
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.privileges.stage import Stage

_BY_THEMSELVES: Final = ("tick", "reconcile", "notify", "decide", "execute", "benchmark")
_WITHIN_SEC: Final = 150
_WAITING: Final = {"StartAt": "Wait", "States": {"Wait": {"Type": "Wait", "Seconds": 3600, "End": True}}}


def whole_job(stage: Stage, say: Callable[[str], None]) -> list[str]:
    """See schedules, queues and the state machine call their functions and these log; then still all of it.

    Return what did not happen. Afterwards an execution of the state machine only waits: beginning, watching and stopping
    it is what remains to be shown.
    """
    stage.rows("update smart_schedule_policy_groups set max_benchmarks = 0")
    for function in _BY_THEMSELVES:
        stage.cold(function)
    since = time.time()
    states, machine = stage.client("stepfunctions"), stage.output("BenchmarkStateMachineArn")
    nobodys = {"run_id": str(uuid.uuid4()), "execution": "nobody's", "begin_with": "prepare"}
    states.start_execution(stateMachineArn=machine, input=json.dumps(nobodys))
    silent = set(_BY_THEMSELVES)

    def all_told() -> bool:
        silent.difference_update([each for each in silent if stage.logged(each, since)])
        return not silent

    stage.until(all_told, within_sec=_WITHIN_SEC)
    failed = {
        each for each in _BY_THEMSELVES for line in stage.logged(each, since) if line["level"] == "ERROR"
    }
    say(
        f"called and logged within {time.time() - since:.0f} s: {', '.join(sorted(set(_BY_THEMSELVES) - silent))}"
    )
    for queue in ("DecideQueue", "ExecuteQueue"):
        if not stage.until(lambda queue=queue: stage.waiting(queue) == 0, within_sec=30):
            failed.add(queue)
    stage.clockwork("DISABLED")
    states.update_state_machine(stateMachineArn=machine, definition=json.dumps(_WAITING))
    return [f"the emulator may ask for more than was known: {each}" for each in sorted(silent | failed)]
