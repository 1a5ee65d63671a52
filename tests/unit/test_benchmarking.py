"""Judging samples: what others met in the field, each with the inputs next to it."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from blsflow.domain.benchmarking import (
    Criteria,
    Measured,
    Peers,
    SampleFault,
    SampleReading,
    drifted,
    judge,
)
from blsflow.domain.errors import InvalidDocument

TERA = 1e12
S21 = Peers(nameplate_hashrate_hs=100 * TERA, nameplate_power_w=3050.0)
PEERS = replace(
    S21, measured=tuple(Measured(hashrate_hs=rate * TERA, power_w=3050.0) for rate in (99, 100, 101))
)
AT_ONCE = Criteria(warm_up_sec=0)


def readings(*pairs: tuple[float | None, float | None]) -> list[SampleReading]:
    """Readings a minute apart, in TH/s and W, the first a minute after the confirmation."""
    return [
        SampleReading(
            at_sec=60.0 * number, hashrate_hs=None if rate is None else rate * TERA, power_w=power_w
        )
        for number, (rate, power_w) in enumerate(pairs, start=1)
    ]


def steady(rate: float = 100.0, power_w: float | None = 3050.0, count: int = 5) -> list[SampleReading]:
    """So many equal readings."""
    return readings(*[(rate, power_w)] * count)


def test_b01_warm_up_is_discarded() -> None:
    """R7.2 (B01): first seconds of 5,600 and 90 MH/s do not lift a median of 32."""
    field = [(2, 5600), (8, 90), (30, 31.9), (60, 32.1), (90, 32.0), (120, 32.2)]
    taken = [SampleReading(at_sec=at, hashrate_hs=mh * 1e6, power_w=130.0) for at, mh in field]
    found = judge(taken, Peers(), Criteria(warm_up_sec=20))
    assert found.fault is None
    assert found.hashrate_hs == pytest.approx(32.05e6)
    assert (found.used, found.warm_up_discarded) == (4, 2)


@pytest.mark.parametrize(("warm_up_sec", "discarded"), [(8, 1), (8.001, 2)])
def test_the_warm_up_ends_at_its_second(warm_up_sec: float, discarded: int) -> None:
    """R7.2: a reading at the very end of the warm-up counts, one before it does not."""
    taken = [SampleReading(at_sec=at, hashrate_hs=1e6, power_w=130.0) for at in (2, 8, 30, 60, 90, 120)]
    assert judge(taken, Peers(), Criteria(warm_up_sec=warm_up_sec)).warm_up_discarded == discarded


@pytest.mark.parametrize(
    ("times", "fault"),
    [(1.5, None), (1.51, SampleFault.HASHRATE_OUTLIER), (19_300, SampleFault.HASHRATE_OUTLIER)],
)
def test_b02_a_sample_far_above_the_model_is_refused(times: float, fault: SampleFault | None) -> None:
    """R7.2 (B02): more than 1.5 times what machines of the model do is no measurement, just 1.5 times is."""
    peers = Peers(measured=tuple(Measured(hashrate_hs=rate, power_w=300) for rate in (560, 570, 575)))
    taken = [SampleReading(at_sec=60, hashrate_hs=570 * times, power_w=300 * times)] * 4
    assert judge(taken, peers, AT_ONCE).fault is fault


@pytest.mark.parametrize(("rate", "fault"), [(30.0, None), (29.0, SampleFault.HASHRATE_OUTLIER)])
def test_a_sample_far_below_the_model_is_refused(rate: float, fault: SampleFault | None) -> None:
    """R7.2: a machine with dead boards is what it is; one below 0.3 times its model was not measured."""
    assert judge(steady(rate, 3050.0 * rate / 100), PEERS, AT_ONCE).fault is fault


def test_two_peers_are_no_model() -> None:
    """R7.2: with fewer peers than needed the nameplate is held against the sample, not they."""
    two = replace(S21, measured=(Measured(hashrate_hs=1.0, power_w=3050.0),) * 2)
    assert judge(steady(), two, AT_ONCE).fault is None
    assert judge(steady(160.0), two, AT_ONCE).fault is SampleFault.HASHRATE_OUTLIER


@pytest.mark.parametrize(
    ("power_w", "fault"),
    [
        (2040, None),
        (2000, SampleFault.EFFICIENCY_OUTLIER),
        (9100, None),
        (9200, SampleFault.POWER_IMPLAUSIBLE),
    ],
)
def test_energy_per_hash_is_held_against_the_model(power_w: float, fault: SampleFault | None) -> None:
    """R7.2: a hashrate may be usual while the energy for it is not."""
    assert judge(steady(100.0, power_w), PEERS, AT_ONCE).fault is fault


def test_b05_absent_power_is_the_nameplates_and_says_so() -> None:
    """R7.2 (B05): no wattage is not 0 W: the nameplate stands in, marked; without one there is no benchmark."""
    found = judge(steady(power_w=None), S21, AT_ONCE)
    assert (found.fault, found.power_w, found.power_estimated) == (None, 3050.0, True)
    assert judge(steady(power_w=0.0), S21, AT_ONCE).power_estimated
    assert judge(steady(power_w=None), Peers(), AT_ONCE).fault is SampleFault.NO_POWER
    assert judge(steady(power_w=math.nan), Peers(), AT_ONCE).fault is SampleFault.NO_POWER


def test_a_meter_that_is_mostly_absent_is_not_relied_on() -> None:
    """R7.2 (B05): one power reading of five says little; three of five are a measurement."""
    few = readings((100, 3000), (100, None), (100, None), (100, None), (100, None))
    assert judge(few, S21, AT_ONCE).power_estimated
    most = readings((100, 3000), (100, 3000), (100, 3000), (100, None), (100, None))
    assert not judge(most, S21, AT_ONCE).power_estimated


@pytest.mark.parametrize("power_w", [3.05, 9.99, 304.0, 9151.0])
def test_power_in_another_unit_is_refused(power_w: float) -> None:
    """R2.5, R7.2: kilowatts read as watts are refused, never scaled silently, and no nameplate covers them up."""
    assert judge(steady(power_w=power_w), S21, AT_ONCE).fault is SampleFault.POWER_IMPLAUSIBLE


def test_b06_the_pair_of_zeros_is_dropped() -> None:
    """R7.2 (B06): an unreachable machine's zeros are no reading; what is left must still be enough."""
    field = readings((100, 3050), (0, 0), (101, 3060))
    found = judge(field, S21, replace(AT_ONCE, min_readings=2))
    assert (found.fault, found.hashrate_hs, found.power_w) == (None, 100.5 * TERA, 3055.0)
    assert (found.used, found.zero_pairs_dropped) == (2, 1)
    assert judge(field, S21, replace(AT_ONCE, min_readings=3)).fault is SampleFault.TOO_FEW_READINGS
    assert judge(readings((0, 0), (None, None), (0, None)), S21, AT_ONCE).fault is SampleFault.OFFLINE
    assert judge([], S21, AT_ONCE).fault is SampleFault.OFFLINE


def test_a_machine_that_draws_power_without_hashing_is_no_zero_pair() -> None:
    """R7.2 (B06): zero hashes on 3 kW were measured; the machine does not hash."""
    assert judge(steady(0.0), S21, AT_ONCE).fault is SampleFault.NOT_HASHING
    restarted = judge(readings((100, 3050), (0, 3050), (100, 3050), (100, 3050)), S21, AT_ONCE)
    assert (restarted.fault, restarted.spread) == (SampleFault.UNSTEADY, 1.0)


@pytest.mark.parametrize(("low", "fault"), [(75.0, None), (74.9, SampleFault.UNSTEADY)])
def test_the_hashrate_has_to_be_steady(low: float, fault: SampleFault | None) -> None:
    """R7.2: a reading up to a quarter off the median is noise, further off it is another state."""
    assert judge(readings((100, 3050), (low, 3050), (100, 3050), (100, 3050)), S21, AT_ONCE).fault is fault


def test_b04_consistent_other_readings_ask_for_a_new_benchmark() -> None:
    """R7.2 (B04): after an overclock five readings of 128 to 129 against 100 ask for one; they are not refused for ever."""
    assert drifted(100, [128, 129, 128, 129, 128])
    assert drifted(100, [100, 100, 75, 74, 75, 74, 75])
    assert judge(steady(128.5, 3900), PEERS, AT_ONCE).fault is None


@pytest.mark.parametrize(
    "seen",
    [
        [128, 129, 128, 129],
        [128, 129, 100, 129, 128],
        [128, 160, 128, 129, 128],
        [128, 70, 128, 70, 128],
        [110, 110, 110, 110, 110],
        [],
    ],
)
def test_other_readings_ask_for_none(seen: list[float]) -> None:
    """R7.2 (B04): too few, within the tolerance, or jumping about: the benchmark stands."""
    assert not drifted(100, seen)


def test_drift_from_no_benchmark_is_none() -> None:
    """R7.2: a stored hashrate of zero or NaN is invalid already and asks through the decision."""
    assert not drifted(0, [128] * 5)
    assert not drifted(math.nan, [128] * 5)


@pytest.mark.parametrize(
    ("name", "value"), [("warm_up_sec", -1), ("min_readings", 0), ("max_spread", math.nan), ("min_peers", 0)]
)
def test_criteria_that_cannot_be_meant_are_refused(name: str, value: float) -> None:
    """R7.2: each limit is refused by its name."""
    with pytest.raises(InvalidDocument, match=name):
        Criteria(**{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(("rate", "power_w"), [(0.0, 3050.0), (1e-320, 3050.0), (100.0, 1e-320), (0.0, 0.0)])
def test_a_peer_without_figures_is_no_peer(rate: float, power_w: float) -> None:
    """R7.2, R2.1: what was stored as zero was not measured; the others, or the nameplate, are held against the sample."""
    none = Measured(hashrate_hs=rate * (TERA if rate >= 1 else 1), power_w=power_w)
    assert judge(steady(), replace(PEERS, measured=(*PEERS.measured, none)), AT_ONCE).fault is None
    assert judge(steady(), replace(S21, measured=(none,) * 3), AT_ONCE).fault is None
