"""Backtests of field figures that live beside the checkout."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from blsflow.domain.inputs import ClusterInput
from blsflow.domain.policy import NegativeProfitAction
from blsflow.domain.tariff import Tariff
from blsflow.domain.tariff_calendar import seconds_of_day
from blsflow.domain.tariff_period import ALL_MONTHS, TariffPeriod
from tests.replay_scenes import HOUR, a_reading, a_scenario, backtested
from tests.scenes import CLUSTER, HASHRATE_HS, A, a_machine

FUJIAN = Path(__file__).parents[3] / "shared" / "data" / "cn_fujian_industrial_2025-08.json"
SHANGHAI = ZoneInfo("Asia/Shanghai")


def the_tariff() -> Tariff:
    """The layered tariff as it was published."""
    if not FUJIAN.exists():
        pytest.skip(f"the field figures are not beside this checkout: {FUJIAN}")
    published: dict[str, Any] = json.loads(FUJIAN.read_text())
    ranks = published["priority_low_to_high"]
    periods = tuple(
        TariffPeriod(
            name=each["name"],
            price_per_kwh=each["price"],
            priority=ranks.index(each["name"]),
            start_sec=seconds_of_day(start, field="starts"),
            end_sec=seconds_of_day(end, field="ends"),
            months=frozenset(each.get("months", ALL_MONTHS)),
        )
        for each in published["periods"]
        for start, end in [span.split("-") for span in each["ranges"]]
    )
    return Tariff(name="fujian", zone=published["tz"], periods=periods)


def test_a_machine_of_3050_w_rests_through_peak_and_sharp_of_a_fujian_day() -> None:
    """R4.6, R2.2: 57.7577 CNY a day: above peak's 58.64 no hour pays, below it all of valley and flat do."""
    midnight = datetime(2025, 8, 1, tzinfo=SHANGHAI)
    machine = a_machine(A, measured=(A,))
    (benchmark,) = machine.benchmarks
    machine = machine._replace(benchmarks=(benchmark._replace(power_w=3050.0, hashrate_hs=HASHRATE_HS),))
    scenario = a_scenario(
        machine,
        since=midnight,
        clusters=(ClusterInput(cluster_id=CLUSTER, tariffs=(the_tariff(),)),),
        policy={"negative_profit_action": NegativeProfitAction.STOP, "restart_threshold_cny_per_day": 0.0},
    )
    revenue = 57.7577
    found = backtested(
        scenario, [a_reading(A, midnight + hour * HOUR, revenue) for hour in range(24)]
    ).replayed
    hours = {"valley": 8, "flat": 8, "peak": 6, "sharp": 2}
    prices = {"valley": 0.348612, "flat": 0.584169, "peak": 0.801031, "sharp": 0.883289}
    kept = ("valley", "flat")
    assert found.always_on_cny == pytest.approx(revenue - sum(3.05 * hours[p] * prices[p] for p in hours))
    assert found.policy_cny == pytest.approx(
        revenue * 16 / 24 - sum(3.05 * hours[p] * prices[p] for p in kept)
    )
    # 10:00 to 12:00, 15:00 to 20:00, 21:00 to 22:00
    assert found.moves == {"start": 3, "stop": 3}
    assert found.series[-1].at - midnight == timedelta(days=1)
