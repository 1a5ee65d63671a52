"""The simulated price feeds keep to the shapes that the adapters read, and all tell the same prices."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
import requests

from blsflow.adapters.profit import open_feed
from blsflow.domain.prices import FeedFault, FeedUnavailable, PriceFault, RawPrice, judge_price
from blsflow.domain.reading import Known, Reading, Stale, Unknown
from blsflow.domain.units import family_of
from local.fleet.projects import COINS
from local.simulators.profit import PriceWalk, ProfitSimulator
from local.simulators.web import Served
from tests.contract.test_profit_rows import contract_schema

if TYPE_CHECKING:
    from collections.abc import Iterator

ALGORITHMS = tuple(dict.fromkeys(coin.algorithm for coin in COINS))
FEEDS: dict[str, dict[str, Any]] = {
    "contract": {"kind": "contract"},
    "whattomine": {"kind": "whattomine"},
    "calculate": {"kind": "whattomine", "algorithms": ALGORITHMS},
    "minerstat": {"kind": "minerstat"},
}


@pytest.fixture
def simulator() -> Iterator[str]:
    """The address of simulated feeds whose prices stand still."""
    stopped = datetime.now(UTC)
    with Served(ProfitSimulator(PriceWalk(COINS, now=lambda: stopped))) as served:
        yield served.url


def readings(name: str, url: str) -> dict[str, Reading]:
    """Fetch a feed and judge each of its prices now, by key."""
    feed = open_feed(**FEEDS[name], base_url=url, api_key=None, timeout_sec=10, min_interval_sec=0)
    snapshot = feed.fetch()
    assert snapshot.rejected == ()
    return {price.key: judged(price) for price in snapshot.prices}


def judged(price: RawPrice) -> Reading:
    """Judge a price now, by what its own algorithm counts."""
    return judge_price(
        price,
        now=datetime.now(UTC),
        max_age_sec=timedelta(minutes=5).total_seconds(),
        expected_algorithm=price.algorithm,
        expected_family=family_of(price.algorithm or ""),
    )


def break_feed(url: str, **faults: object) -> None:
    """Put faults in force."""
    requests.put(f"{url}/sim/faults", json=faults, timeout=10).raise_for_status()


@pytest.mark.parametrize("name", FEEDS)
def test_every_feed_tells_the_same_prices(name: str, simulator: str) -> None:
    """R2.1, R2.5: one market read through four shapes, units and time bases is worth the same."""
    found = readings(name, simulator)
    assert set(found) == {coin.key for coin in COINS}
    for coin in COINS:
        reading = found[coin.key]
        assert isinstance(reading, Known), (coin.key, reading)
        assert reading.value == pytest.approx(coin.revenue_usdt_per_hs_day, rel=1e-6)


@pytest.mark.parametrize("name", ["contract", "minerstat"])
@pytest.mark.parametrize(
    ("value", "fault"),
    [("minus_one", PriceFault.SENTINEL), ("zero", PriceFault.ZERO), ("nan", PriceFault.NOT_FINITE)],
)
def test_one_bad_figure_is_one_unknown_price(
    name: str, simulator: str, value: str, fault: PriceFault
) -> None:
    """R2.1 (P08, P09): the coin with the bad figure is unknown for its reason; all others stay known."""
    break_feed(simulator, value=value, keys="KAS")
    found = readings(name, simulator)
    assert found.pop("KAS") == Unknown(reason=fault)
    assert all(isinstance(reading, Known) for reading in found.values())


@pytest.mark.parametrize("name", ["contract", "whattomine", "minerstat"])
def test_old_and_future_prices_are_told_apart(name: str, simulator: str) -> None:
    """R2.1 (L04): a price that is too old is stale, one from the future unknown, whichever feed tells it."""
    break_feed(simulator, stale=True, keys="KAS")
    assert isinstance(readings(name, simulator)["KAS"], Stale)
    break_feed(simulator, stale=False, future=True)
    assert readings(name, simulator)["KAS"] == Unknown(reason=PriceFault.FROM_FUTURE)


def test_a_flagged_price_is_unknown(simulator: str) -> None:
    """R2.1: what the profit service flags as anomalous is not used."""
    break_feed(simulator, flagged=True, keys="KAS")
    assert readings("contract", simulator)["KAS"] == Unknown(reason=PriceFault.FLAGGED_ANOMALOUS)


def test_an_outage_is_told(simulator: str) -> None:
    """R2.1: a dropped connection is no snapshot."""
    break_feed(simulator, outage=True)
    with pytest.raises(FeedUnavailable) as failure:
        readings("contract", simulator)
    assert failure.value.reason is FeedFault.CONNECTION


def test_the_simulated_profit_service_keeps_to_its_contract(simulator: str) -> None:
    """R2.1: what the simulator sends is valid by the published schema."""
    document = requests.get(f"{simulator}/v1/profit-snapshot", timeout=10).json()
    jsonschema.Draft202012Validator(contract_schema()).validate(document)
