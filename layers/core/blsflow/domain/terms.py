"""The terms on which a class of machines mines during a tick, looked up once for all its machines (R2)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from blsflow.domain.prices import PriceFault
from blsflow.domain.reading import Known, Stale, Unknown
from blsflow.domain.reasons import Reason
from blsflow.domain.tariff import TariffPrice, TariffProblem, daily_cost_cny

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from blsflow.domain.market import MachineClass, Market
    from blsflow.domain.policy import Policy

_TARIFF_REASONS = {
    "tariff_gap": Reason.TARIFF_GAP,
    "tariff_overlap": Reason.TARIFF_OVERLAP,
    "tariff_currency": Reason.TARIFF_CURRENCY,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Terms:
    """What one class of machines may run, what that earns and what a watt costs.

    Masks and ``bits`` count in the policy's considered projects, so that a lower bit is an earlier candidate.
    ``cost_cny_per_watt_day`` is NaN while ``tariff_problem`` is set. ``revenues`` holds known
    ones only, in CNY per H/s and day. ``horizon_sec`` is how long these terms can be counted on.
    """

    projects: tuple[int, ...]
    bits: Mapping[int, int]
    tariff_problem: Reason | None
    cost_cny_per_watt_day: float
    horizon_sec: float
    horizon_ends_with_tariff: bool
    revenues: Mapping[int, float]
    price_problems: Mapping[int, Reason]
    run_configs: Mapping[int, int]
    allowed_bits: int
    denied_bits: int
    runnable_bits: int
    priced_bits: int
    candidate_bits: int

    def price_problem(self, project_id: int) -> Reason | None:
        """Why a project's revenue is not known; a project that the feed does not know is unknown too."""
        if project_id in self.revenues:
            return None
        return self.price_problems.get(project_id, Reason.PRICE_UNKNOWN)

    def first_project(self, bits: int) -> int:
        """The first project of a mask that is not empty."""
        return self.projects[(bits & -bits).bit_length() - 1]


def terms_of(policy: Policy, market: Market, machines: MachineClass) -> Terms:
    """The terms of one class in one tick of one policy."""
    projects = policy.considered_projects
    bits = {project: 1 << position for position, project in enumerate(projects)}

    def mask(chosen: Iterable[int]) -> int:
        return sum(bits[project] for project in bits.keys() & set(chosen))

    revenues: dict[int, float] = {}
    problems: dict[int, Reason] = {}
    for project, of_project in market.projects.items():
        match of_project.revenue:
            case Known(value=value):
                revenues[project] = value
            case unusable:
                problems[project] = _price_reason(unusable)

    cluster = market.clusters.get(machines.cluster_id)
    tariff = TariffProblem(kind="tariff_gap") if cluster is None else cluster.tariff
    horizon: float = policy.holding_time_sec
    ends_with_tariff = False
    if cluster is not None and cluster.next_change_at is not None:
        to_change = max(0.0, (cluster.next_change_at - market.now).total_seconds())
        ends_with_tariff = to_change < horizon
        horizon = min(horizon, to_change)
    match tariff:
        case TariffPrice(price_cny_per_kwh=price):
            tariff_problem, cost_cny_per_watt_day = None, daily_cost_cny(1, price)
        case TariffProblem(kind=kind):
            tariff_problem, cost_cny_per_watt_day = _TARIFF_REASONS[kind], math.nan
    return Terms(
        projects=projects,
        bits=bits,
        tariff_problem=tariff_problem,
        cost_cny_per_watt_day=cost_cny_per_watt_day,
        horizon_sec=horizon,
        horizon_ends_with_tariff=ends_with_tariff,
        revenues=revenues,
        price_problems=problems,
        run_configs=machines.run_configs,
        allowed_bits=mask(machines.allowed),
        denied_bits=mask(machines.denied),
        runnable_bits=mask(machines.run_configs),
        priced_bits=mask(revenues),
        candidate_bits=mask(policy.candidates),
    )


def _price_reason(revenue: Stale | Unknown) -> Reason:
    """The reason that a decision gives for a revenue that is not known."""
    match revenue:
        case Stale(reason=PriceFault.QUARANTINED) | Unknown(reason=PriceFault.QUARANTINED):
            return Reason.PRICE_QUARANTINED
        case Stale():
            return Reason.PRICE_STALE
        case _:
            return Reason.PRICE_UNKNOWN
