"""The steps of one benchmark run, one per module, in the order in which the state machine takes them (R7.1).

prepare > switch > confirm > (warm up) > sample > judge > store > restore > confirm > release

A step reads where its run stands from the database alone, and may be repeated: commands are sent at most once by their
attempt's state, readings are kept once by their time, the first judgement stands, an end is final. What a step came to is
data, on which the state machine chooses; only a fault of ours or of the database is an exception. Steps of an execution that
does not carry the run out any more are `superseded` and change nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from blsflow.flow.benchmark.confirm import confirm_restore, confirm_switch
from blsflow.flow.benchmark.judge import judge
from blsflow.flow.benchmark.prepare import prepare
from blsflow.flow.benchmark.release import release
from blsflow.flow.benchmark.restore import restore
from blsflow.flow.benchmark.sample import sample
from blsflow.flow.benchmark.store import store
from blsflow.flow.benchmark.switch import switch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from blsflow.flow.benchmark.step import StepCall, StepOutcome

STEPS: Final[Mapping[str, Callable[[StepCall], StepOutcome]]] = {
    step.__name__: step
    for step in (
        prepare,
        switch,
        confirm_switch,
        sample,
        judge,
        store,
        restore,
        confirm_restore,
        release,
    )
}
"""The steps, by the names under which the state machine calls them."""
