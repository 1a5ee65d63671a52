"""What ticks decided, and why: pages of ticks and decisions, and a decision computed again (R3.2, R9.1).

A ``tenant_id`` of None is an operator of the whole deployment; someone else's tick is as unknown as none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from blsflow.domain import stored_inputs
from blsflow.domain.errors import BlsflowError
from blsflow.domain.explain import Explanation, explain
from blsflow.domain.pages import checked_limit, encode_cursor, id_of_cursor, place_of_cursor
from blsflow.domain.record import unpack
from blsflow.domain.verdict import MOVES
from blsflow.flow.control import UnknownPolicy
from blsflow.ports.ticks import DecisionFilter

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from blsflow.domain.machine import Machine
    from blsflow.domain.market import Market
    from blsflow.domain.policy import Policy
    from blsflow.ports.store import Store
    from blsflow.ports.ticks import DecisionRow, StoredTick, TickRow


class UnknownTick(BlsflowError):
    """There is no such tick, or it is someone else's."""

    def __init__(self, tick_id: int) -> None:
        super().__init__(f"there is no tick {tick_id}: `blsflow status` shows each policy's newest")
        self.tick_id = tick_id


class UnknownMachine(BlsflowError):
    """There is no such machine, or it is someone else's."""

    def __init__(self, machine_id: int) -> None:
        super().__init__(f"there is no machine {machine_id}")
        self.machine_id = machine_id


class UnknownDecision(BlsflowError):
    """The tick decided nothing for the machine, or its decisions are past their retention."""

    def __init__(self, tick_id: int, machine_id: int) -> None:
        super().__init__(
            f"tick {tick_id} has no decision for machine {machine_id}: "
            "it is unknown, not of that policy, or past retention"
        )
        self.tick_id = tick_id
        self.machine_id = machine_id


class UnreadableDecision(BlsflowError):
    """A stored decision of another version of this program, or one whose machine's benchmarks of then are not to be had."""

    def __init__(self, tick_id: int, cause: str) -> None:
        super().__init__(f"tick {tick_id}: {cause}")
        self.cause = cause


@dataclass(frozen=True, kw_only=True, slots=True)
class ExplainedDecision:
    """A stored decision and the same one computed again, from nothing but what was stored with it.

    ``stored`` is the decision and its tick as rows; ``differences`` is empty if both agree.
    """

    stored: Mapping[str, Any]
    policy: Policy
    market: Market
    machine: Machine
    explanation: Explanation
    differences: tuple[str, ...]


def list_ticks(
    store: Store, policy_id: int, *, tenant_id: str | None = None, cursor: str | None = None, limit: int = 50
) -> tuple[Sequence[TickRow], str | None]:
    """Return a page of a policy's ticks, newest first, and the cursor of the next one, None when this is the last."""
    checked_limit(limit)
    before = place_of_cursor(f"ticks {policy_id}", cursor)
    with store.transaction() as tx:
        if not tx.knows_policy(policy_id, tenant_id=tenant_id):
            raise UnknownPolicy(policy_id)
        rows = tx.ticks(policy_id, tenant_id=tenant_id, before=before, limit=limit)
    following = (
        encode_cursor(f"ticks {policy_id}", rows[-1].ticked_at, rows[-1].tick_id)
        if len(rows) == limit
        else None
    )
    return rows, following


def read_tick(store: Store, tick_id: int, *, tenant_id: str | None = None) -> StoredTick:
    """Return a tick with all that its machines shared."""
    with store.transaction() as tx:
        found = tx.stored_tick(tick_id, tenant_id=tenant_id)
    if found is None:
        raise UnknownTick(tick_id)
    return found


def list_decisions(  # noqa: PLR0913 - which tick's, which of them, and how many
    store: Store,
    tick_id: int,
    *,
    only: DecisionFilter | None = None,
    tenant_id: str | None = None,
    cursor: str | None = None,
    limit: int = 50,
) -> tuple[Sequence[DecisionRow], str | None]:
    """Return a page of a tick's decisions, in order of their machines, and the cursor of the next one."""
    checked_limit(limit)
    after = id_of_cursor(f"decisions of tick {tick_id}", cursor, first=-1)
    with store.transaction() as tx:
        tick = tx.tick(tick_id, tenant_id=tenant_id)
        if tick is None:
            raise UnknownTick(tick_id)
        rows = tx.decisions_of_tick(tick, only or DecisionFilter(), after=after, limit=limit)
    return rows, encode_cursor(f"decisions of tick {tick_id}", rows[-1].machine_id) if len(
        rows
    ) == limit else None


def machine_history(
    store: Store, machine_id: int, *, tenant_id: str | None = None, cursor: str | None = None, limit: int = 50
) -> tuple[Sequence[DecisionRow], str | None]:
    """Return a page of what was decided for a machine, newest first, by whichever policies of its tenant.

    A page looks at so many of the tenant's ticks: it may be short, or empty, and yet have a next one.
    """
    checked_limit(limit)
    before = place_of_cursor(f"decisions of machine {machine_id}", cursor)
    with store.snapshot() as tx:
        owner = tx.tenant_of_machine(machine_id, tenant_id=tenant_id)
        if owner is None:
            raise UnknownMachine(machine_id)
        rows, end = tx.decisions_of_machine(machine_id, tenant_id=owner, before=before, limit=limit)
    return rows, None if end is None else encode_cursor(f"decisions of machine {machine_id}", *end)


def explain_decision(
    store: Store, tick_id: int, machine_id: int, *, tenant_id: str | None = None
) -> ExplainedDecision:
    """Compute a decision again, with the figures of each candidate; `UnreadableDecision` if it cannot be."""
    with store.transaction() as tx:
        stored = tx.stored_decision(tick_id, machine_id, tenant_id=tenant_id)
    if stored is None:
        raise UnknownDecision(tick_id, machine_id)
    try:
        policy, market = stored_inputs.load(stored["inputs"])
    except stored_inputs.UnreadableInputs as error:
        raise UnreadableDecision(tick_id, str(error)) from error
    if stored["record"] is None:
        cause = f"the benchmarks of machine {machine_id} then are not kept any more"
        raise UnreadableDecision(tick_id, cause)
    machine, _ = unpack(stored["record"])
    explanation = explain(policy, market, machine)
    return ExplainedDecision(
        stored=stored,
        policy=policy,
        market=market,
        machine=machine,
        explanation=explanation,
        differences=tuple(_differences(stored, explanation)),
    )


def _differences(stored: Mapping[str, Any], explanation: Explanation) -> list[str]:
    """Compare with what was stored; a move that was held back kept its figures and lost its own reason."""
    verdict = explanation.verdict
    expected: dict[str, object] = {
        "proposed": str(verdict.action),
        "from_project": verdict.from_project,
        "to_project": verdict.to_project,
        "run_config_id": verdict.run_config_id,
        "current_net": verdict.current_net,
        "best_net": verdict.best_net,
    }
    held_back = verdict.action in MOVES and stored["action"] == "skip"
    if not held_back:
        expected |= {"action": str(verdict.action), "reason": str(verdict.reason)}
    return [
        f"{name}: stored {stored[name]!r}, computed {value!r}"
        for name, value in expected.items()
        if stored[name] != value
    ]
