"""The rows of the sample fleet, table by table, in the columns of the tables."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from local.fleet.machines import TENANTS, project_id
from local.fleet.models import MODELS
from local.fleet.projects import ALIASES, COIN_BY_KEY, PROJECTS
from local.fleet.tariffs import CLUSTERS
from local.simulators.world import IDLE_POWER_SHARE, OFF_POWER_W

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from local.fleet.machines import Machine

OFFLINE_FOR = timedelta(hours=3)
# What these models are not set up to run, and a project that a cluster may not choose.
NOT_RUNNABLE = frozenset({(4, "Whatsminer M50S")})
DENIED = ((4, "cluster", "2"),)

Row = dict[str, Any]


def shared_tables() -> Iterator[tuple[str, list[Row]]]:
    """Yield what does not depend on the machines, in an order that keeps foreign keys."""
    yield (
        "clusters",
        [{"id": c.id, "tenant_id": c.tenant_id, "name": c.name, "time_zone": c.time_zone} for c in CLUSTERS],
    )
    yield (
        "machine_models",
        [
            {
                "model": m.name,
                "algorithm": m.algorithm,
                "nameplate_hashrate_hs": m.hashrate_hs,
                "nameplate_power_w": m.power_w,
            }
            for m in MODELS
        ],
    )
    yield "projects", list(_projects())
    yield "project_run_configurations", list(_run_configurations())
    yield (
        "cluster_tariffs",
        [
            {
                "id": c.id,
                "cluster_id": c.id,
                "name": c.tariff,
                "currency": "CNY",
                "holidays": c.holidays,
                "make_up_workdays": c.make_up_workdays,
            }
            for c in CLUSTERS
        ],
    )
    yield "cluster_tariff_periods", list(_tariff_periods())
    aliases = [{"alias": alias.upper(), "price_key": key.upper()} for alias, key in ALIASES.items()]
    yield "smart_schedule_price_aliases", aliases
    yield "smart_schedule_resource_eligibilities", list(_eligibilities())


def machine_tables(fleet: list[Machine], now: datetime) -> Iterator[tuple[str, list[Row]]]:
    """Yield the machines with what they report, as of `now`, and what they were measured at."""
    yield (
        "machines",
        [
            {
                "id": m.id,
                "tenant_id": m.cluster.tenant_id,
                "cluster_id": m.cluster.id,
                "model": m.model.name,
                "name": f"{m.cluster.name}-{m.id}",
                "operator_hold": m.condition == "held",
            }
            for m in fleet
        ],
    )
    yield "machine_mining_runtime", [_report(m, now) for m in fleet]
    yield (
        "metric_powers",
        [{"machine_id": m.id, "measured_at": _heard_at(m, now), "power_w": _drawn_power_w(m)} for m in fleet],
    )
    yield "smart_schedule_machine_states", [_state(m, now) for m in fleet if m.status != "mining"]
    yield "smart_schedule_machine_project_benchmarks", list(_benchmarks(fleet, now))


def _projects() -> Iterator[Row]:
    for tenant in TENANTS:
        for project in PROJECTS:
            yield {
                "id": project_id(tenant, project.number),
                "tenant_id": tenant,
                "name": project.name,
                "coin": project.coin,
                "price_key": project.coin,
                "algorithm": COIN_BY_KEY[project.coin].algorithm,
                "pool": project.pool,
            }


def _pairs() -> Iterator[tuple[str, int, str]]:
    """Yield tenant, project number and model wherever the algorithm fits."""
    for tenant in TENANTS:
        for project in PROJECTS:
            for model in MODELS:
                if COIN_BY_KEY[project.coin].algorithm == model.algorithm:
                    yield tenant, project.number, model.name


def _run_configurations() -> Iterator[Row]:
    for number, (tenant, project, model) in enumerate(_pairs(), start=1):
        yield {
            "id": number,
            "project_id": project_id(tenant, project),
            "model": model,
            "runnable": (project, model) not in NOT_RUNNABLE,
        }


def _tariff_periods() -> Iterator[Row]:
    numbered = ((cluster, period) for cluster in CLUSTERS for period in cluster.periods)
    for number, (cluster, period) in enumerate(numbered, start=1):
        season_start, season_end = period.season or (None, None)
        yield {
            "id": number,
            "tariff_id": cluster.id,
            "name": period.name,
            "priority": period.priority,
            "starts": period.starts,
            "ends": period.ends,
            "weekdays": period.weekdays,
            "day_types": period.day_types,
            "months": period.months,
            "season_start": season_start,
            "season_end": season_end,
            "price_per_kwh": period.price,
        }


def _eligibilities() -> Iterator[Row]:
    allowed = [(tenant, number, "model", model, True) for tenant, number, model in _pairs()]
    denied = [
        (cluster.tenant_id, number, kind, resource, False)
        for number, kind, resource in DENIED
        for cluster in CLUSTERS
        if str(cluster.id) == resource
    ]
    for tenant, number, resource_type, resource, is_allowed in allowed + denied:
        yield {
            "tenant_id": tenant,
            "project_id": project_id(tenant, number),
            "resource_type": resource_type,
            "resource_id": resource,
            "allowed": is_allowed,
        }


def _state(machine: Machine, now: datetime) -> Row:
    """Say who stopped a machine that does not mine."""
    return {
        "machine_id": machine.id,
        "tenant_id": machine.cluster.tenant_id,
        "expected": machine.status,
        "stopped_by": machine.condition.rsplit(" ", 1)[1],
        "changed_at": now - timedelta(seconds=machine.on_project_sec),
        "foreign_changes": 0,
        "failures": 0,
    }


def _heard_at(machine: Machine, now: datetime) -> datetime:
    return now - OFFLINE_FOR if machine.condition == "offline" else now


def _drawn_power_w(machine: Machine) -> float:
    idle_w = {"stopped": machine.power_w * IDLE_POWER_SHARE, "off": OFF_POWER_W}
    return idle_w.get(machine.status, machine.power_w)


def _report(machine: Machine, now: datetime) -> Row:
    mining = machine.status == "mining"
    return {
        "machine_id": machine.id,
        "status": machine.status,
        "project_id": machine.project_id if mining else None,
        "hashrate_hs": {"mining": machine.hashrate_hs, "stopped": 0.0}.get(machine.status),
        "project_since": now - timedelta(seconds=machine.on_project_sec) if mining else None,
        "reported_at": _heard_at(machine, now),
    }


def _benchmarks(fleet: list[Machine], now: datetime) -> Iterator[Row]:
    for machine in fleet:
        for measured in machine.benchmarks:
            yield {
                "machine_id": machine.id,
                "project_id": measured["project_id"],
                "hashrate_hs": measured["hashrate_hs"],
                "power_w": measured["power_w"],
                "power_estimated": False,
                "sampled_at": now - timedelta(seconds=measured["age_sec"]),
                "flagged": measured["flagged"],
            }
