from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from blsflow.domain.decide import Rules
from blsflow.domain.machine import (
    FLAGGED,
    OPERATOR_HOLD,
    STOPPED_BY_HUMAN,
    STOPPED_BY_SCHEDULER,
    UNKNOWN,
    Benchmark,
    Machine,
    Status,
)
from blsflow.domain.market import ClusterMarket, MachineClass, Market, ProjectMarket
from blsflow.domain.policy import Mode, NegativeProfitAction, Policy, Window, WindowAction
from blsflow.domain.reading import Known
from blsflow.domain.reasons import Action
from blsflow.domain.tariff import price_at
from blsflow.domain.tariff_survey import next_change
from blsflow.domain.verdict import MOVES
from local.fleet.machines import build, project_id
from local.fleet.models import MODELS
from local.fleet.policies import POLICIES, PolicyGroup
from local.fleet.projects import COIN_BY_KEY, PROJECTS
from local.fleet.rows import NOT_RUNNABLE, OFFLINE_FOR
from local.fleet.seed import SWITCH_COST_SEC
from local.fleet.tariffs import CLUSTERS
from tests.unit.test_fleet import tariff_of

if TYPE_CHECKING:
    from local.fleet import machines as fleet_machines

CNY_PER_USDT = 7.2
CLASSES = [(cluster, model) for cluster in CLUSTERS for model in MODELS]
TARIFFS = {cluster.id: tariff_of(cluster) for cluster in CLUSTERS}
FLEET = build(2000, 1)


def policy_of(group: PolicyGroup, policy_id: int) -> Policy:
    """Read a sample policy as the product reads it from its tables."""
    settings = dict(group.settings)
    negative = NegativeProfitAction(settings.pop("negative_profit_action", "keep"))
    return Policy(
        id=policy_id,
        tenant_id=group.tenant_id,
        name=group.name,
        mode=Mode(group.mode),
        time_zone=group.time_zone,
        candidates=tuple(project_id(group.tenant_id, number) for number in group.candidates),
        windows=tuple(
            Window(
                id=number,
                starts=window.starts,
                ends=window.ends,
                action=WindowAction(window.action),
                project_id=window.project and project_id(group.tenant_id, window.project),
            )
            for number, window in enumerate(group.windows, start=1)
        ),
        negative_profit_action=negative,
        switch_cost_sec=SWITCH_COST_SEC,
        **settings,
    )


def market_of(tenant_id: str, now: datetime) -> Market:
    """Value the sample's coins at their levels, and electricity by its tariffs."""
    runnable = {
        model.name: {
            project_id(tenant_id, project.number): project.number
            for project in PROJECTS
            if COIN_BY_KEY[project.coin].algorithm == model.algorithm
            and (project.number, model.name) not in NOT_RUNNABLE
        }
        for model in MODELS
    }
    return Market(
        now=now,
        projects={
            project_id(tenant_id, project.number): ProjectMarket(
                project_id=project_id(tenant_id, project.number),
                name=project.name,
                revenue=Known(
                    value=COIN_BY_KEY[project.coin].revenue_usdt_per_hs_day * CNY_PER_USDT, taken_at=now
                ),
            )
            for project in PROJECTS
        },
        clusters={
            cluster_id: ClusterMarket(
                cluster_id=cluster_id,
                tariff=price_at(tariff, now),
                next_change_at=next_change([tariff], now, timedelta(hours=4)),
            )
            for cluster_id, tariff in TARIFFS.items()
        },
        classes=tuple(
            MachineClass(
                index=index,
                cluster_id=cluster.id,
                model=model.name,
                run_configs=runnable[model.name],
                allowed=frozenset(runnable[model.name]),
            )
            for index, (cluster, model) in enumerate(CLASSES)
        ),
    )


def machine_of(sample: fleet_machines.Machine, now: datetime) -> Machine:
    """See a sample machine as a tick does."""
    mining = sample.status == "mining"
    flags = {
        "held": OPERATOR_HOLD,
        "stopped by scheduler": STOPPED_BY_SCHEDULER,
        "off by scheduler": STOPPED_BY_SCHEDULER,
        "stopped by human": STOPPED_BY_HUMAN,
    }
    heard_at = now - OFFLINE_FOR if sample.condition == "offline" else now
    return Machine(
        machine_id=sample.id,
        class_index=CLASSES.index((sample.cluster, sample.model)),
        status=Status[sample.status.upper()],
        project_id=sample.project_id if mining else 0,
        hashrate_hs=sample.hashrate_hs if mining else 0.0,
        power_w=sample.power_w if mining else 40.0,
        project_since=now.timestamp() - sample.on_project_sec,
        reported_at=heard_at.timestamp(),
        flags=flags.get(sample.condition, 0),
        benchmarks=tuple(
            Benchmark(
                project_id=measured["project_id"],
                hashrate_hs=measured["hashrate_hs"],
                power_w=UNKNOWN if measured["power_w"] is None else measured["power_w"],
                sampled_at=now.timestamp() - measured["age_sec"],
                flags=FLAGGED if measured["flagged"] else 0,
            )
            for measured in sample.benchmarks
        ),
    )


def first_tick(now: datetime) -> Counter[Action]:
    """Decide for the whole fleet, each policy over its own machines; windows outrank profit elsewhere."""
    actions: Counter[Action] = Counter()
    machines = [(sample, machine_of(sample, now)) for sample in FLEET]
    for policy_id, group in enumerate(POLICIES, start=1):
        rules = Rules(policy_of(group, policy_id), market_of(group.tenant_id, now))
        for sample, machine in machines:
            covered = sample.cluster.id in group.clusters
            if covered or (sample.model.name, sample.cluster.id) == group.model_in_cluster:
                actions[rules.decide(machine).action] += 1
    return actions


@pytest.mark.parametrize("minute", [10, 50])
@pytest.mark.parametrize("month", [1, 7])
def test_a_first_tick_finds_all_kinds_of_things_to_do_at_any_hour(month: int, minute: int) -> None:
    """R3.2: whenever the sample is seeded, each kind of action has machines, and not all of them move."""
    for hour in range(24):
        actions = first_tick(datetime(2026, month, 14, hour, minute, tzinfo=UTC))
        moved = sum(actions[action] for action in MOVES)
        assert 0.1 < moved / actions.total() < 0.6
        everywhere = {Action.KEEP, Action.SWITCH, Action.START, Action.STOP, Action.SKIP}
        assert all(actions[action] >= 20 for action in everywhere | {Action.BENCHMARK_REQUIRED}), actions
