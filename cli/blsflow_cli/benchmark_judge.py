"""`blsflow benchmark judge`: whether a list of readings makes a benchmark, and which (R7.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, FiniteFloat

from blsflow.documents import Strict, located
from blsflow.domain.benchmarking import Criteria, Judgement, Measured, Peers, SampleReading, drifted, judge
from blsflow.domain.units import family_of, parse_hashrate, parse_power
from blsflow_cli.decide_document import HashrateDocument, PowerDocument
from blsflow_cli.output import table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from blsflow.domain.units import HashFamily

_CRITERIA = Criteria()


class ReadingDocument(Strict):
    """One report; a figure that was not sent is null or left out, never 0."""

    at_sec: FiniteFloat = Field(description="seconds since the machine was confirmed to run the project")
    hashrate: FiniteFloat | None = None
    power: FiniteFloat | None = None


class PeerDocument(Strict):
    """Another machine of the model, as it was measured itself on the same project."""

    hashrate: FiniteFloat
    power: FiniteFloat


class NameplateDocument(Strict):
    """What the model's maker states."""

    hashrate: HashrateDocument | None = None
    power: PowerDocument | None = None


class BenchmarkDocument(Strict):
    """The readings of one machine on one project, and what they are held against.

    Figures of readings and peers are in the two units; the nameplate names its own.
    """

    algorithm: str = Field(examples=["SHA-256", "Equihash"])
    hashrate_unit: str = Field(examples=["TH/s", "kSol/s"])
    power_unit: str = Field(default="W", examples=["W", "kW"])
    readings: Annotated[tuple[ReadingDocument, ...], Field(min_length=1)]
    nameplate: NameplateDocument = NameplateDocument()
    peers: tuple[PeerDocument, ...] = ()
    stored_hashrate: FiniteFloat | None = Field(
        default=None,
        description="the benchmark in force, to be told whether these readings have drifted from it",
    )
    warm_up_sec: FiniteFloat = _CRITERIA.warm_up_sec
    min_readings: int = _CRITERIA.min_readings
    max_spread: FiniteFloat = _CRITERIA.max_spread


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """A judgement, and whether the readings ask for a new benchmark (None: there is none to compare with)."""

    judgement: Judgement
    hashrate_unit: str
    scale: float
    has_drifted: bool | None


def judged(document: BenchmarkDocument) -> Judged:
    """Judge a document; `InvalidDocument` names what cannot be meant."""
    units = _Units(document)
    readings = []
    for position, reading in enumerate(document.readings):
        with located(f"readings[{position}]"):
            readings.append(
                SampleReading(
                    at_sec=reading.at_sec,
                    hashrate_hs=units.hashrate(reading.hashrate),
                    power_w=units.power(reading.power),
                )
            )
    criteria = Criteria(
        warm_up_sec=document.warm_up_sec,
        min_readings=document.min_readings,
        max_spread=document.max_spread,
    )
    stored_hs = units.hashrate(document.stored_hashrate, "stored_hashrate")
    in_order = sorted(readings, key=lambda reading: reading.at_sec)
    rates = [
        reading.hashrate_hs
        for reading in in_order
        if reading.hashrate_hs and reading.at_sec >= criteria.warm_up_sec
    ]
    return Judged(
        judgement=judge(readings, units.peers(), criteria),
        hashrate_unit=document.hashrate_unit,
        scale=units.scale,
        has_drifted=None if stored_hs is None else drifted(stored_hs, rates),
    )


def as_json(found: Judged) -> dict[str, Any]:
    """Return the judgement as one JSON object; figures in H/s (or Sol/s, g/s) and W."""
    judgement = found.judgement
    return {
        "counts": judgement.fault is None,
        "fault": judgement.fault,
        "detail": judgement.detail,
        "hashrate_hs": judgement.hashrate_hs,
        "power_w": judgement.power_w,
        "power_estimated": judgement.power_estimated,
        "spread": judgement.spread,
        "readings_used": judgement.used,
        "warm_up_discarded": judgement.warm_up_discarded,
        "zero_pairs_dropped": judgement.zero_pairs_dropped,
        "drifted": found.has_drifted,
    }


def show(found: Judged, out: Console) -> None:
    """Print the judgement as a table for people, in the document's own unit of hashrate."""
    judgement = found.judgement
    power = judgement.power_w
    rows: Sequence[tuple[str, object]] = (
        ("counts", judgement.fault is None),
        ("fault", None if judgement.fault is None else f"{judgement.fault}: {judgement.detail}"),
        (
            f"hashrate, {found.hashrate_unit}",
            None if judgement.hashrate_hs is None else judgement.hashrate_hs / found.scale,
        ),
        (
            "power, W",
            power if not judgement.power_estimated else f"{power:.2f} (estimated from the nameplate)",
        ),
        ("spread", None if judgement.spread is None else f"{judgement.spread:.1%}"),
        ("readings used", judgement.used),
        ("discarded as warm-up", judgement.warm_up_discarded),
        ("dropped as zeros", judgement.zero_pairs_dropped),
        ("drifted from the stored benchmark", found.has_drifted),
    )
    out.print(table("Sample", ("what", "is (figure)"), rows))


class _Units:
    """Reads the document's figures in the units that it names."""

    def __init__(self, document: BenchmarkDocument) -> None:
        self._document = document
        self._family: HashFamily = family_of(document.algorithm)
        with located("hashrate_unit"):
            self.scale = self._hashrate(1, document.hashrate_unit, "value")

    def hashrate(self, value: float | None, field: str = "hashrate") -> float | None:
        return None if value is None else self._hashrate(value, self._document.hashrate_unit, field)

    def power(self, value: float | None) -> float | None:
        return None if value is None else parse_power(value, self._document.power_unit)

    def peers(self) -> Peers:
        measured = []
        for position, peer in enumerate(self._document.peers):
            with located(f"peers[{position}]"):
                measured.append(
                    Measured(
                        hashrate_hs=self._hashrate(peer.hashrate, self._document.hashrate_unit, "hashrate"),
                        power_w=parse_power(peer.power, self._document.power_unit),
                    )
                )
        nameplate = self._document.nameplate
        rate, power = nameplate.hashrate, nameplate.power
        with located("nameplate"):
            return Peers(
                measured=tuple(measured),
                nameplate_hashrate_hs=None
                if rate is None
                else self._hashrate(rate.value, rate.unit, "hashrate"),
                nameplate_power_w=None if power is None else parse_power(power.value, power.unit),
            )

    def _hashrate(self, value: float, unit: str, field: str) -> float:
        return parse_hashrate(value, unit, expected_family=self._family, field=field)
