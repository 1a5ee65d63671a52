"""Judging a sample: from the readings of a window to a benchmark, or to the reason why there is none (R7.2). Pure.

A machine's first seconds on a project are no measure of it (hashrates 175 times too high were seen), an offline machine
answers with zeros that nobody measured, and a wattmeter may be missing or speak in kW. So::

    readings -> warm-up discarded -> zero pairs dropped -> enough left? -> hashing? -> steady? -> power known and in
    watts? -> plausible beside machines of the same model? -> medians

A field miss is a fault with a name, never a number that looks like a measurement.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import median
from typing import TYPE_CHECKING, TypeAlias

from blsflow.domain.errors import InvalidDocument
from blsflow.domain.units import MIN_HASHING_POWER_W

if TYPE_CHECKING:
    from collections.abc import Sequence


class SampleFault(StrEnum):
    """Why a sample is no benchmark."""

    OFFLINE = "offline"
    TOO_FEW_READINGS = "too_few_readings"
    NOT_HASHING = "not_hashing"
    UNSTEADY = "unsteady"
    NO_POWER = "no_power"
    POWER_IMPLAUSIBLE = "power_implausible"
    HASHRATE_OUTLIER = "hashrate_outlier"
    EFFICIENCY_OUTLIER = "efficiency_outlier"


_Objection: TypeAlias = tuple[SampleFault, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class SampleReading:
    """One report of a machine, ``at_sec`` after it was confirmed to run the project; a figure that is None was not sent."""

    at_sec: float
    hashrate_hs: float | None
    power_w: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """What a machine was measured at: hashrate in the algorithm's base unit per second, power in W."""

    hashrate_hs: float
    power_w: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Criteria:
    """When a sample counts. Ratios are of the sample's figure to that of machines of the same model.

    ``max_spread`` is the greatest distance of a reading from the median, as a share of it. A machine may well be worse
    than its peers (a dead board, a dusty site); better by half it cannot be, hence the lopsided limits.
    """

    warm_up_sec: float = 20.0
    min_readings: int = 4
    max_spread: float = 0.25
    min_peers: int = 3
    max_hashrate_ratio: float = 1.5
    min_hashrate_ratio: float = 0.3
    max_efficiency_ratio: float = 3.0
    min_efficiency_ratio: float = 1 / 1.5
    max_nameplate_power_ratio: float = 3.0
    min_nameplate_power_ratio: float = 0.1

    def __post_init__(self) -> None:
        _require("warm_up_sec", self.warm_up_sec, "must be 0 or greater", ok=0 <= self.warm_up_sec < math.inf)
        _require("min_readings", self.min_readings, "must be 1 or greater", ok=self.min_readings >= 1)
        _require("max_spread", self.max_spread, "must be 0 or greater", ok=0 <= self.max_spread < math.inf)
        _require("min_peers", self.min_peers, "must be 1 or greater", ok=self.min_peers >= 1)


@dataclass(frozen=True, kw_only=True, slots=True)
class Peers:
    """What is known of the model: its other machines' own measurements on the project, and its nameplate."""

    measured: tuple[Measured, ...] = ()
    nameplate_hashrate_hs: float | None = None
    nameplate_power_w: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Judgement:
    """What a sample came to: a benchmark if ``fault`` is None. The counts say what became of the readings.

    ``spread`` and ``hashrate_hs`` are given as far as they could be computed, so that a person sees what was judged.
    """

    fault: SampleFault | None
    detail: str
    hashrate_hs: float | None = None
    power_w: float | None = None
    power_estimated: bool = False
    spread: float | None = None
    used: int = 0
    warm_up_discarded: int = 0
    zero_pairs_dropped: int = 0


def judge(readings: Sequence[SampleReading], peers: Peers, criteria: Criteria) -> Judgement:
    """Judge the readings of one machine on one project; their order does not matter."""
    after = [reading for reading in readings if reading.at_sec >= criteria.warm_up_sec]
    kept = [reading for reading in after if not _is_no_reading(reading)]
    hashrates = [rate for reading in kept if (rate := _figure(reading.hashrate_hs)) is not None]
    sample = Judgement(
        fault=None,
        detail="",
        used=len(hashrates),
        warm_up_discarded=len(readings) - len(after),
        zero_pairs_dropped=len(after) - len(kept),
    )
    if not hashrates:
        return _refused(sample, SampleFault.OFFLINE, "no reading of a working machine after the warm-up")
    if len(hashrates) < criteria.min_readings:
        detail = f"{len(hashrates)} readings after the warm-up, {criteria.min_readings} are needed"
        return _refused(sample, SampleFault.TOO_FEW_READINGS, detail)
    hashrate_hs = median(hashrates)
    sample = replace(sample, hashrate_hs=hashrate_hs)
    if hashrate_hs == 0:
        return _refused(sample, SampleFault.NOT_HASHING, "the machine draws power and does not hash")
    spread = max(abs(rate - hashrate_hs) for rate in hashrates) / hashrate_hs
    sample = replace(sample, spread=spread)
    if not spread <= criteria.max_spread:
        detail = f"a reading is {spread:.0%} off the median, {criteria.max_spread:.0%} are allowed"
        return _refused(sample, SampleFault.UNSTEADY, detail)
    power_w, estimated = _power(kept, peers)
    if power_w is None:
        return _refused(sample, SampleFault.NO_POWER, "no power reading and no nameplate power")
    sample = replace(sample, power_w=power_w, power_estimated=estimated)
    measured = Measured(hashrate_hs=hashrate_hs, power_w=power_w)
    objection = _implausible_power(power_w, peers, criteria) or _unlike_peers(
        measured, peers, criteria, estimated=estimated
    )
    return sample if objection is None else _refused(sample, *objection)


def drifted(
    stored_hs: float, readings: Sequence[float], *, tolerance: float = 0.1, consistent: int = 5
) -> bool:
    """Whether the newest readings of normal running differ from the benchmark, all alike: ask for a new one (B04).

    The last ``consistent`` readings, oldest first, lie all above or all below the tolerated band and within the
    tolerance of their own median. Readings that jump about ask for nothing.
    """
    newest = readings[-consistent:]
    if len(newest) < consistent or not stored_hs > 0:
        return False
    middle = median(newest)
    beyond = all(rate > stored_hs * (1 + tolerance) for rate in newest) or all(
        rate < stored_hs * (1 - tolerance) for rate in newest
    )
    return beyond and all(abs(rate - middle) <= tolerance * middle for rate in newest)


def _is_no_reading(reading: SampleReading) -> bool:
    """Whether a report says nothing: no hashrate, or the pair of zeros that an unreachable machine is given (B06)."""
    hashrate_hs = _figure(reading.hashrate_hs)
    return hashrate_hs is None or (hashrate_hs == 0 and not _figure(reading.power_w))


def _power(kept: Sequence[SampleReading], peers: Peers) -> tuple[float | None, bool]:
    """Return the power in W and whether it is the nameplate's: meters that are absent in most reports stand for none."""
    powers = [power for reading in kept if (power := _figure(reading.power_w))]
    if powers and 2 * len(powers) >= len(kept):
        return median(powers), False
    nameplate_w = _figure(peers.nameplate_power_w)
    return (nameplate_w, True) if nameplate_w else (None, False)


def _implausible_power(power_w: float, peers: Peers, criteria: Criteria) -> _Objection | None:
    """Return why no machine of the model hashes on this power, or None: it is most likely in another unit."""
    if power_w < MIN_HASHING_POWER_W:
        return SampleFault.POWER_IMPLAUSIBLE, f"{power_w:g} W: no machine hashes on that; is it kilowatts?"
    nameplate_w = _figure(peers.nameplate_power_w)
    if nameplate_w and not (
        criteria.min_nameplate_power_ratio * nameplate_w
        <= power_w
        <= criteria.max_nameplate_power_ratio * nameplate_w
    ):
        return SampleFault.POWER_IMPLAUSIBLE, f"{power_w:g} W, while the nameplate says {nameplate_w:g} W"
    return None


def _unlike_peers(
    sample: Measured, peers: Peers, criteria: Criteria, *, estimated: bool
) -> _Objection | None:
    """Return how the sample differs from its model, or None. With too few peers the nameplate speaks for the hashrate."""
    measured = [
        peer for peer in peers.measured if peer.hashrate_hs > 0 and 0 < _energy_per_hash(peer) < math.inf
    ]
    enough = len(measured) >= criteria.min_peers
    peers_hs = median(peer.hashrate_hs for peer in measured) if enough else None
    usual_hs = peers_hs or _figure(peers.nameplate_hashrate_hs)
    if usual_hs:
        ratio = sample.hashrate_hs / usual_hs
        if not criteria.min_hashrate_ratio <= ratio <= criteria.max_hashrate_ratio:
            whose = "machines of the model" if enough else "the nameplate"
            return SampleFault.HASHRATE_OUTLIER, f"{ratio:.2f} times the hashrate of {whose}"
    if enough and not estimated:
        usual = median(map(_energy_per_hash, measured))
        ratio = sample.power_w / sample.hashrate_hs / usual
        if not criteria.min_efficiency_ratio <= ratio <= criteria.max_efficiency_ratio:
            detail = f"{ratio:.2f} times the energy per hash of machines of the model"
            return SampleFault.EFFICIENCY_OUTLIER, detail
    return None


def _energy_per_hash(peer: Measured) -> float:
    return peer.power_w / peer.hashrate_hs


def _refused(sample: Judgement, fault: SampleFault, detail: str) -> Judgement:
    return replace(sample, fault=fault, detail=detail)


def _figure(value: float | None) -> float | None:
    """Return the figure unless it is unknown or impossible (NaN, infinite, negative)."""
    return value if value is not None and math.isfinite(value) and value >= 0 else None


def _require(field: str, value: object, cause: str, *, ok: bool) -> None:
    if not ok:
        raise InvalidDocument(field=field, value=value, cause=cause)
