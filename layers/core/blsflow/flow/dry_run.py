"""Dry run: decide a policy's machines now, whatever its mode, and leave no trace (R4.1).

It reads as the policy's next tick would, foreign changes included, and changes nothing: neither a tick nor an operator
waits for it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from blsflow.domain.block import alike_of, block_of, machines_of
from blsflow.domain.decide import Rules
from blsflow.domain.freeze import Freeze, TickFailure, freeze_for, tick_failure
from blsflow.domain.gates import Gates, withheld
from blsflow.domain.machine import FOREIGN, STOPPED_BY_HUMAN, STOPPED_BY_SCHEDULER, Status
from blsflow.domain.policy import ExecutionMode
from blsflow.domain.prospects import NO_TIME
from blsflow.domain.valuation import overriding, value_market
from blsflow.domain.verdict import MOVES
from blsflow.flow.control import UnknownPolicy
from blsflow.flow.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from blsflow.domain.block import Block
    from blsflow.domain.machine import Machine
    from blsflow.domain.policy import Policy
    from blsflow.domain.valuation import Valuation
    from blsflow.ports.people import TrialTick
    from blsflow.ports.store import Store, Transaction


_MOST_CHANGES: Final = 255


@dataclass(frozen=True, kw_only=True, slots=True)
class DryRun:
    """What a tick would conclude now. ``counts`` is by "action/reason", over all machines.

    ``shown`` are some of the machines, those that would move first. ``obstacles`` say why none would be moved if the
    policy ticked now; empty if it would act.
    """

    policy: Policy
    valuation: Valuation
    machines: int
    counts: Mapping[str, int]
    gain_cny_per_day: float
    failure: TickFailure | None
    freeze: Freeze | None
    obstacles: tuple[str, ...]
    shown: tuple[Machine, ...]


class _Sample:
    """Counts every machine, and keeps up to a limit of them: movers first."""

    def __init__(self, rules: Rules, foreign: Mapping[int, Status], limit: int) -> None:
        self._rules = rules
        self._foreign = foreign
        self._limit = limit
        self._movers: list[Machine] = []
        self._others: list[Machine] = []
        self.tally = Tally()

    def take(self, block: Block) -> None:
        """Decide for all machines of a block."""
        block = self._as_it_is(block)
        kept, decided = self._rules.decide_block(block)
        moving = set()
        for each in kept:
            self.tally.keep(each)
        for _, _, machine, verdict in decided:
            self.tally.add(verdict, verdict.action, verdict.reason)
            if verdict.action in MOVES:
                moving.add(machine.machine_id)
        if len(self._movers) < self._limit and (moving or len(self._others) < self._limit):
            self._show(block, moving)

    def _show(self, block: Block, moving: Container[int]) -> None:
        """Keep some of the block's machines, as long as there is room for those that move."""
        for machine in machines_of(block):
            shown = self._movers if machine.machine_id in moving else self._others
            if len(shown) < self._limit:
                shown.append(machine)

    def _as_it_is(self, block: Block) -> Block:
        """Return the block with what others did to its machines as the new state of affairs."""
        changed = self._foreign
        if not changed:
            return block
        machines = (
            (alike.machine(index), version)
            for alike in alike_of(block, NO_TIME)
            for index, version in enumerate(alike.versions)
        )
        return block_of(
            (_adopted(each, changed[each.machine_id]) if each.machine_id in changed else each, version)
            for each, version in machines
        )

    def shown(self) -> tuple[Machine, ...]:
        """Return the machines to show."""
        return tuple((self._movers + self._others)[: self._limit])


def _adopted(machine: Machine, status: Status) -> Machine:
    """Return the machine as it is once what somebody else did to it is the new state of affairs."""
    flags = machine.flags & ~(STOPPED_BY_SCHEDULER | STOPPED_BY_HUMAN) | FOREIGN
    if status is not Status.MINING:
        flags |= STOPPED_BY_HUMAN
    changes = min(machine.foreign_changes + 1, _MOST_CHANGES)
    return machine._replace(status=int(status), flags=flags, foreign_changes=changes)


def dry_run(  # noqa: PLR0913 - what is decided on, what bounds it, and who asks
    store: Store,
    policy_id: int,
    *,
    gates: Gates,
    rate: float | None,
    limit: int,
    tenant_id: str | None = None,
) -> DryRun:
    """Decide now; ``rate`` is CNY per USDT (None: unknown), ``limit`` how many machines are shown."""
    with store.snapshot() as tx:
        trial = tx.begin_trial(policy_id, gates, tenant_id=tenant_id)
        if trial is None:
            raise UnknownPolicy(policy_id)
        return _decide(tx, trial, gates, rate, limit)


def _decide(tx: Transaction, trial: TrialTick, gates: Gates, rate: float | None, limit: int) -> DryRun:
    begun = trial.tick
    policy = begun.policy
    inputs = tx.tick_inputs(begun)
    valuation = value_market(inputs, policy, now=begun.ticked_at, rate=rate)
    foreign = tx.foreign_changes(policy, inputs)
    sample = _Sample(Rules(policy, valuation.market), foreign, limit)
    above = overriding(policy, inputs.others, inputs.classes, now=begun.ticked_at)
    tx.read_machines(policy, inputs, above, sample.take)
    failure = tick_failure(policy, valuation.market)
    tally = sample.tally
    return DryRun(
        policy=policy,
        valuation=valuation,
        machines=tally.machines,
        counts=tally.counts(),
        gain_cny_per_day=tally.gain_cny_per_day,
        failure=failure,
        freeze=freeze_for(
            policy,
            consecutive_failures=0 if failure is None else begun.consecutive_failures + 1,
            flagged=valuation.flagged,
            worst_jump=valuation.worst_jump,
            moves=tally.moves,
            machines=tally.machines,
        ),
        obstacles=_obstacles(trial, gates),
        shown=sample.shown(),
    )


def _obstacles(trial: TrialTick, gates: Gates) -> tuple[str, ...]:
    """Return all that keeps the policy from acting, whatever its mode."""
    policy = trial.tick.policy
    executing = replace(policy, execution_mode=ExecutionMode.EXECUTE)
    barred = withheld(executing, gates, lease_held=trial.tick.lease_held)
    found = {
        "policy_disabled": not trial.enabled,
        "policy_frozen": trial.frozen_for is not None,
        f"mode_{policy.execution_mode}": policy.execution_mode is not ExecutionMode.EXECUTE,
        str(barred): barred is not None,
    }
    return tuple(name for name, applies in found.items() if applies)
