"""A decision with every figure that led to it, for people (R3.2). Uses the decision's own functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from blsflow.domain.decide import Rules
from blsflow.domain.hurdles import Hurdle, change_to, start_hurdles, switch_hurdles
from blsflow.domain.machine import NO_PROJECT, Status
from blsflow.domain.policy import Mode
from blsflow.domain.prospects import (
    BenchmarkState,
    assess,
    benchmark_of,
    benchmark_state,
    draw_of,
    eligible_bits,
    ties,
    valid_span,
)
from blsflow.domain.reading import Unknown
from blsflow.domain.terms import terms_of
from blsflow.domain.windows import active_window

if TYPE_CHECKING:
    from blsflow.domain.machine import Benchmark, Machine
    from blsflow.domain.market import ClusterMarket, Market
    from blsflow.domain.policy import Policy, Window
    from blsflow.domain.prospects import Span
    from blsflow.domain.reading import Reading
    from blsflow.domain.terms import Terms
    from blsflow.domain.verdict import Verdict


@dataclass(frozen=True, kw_only=True, slots=True)
class Figures:
    """Revenue minus cost is the net; CNY per day, None if unknown.

    ``source`` is what they were computed from: the ``benchmark``, or the machine's own ``report``.
    """

    source: str
    hashrate_hs: float
    power_w: float
    revenue: float | None
    cost: float | None
    net: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ProjectFigures:
    """A project on this machine: whether it may run there, what it would net, and why it might not count."""

    project_id: int
    name: str
    is_candidate: bool
    is_running: bool
    eligible: bool
    run_config_id: int | None
    revenue: Reading  # CNY per H/s and day
    benchmark_state: BenchmarkState
    benchmark: Benchmark | None
    figures: Figures | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Explanation:
    """The verdict, and all that it was derived from.

    ``projects`` are those the policy considers, in order, then the running one if it is none of them.
    ``hurdles`` are those before the move that the figures favour, cleared or not; empty if there is none.
    """

    machine: Machine
    verdict: Verdict
    cluster: ClusterMarket | None
    window: Window | None
    projects: tuple[ProjectFigures, ...]
    hurdles: tuple[Hurdle, ...]
    horizon_sec: float


def explain(policy: Policy, market: Market, machine: Machine) -> Explanation:
    """Explain what `Rules.decide` says of the machine, from the same inputs."""
    machines = market.classes[machine.class_index]
    terms = terms_of(policy, market, machines)
    now = market.now.timestamp()
    span = valid_span(now, policy.benchmark_ttl_sec)
    by_profit = policy.mode is Mode.PROFIT_GUARD
    shown = dict.fromkeys(terms.projects)
    if machine.project_id != NO_PROJECT:
        shown[machine.project_id] = None
    return Explanation(
        machine=machine,
        verdict=Rules(policy, market).decide(machine),
        cluster=market.clusters.get(machines.cluster_id),
        window=None if by_profit else active_window(policy, market.now),
        projects=tuple(_project(project, policy, market, machine, terms, span) for project in shown),
        hurdles=tuple(_hurdles(policy, machine, terms, span, now)) if by_profit else (),
        horizon_sec=terms.horizon_sec,
    )


def _project(  # noqa: PLR0913, PLR0917 - one row of the explanation needs all that it was derived from
    project: int, policy: Policy, market: Market, machine: Machine, terms: Terms, span: Span
) -> ProjectFigures:
    known = market.projects.get(project)
    benchmark = benchmark_of(machine, project)
    bit = terms.bits.get(project, 0)
    runs = machine.status == Status.MINING and project == machine.project_id
    machines = market.classes[machine.class_index]
    by_class = project in machines.allowed and project not in machines.denied
    return ProjectFigures(
        project_id=project,
        name=str(project) if known is None else known.name,
        is_candidate=project in policy.candidates,
        is_running=runs,
        eligible=bool(eligible_bits(machine, terms) & bit) if bit else by_class,
        run_config_id=terms.run_configs.get(project),
        revenue=Unknown(reason="missing") if known is None else known.revenue,
        benchmark_state=benchmark_state(benchmark, span),
        benchmark=benchmark,
        figures=_figures(project, machine, terms, span, runs=runs),
    )


def _figures(project: int, machine: Machine, terms: Terms, span: Span, *, runs: bool) -> Figures | None:
    draw = draw_of(machine, project, span, runs=runs)
    if draw is None:
        return None
    source, hashrate_hs, power_w = draw
    per_hashrate = terms.revenues.get(project)
    revenue = None if per_hashrate is None else hashrate_hs * per_hashrate
    cost = None if terms.tariff_problem is not None else power_w * terms.cost_cny_per_watt_day
    net = None if revenue is None or cost is None else revenue - cost
    return Figures(
        source=source, hashrate_hs=hashrate_hs, power_w=power_w, revenue=revenue, cost=cost, net=net
    )


def _hurdles(policy: Policy, machine: Machine, terms: Terms, span: Span, now: float) -> list[Hurdle]:
    if terms.tariff_problem is not None:
        return []
    prospects = assess(machine, terms, span)
    best = prospects.best
    if best is None:
        return []
    if machine.status != Status.MINING:
        return list(start_hurdles(policy, terms, change_to(terms, best, current_net=0.0)))
    current_net = prospects.current_net
    if current_net is None or ties(current_net, best[0]):
        return []
    change = change_to(terms, best, current_net)
    return list(switch_hurdles(policy, terms, machine, change, now))
