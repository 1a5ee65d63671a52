"""Small worlds to decide on: one cluster, one model, projects by the CNY per day that a machine makes.

Every machine here hashes at `HASHRATE_HS` and draws `POWER_W`, so that a project's revenue per day is the
figure that a test writes down, and its cost is `COST_CNY_PER_DAY` at a price of 1 CNY per kWh.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from blsflow.domain.decide import Rules
from blsflow.domain.machine import STOPPED_BY_SCHEDULER, Benchmark, Machine, Status
from blsflow.domain.market import ClusterMarket, MachineClass, Market, ProjectMarket
from blsflow.domain.policy import Mode, Policy, Window
from blsflow.domain.reading import Known, Reading
from blsflow.domain.tariff import TariffPrice, TariffProblem

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from blsflow.domain.verdict import Verdict

NOW = datetime(2025, 8, 1, 4, 0, tzinfo=UTC)
AT = NOW.timestamp()
A, B, C = 11, 12, 13
CLUSTER = 1
HASHRATE_HS = 1e14
POWER_W = 1000.0
COST_CNY_PER_DAY = 24.0


def per_day(cny: float) -> Known:
    """A known revenue that makes one machine of this scene so many CNY per day."""
    return Known(value=cny / HASHRATE_HS, taken_at=NOW - timedelta(seconds=30))


def a_policy(**changes: Any) -> Policy:
    """A profit guard over A, B and C that moves for any gain at once, unless a test says otherwise."""
    plain: dict[str, Any] = {
        "id": 1,
        "tenant_id": "t",
        "name": "scene",
        "mode": Mode.PROFIT_GUARD,
        "candidates": (A, B, C),
        "min_gain_cny_per_day": 0.0,
        "min_gain_ratio": 0.0,
        "min_dwell_sec": 0,
        "switch_cost_sec": 0,
    }
    return Policy(**plain | changes)


def a_window_policy(*windows: Window, **changes: Any) -> Policy:
    """A time window policy in UTC; `NOW` is 04:00 on a Friday there."""
    return a_policy(mode=Mode.TIME_WINDOW, windows=windows, **changes)


def a_class(**changes: Any) -> MachineClass:
    """A class that may run A, B and C, with run configurations 110, 120 and 130."""
    plain: dict[str, Any] = {
        "index": 0,
        "cluster_id": CLUSTER,
        "model": "S19",
        "run_configs": {project: project * 10 for project in (A, B, C)},
        "allowed": frozenset({A, B, C}),
    }
    return MachineClass(**plain | changes)


def a_market(
    revenues: Mapping[int, float | Reading] | None = None,
    *,
    price: float | TariffProblem = 0.0,
    change_in_sec: float | None = None,
    machines: MachineClass | None = None,
    now: datetime = NOW,
) -> Market:
    """A market of projects by what a machine makes on them per day; electricity is free unless it is not."""
    readings = {
        project: per_day(revenue) if isinstance(revenue, float | int) else revenue
        for project, revenue in (revenues or {}).items()
    }
    tariff = (
        price
        if isinstance(price, TariffProblem)
        else TariffPrice(tariff="t", period="flat", price_cny_per_kwh=price)
    )
    change = None if change_in_sec is None else now + timedelta(seconds=change_in_sec)
    return Market(
        now=now,
        projects={
            project: ProjectMarket(project_id=project, name=f"P{project}", revenue=reading)
            for project, reading in readings.items()
        },
        clusters={CLUSTER: ClusterMarket(cluster_id=CLUSTER, tariff=tariff, next_change_at=change)},
        classes=(machines or a_class(),),
    )


def a_benchmark(project: int, **changes: Any) -> Benchmark:
    """An hour old, and like every machine here."""
    plain = Benchmark(project, HASHRATE_HS, POWER_W, AT - 3600)
    return plain._replace(**changes)


def a_machine(
    project: int = A, *, measured: Iterable[int] = (A, B, C), status: Status = Status.MINING, **changes: Any
) -> Machine:
    """A machine that has mined `project` for a day, reported a minute ago, and was measured an hour ago."""
    plain = Machine(
        machine_id=7,
        class_index=0,
        status=status,
        project_id=project,
        project_since=AT - 86_400,
        reported_at=AT - 60,
        benchmarks=tuple(a_benchmark(each) for each in measured),
    )
    return plain._replace(**changes)


def a_stopped_machine(*, measured: Iterable[int] = (A, B, C), **changes: Any) -> Machine:
    """A machine that this scheduler has stopped."""
    plain = a_machine(status=Status.STOPPED, measured=measured, flags=STOPPED_BY_SCHEDULER)
    return plain._replace(**changes)


def decide(policy: Policy, market: Market, machine: Machine) -> Verdict:
    """The verdict of one machine."""
    return Rules(policy, market).decide(machine)


def outcome(policy: Policy, market: Market, machine: Machine) -> tuple[str, str, int | None]:
    """Action, reason and target: what most tests are about."""
    verdict = decide(policy, market, machine)
    return verdict.action.value, verdict.reason.value, verdict.to_project
