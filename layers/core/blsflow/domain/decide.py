"""The decision: one verdict per machine, from the policy, the market and the machine alone (R3.10)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from blsflow.domain.guards import Guards
from blsflow.domain.policy import Mode
from blsflow.domain.profit_guard import ProfitGuard
from blsflow.domain.record import unpack_flat, with_benchmarks
from blsflow.domain.time_window import TimeWindow
from blsflow.domain.verdict import Verdict, skip

if TYPE_CHECKING:
    from blsflow.domain.machine import Machine
    from blsflow.domain.market import Market
    from blsflow.domain.policy import Policy


class Rules:
    """The rules of one policy for one tick, with all that its machines share looked up once.

    `decide` depends on nothing but the three inputs: not on the order of machines, nor on other machines.
    """

    def __init__(self, policy: Policy, market: Market) -> None:
        self._guards = Guards(policy, market.now.timestamp())
        mode = ProfitGuard if policy.mode is Mode.PROFIT_GUARD else TimeWindow
        self._mode = mode(policy, market)

    def decide(self, machine: Machine) -> Verdict:
        """What is to happen to the machine, and why."""
        objection = self._guards.objection(machine)
        if objection is not None:
            return skip(machine, objection)
        return self._mode.decide(machine)

    def decide_record(self, buffer: bytes | memoryview, offset: int) -> tuple[Machine, Verdict, int]:
        """Decide for the machine whose record starts at `offset`; also where the next starts.

        The same verdict as `decide`, quicker for most machines, which then come without their benchmarks: whoever looks at
        these has got benchmark requests, and a machine that has any comes whole.
        """
        machine, figures, end = unpack_flat(buffer, offset)
        objection = self._guards.objection(machine)
        if objection is not None:
            return machine, skip(machine, objection), end
        verdict = self._mode.decide_ordinary(machine, figures)
        if verdict is None:
            machine = with_benchmarks(machine, figures)
            verdict = self._mode.decide(machine)
        return machine, verdict, end
