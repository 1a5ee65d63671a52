"""Samples of any kind: what holds of every judgement."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from blsflow.domain.benchmarking import Criteria, Measured, Peers, SampleReading, drifted, judge
from blsflow.domain.units import MIN_HASHING_POWER_W

if TYPE_CHECKING:
    import random

anything = (
    st.none() | st.floats(allow_nan=True, allow_infinity=True) | st.sampled_from([0.0, 3.05, 3050.0, 1e14])
)
sensible = st.floats(0.9e14, 1.1e14)
sample = st.lists(
    st.builds(
        SampleReading,
        at_sec=st.floats(0, 400),
        hashrate_hs=anything | sensible,
        power_w=anything | st.floats(2800, 3300),
    ),
    max_size=12,
)
peers = st.builds(
    Peers,
    measured=st.lists(
        st.builds(Measured, hashrate_hs=sensible, power_w=st.floats(2500, 3500)), max_size=5
    ).map(tuple),
    nameplate_hashrate_hs=st.none() | sensible,
    nameplate_power_w=st.none() | st.floats(2500, 3500),
)


@given(sample, peers)
def test_what_counts_is_a_measurement(readings: list[SampleReading], known: Peers) -> None:
    """R7.2, R2.3: a judgement without a fault is a valid benchmark: finite, hashing, at least 10 W, from enough readings."""
    found = judge(readings, known, Criteria())
    if found.fault is None:
        assert found.hashrate_hs is not None
        assert found.power_w is not None
        assert 0 < found.hashrate_hs < math.inf
        assert MIN_HASHING_POWER_W <= found.power_w < math.inf
        assert found.used >= Criteria().min_readings
        rates = [r.hashrate_hs for r in readings if r.hashrate_hs is not None]
        assert min(rates) <= found.hashrate_hs <= max(r for r in rates if math.isfinite(r))
    else:
        assert found.detail


@given(sample, peers, st.randoms(use_true_random=False))
def test_order_does_not_matter(readings: list[SampleReading], known: Peers, order: random.Random) -> None:
    """R7.2: readings are judged by their times, in whatever order they were read."""
    shuffled = list(readings)
    order.shuffle(shuffled)
    assert judge(shuffled, known, Criteria()) == judge(readings, known, Criteria())


@given(sample, peers, st.lists(st.sampled_from([(0.0, 0.0), (0.0, None), (None, None)]), max_size=5))
def test_zeros_and_warm_up_change_nothing(
    readings: list[SampleReading], known: Peers, zeros: list[tuple[float | None, float | None]]
) -> None:
    """R7.2: what nobody measured, and what came before the warm-up was over, moves no figure and no verdict."""
    criteria = Criteria(warm_up_sec=20)
    added = [SampleReading(at_sec=100, hashrate_hs=rate, power_w=power) for rate, power in zeros]
    early = [SampleReading(at_sec=19.9, hashrate_hs=9e99, power_w=1e9)]
    plain, noisy = judge(readings, known, criteria), judge([*early, *readings, *added], known, criteria)
    assert (noisy.fault, noisy.hashrate_hs, noisy.power_w) == (plain.fault, plain.hashrate_hs, plain.power_w)


@given(st.floats(1, 1e15), st.lists(st.floats(0.91, 1.09), min_size=5, max_size=9))
def test_noise_is_no_drift(stored: float, noise: list[float]) -> None:
    """R7.2: readings within a tenth of the benchmark never ask for another."""
    assert not drifted(stored, [stored * each for each in noise])


@given(st.floats(1, 1e15), st.floats(1.15, 5) | st.floats(0.05, 0.85), st.integers(5, 9))
def test_a_new_level_is_drift(stored: float, level: float, count: int) -> None:
    """R7.2: a level that holds beyond the tolerance asks for a new benchmark, above and below alike."""
    assert drifted(stored, [stored * level] * count)
