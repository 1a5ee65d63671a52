import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blsflow.domain.price_level import PriceLevel, observe
from blsflow.domain.prices import RawPrice, judge_price, to_cny
from blsflow.domain.reading import Known, Stale
from blsflow.domain.units import HashFamily

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
MAX_AGE_SEC = 300.0
SCALES = {"H/s": 1.0, "kH/s": 1e3, "MH/s": 1e6, "GH/s": 1e9, "TH/s": 1e12, "PH/s": 1e15, "EH/s": 1e18}

raw_prices = st.builds(
    RawPrice,
    key=st.just("X"),
    algorithm=st.sampled_from(["SHA-256", "sha256", "Scrypt", None]),
    revenue=st.floats() | st.sampled_from([-1.0, 0.0, 0.08]),
    unit=st.sampled_from([*SCALES, "kSol/s", "g/s", "TH", ""]),
    currency=st.sampled_from(["USDT", "USD", "BTC", ""]),
    taken_at=st.floats(-1e6, 1e6).map(lambda age_sec: NOW - timedelta(seconds=age_sec)),
    flags=st.sampled_from([(), (), ("lagging",), ("spread",)]),
)
rates = st.none() | st.floats() | st.just(7.2)
usable = st.floats(1e-12, 1e12)


@given(raw=raw_prices, rate=rates)
def test_no_unusable_input_becomes_known(raw: RawPrice, rate: float | None) -> None:
    """R2.1: only a fresh, unflagged, finite, positive price in a known unit, currency and rate is known."""
    reading = to_cny(
        judge_price(
            raw,
            now=NOW,
            max_age_sec=MAX_AGE_SEC,
            expected_algorithm="sha256",
            expected_family=HashFamily.HASH,
        ),
        rate,
    )
    if isinstance(reading, Known):
        assert -30.0 <= (NOW - raw.taken_at).total_seconds() <= MAX_AGE_SEC
        assert raw.flags == ()
        assert raw.revenue > 0
        assert math.isfinite(raw.revenue)
        assert raw.unit in SCALES
        assert raw.currency in {"USDT", "USD"}
        assert raw.algorithm != "Scrypt"
        assert rate is not None
        assert math.isfinite(rate)
        assert rate > 0
        assert reading.value > 0
    if isinstance(reading, Stale):
        assert reading.last_value > 0


@given(
    revenue=st.floats(1e-6, 1e6), one=st.sampled_from(sorted(SCALES)), other=st.sampled_from(sorted(SCALES))
)
def test_a_price_is_worth_the_same_in_every_unit(revenue: float, one: str, other: str) -> None:
    """R2.5: the unit in which a feed states a price does not change what it is worth."""
    raw = RawPrice(key="X", algorithm=None, revenue=revenue, unit=one, currency="USDT", taken_at=NOW)
    restated = replace(raw, revenue=revenue * SCALES[other] / SCALES[one], unit=other)
    first, second = (
        judge_price(price, now=NOW, max_age_sec=1.0, expected_algorithm=None, expected_family=HashFamily.HASH)
        for price in (raw, restated)
    )
    assert isinstance(first, Known)
    assert isinstance(second, Known)
    assert first.value == pytest.approx(second.value)


@given(
    level=usable,
    spikes=st.lists(st.tuples(st.floats(0, 1799), usable), min_size=1, max_size=20),
    factor=st.floats(1.01, 100.0),
)
def test_a_spike_shorter_than_the_holding_time_is_never_admitted(
    level: float, spikes: list[tuple[float, float]], factor: float
) -> None:
    """R2.1: within the holding time no reading beyond the factor of the trusted level passes."""
    state = PriceLevel(level=level, level_at=NOW)
    for offset_sec, value in sorted(spikes):
        trusted = state.level
        state, quarantined, jump = observe(
            state,
            value,
            NOW + timedelta(seconds=1 + offset_sec),
            jump_factor=factor,
            hold_sec=1800.0,
        )
        assert quarantined is (max(value / trusted, trusted / value) > factor)
        assert jump >= 1.0


@given(steps=st.lists(st.tuples(st.floats(1, 3600), usable), max_size=30), factor=st.floats(1.01, 100.0))
def test_a_level_moves_only_within_the_factor_or_after_holding(
    steps: list[tuple[float, float]], factor: float
) -> None:
    """R2.1: a jump of the level has a pending level that was there for the holding time and was kept to."""
    state: PriceLevel | None = None
    now = NOW
    for pause_sec, value in steps:
        now += timedelta(seconds=pause_sec)
        before = state
        state, quarantined, _ = observe(before, value, now, jump_factor=factor, hold_sec=1800.0)
        assert observe(state, value, now, jump_factor=factor, hold_sec=1800.0)[0] == state
        if before is None:
            continue
        jumped = max(value / before.level, before.level / value) > factor
        if quarantined:
            assert jumped
            assert state.level == before.level
        elif jumped:
            assert before.pending_level is not None
            assert before.pending_since is not None
            assert (now - before.pending_since).total_seconds() >= 1800.0
            assert max(value / before.pending_level, before.pending_level / value) <= factor
        if not quarantined:
            assert state == PriceLevel(level=value, level_at=now)
