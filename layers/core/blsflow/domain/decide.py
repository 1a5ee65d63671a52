"""The decision: one verdict per machine, from the policy, the market and the machine alone (R3.10)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from blsflow.domain.block import alike_of
from blsflow.domain.guards import Guards
from blsflow.domain.policy import Mode
from blsflow.domain.profit_guard import ProfitGuard
from blsflow.domain.prospects import valid_span
from blsflow.domain.time_window import TimeWindow
from blsflow.domain.verdict import Kept, Verdict, skip

if TYPE_CHECKING:
    from blsflow.domain.block import Block
    from blsflow.domain.machine import Machine
    from blsflow.domain.market import Market
    from blsflow.domain.policy import Policy


class Decided(NamedTuple):
    """A machine with its record's head, the version of its benchmarks (0: it has none), and what was decided for it."""

    head: bytes
    version: int
    machine: Machine
    verdict: Verdict


class Rules:
    """The rules of one policy for one tick, with all that its machines share looked up once.

    `decide` depends on nothing but the three inputs: not on the order of machines, nor on other machines.
    """

    def __init__(self, policy: Policy, market: Market) -> None:
        now = market.now.timestamp()
        self.fresh = valid_span(now, policy.benchmark_ttl_sec)
        """When benchmarks must have been sampled to be decided on; of those that all were, a block may have figures only."""
        self._guards = Guards(policy, now)
        mode = ProfitGuard if policy.mode is Mode.PROFIT_GUARD else TimeWindow
        self._mode = mode(policy, market)

    def decide(self, machine: Machine) -> Verdict:
        """What is to happen to the machine, and why."""
        objection = self._guards.objection(machine)
        if objection is not None:
            return skip(machine, objection)
        return self._mode.decide(machine)

    def decide_block(self, block: Block) -> tuple[list[Kept], list[Decided]]:
        """Decide for all machines of a block: those that stay in columns, the others in the block's order.

        The same verdicts as `decide`, quicker for most machines, which then come without their benchmarks: whoever looks at
        these has got benchmark requests, and a machine that has any comes with them.
        """
        kept: list[Kept] = []
        decided: list[Decided] = []
        for alike in alike_of(block, self.fresh):
            stay: list[Kept] = []
            moved: dict[int, tuple[Machine, Verdict]] = {}
            if isinstance(self._mode, ProfitGuard):
                stay, moved = self._mode.decide_alike(alike)
                kept += stay
            left = set(range(len(alike.heads))).difference(*(each.indexes for each in stay))
            for index in left:
                if index in moved:
                    machine, verdict = moved[index]
                else:
                    machine = alike.machine(index)
                    verdict = self.decide(machine)
                decided.append(Decided(alike.heads[index], alike.versions[index], machine, verdict))
        decided.sort(key=_machine_id)
        return kept, decided


def _machine_id(decided: Decided) -> int:
    return decided.machine.machine_id
