from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from blsflow.adapters.postgres.inputs import cluster_of
from blsflow.domain.tariff import Tariff, TariffPrice, price_at
from local.fleet.machines import build, project_id
from local.fleet.models import MODELS
from local.fleet.projects import COIN_BY_KEY, COINS, PROJECTS
from local.fleet.rows import shared_tables
from local.fleet.tariffs import CLUSTERS, Cluster


def tariff_of(cluster: Cluster) -> Tariff:
    """Read a cluster's tariff as the product reads it from its tables."""
    tables = dict(shared_tables())
    (tariff,) = [row for row in tables["cluster_tariffs"] if row["cluster_id"] == cluster.id]
    document = tariff | {
        "valid_from": None,
        "valid_to": None,
        "holidays": [day.isoformat() for day in tariff["holidays"]],
        "make_up_workdays": [day.isoformat() for day in tariff["make_up_workdays"]],
        "periods": [row for row in tables["cluster_tariff_periods"] if row["tariff_id"] == tariff["id"]],
    }
    cluster_input = cluster_of({"id": cluster.id, "time_zone": cluster.time_zone, "tariffs": [document]})
    assert cluster_input.fault is None
    return cluster_input.tariffs[0]


def test_the_fleet_has_the_promised_breadth() -> None:
    """R11.4: at least six models, four algorithms, eight projects and four clusters in two tenants."""
    assert len(MODELS) >= 6
    assert len({model.algorithm for model in MODELS}) >= 4
    assert len({coin.algorithm for coin in COINS}) >= 4
    assert len(PROJECTS) >= 8
    assert len(CLUSTERS) == 4
    assert len({cluster.tenant_id for cluster in CLUSTERS}) == 2


@pytest.mark.parametrize("cluster", CLUSTERS, ids=lambda cluster: cluster.name)
def test_each_tariff_prices_every_half_hour_of_two_years(cluster: Cluster) -> None:
    """R2.2: the sample tariffs have neither gaps nor overlaps, on both DST days and on holidays too."""
    tariff = tariff_of(cluster)
    at = datetime(2026, 1, 1, tzinfo=UTC)
    periods = set()
    while at < datetime(2028, 1, 1, tzinfo=UTC):
        priced = price_at(tariff, at)
        assert isinstance(priced, TariffPrice), (at, priced)
        periods.add(priced.period)
        at += timedelta(minutes=30)
    assert periods == {period.name for period in cluster.periods}


@pytest.mark.parametrize(
    ("cluster_id", "at", "period", "price"),
    [
        (1, "2026-08-03T01:30+08:00", "valley", 0.27),
        (1, "2026-08-03T23:00+08:00", "valley", 0.27),
        (1, "2026-08-03T07:00+08:00", "flat", 0.52),
        (1, "2026-08-03T11:30+08:00", "sharp noon", 0.95),
        (1, "2026-10-05T11:30+08:00", "peak morning", 0.79),
        (1, "2026-01-05T02:00+08:00", "deep valley", 0.21),
        (2, "2026-07-06T18:00+08:00", "summer peak", 0.91),
        (2, "2026-02-07T08:00+08:00", "winter morning half-peak", 0.53),
        (2, "2026-02-14T08:00+08:00", "saturday winter morning half-peak", 0.38),
        (2, "2026-02-17T08:00+08:00", "holiday off-peak", 0.30),
        (2, "2026-02-15T08:00+08:00", "sunday off-peak", 0.30),
        (3, "2026-07-06T15:00-05:00", "summer peak", 0.93),
        (3, "2026-07-04T15:00-05:00", "day", 0.39),
        (3, "2026-11-01T01:30-06:00", "night", 0.29),
        (4, "2026-06-01T12:00+02:00", "noon", -0.08),
        (4, "2026-03-29T01:30+00:00", "night wind", -0.03),
        (4, "2026-03-29T03:30+00:00", "base", 0.33),
    ],
)
def test_tariffs_price_known_instants(cluster_id: int, at: str, period: str, price: float) -> None:
    """R2.2: layers, seasons, kinds of day, midnight, DST and negative prices come out as meant."""
    priced = price_at(tariff_of(CLUSTERS[cluster_id - 1]), datetime.fromisoformat(at))
    assert isinstance(priced, TariffPrice)
    assert priced.period == period
    assert priced.price_cny_per_kwh == pytest.approx(price)


def test_a_seed_makes_the_same_fleet_again() -> None:
    """R3.10: the sample's ticks can be repeated, since the fleet can."""
    assert build(300, 5) == build(300, 5)
    assert build(300, 5) != build(300, 6)


def test_the_fleet_is_mixed_and_plausible() -> None:
    """R2.3: all conditions and kinds of benchmark occur, and figures stay near their model's nameplate."""
    fleet = build(2000, 1)
    conditions = Counter(machine.condition for machine in fleet)
    assert set(conditions) == {
        "mining", "stopped by scheduler", "off by scheduler", "stopped by human", "offline", "held",
    }  # fmt: skip
    assert 0.8 < conditions["mining"] / len(fleet) < 0.95
    assert {machine.model for machine in fleet} == set(MODELS)
    for machine in fleet:
        assert machine.hashrate_hs == pytest.approx(machine.model.hashrate_hs, rel=0.1)
        assert machine.power_w == pytest.approx(machine.model.power_w, rel=0.1)
    measured = [benchmark for machine in fleet for benchmark in machine.benchmarks]
    assert any(benchmark["flagged"] for benchmark in measured)
    assert any(benchmark["power_w"] is None for benchmark in measured)
    assert any(benchmark["hashrate_hs"] == 0 for benchmark in measured)
    assert any(benchmark["age_sec"] > 60 * 86_400 for benchmark in measured)
    assert any(not machine.benchmarks for machine in fleet)


def test_machines_mine_what_their_algorithm_allows() -> None:
    """R2.5: nobody runs a project of another algorithm or another tenant."""
    allowed = {
        project_id(tenant, project.number): (tenant, COIN_BY_KEY[project.coin].algorithm)
        for tenant in {cluster.tenant_id for cluster in CLUSTERS}
        for project in PROJECTS
    }
    for machine in build(500, 2):
        owner = (machine.cluster.tenant_id, machine.model.algorithm)
        assert allowed[machine.project_id] == owner
        assert {allowed[benchmark["project_id"]] for benchmark in machine.benchmarks} <= {owner}
