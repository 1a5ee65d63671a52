"""From inputs as read to the market of a tick: judged prices in CNY, tariffs resolved, quarantine applied (R2). Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from blsflow.domain.inputs import Overriding
from blsflow.domain.market import ClusterMarket, Market, ProjectMarket
from blsflow.domain.policy import ExecutionMode
from blsflow.domain.price_level import observe
from blsflow.domain.prices import PriceFault, judge_price, to_cny
from blsflow.domain.reading import Known, Unknown
from blsflow.domain.tariff import TariffProblem, price_in_force
from blsflow.domain.tariff_survey import next_change
from blsflow.domain.units import family_of
from blsflow.domain.windows import outranks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from blsflow.domain.inputs import ClusterInput, OtherPolicy, ProjectInput, TickInputs
    from blsflow.domain.market import MachineClass
    from blsflow.domain.policy import Policy
    from blsflow.domain.price_level import PriceLevel
    from blsflow.domain.reading import Reading
    from blsflow.domain.tariff import Tariff

NO_RANK: Final = 2_147_483_647
_DOLLARS: Final = frozenset({"USD", "USDT"})
"""Tariffs in these are priced by the same rate as revenue; any other currency but CNY has no known rate."""
_ACTING: Final = (ExecutionMode.DRY_RUN, ExecutionMode.SHADOW, ExecutionMode.EXECUTE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Valuation:
    """The market of a tick, with what the policy has to remember and to worry about.

    ``levels`` are the accepted price levels of candidates after this tick; ``flagged`` names candidates that monitoring
    flagged as anomalous; ``worst_jump`` is the greatest price ratio of a candidate against its accepted level (1: none).
    """

    market: Market
    levels: Mapping[int, PriceLevel]
    flagged: tuple[str, ...]
    worst_jump: float


@dataclass(frozen=True, kw_only=True, slots=True)
class ProjectValues:
    """The prices of a tick in CNY, with what `Valuation` says of levels, flags and jumps."""

    projects: Mapping[int, ProjectMarket]
    levels: Mapping[int, PriceLevel]
    flagged: tuple[str, ...]
    worst_jump: float


def value_market(inputs: TickInputs, policy: Policy, *, now: datetime, rate: float | None) -> Valuation:
    """Judge every input of a policy at ``now``; ``rate`` is CNY per USDT, None if unknown."""
    values = value_projects(inputs.projects, inputs.levels, policy, now=now, rate=rate)
    horizon = timedelta(seconds=policy.holding_time_sec)
    market = Market(
        now=now,
        projects=values.projects,
        clusters={cluster.cluster_id: _priced(cluster, now, horizon, rate) for cluster in inputs.clusters},
        classes=inputs.classes,
    )
    return Valuation(
        market=market, levels=values.levels, flagged=values.flagged, worst_jump=values.worst_jump
    )


def value_projects(
    inputs: Sequence[ProjectInput],
    known_levels: Mapping[int, PriceLevel],
    policy: Policy,
    *,
    now: datetime,
    rate: float | None,
) -> ProjectValues:
    """Judge the prices alone; ``known_levels`` are those accepted so far."""
    levels = dict(known_levels)
    projects: dict[int, ProjectMarket] = {}
    flagged: list[str] = []
    worst_jump = 1.0
    for project in inputs:
        reading = _judged(project, policy, now)
        if project.project_id in policy.candidates:
            if _is_flagged(project, reading, policy, now):
                flagged.append(project.name)
            if isinstance(reading, Known):
                level, quarantined, jump = observe(
                    levels.get(project.project_id),
                    reading.value,
                    reading.taken_at,
                    jump_factor=policy.price_jump_factor,
                    hold_sec=policy.price_hold_sec,
                )
                levels[project.project_id] = level
                worst_jump = max(worst_jump, jump)
                if quarantined:
                    reading = Unknown(reason=PriceFault.QUARANTINED)
        projects[project.project_id] = ProjectMarket(
            project_id=project.project_id, name=project.name, revenue=to_cny(reading, rate)
        )
    return ProjectValues(projects=projects, levels=levels, flagged=tuple(flagged), worst_jump=worst_jump)


def convertible(tariffs: Sequence[Tariff], rate: float | None) -> tuple[Tariff, ...]:
    """The tariffs, those in dollars with the CNY per USDT that turns them into CNY (None: unknown)."""
    return tuple(replace(each, cny_rate=rate) if each.currency in _DOLLARS else each for each in tariffs)


def overriding(
    policy: Policy, others: Sequence[OtherPolicy], classes: Sequence[MachineClass], *, now: datetime
) -> Overriding:
    """Find, per class and per single machine, the highest-ranking policy that outranks this one now (R3.6).

    A policy yields only to those that go at least as far as itself: one in shadow overrides none that executes.
    """
    rivals = [
        other
        for other in others
        if _ACTING.index(other.policy.execution_mode) >= _ACTING.index(policy.execution_mode)
        and outranks(other.policy, policy, now)
    ]
    above = sorted(rivals, key=lambda one: sum(outranks(other.policy, one.policy, now) for other in rivals))
    of_classes = []
    for machines in classes:
        found = next(
            (
                (o.policy.id, rank)
                for rank, o in enumerate(above)
                if o.scope.covers(machines.cluster_id, machines.model)
            ),
            (0, NO_RANK),
        )
        of_classes.append(found)
    of_machines: dict[int, tuple[int, int]] = {}
    for rank, other in enumerate(above):
        for machine_id in other.scope.machine_ids:
            of_machines.setdefault(machine_id, (other.policy.id, rank))
    return Overriding(of_classes=tuple(of_classes), of_machines=of_machines)


def _judged(project: ProjectInput, policy: Policy, now: datetime) -> Reading:
    return judge_price(
        project.raw,
        now=now,
        max_age_sec=policy.profit_max_age_sec,
        expected_algorithm=project.algorithm,
        expected_family=family_of(project.algorithm),
    )


def _is_flagged(project: ProjectInput, reading: Reading, policy: Policy, now: datetime) -> bool:
    """Whether monitoring flags a price that would count otherwise: an old flag says nothing of today."""
    if project.raw is None or not (
        isinstance(reading, Unknown) and reading.reason == PriceFault.FLAGGED_ANOMALOUS
    ):
        return False
    return (now - project.raw.taken_at).total_seconds() <= policy.profit_max_age_sec


def _priced(cluster: ClusterInput, now: datetime, horizon: timedelta, rate: float | None) -> ClusterMarket:
    if cluster.fault is not None:
        problem = TariffProblem(kind="tariff_gap", names=(cluster.fault,))
        return ClusterMarket(cluster_id=cluster.cluster_id, tariff=problem)
    tariffs = convertible(cluster.tariffs, rate)
    return ClusterMarket(
        cluster_id=cluster.cluster_id,
        tariff=price_in_force(tariffs, now),
        next_change_at=next_change(tariffs, now, horizon),
    )
