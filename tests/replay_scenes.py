"""Small pasts to replay: one machine or a few, two projects A and B by what they make a day, electricity by the hour.

As in `tests.scenes` every machine hashes at `HASHRATE_HS` and draws 1 kW, so that a price of 1 CNY per kWh costs
1 CNY an hour. `NOW` is 2025-08-01 04:00 UTC, which is noon in Shanghai.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from blsflow.domain.backtest import Backtested, BacktestRun, Scenario
from blsflow.domain.inputs import ClusterInput, ProjectInput
from blsflow.domain.prices import PriceReading, RawPrice
from blsflow.domain.tariff import Tariff
from blsflow.domain.tariff_period import TariffPeriod
from tests.scenes import CLUSTER, HASHRATE_HS, A, B, C, a_class, a_machine, a_policy

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from blsflow.domain.machine import Machine

MIDNIGHT = datetime(2025, 8, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


def a_tariff(*bands: tuple[int, int, float], zone: str = "UTC", **changes: Any) -> Tariff:
    """Bands of (first hour, last hour excluded, CNY per kWh); an hour that none names has no price."""
    periods = tuple(
        TariffPeriod(name=f"{start}-{end}", start_sec=start * 3600, end_sec=end * 3600, price_per_kwh=price)
        for start, end, price in bands
    )
    plain: dict[str, Any] = {"name": "tariff", "zone": zone, "periods": periods}
    return Tariff(**plain | changes)


FREE = a_tariff((0, 24, 0.0))


def a_reading(project: int, at: datetime, cny_per_day: float, **changes: Any) -> PriceReading:
    """A price that makes one machine so many CNY per day, at a rate of 1."""
    raw: dict[str, Any] = {
        "key": str(project),
        "algorithm": None,
        "revenue": cny_per_day / HASHRATE_HS,
        "unit": "H/s",
        "currency": "USDT",
        "taken_at": at,
    }
    return PriceReading(at, project, RawPrice(**raw | changes))


def hourly(prices: Mapping[int, Iterable[float | None]], since: datetime = MIDNIGHT) -> list[PriceReading]:
    """A price per project and hour; None: the feed is silent."""
    found = [
        a_reading(project, since + hour * HOUR, cny)
        for project, figures in prices.items()
        for hour, cny in enumerate(figures)
        if cny is not None
    ]
    return sorted(found, key=lambda reading: (reading.received_at, reading.project_id))


def a_scenario(*machines: Machine, tariff: Tariff = FREE, hours: float = 24, **changes: Any) -> Scenario:
    """A day from midnight UTC in hourly steps, of a policy that moves for any gain at once and trusts any price."""
    since = changes.get("since", MIDNIGHT)
    policy = a_policy(
        **{"profit_max_age_sec": 3599, "price_jump_factor": 1e9, "freeze_after_failures": 10_000}
        | changes.pop("policy", {})
    )
    plain: dict[str, Any] = {
        "policy": policy,
        "since": since,
        "until": since + hours * HOUR,
        "step": HOUR,
        "rate": 1.0,
        "projects": tuple(
            ProjectInput(project_id=project, name=f"P{project}", algorithm="SHA-256", raw=None)
            for project in (A, B, C)
        ),
        "clusters": (ClusterInput(cluster_id=CLUSTER, tariffs=(tariff,)),),
        "classes": (a_class(),),
        "machines": machines or (a_machine(A, measured=(A, B)),),
        "read_at": datetime(2025, 8, 1, 4, tzinfo=UTC),
    }
    return Scenario(**plain | changes)


def backtested(scenario: Scenario, readings: Iterable[PriceReading]) -> Backtested:
    """The whole of it."""
    run = BacktestRun(scenario, readings)
    for _ in run.advance(scenario.until):
        pass
    return run.backtested()
