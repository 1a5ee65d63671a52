"""The simulated prices themselves: how they walk, and how faults are chosen."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
import requests

from local.fleet.projects import COIN_BY_KEY, COINS
from local.simulators.profit import PriceWalk, ProfitSimulator
from local.simulators.web import Served

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def url() -> Iterator[str]:
    """Run the simulated feeds."""
    with Served(ProfitSimulator(PriceWalk(COINS))) as served:
        yield served.url


def revenues(url: str) -> dict[str, float]:
    """Read the figures of our own contract's path by key."""
    prices = requests.get(f"{url}/v1/profit-snapshot", timeout=5).json()["prices"]
    return {price["key"]: price["revenue"] for price in prices}


def set_faults(url: str, faults: Any) -> int:
    """Switch faults at run time; return the status."""
    return requests.put(f"{url}/sim/faults", json=faults, timeout=5).status_code


def test_faults_hit_the_named_coins_until_they_are_lifted(url: str) -> None:
    """R2.1: a unit change looks like a thousandfold profit of one coin, and ends as suddenly."""
    before = revenues(url)
    assert set_faults(url, {"value": "jump", "keys": "BTC,KAS"}) == 200
    jumped = revenues(url)
    for key, revenue in before.items():
        assert jumped[key] == pytest.approx(revenue * (1000 if key in {"BTC", "KAS"} else 1), rel=0.02)
    set_faults(url, {"value": ""})
    set_faults(url, {"missing": True})
    assert set(revenues(url)) == set(before) - {"BTC", "KAS"}


@pytest.mark.parametrize("faults", [{"value": "nonsense"}, {"no_such": 1}, [1], {"keys": 1, "no": 2}])
def test_a_fault_that_does_not_exist_is_refused(url: str, faults: object) -> None:
    """R11.4: a test that misspells a fault learns it at once, and the feed goes on."""
    assert set_faults(url, faults) == 400
    assert revenues(url)


def test_prices_walk_believably_and_repeatably() -> None:
    """R11.4: a day of prices stays near its level without jumps, and a seed gives the same day again."""
    at = [datetime(2026, 1, 1, tzinfo=UTC)]
    one, same, other = (PriceWalk(COINS, seed=seed, now=lambda: at[0]) for seed in (1, 1, 2))
    previous = one.revenues()[1]
    shares = []
    for _ in range(24 * 60):
        at[0] += timedelta(minutes=1)
        taken_at, walked = one.revenues()
        assert timedelta(0) <= at[0] - taken_at < timedelta(seconds=10)
        assert all(abs(math.log(walked[key] / previous[key])) < 0.05 for key in walked)
        previous = walked
        shares.append(walked["BTC"] / COIN_BY_KEY["BTC"].revenue_usdt_per_hs_day)
    assert 0.8 < min(shares) < 0.99
    assert 1.01 < max(shares) < 1.25
    assert same.revenues()[1] == previous
    assert other.revenues()[1] != previous
