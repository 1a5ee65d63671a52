import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from blsflow.domain.prices import PriceFault, RawPrice, judge_price, resolve_key, to_cny
from blsflow.domain.reading import Known, Reading, Stale, Unknown
from blsflow.domain.units import HashFamily

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
GOOD = RawPrice(
    key="BTC",
    algorithm="SHA-256",
    revenue=0.0802,
    unit="TH/s",
    currency="USDT",
    taken_at=NOW - timedelta(seconds=60),
)


def judged(
    raw: RawPrice | None, family: HashFamily = HashFamily.HASH, algorithm: str | None = "sha256"
) -> Reading:
    """Judge with the terms of a SHA-256 project whose policy takes prices of up to 300 s."""
    return judge_price(raw, now=NOW, max_age_sec=300, expected_algorithm=algorithm, expected_family=family)


def test_a_usable_price_is_told_per_base_unit() -> None:
    """R2.1, R2.5: 0.0802 USDT per TH/s and day is 8.02e-14 per H/s and day, taken when it was taken."""
    reading = judged(GOOD)
    assert isinstance(reading, Known)
    assert reading.value == pytest.approx(8.02e-14)
    assert reading.taken_at == GOOD.taken_at


@pytest.mark.parametrize(
    ("revenue", "fault"),
    [
        (-1.0, PriceFault.SENTINEL),
        (0.0, PriceFault.ZERO),
        (-0.0, PriceFault.ZERO),
        (math.nan, PriceFault.NOT_FINITE),
        (math.inf, PriceFault.NOT_FINITE),
        (-math.inf, PriceFault.NOT_FINITE),
        (-0.2, PriceFault.NEGATIVE),
        (5e-324, PriceFault.ZERO),
    ],
)
def test_an_unusable_revenue_is_unknown_with_its_reason(revenue: float, fault: PriceFault) -> None:
    """R2.1 (P08, P09): sentinel, zero, NaN, infinite and negative revenue, also after scaling, is unknown."""
    assert judged(replace(GOOD, revenue=revenue)) == Unknown(reason=fault)


def test_a_missing_price_is_unknown() -> None:
    """R2.1 (P12): a project that vanished from the feed has an unknown price, not a zero one."""
    assert judged(None) == Unknown(reason=PriceFault.MISSING)


@pytest.mark.parametrize(
    ("age_sec", "expected"),
    [
        (300.0, Known),
        (300.001, Stale),
        (86400.0, Stale),
        (0.0, Known),
        (-30.0, Known),
        (-30.001, Unknown),
        (-108.89, Unknown),
    ],
)
def test_age_decides_between_known_stale_and_from_the_future(age_sec: float, expected: type) -> None:
    """R2.1 (L04): older than the policy allows is stale; beyond 30 s ahead of the clock is unknown."""
    reading = judged(replace(GOOD, taken_at=NOW - timedelta(seconds=age_sec)))
    assert isinstance(reading, expected)
    if isinstance(reading, Stale):
        assert reading.reason == PriceFault.STALE
    if isinstance(reading, Unknown):
        assert reading.reason == PriceFault.FROM_FUTURE


def test_an_anomaly_flag_makes_a_price_unknown() -> None:
    """R2.1: what its own source flags as anomalous is not used."""
    assert judged(replace(GOOD, flags=("spread",))) == Unknown(reason=PriceFault.FLAGGED_ANOMALOUS)
    assert judged(replace(GOOD, flags=("lagging", "spread"))) == Unknown(reason=PriceFault.FLAGGED_ANOMALOUS)


def test_a_lagging_price_is_stale() -> None:
    """R2.1: a figure whose source says that it is behind is stale, however young its time stamp."""
    reading = judged(replace(GOOD, flags=("lagging",)))
    assert isinstance(reading, Stale)
    assert reading.last_value == pytest.approx(8.02e-14)


@pytest.mark.parametrize("unit", ["kSol/s", "g/s", "TH", "", "mH/s"])
def test_a_price_in_another_unit_is_unknown(unit: str) -> None:
    """R2.5: a price per something else than the project's family is refused, never scaled."""
    assert judged(replace(GOOD, unit=unit)) == Unknown(reason=PriceFault.UNIT_MISMATCH)


def test_a_solution_price_serves_a_solution_project() -> None:
    """R2.5: 0.3 USDT per kSol/s and day is 3e-4 per Sol/s and day."""
    reading = judged(
        replace(GOOD, unit="kSol/s", revenue=0.3, algorithm="Equihash"), HashFamily.SOLUTION, "equihash"
    )
    assert isinstance(reading, Known)
    assert reading.value == pytest.approx(3e-4)


@pytest.mark.parametrize(
    ("sent", "expected", "usable"),
    [
        ("SHA-256", "sha256", True),
        ("KHeavyHash", "kheavyhash", True),
        ("Scrypt", "sha256", False),
        ("", "sha256", False),
        (None, "sha256", True),
        ("Scrypt", None, True),
    ],
)
def test_a_price_of_another_algorithm_is_unknown(
    sent: str | None, expected: str | None, *, usable: bool
) -> None:
    """R2.5: a coin's price on another algorithm is refused; spelling makes no difference."""
    reading = judged(replace(GOOD, algorithm=sent), algorithm=expected)
    assert reading == (
        Known(value=0.0802 / 1e12, taken_at=GOOD.taken_at)
        if usable
        else Unknown(reason=PriceFault.ALGORITHM_MISMATCH)
    )


@pytest.mark.parametrize("currency", ["BTC", "EUR", "CNY", "", "usdt "])
def test_a_price_in_another_currency_is_unknown(currency: str) -> None:
    """R2.1 (P01): revenue in BTC without BTC's price is unknown, not 0 and not taken for USDT."""
    assert judged(replace(GOOD, currency=currency)) == Unknown(reason=PriceFault.EXCHANGE_RATE_UNKNOWN)


def test_usd_counts_as_usdt() -> None:
    """R2.1: feeds that price in USD are used one for one."""
    assert judged(replace(GOOD, currency="USD")) == judged(GOOD)


def test_a_bad_row_takes_no_good_one_with_it() -> None:
    """R2.1 (P08): of NaN, infinity and 1.0 the last is the only one to choose."""
    readings = [judged(replace(GOOD, revenue=revenue)) for revenue in (math.nan, math.inf, 1.0)]
    assert [isinstance(reading, Known) for reading in readings] == [False, False, True]


KNOWN = Known(value=2.0, taken_at=NOW)
STALE = Stale(last_value=2.0, taken_at=NOW, reason=PriceFault.STALE)


def test_revenue_is_turned_into_cny_by_the_rate() -> None:
    """R2.1: USDT x rate is CNY; a stale value stays stale, an unknown one keeps its reason."""
    unknown = Unknown(reason=PriceFault.ZERO)
    assert to_cny(KNOWN, 7.2) == Known(value=14.4, taken_at=NOW)
    assert to_cny(STALE, 7.2) == Stale(last_value=14.4, taken_at=NOW, reason=PriceFault.STALE)
    assert to_cny(unknown, 7.2) is unknown


@pytest.mark.parametrize("rate", [None, 0.0, -7.2, -1.0, math.nan, math.inf])
@pytest.mark.parametrize("reading", [KNOWN, STALE, Unknown(reason=PriceFault.MISSING)])
def test_without_an_exchange_rate_every_value_is_unknown(reading: Reading, rate: float | None) -> None:
    """R2.1 (P02, P03): a missing or impossible rate makes the value unknown; it never makes it 0."""
    assert to_cny(reading, rate) == Unknown(reason=PriceFault.EXCHANGE_RATE_UNKNOWN)


@pytest.mark.parametrize(("value", "rate", "fault"), [(1e300, 1e10, "not_finite"), (1e-300, 1e-200, "zero")])
def test_a_conversion_that_leaves_the_range_of_numbers_is_unknown(
    value: float, rate: float, fault: str
) -> None:
    """R2.1: a conversion never yields infinity or 0."""
    assert to_cny(Known(value=value, taken_at=NOW), rate) == Unknown(reason=fault)


@pytest.mark.parametrize("key", ["RVN", "rvn", " Ravencoin ", "RAVENCOIN"])
def test_a_coin_is_one_whatever_a_feed_calls_it_today(key: str) -> None:
    """R2.1 (P12): tag and full name lead to the same price key, so benchmarks and levels are kept."""
    assert resolve_key(key, {"ravencoin": "RVN"}) == "RVN"


def test_a_key_without_an_alias_is_its_own() -> None:
    """R2.1: an unlisted key is kept, in the one spelling that keys are compared in."""
    assert resolve_key(" kas", {"ravencoin": "RVN"}) == "KAS"
