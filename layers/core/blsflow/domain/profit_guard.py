"""Profit and tariff decide (R3.3 to R3.5, R3.9). Rules apply in the order in which they stand here."""

from __future__ import annotations

from itertools import compress
from operator import not_
from typing import TYPE_CHECKING, Final

from blsflow.domain.columns import Columns
from blsflow.domain.guards import heard_span
from blsflow.domain.hurdles import (
    change_pays,
    change_to,
    first_not_cleared,
    start_hurdles,
    switch_hurdles,
    why_not_switched,
)
from blsflow.domain.machine import NO_PROJECT, STOPPED_BY_HUMAN, STOPPED_BY_SCHEDULER, Machine, Status
from blsflow.domain.policy import NegativeProfitAction
from blsflow.domain.prospects import (
    BenchmarkState,
    Prospects,
    assess,
    benchmark_of,
    benchmark_state,
    ties,
    valid_span,
    worth_measuring,
)
from blsflow.domain.reasons import Action, Reason
from blsflow.domain.record import machine_of
from blsflow.domain.terms import Terms, terms_of
from blsflow.domain.verdict import Kept, Verdict, keep

if TYPE_CHECKING:
    from blsflow.domain.block import Alike
    from blsflow.domain.hurdles import ProjectChange
    from blsflow.domain.market import Market
    from blsflow.domain.policy import Policy
    from blsflow.domain.prospects import Offer

_MINING: Final = int(Status.MINING)
_UNKNOWN: Final = int(Status.UNKNOWN)
_CURRENT_NOT_MEASURED: Final = {
    BenchmarkState.MISSING: Reason.CURRENT_BENCHMARK_MISSING,
    BenchmarkState.EXPIRED: Reason.CURRENT_BENCHMARK_EXPIRED,
    BenchmarkState.INVALID: Reason.CURRENT_BENCHMARK_INVALID,
}
_CANDIDATE_NOT_MEASURED: Final = {
    BenchmarkState.MISSING: Reason.CANDIDATE_BENCHMARK_MISSING,
    BenchmarkState.EXPIRED: Reason.CANDIDATE_BENCHMARK_EXPIRED,
    BenchmarkState.INVALID: Reason.CANDIDATE_BENCHMARK_INVALID,
}
_HELD: Final = (Reason.ALREADY_BEST, Reason.MIN_DWELL, Reason.GAIN_BELOW_ABSOLUTE, Reason.GAIN_BELOW_RATIO)
_WHEN_NEGATIVE: Final = {
    NegativeProfitAction.KEEP: Action.KEEP,
    NegativeProfitAction.STOP: Action.STOP,
    NegativeProfitAction.POWER_OFF: Action.POWER_OFF,
}


class ProfitGuard:
    """The rules of mode ``profit_guard`` for one tick."""

    def __init__(self, policy: Policy, market: Market) -> None:
        self._policy = policy
        self._now = market.now.timestamp()
        self._span = valid_span(self._now, policy.benchmark_ttl_sec)
        self._terms = tuple(terms_of(policy, market, machines) for machines in market.classes)
        self._columns = Columns(self._terms, heard_span(policy, self._now))

    def decide(self, machine: Machine) -> Verdict:
        """The verdict for a machine that nothing keeps out of the tick."""
        terms = self._terms[machine.class_index]
        held = _why_held(machine, terms)
        if held is not None:
            return keep(machine, held)
        prospects = assess(machine, terms, self._span)
        if machine.status != _MINING:
            return self._decide_stopped(machine, terms, prospects)
        if prospects.current_net is None:
            return self._decide_unmeasured(machine, terms, prospects)
        return self._decide_mining(machine, terms, prospects, prospects.current_net)

    def decide_alike(self, alike: Alike) -> tuple[list[Kept], dict[int, tuple[Machine, Verdict]]]:
        """The verdicts of the ordinary ones among some machines: in columns where they stay, of others by index.

        They are those of `decide`, and nothing keeps such a machine out of the tick. The machines come without benchmarks.
        """
        kept = {reason: Kept(reason, [], [], [], [], [], []) for reason in _HELD}
        moved: dict[int, tuple[Machine, Verdict]] = {}
        best_already = kept[Reason.ALREADY_BEST]
        for valued in self._columns.value(alike):
            at_best = valued.at_best()
            nets = list(compress(valued.currents, at_best))
            best_already.indexes.extend(compress(valued.indexes, at_best))
            best_already.current_nets.extend(nets)
            best_already.best_nets.extend(nets)
            for number in compress(range(len(at_best)), map(not_, at_best)):
                index, current, place = (
                    valued.indexes[number],
                    valued.currents[number],
                    valued.best_place(number),
                )
                best = valued.nets[number][place]
                if best < 0 or ties(current, best):
                    machine, prospects = machine_of(alike.heads[index]), valued.prospects(number)
                    terms = self._terms[machine.class_index]
                    moved[index] = machine, self._decide_mining(machine, terms, prospects, current)
                    continue
                held = why_not_switched(self._policy, alike.running_since[index], current, best, self._now)
                if held is None:
                    machine, offer = machine_of(alike.heads[index]), valued.offer(number, place)
                    moved[index] = machine, self._switch_if_it_pays(machine, offer, current)
                    continue
                kept[held].indexes.append(index)
                kept[held].current_nets.append(current)
                kept[held].best_nets.append(best)
        for stay in kept.values():
            stay.heads.extend(map(alike.heads.__getitem__, stay.indexes))
            stay.versions.extend(map(alike.versions.__getitem__, stay.indexes))
            stay.from_projects.extend(map(alike.running.__getitem__, stay.indexes))
        return list(kept.values()), moved

    def _switch_if_it_pays(self, machine: Machine, offer: Offer, current_net: float) -> Verdict:
        """The verdict for a machine before which no hurdle stands but the last, with a benchmark for every project."""
        terms = self._terms[machine.class_index]
        change = change_to(terms, offer, current_net)
        cost = change_pays(Reason.SWITCH_COST_NOT_RECOVERED, self._policy, terms, change)
        if cost.cleared:
            return _switch(machine, terms, change)
        return _verdict(Action.KEEP, cost.reason, machine, current_net, change.best_net)

    def _decide_stopped(self, machine: Machine, terms: Terms, prospects: Prospects) -> Verdict:
        """A machine that this scheduler stopped starts again once that pays."""
        best = prospects.best
        if not prospects.open_bits:
            return keep(machine, Reason.NO_CANDIDATE)
        if not prospects.open_bits & terms.priced_bits:
            return keep(machine, Reason.NO_PRICE_KNOWN)
        if best is None:
            requests = worth_measuring(machine, prospects, None, terms, self._span)
            if not requests:  # all are measured, and at their prices no net is a number
                return keep(machine, Reason.NO_PRICE_KNOWN)
            reason = self._unmeasured(machine, requests[0], _CANDIDATE_NOT_MEASURED)
            return _verdict(Action.BENCHMARK_REQUIRED, reason, machine, requests=requests)
        change = change_to(terms, best, current_net=0.0)
        requests = worth_measuring(machine, prospects, change.best_net, terms, self._span)
        obstacle = first_not_cleared(start_hurdles(self._policy, terms, change))
        if obstacle is not None:
            return _verdict(
                Action.KEEP, obstacle.reason, machine, best_net=change.best_net, requests=requests
            )
        return Verdict(
            action=Action.START,
            reason=Reason.RESTART_THRESHOLD_CLEARED,
            from_project=machine.project_id or None,
            to_project=change.project_id,
            run_config_id=terms.run_configs[change.project_id],
            best_net=change.best_net,
            benchmark_requests=requests,
        )

    def _decide_unmeasured(self, machine: Machine, terms: Terms, prospects: Prospects) -> Verdict:
        """Without a current net nothing can be compared; measure what can be measured."""
        requests = worth_measuring(machine, prospects, None, terms, self._span)
        if not requests:
            return keep(machine, Reason.CURRENT_NET_UNKNOWN)
        reason = self._unmeasured(machine, machine.project_id, _CURRENT_NOT_MEASURED)
        return _verdict(Action.BENCHMARK_REQUIRED, reason, machine, requests=requests)

    def _decide_mining(
        self, machine: Machine, terms: Terms, prospects: Prospects, current_net: float
    ) -> Verdict:
        """Negative profit first, then the best project against the running one."""
        best, change = prospects.best, None
        if best is not None and not ties(current_net, best[0]):
            change = change_to(terms, best, current_net)
        best_net = current_net if change is None else change.best_net
        requests = worth_measuring(machine, prospects, best_net, terms, self._span)
        action, reason = Action.KEEP, Reason.ALREADY_BEST
        if best_net < 0:
            action, reason = self._when_negative(terms, prospects)
        elif change is not None:
            obstacle = first_not_cleared(switch_hurdles(self._policy, terms, machine, change, self._now))
            if obstacle is None:
                return _switch(machine, terms, change, requests)
            reason = obstacle.reason
        elif best is None and (others := [project for project in requests if project != machine.project_id]):
            action = Action.BENCHMARK_REQUIRED
            reason = self._unmeasured(machine, others[0], _CANDIDATE_NOT_MEASURED)
        return _verdict(action, reason, machine, current_net, best_net, requests)

    def _when_negative(self, terms: Terms, prospects: Prospects) -> tuple[Action, Reason]:
        """All known projects lose money; a measured one of unknown price might not, and holds the machine."""
        action = _WHEN_NEGATIVE[self._policy.negative_profit_action]
        unpriced = prospects.open_bits & prospects.measured_bits & ~terms.priced_bits
        if unpriced and action is not Action.KEEP:
            return Action.KEEP, Reason.CANDIDATE_PRICE_UNKNOWN
        return action, Reason.NEGATIVE_PROFIT

    def _unmeasured(self, machine: Machine, project_id: int, reasons: dict[BenchmarkState, Reason]) -> Reason:
        return reasons[benchmark_state(benchmark_of(machine, project_id), self._span)]


def _why_held(machine: Machine, terms: Terms) -> Reason | None:
    """Why the machine stays as it is whatever the figures say: not ours to start, or an unknown input."""
    if machine.status == _MINING:
        if terms.tariff_problem is None and machine.project_id == NO_PROJECT:
            return Reason.RUNNING_PROJECT_UNKNOWN
        return terms.tariff_problem or terms.price_problem(machine.project_id)
    if machine.status == _UNKNOWN:
        return Reason.STATUS_UNKNOWN
    if machine.flags & STOPPED_BY_HUMAN:
        return Reason.STOPPED_BY_HUMAN
    if not machine.flags & STOPPED_BY_SCHEDULER:
        return Reason.NOT_OURS_TO_START
    return terms.tariff_problem


def _switch(machine: Machine, terms: Terms, change: ProjectChange, requests: tuple[int, ...] = ()) -> Verdict:
    project_id, current_net, best_net, _ = change
    run_config_id = terms.run_configs[project_id]
    return Verdict(
        Action.SWITCH,
        Reason.BETTER_NET,
        machine.project_id,
        project_id,
        run_config_id,
        current_net,
        best_net,
        requests,
    )


def _verdict(  # noqa: PLR0913, PLR0917 - the columns of a decision
    action: Action,
    reason: Reason,
    machine: Machine,
    current_net: float | None = None,
    best_net: float | None = None,
    requests: tuple[int, ...] = (),
) -> Verdict:
    """A verdict that moves the machine to no project."""
    return Verdict(action, reason, machine.project_id or None, None, None, current_net, best_net, requests)
