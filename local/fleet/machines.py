"""The sample fleet's machines: what each is, does and was measured at. A seed always makes the same fleet."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from local.fleet.models import MODELS
from local.fleet.projects import COIN_BY_KEY, PROJECTS
from local.fleet.tariffs import CLUSTERS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from local.fleet.models import Model
    from local.fleet.tariffs import Cluster

HOUR_SEC, DAY_SEC = 3_600, 86_400
BENCHMARK_TTL_DAYS = 30
# Projects are numbered per tenant; a machine's own tenant's are this much apart.
PROJECTS_PER_TENANT = 100
TENANTS = tuple(dict.fromkeys(cluster.tenant_id for cluster in CLUSTERS))

# Most machines already mine what pays best, so that the first ticks move some and keep most.
_RUNNING = {1: 12, 2: 6, 3: 74, 4: 8, 5: 86, 6: 14, 7: 100, 8: 84, 9: 16, 10: 100}
_CONDITIONS = {
    "mining": 88.5,
    "stopped by scheduler": 5.0,
    "off by scheduler": 1.5,
    "stopped by human": 2.0,
    "offline": 2.0,
    "held": 1.0,
}
_BENCHMARKS = {"valid": 90.0, "missing": 4.0, "expired": 3.5, "zero": 1.0, "no power": 0.8, "flagged": 0.7}
_NEVER_MEASURED_SHARE = 0.03


@dataclass(frozen=True, kw_only=True, slots=True)
class Machine:
    """A machine; times are ages in seconds before the seeding."""

    id: int
    cluster: Cluster
    model: Model
    condition: str
    project_id: int
    hashrate_hs: float
    power_w: float
    on_project_sec: float
    benchmarks: tuple[dict[str, Any], ...]

    @property
    def status(self) -> str:
        """What it reports: mining, stopped or off."""
        first = self.condition.split(maxsplit=1)[0]
        return first if first in {"stopped", "off"} else "mining"


def project_id(tenant_id: str, number: int) -> int:
    """Return the id of a tenant's project."""
    return (TENANTS.index(tenant_id) + 1) * PROJECTS_PER_TENANT + number


def projects_of(algorithm: str) -> list[int]:
    """Return the numbers of the projects that an algorithm's models can mine."""
    return [p.number for p in PROJECTS if COIN_BY_KEY[p.coin].algorithm == algorithm]


def build(count: int, seed: int) -> list[Machine]:
    """Make the fleet. Clusters and models get their shares; everything else is drawn for each machine."""
    rng = random.Random(seed)  # noqa: S311 - a sample, repeatable on purpose
    clusters = rng.choices(CLUSTERS, [cluster.share for cluster in CLUSTERS], k=count)
    models = rng.choices(MODELS, [model.share for model in MODELS], k=count)
    return [
        _machine(rng, 1_000 + number, cluster, model)
        for number, (cluster, model) in enumerate(zip(clusters, models, strict=True), start=1)
    ]


def _machine(rng: random.Random, machine_id: int, cluster: Cluster, model: Model) -> Machine:
    numbers = projects_of(model.algorithm)
    running = rng.choices(numbers, [_RUNNING[number] for number in numbers])[0]
    hashrate_hs = model.hashrate_hs * rng.gauss(0.99, 0.015)
    power_w = model.power_w * rng.gauss(1.01, 0.015)
    never_measured = rng.random() < _NEVER_MEASURED_SHARE
    return Machine(
        id=machine_id,
        cluster=cluster,
        model=model,
        condition=_drawn(rng, _CONDITIONS),
        project_id=project_id(cluster.tenant_id, running),
        hashrate_hs=hashrate_hs,
        power_w=power_w,
        # a few changed too recently to be moved again
        on_project_sec=rng.uniform(0.1, 72) * HOUR_SEC,
        benchmarks=()
        if never_measured
        else tuple(_measured(rng, cluster.tenant_id, numbers, hashrate_hs, power_w)),
    )


def _measured(
    rng: random.Random, tenant_id: str, numbers: list[int], hashrate_hs: float, power_w: float
) -> Iterator[dict[str, Any]]:
    """Draw a benchmark for each project, some of them of no use, and leave some out."""
    for number in numbers:
        state = _drawn(rng, _BENCHMARKS)
        age_days = rng.uniform(0.2, BENCHMARK_TTL_DAYS - 5)
        if state == "missing":
            continue
        yield {
            "project_id": project_id(tenant_id, number),
            "hashrate_hs": 0.0 if state == "zero" else hashrate_hs * rng.gauss(1.0, 0.006),
            "power_w": None if state == "no power" else power_w * rng.gauss(1.0, 0.006),
            "age_sec": (age_days + (BENCHMARK_TTL_DAYS * 2 if state == "expired" else 0)) * DAY_SEC,
            "flagged": state == "flagged",
        }


def _drawn(rng: random.Random, weights: dict[str, float]) -> str:
    return rng.choices(list(weights), list(weights.values()))[0]
