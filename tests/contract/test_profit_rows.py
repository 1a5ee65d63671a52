"""What each price feed makes of its rows, good and bad."""

from __future__ import annotations

import json
import math
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
import yaml

from blsflow.adapters.profit import ContractFeed, MinerstatFeed, WhatToMineCalculateFeed, WhatToMineFeed
from blsflow.domain.prices import FeedFault, FeedUnavailable, PriceFault, RawPrice, judge_price
from blsflow.domain.reading import Known, Reading, Unknown
from blsflow.domain.units import family_of
from tests.contract.profit_feeds import (
    BTC_PRICE_USD,
    UPDATED,
    contract_price,
    contract_snapshot,
    minerstat_coin,
    serve_wtm,
    wtm_bitcoin,
    wtm_coin,
)
from tests.contract.scripted_server import Scripted, ScriptedServer, json_answer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from blsflow.domain.prices import ProfitSnapshot

ROOT = Path(__file__).parents[2]
CONTRACT = ROOT / "docs/contracts/profit_service.openapi.yaml"
REAL_FIGURES = Path(os.environ.get("BLSFLOW_FIELD_DATA", ROOT.parent / "shared")) / "data"
UPDATED_AT = datetime.fromtimestamp(UPDATED, UTC)


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    """A server that each test tells what to answer."""
    with ScriptedServer() as running:
        yield running


def contract(server: ScriptedServer, document: object) -> ProfitSnapshot:
    """Fetch this document from the profit service."""
    server.answers["/v1/profit-snapshot"] = json_answer(document)
    return ContractFeed(server.url, None, 10.0, min_interval_sec=0).fetch()


def minerstat(server: ScriptedServer, *coins: object) -> ProfitSnapshot:
    """Fetch these rows from minerstat."""
    server.answers["/v2/coins"] = json_answer(list(coins))
    return MinerstatFeed(server.url, "k", 10.0, min_interval_sec=0).fetch()


def whattomine(
    server: ScriptedServer, asic: dict[str, Any], coins: dict[str, Any] | None = None
) -> ProfitSnapshot:
    """Fetch these lists from WhatToMine."""
    serve_wtm(server, asic, coins)
    return WhatToMineFeed(server.url, None, 10.0, min_interval_sec=0).fetch()


def judged(raw: RawPrice) -> Reading:
    """Judge a price as of when it was taken, by what its own algorithm counts."""
    return judge_price(
        raw,
        now=raw.taken_at,
        max_age_sec=60,
        expected_algorithm=raw.algorithm,
        expected_family=family_of(raw.algorithm or ""),
    )


def by_key(snapshot: ProfitSnapshot) -> dict[str, RawPrice]:
    """Return the prices of a snapshot by their keys."""
    return {price.key: price for price in snapshot.prices}


def real_figures(name: str) -> Any:
    """Return a document of real figures; skip where they are not at hand."""
    path = REAL_FIGURES / name
    if not path.exists():
        pytest.skip(f"no real figures at hand: {name}; BLSFLOW_FIELD_DATA names the folder above data/")
    return json.loads(path.read_text(encoding="utf-8"))


# ---------------------------------------------------------------- our own contract


def contract_examples() -> list[Any]:
    """Return the examples of the published contract."""
    document = yaml.safe_load(CONTRACT.read_text(encoding="utf-8"))
    content = document["paths"]["/v1/profit-snapshot"]["get"]["responses"]["200"]["content"]
    return [pytest.param(x["value"], id=name) for name, x in content["application/json"]["examples"].items()]


def contract_schema() -> dict[str, Any]:
    """Return the published schema of a snapshot, by itself."""
    document = yaml.safe_load(CONTRACT.read_text(encoding="utf-8"))
    return {"$ref": "#/components/schemas/ProfitSnapshot", "components": document["components"]}


@pytest.mark.parametrize("example", contract_examples())
def test_the_adapter_reads_what_the_contract_shows(server: ScriptedServer, example: dict[str, Any]) -> None:
    """R2.1: every published example is valid by the published schema, and each of its rows is read."""
    jsonschema.Draft202012Validator(contract_schema()).validate(example)
    snapshot = contract(server, example)
    assert snapshot.rejected == ()
    assert [price.key for price in snapshot.prices] == [row["key"] for row in example["prices"]]
    assert [price.revenue for price in snapshot.prices] == [row["revenue"] for row in example["prices"]]


@pytest.mark.parametrize("member", ["taken_at", "currency", "flags", "prices"])
def test_the_frame_is_required_by_contract_and_adapter_alike(server: ScriptedServer, member: str) -> None:
    """R2.1: what the contract requires of a snapshot, the adapter insists on."""
    document = contract_snapshot(contract_price())
    del document[member]
    assert not jsonschema.Draft202012Validator(contract_schema()).is_valid(document)
    with pytest.raises(FeedUnavailable) as failure:
        contract(server, document)
    assert failure.value.reason is FeedFault.WRONG_SHAPE
    assert member in failure.value.detail


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"revenue": "0.05"}, "revenue"),
        ({"revenue": None}, "revenue"),
        ({"revenue": True}, "revenue"),
        ({"unit": 1e12}, "unit"),
        ({"key": ""}, "key"),
        ({"key": 5}, "key"),
        ({"algorithm": 5}, "algorithm"),
        ({"flags": "spread"}, "flags"),
        ({"flags": [1]}, "flags"),
        ({"taken_at": 1_770_000_000}, "taken_at"),
        ({"taken_at": "2026-02-02T02:40:00"}, "taken_at"),
        ({"taken_at": "yesterday"}, "taken_at"),
    ],
)
def test_a_bad_row_is_named_and_spoils_no_other(
    server: ScriptedServer, change: dict[str, object], field: str
) -> None:
    """R2.1 (P08): a row of changed types is rejected with its field and cause; the others stand."""
    snapshot = contract(server, contract_snapshot(contract_price() | change, contract_price(key="KAS")))
    assert list(by_key(snapshot)) == ["KAS"]
    (row,) = snapshot.rejected
    assert row.field.split(".")[0] == field
    assert row.cause
    assert row.key == ("[0]" if field == "key" else "BTC")


def test_a_row_that_is_no_object_is_rejected(server: ScriptedServer) -> None:
    """R2.1: whatever stands in the place of a row is named by its position."""
    snapshot = contract(server, contract_snapshot(None, contract_price(), [1]))
    assert list(by_key(snapshot)) == ["BTC"]
    assert [row.key for row in snapshot.rejected] == ["[0]", "[2]"]


def test_nan_in_a_row_is_that_rows_own_fault(server: ScriptedServer) -> None:
    """R2.1 (P08): the bare NaN and Infinity that some services write reach the judge, and only them."""
    body = json.dumps(
        contract_snapshot(
            contract_price(key="A", revenue=math.nan),
            contract_price(key="B", revenue=math.inf),
            contract_price(key="C", revenue=1.0),
        )
    )
    server.answers["/v1/profit-snapshot"] = Scripted(body=body.encode())
    prices = by_key(ContractFeed(server.url, None, 10.0, min_interval_sec=0).fetch())
    assert judged(prices["A"]) == Unknown(reason=PriceFault.NOT_FINITE)
    assert judged(prices["B"]) == Unknown(reason=PriceFault.NOT_FINITE)
    assert isinstance(judged(prices["C"]), Known)


def test_an_integer_beyond_all_floats_is_that_rows_own_fault(server: ScriptedServer) -> None:
    """R2.1: a figure of 400 digits spoils neither the answer nor the other rows."""
    snapshot = contract(
        server, contract_snapshot(contract_price(revenue=10**400), contract_price(key="KAS", revenue=1))
    )
    assert list(by_key(snapshot)) == ["KAS"]
    assert [(row.key, row.field) for row in snapshot.rejected] == [("BTC", "revenue")]


def test_a_flag_of_the_snapshot_stands_on_each_price(server: ScriptedServer) -> None:
    """R2.1: when the service flags its whole snapshot, none of its prices can be used."""
    snapshot = contract(
        server, contract_snapshot(contract_price(flags=["spread"]), flags=["halted", "spread"])
    )
    assert snapshot.flags == ("halted", "spread")
    assert snapshot.prices[0].flags == ("halted", "spread")
    assert judged(snapshot.prices[0]) == Unknown(reason=PriceFault.FLAGGED_ANOMALOUS)


def test_a_row_may_have_a_time_of_its_own(server: ScriptedServer) -> None:
    """R2.1: a row's time wins over the snapshot's, and any offset is turned into UTC."""
    snapshot = contract(
        server,
        contract_snapshot(contract_price(), contract_price(key="KAS", taken_at="2026-02-02T10:30:00+08:00")),
    )
    prices = by_key(snapshot)
    assert prices["BTC"].taken_at == snapshot.taken_at == UPDATED_AT
    assert prices["KAS"].taken_at == UPDATED_AT - timedelta(minutes=10)
    assert prices["KAS"].taken_at.utcoffset() == timedelta(0)


def test_rows_that_claim_one_key_are_all_rejected(server: ScriptedServer) -> None:
    """R2.1: nothing says which of two prices is right, so neither is used."""
    snapshot = contract(
        server, contract_snapshot(contract_price(), contract_price(key="btc "), contract_price(key="KAS"))
    )
    assert list(by_key(snapshot)) == ["KAS"]
    assert [(row.key, row.field) for row in snapshot.rejected] == [("BTC", "key")]


# ---------------------------------------------------------------- minerstat


def test_a_reward_per_hour_becomes_revenue_per_day(server: ScriptedServer) -> None:
    """R2.1, R2.5: 1e-12 coins an hour at 2.5 USD are 6e-11 USD per H/s and day."""
    (price,) = minerstat(server, minerstat_coin()).prices
    assert (price.key, price.algorithm, price.unit, price.currency) == ("KAS", "KHeavyHash", "H/s", "USD")
    assert price.revenue == pytest.approx(6e-11)
    assert price.taken_at == UPDATED_AT


@pytest.mark.parametrize(
    ("reward", "coin_price", "fault"),
    [
        (-1, 2.83, PriceFault.SENTINEL),
        (1e-12, -1, PriceFault.SENTINEL),
        (-1, -1, PriceFault.SENTINEL),
        (0, 2.83, PriceFault.ZERO),
        (1e-12, 0, PriceFault.ZERO),
        (-2, -3, PriceFault.NEGATIVE),
    ],
)
def test_no_data_never_becomes_a_figure(
    server: ScriptedServer, reward: float, coin_price: float, fault: PriceFault
) -> None:
    """R2.1 (P09): -1 for reward or price is no data; multiplied, two of them would be a profit."""
    (price,) = minerstat(server, minerstat_coin(reward=reward, price=coin_price)).prices
    assert judged(price) == Unknown(reason=fault)


def test_no_data_about_the_network_does_not_matter(server: ScriptedServer) -> None:
    """R2.1: a multipool has no network figures, but a reward and a key of its own beside the coin's."""
    pool = minerstat_coin(coin="2MINERS KAS", type="pool", network_hashrate=-1, difficulty=-1, volume=-1)
    assert list(by_key(minerstat(server, minerstat_coin(), pool))) == ["KAS", "2MINERS KAS"]


@pytest.mark.parametrize(
    ("algorithm", "unit"),
    [("Equihash", "Sol/s"), ("ZHash", "Sol/s"), ("Cuckatoo32", "g/s"), ("Scrypt", "H/s")],
)
def test_the_unit_is_what_the_algorithm_counts(server: ScriptedServer, algorithm: str, unit: str) -> None:
    """R2.5: feeds say H/s for everything; the price carries the family that it is really per."""
    assert minerstat(server, minerstat_coin(algorithm=algorithm)).prices[0].unit == unit


@pytest.mark.parametrize(
    "change",
    [
        {"reward": "1e-12"},
        {"price": None},
        {"updated": "now"},
        {"updated": -1},
        {"updated": 10**18},
        {"algorithm": ""},
    ],
)
def test_a_bad_row_of_minerstat_spoils_no_other(server: ScriptedServer, change: dict[str, object]) -> None:
    """R2.1 (P08): changed types reject the row, under its coin."""
    snapshot = minerstat(server, minerstat_coin(**change), minerstat_coin(coin="LTC"))
    assert list(by_key(snapshot)) == ["LTC"]
    assert [(row.key, row.field) for row in snapshot.rejected] == [("KAS", next(iter(change)))]


def test_real_rows_of_minerstat_are_read(server: ScriptedServer) -> None:
    """R2.1: of real figures, Bitcoin's revenue is 0.0802 USD per TH/s and day, and pools keep their keys."""
    snapshot = minerstat(server, *real_figures("minerstat_coins_2024-02-16.json")["coins"])
    prices = by_key(snapshot)
    assert snapshot.rejected == ()
    assert set(prices) == {"BTC", "KAS", "BINANCE ETHW", "2MINERS ZEC"}
    assert prices["BTC"].revenue * 1e12 == pytest.approx(0.0802, abs=1e-4)
    assert prices["2MINERS ZEC"].unit == "Sol/s"
    assert all(isinstance(judged(price), Known) for price in prices.values())


# ---------------------------------------------------------------- WhatToMine's lists


def test_revenue_is_the_share_of_the_network(server: ScriptedServer) -> None:
    """R2.1: 86400 / 6 s x 1 coin / 1e15 H/s x 1e-4 BTC x 80,000 USD is 1.152e-10 USD per H/s and day."""
    prices = by_key(whattomine(server, {"Bitcoin": wtm_bitcoin(), "Kaspa": wtm_coin()}))
    assert prices["KAS"].revenue == pytest.approx(86400 / 6 / 1e15 * 1e-4 * BTC_PRICE_USD)
    assert (prices["KAS"].unit, prices["KAS"].currency) == ("H/s", "USD")
    assert prices["KAS"].taken_at == UPDATED_AT


def test_bitcoins_own_rate_is_in_usd(server: ScriptedServer) -> None:
    """R2.1: Bitcoin's exchange rate says BTC and means USD; it is not multiplied by itself."""
    prices = by_key(whattomine(server, {"Bitcoin": wtm_bitcoin()}))
    assert prices["BTC"].revenue == pytest.approx(144 * 3.125 / 9e20 * BTC_PRICE_USD)
    assert prices["BTC"].currency == "USD"


@pytest.mark.parametrize(
    "bitcoin",
    [
        None,
        {"exchange_rate": None},
        {"exchange_rate": 0},
        {"exchange_rate": -1},
        {"exchange_rate": "n/a"},
        {"timestamp": None},
    ],
)
def test_without_bitcoins_price_the_others_are_unknown(
    server: ScriptedServer, bitcoin: dict[str, object] | None
) -> None:
    """R2.1 (P01): revenue in BTC stays in BTC; it is unknown, and neither 0 nor dollars."""
    rows = {} if bitcoin is None else {"Bitcoin": wtm_bitcoin(**bitcoin)}
    price = by_key(whattomine(server, rows | {"Kaspa": wtm_coin()}))["KAS"]
    assert price.currency == "BTC"
    assert judged(price) == Unknown(reason=PriceFault.EXCHANGE_RATE_UNKNOWN)


def test_a_product_is_as_old_as_its_older_figure(server: ScriptedServer) -> None:
    """R2.1: a fresh coin valued at an old Bitcoin price is old."""
    bitcoin = wtm_bitcoin(timestamp=UPDATED - 3600)
    price = by_key(whattomine(server, {"Bitcoin": bitcoin, "Kaspa": wtm_coin()}))["KAS"]
    assert price.taken_at == UPDATED_AT - timedelta(hours=1)


@pytest.mark.parametrize(("bitcoin_ahead_sec", "coin_ahead_sec"), [(0, 600), (600, 0), (-3600, 600)])
def test_a_time_still_to_come_is_not_hidden_by_the_other(
    server: ScriptedServer, bitcoin_ahead_sec: int, coin_ahead_sec: int
) -> None:
    """R2.1 (L04): a figure from the future shows in the price, whatever it was multiplied by."""
    now = int(datetime.now(UTC).timestamp())
    rows = {
        "Bitcoin": wtm_bitcoin(timestamp=now + bitcoin_ahead_sec),
        "Kaspa": wtm_coin(timestamp=now + coin_ahead_sec),
    }
    assert by_key(whattomine(server, rows))["KAS"].taken_at == datetime.fromtimestamp(now + 600, UTC)


@pytest.mark.parametrize(("bitcoin", "coin"), [(False, True), (True, False)])
def test_what_lags_says_so(server: ScriptedServer, *, bitcoin: bool, coin: bool) -> None:
    """R2.1: lagging figures, the coin's own or Bitcoin's, are stale."""
    rows = {"Bitcoin": wtm_bitcoin(lagging=bitcoin), "Kaspa": wtm_coin(lagging=coin)}
    assert by_key(whattomine(server, rows))["KAS"].flags == ("lagging",)


@pytest.mark.parametrize("block_time", [6, 6.0, "6", "6.0"])
def test_numbers_come_as_numbers_and_as_strings(server: ScriptedServer, block_time: object) -> None:
    """R2.5: this edge declares strings; both spellings mean the same."""
    rows = {"Bitcoin": wtm_bitcoin(), "Kaspa": wtm_coin(block_time=block_time)}
    assert by_key(whattomine(server, rows))["KAS"].revenue == pytest.approx(1.152e-10)


def test_a_markets_placeholder_is_no_coin(server: ScriptedServer) -> None:
    """R2.1: NICEHASH rows have block figures of 1 and a price per another unit: not for the formula."""
    row = wtm_coin(tag="NICEHASH", block_time=1, block_reward=1, difficulty=1, exchange_rate=1.99)
    snapshot = whattomine(server, {"Nicehash-KHeavyHash": row, "Kaspa": wtm_coin(), "Bitcoin": wtm_bitcoin()})
    assert set(by_key(snapshot)) == {"BTC", "KAS"}
    assert [(row.key, row.field) for row in snapshot.rejected] == [("Nicehash-KHeavyHash", "tag")]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("block_time", 0),
        ("block_time", "soon"),
        ("block_time", None),
        ("block_reward", 0),
        ("nethash", 0),
        ("nethash", -1),
        ("exchange_rate", "1,000"),
        ("exchange_rate", True),
        ("lagging", "false"),
        ("timestamp", "2026-02-02"),
        ("algorithm", None),
        ("tag", None),
    ],
)
def test_a_bad_row_of_whattomine_spoils_no_other(server: ScriptedServer, field: str, value: object) -> None:
    """R2.1 (P08): a row that cannot be computed is rejected with its field; the others stand."""
    rows = {"Bitcoin": wtm_bitcoin(), "Kaspa": wtm_coin(**{field: value}), "Litecoin": wtm_coin(tag="LTC")}
    snapshot = whattomine(server, rows)
    assert set(by_key(snapshot)) == {"BTC", "LTC"}
    assert [(row.key, row.field) for row in snapshot.rejected] == [("Kaspa", field)]


def test_coins_that_share_a_tag_keep_apart_by_name(server: ScriptedServer) -> None:
    """R2.1 (P12): DGB is mined on several algorithms; each has a key of its own, in both lists."""
    snapshot = whattomine(
        server,
        {"Bitcoin": wtm_bitcoin(), "DGB-SHA": wtm_coin(tag="DGB", algorithm="SHA-256"), "Kaspa": wtm_coin()},
        {"DGB-Skein": wtm_coin(tag="DGB", algorithm="Skein"), "Kaspa": wtm_coin()},
    )
    assert set(by_key(snapshot)) == {"BTC", "DGB-SHA", "DGB-Skein", "KAS"}


def test_real_rows_of_whattomine_reproduce_its_own_revenue(server: ScriptedServer) -> None:
    """R2.1: the formula gives the real list's btc_revenue at the one hashrate that it was asked for."""
    coins = real_figures("whattomine_coins_2020-02-19.json")["coins"]
    snapshot = whattomine(server, {}, coins)
    prices = by_key(snapshot)
    assert set(prices) == {"ETH", "ETC"}
    assert [row.key for row in snapshot.rejected] == ["Nicehash-Ethash"]
    hashrates_hs = [
        float(coins[name]["btc_revenue"]) / prices[tag].revenue
        for name, tag in [("Ethereum", "ETH"), ("EthereumClassic", "ETC")]
    ]
    assert hashrates_hs == [pytest.approx(88.5e6, rel=1e-4)] * 2


# ---------------------------------------------------------------- WhatToMine's API


def calculate(server: ScriptedServer, answer: Scripted, *algorithms: str) -> ProfitSnapshot:
    """Fetch these algorithms from WhatToMine's API, which answers all alike."""
    server.answers["/api/v1/calculate"] = answer
    feed = WhatToMineCalculateFeed(server.url, "k", 10.0, min_interval_sec=0, algorithms=algorithms)
    return feed.fetch()


def test_revenue_is_asked_per_algorithm(server: ScriptedServer) -> None:
    """R2.1, R2.5: the rows name no algorithm, so each is asked for by itself, at a set hashrate."""
    coins = json_answer([{"tag": "BTC", "name": "Bitcoin", "revenue": "52100.25"}])
    snapshot = calculate(server, coins, "sha256")
    (price,) = snapshot.prices
    assert (price.key, price.algorithm, price.unit, price.currency) == ("BTC", "sha256", "EH/s", "USD")
    assert price.revenue == 52100.25
    (request,) = server.received
    (setting,) = json.loads(request.body)["settings"]
    assert (request.method, setting["algorithm"], setting["hashrate"]) == ("POST", "sha256", 10**18)


def test_the_answers_date_is_the_time_of_its_prices(server: ScriptedServer) -> None:
    """R2.1: rows without times are as old as their answer; one that does not tell is refused."""
    rows = [{"tag": "ZEC", "name": "Zcash", "revenue": 7}]
    price = calculate(server, json_answer(rows), "equihash").prices[0]
    assert abs(datetime.now(UTC) - price.taken_at) < timedelta(seconds=30)
    assert price.unit == "ESol/s"
    with pytest.raises(FeedUnavailable) as failure:
        calculate(server, Scripted(body=json.dumps(rows).encode(), date=False), "equihash")
    assert failure.value.reason is FeedFault.WRONG_SHAPE


def test_a_coin_of_two_algorithms_has_two_keys(server: ScriptedServer) -> None:
    """R2.1: the same tag on two algorithms is two prices, not the last one asked for."""
    rows = json_answer([{"tag": "DGB", "name": "DigiByte", "revenue": "7.00"}])
    prices = by_key(calculate(server, rows, "sha256", "scrypt"))
    assert {key: price.algorithm for key, price in prices.items()} == {
        "DigiByte sha256": "sha256",
        "DigiByte scrypt": "scrypt",
    }


@pytest.mark.parametrize("revenue", [None, "$7.00", "n/a", True, "NaN"])
def test_a_revenue_that_is_no_number_rejects_its_row(server: ScriptedServer, revenue: object) -> None:
    """R2.1 (P08): the others stand."""
    rows = [
        {"tag": "X", "name": "X", "revenue": revenue},
        {"tag": "BTC", "name": "Bitcoin", "revenue": "1.00"},
    ]
    snapshot = calculate(server, json_answer(rows), "sha256")
    assert list(by_key(snapshot)) == ["BTC"]
    assert [row.field for row in snapshot.rejected] == ["revenue"]


def test_the_documented_answer_is_read(server: ScriptedServer) -> None:
    """R2.1: the shape that the API's own documentation shows."""
    answer = json_answer(real_figures("whattomine_api_v1_calculate_doc.json")["response"])
    (price,) = calculate(server, answer, "sha256").prices
    assert (price.key, price.revenue) == ("BTC", 121.18)
