"""Decide: begin a policy's tick, decide for each of its machines, and write it all in one transaction.

Killed anywhere before the commit, nothing has happened and the occurrence is still recorded. Killed after it, the attempts
are prepared rows that the next scan enqueues.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from blsflow.domain import stored_inputs
from blsflow.domain.decide import Rules
from blsflow.domain.events import Level, LogEvent, Notification
from blsflow.domain.freeze import freeze_for, tick_failure
from blsflow.domain.gates import Withheld, withheld
from blsflow.domain.policy import ExecutionMode, Mode
from blsflow.domain.reasons import Action
from blsflow.domain.tariff import TariffProblem
from blsflow.domain.valuation import overriding, value_market
from blsflow.domain.verdict import MOVES
from blsflow.flow.batches import Batches
from blsflow.flow.enqueuing import enqueue_attempts
from blsflow.flow.freeze import freeze_policy
from blsflow.flow.tally import Tally
from blsflow.ports.decide import TickResult
from blsflow.ports.execute import NotBegun

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from blsflow.domain.block import Block
    from blsflow.domain.freeze import Freeze
    from blsflow.domain.gates import Gates
    from blsflow.domain.inputs import TickInputs
    from blsflow.domain.reasons import Reason
    from blsflow.domain.valuation import Valuation
    from blsflow.ports.decide import BegunTick
    from blsflow.ports.services import Queue
    from blsflow.ports.store import DecisionSink, Store, Transaction


@dataclass(frozen=True, kw_only=True, slots=True)
class DecideSettings:
    """What bounds a tick's actions; ``rate`` is CNY per USDT, None if unknown."""

    gates: Gates
    rate: float | None
    batch_size: int
    lock_ttl: timedelta


@dataclass(frozen=True, kw_only=True, slots=True)
class DecideReport:
    """What one message came to. ``outcome`` is decided, or why the tick did not begin."""

    outcome: str
    policy_id: int | None = None
    tick_id: int | None = None
    machines: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    attempts: int = 0
    gain_cny_per_day: float = 0.0
    frozen_for: str | None = None


def decide(
    store: Store, *, occurrence_id: int, execute_queue: Queue, settings: DecideSettings
) -> DecideReport:
    """Carry out one recorded tick; a second delivery, or one that comes after an end, changes nothing."""
    with store.transaction() as tx:
        begun = tx.begin_tick(occurrence_id, settings.gates)
        if isinstance(begun, NotBegun):
            return DecideReport(outcome=begun.reason)
        report, attempts = _decide_all(tx, begun, settings)
    enqueue_attempts(store, execute_queue, attempts)
    return report


def _decide_all(
    tx: Transaction, begun: BegunTick, settings: DecideSettings
) -> tuple[DecideReport, list[UUID]]:
    policy = begun.policy
    dry_run = policy.execution_mode is ExecutionMode.DRY_RUN
    inputs = tx.tick_inputs(begun)
    valuation = value_market(inputs, policy, now=begun.ticked_at, rate=settings.rate)
    if not dry_run:
        tx.adopt_foreign_changes(policy, inputs)
    why_withheld = withheld(policy, settings.gates, lease_held=begun.lease_held)
    batches = (
        Batches(f"tick-{begun.tick_id}", settings.batch_size)
        if why_withheld is None and _executes(begun)
        else None
    )
    tally = Tally()
    sink = None if dry_run else tx.decisions(begun)
    _decide_machines(tx, begun, inputs, valuation, tally, sink, batches, why_withheld)
    failure = tick_failure(policy, valuation.market)
    problems = _tariff_problems(valuation) if policy.mode is Mode.PROFIT_GUARD else frozenset[str]()
    failures = begun.consecutive_failures + 1 if failure is not None else 0
    freeze = freeze_for(
        policy,
        consecutive_failures=failures,
        flagged=valuation.flagged,
        worst_jump=valuation.worst_jump,
        moves=tally.moves,
        machines=tally.machines,
    )
    if sink is None:
        detail = {
            "counts": tally.counts(),
            "failure": failure,
            "would_freeze_for": freeze and str(freeze.cause),
        }
        tx.finish_dry_run(begun, detail)
        return _report(begun, tally, 0, None), []
    sink.close()
    valid_until = begun.ticked_at + timedelta(seconds=policy.decision_validity_sec)
    won: Mapping[UUID, int] = {}
    if freeze is not None:
        _freeze(tx, begun, freeze, tally)
    elif batches is not None and (attempts := batches.attempts()):
        prepared = tx.prepare_attempts(begun, attempts, valid_until=valid_until, lock_ttl=settings.lock_ttl)
        won = prepared.machines
        for lost in prepared.lost:
            tally.lose(lost.action, lost.reason, lost.machines, lost.gain_cny_per_day)
    if tally.requests and freeze is None:
        tx.request_benchmarks(begun, tally.requests)
    tx.finish_tick(
        begun,
        TickResult(
            inputs=stored_inputs.dump(policy, valuation.market),
            failure=failure,
            consecutive_failures=failures,
            tariff_problems=problems,
            machines=tally.machines,
            counts=tally.counts(),
            gain_cny_per_day=tally.gain_cny_per_day,
            valid_until=valid_until,
            levels=valuation.levels,
            running=bool(won),
        ),
        _tick_event(begun, tally, failure, len(won)),
    )
    if told := _tariff_notifications(begun, problems):
        tx.write_events([], told)
    return _report(begun, tally, len(won), freeze), list(won)


def _decide_machines(  # noqa: PLR0913, PLR0917 - the hot loop's names, bound once
    tx: Transaction,
    begun: BegunTick,
    inputs: TickInputs,
    valuation: Valuation,
    tally: Tally,
    sink: DecisionSink | None,
    batches: Batches | None,
    why_withheld: Withheld | None,
) -> None:
    rules = Rules(begun.policy, valuation.market)
    decide_block = rules.decide_block

    def take(block: Block) -> None:
        action: Action
        reason: Reason | Withheld
        kept, decided = decide_block(block)
        for stay in kept:
            tally.keep(stay)
            if sink is not None:
                sink.keep(stay)
        for each in decided:
            _, _, machine, verdict = each
            action, reason, attempt_id = verdict.action, verdict.reason, None
            if action in MOVES:
                if why_withheld is not None:
                    action, reason = Action.SKIP, why_withheld
                elif batches is not None:
                    attempt_id = batches.place(
                        (action, verdict.to_project, verdict.run_config_id), machine.machine_id
                    )
            tally.add(verdict, action, reason)
            if verdict.benchmark_requests:
                tally.ask(machine, verdict, valuation.market)
            if sink is not None:
                sink.add(each, action=action, reason=reason, attempt_id=attempt_id)

    above = overriding(begun.policy, inputs.others, inputs.classes, now=begun.ticked_at)
    tx.read_machines(begun.policy, inputs, above, take, fresh=rules.fresh)


def _freeze(tx: Transaction, begun: BegunTick, freeze: Freeze, tally: Tally) -> None:
    """Freeze the policy, hold back all that this tick would have moved, and tell its people once."""
    policy = begun.policy
    tx.withhold_moves(begun, Withheld.POLICY_FROZEN)
    tally.withhold(Withheld.POLICY_FROZEN)
    freeze_policy(tx, policy, freeze)


def _executes(begun: BegunTick) -> bool:
    return begun.policy.execution_mode is ExecutionMode.EXECUTE


def _tariff_problems(valuation: Valuation) -> frozenset[str]:
    """Name the clusters whose electricity has no known price, and why: ``3 tariff_gap``."""
    return frozenset(
        f"{cluster.cluster_id} {cluster.tariff.kind}"
        for cluster in valuation.market.clusters.values()
        if isinstance(cluster.tariff, TariffProblem)
    )


def _tariff_notifications(begun: BegunTick, problems: frozenset[str]) -> list[Notification]:
    """Tell of each problem when it first appears (R10.1); it is forgotten, and told of again, once it was solved."""
    policy = begun.policy
    told = []
    for problem in sorted(problems - begun.tariff_problems):
        cluster_id, kind = problem.split()
        params = {"cluster_id": int(cluster_id), "problem": kind}
        told.append(
            Notification(
                tenant_id=policy.tenant_id, policy_id=policy.id, code="tariff_unknown", params=params
            )
        )
    return told


def _tick_event(begun: BegunTick, tally: Tally, failure: str | None, attempts: int) -> LogEvent:
    return LogEvent(
        tenant_id=begun.policy.tenant_id,
        policy_id=begun.policy.id,
        kind="tick",
        level=Level.INFO if failure is None else Level.WARNING,
        code="tick_decided" if failure is None else "tick_failed",
        params={
            "machines": tally.machines,
            "counts": tally.counts(),
            "attempts": attempts,
            "gain_cny_per_day": round(tally.gain_cny_per_day, 2),
            **({} if failure is None else {"failure": failure}),
        },
        tick_id=begun.tick_id,
    )


def _report(begun: BegunTick, tally: Tally, attempts: int, freeze: Freeze | None) -> DecideReport:
    return DecideReport(
        outcome="decided",
        policy_id=begun.policy.id,
        tick_id=begun.tick_id,
        machines=tally.machines,
        counts=tally.counts(),
        attempts=attempts,
        gain_cny_per_day=tally.gain_cny_per_day,
        frozen_for=None if freeze is None else str(freeze.cause),
    )
