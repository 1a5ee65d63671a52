"""Hashrate, power and energy with their units, read at the edges (R2.5).

Inside the product a hashrate is a float in H/s, Sol/s or graphs/s, power a float in W, energy a float in kWh.
Every edge hands in the unit that it was told together with the value; nothing is guessed from a magnitude.
Every refusal is an `InvalidDocument` that names the field.
"""

from __future__ import annotations

import math
import re
from enum import StrEnum
from typing import NamedTuple

from blsflow.domain.errors import InvalidDocument

# A working miner of any kind draws tens of watts; less is a reading in kW, or of a part of the machine (U02).
MIN_HASHING_POWER_W = 10.0

_SCALES = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
# Lower-case m, g, t ... as prefixes stay out: "m" would be milli, and "g" is the graph.
_HASHRATE_UNIT = re.compile(r"(?P<prefix>[kKMGTPE]?)(?P<family>H|h|Sol|sol|g)/s")
_POWER_UNITS_W = {"W": 1.0, "kW": 1e3, "MW": 1e6}
# float() also reads "1_000", " 1 ", "nan" and digits of other scripts: none of them is a measurement.
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")


class HashFamily(StrEnum):
    """What a hashrate counts. Figures of two families cannot be converted into each other."""

    HASH = "H"
    SOLUTION = "Sol"
    GRAPH = "g"


# By the start of the algorithm's name without punctuation; all other algorithms count hashes.
_FAMILIES = {
    "equihash": HashFamily.SOLUTION,
    "zhash": HashFamily.SOLUTION,
    "beamhash": HashFamily.SOLUTION,
    "cuck": HashFamily.GRAPH,  # Cuckoo Cycle and its kin: Cuckaroo, Cuckatoo, Cuckarood ...
}


class UnitMismatch(InvalidDocument):
    """The unit is known but counts something else than was expected."""

    code = "unit_mismatch"


class HashrateUnit(NamedTuple):
    """A unit of hashrate: `scale` of its base units (H/s, Sol/s or g/s) make one of it."""

    family: HashFamily
    scale: float


def family_of(algorithm: str) -> HashFamily:
    """Return what hashrates of this algorithm count, for sources that name the algorithm but not the unit."""
    name = "".join(character for character in algorithm.casefold() if character.isalnum())
    return next((family for start, family in _FAMILIES.items() if name.startswith(start)), HashFamily.HASH)


def hashrate_unit(unit: object, *, expected_family: HashFamily, field: str = "unit") -> HashrateUnit:
    """Read a unit such as ``TH/s``, ``kSol/s`` or ``g/s``.

    Raises:
        UnitMismatch: the unit belongs to another family than `expected_family`.
        InvalidDocument: it is no unit of hashrate.
    """
    found = _HASHRATE_UNIT.fullmatch(unit) if isinstance(unit, str) else None
    if found is None:
        raise InvalidDocument(
            field=field,
            value=unit,
            cause="is no unit of hashrate; use H/s, kH/s ... EH/s, Sol/s, kSol/s ... or g/s",
        )
    family = {"h": HashFamily.HASH, "sol": HashFamily.SOLUTION, "g": HashFamily.GRAPH}[
        found["family"].lower()
    ]
    if family is not expected_family:
        raise UnitMismatch(
            field=field, value=unit, cause=f"counts {family}/s where {expected_family}/s is expected"
        )
    return HashrateUnit(family, _SCALES[found["prefix"]])


def parse_hashrate(
    value: object,
    unit: object,
    *,
    expected_family: HashFamily,
    from_string: bool = False,
    field: str = "hashrate",
) -> float:
    """Return a hashrate in base units per second (H/s, Sol/s or g/s): finite and not negative.

    `from_string` declares that this edge writes its numbers as strings; elsewhere a string is refused.

    Raises:
        UnitMismatch: the unit belongs to another family.
        InvalidDocument: value or unit cannot be meant.
    """
    scale = hashrate_unit(unit, expected_family=expected_family, field=f"{field}.unit").scale
    return _scaled(parse_number(value, from_string=from_string, field=field), scale, field=field)


def parse_power(value: object, unit: object, *, from_string: bool = False, field: str = "power") -> float:
    """Return a power in W: finite and not negative; `unit` is ``W``, ``kW`` or ``MW``.

    Raises:
        InvalidDocument: value or unit cannot be meant.
    """
    scale = _POWER_UNITS_W.get(unit) if isinstance(unit, str) else None
    if scale is None:
        raise InvalidDocument(field=f"{field}.unit", value=unit, cause="is no unit of power; use W, kW or MW")
    return _scaled(parse_number(value, from_string=from_string, field=field), scale, field=field)


def plausible_power_w(power_w: float, *, hashing: bool) -> bool:
    """Tell whether a machine can draw this power; one that hashes draws at least 10 W (U02)."""
    return math.isfinite(power_w) and power_w >= (MIN_HASHING_POWER_W if hashing else 0.0)


def energy_kwh(power_w: float, hours: float) -> float:
    """Return the energy that a constant power uses: W x h / 1000. 480 W for 300 minutes is 2.4 kWh (U03)."""
    return power_w * hours / 1000.0


def parse_number(value: object, *, from_string: bool = False, field: str) -> float:
    """Return a finite number as a float; a bool is no number, and a string only where `from_string` says so.

    Raises:
        InvalidDocument: anything else.
    """
    if from_string and isinstance(value, str) and _NUMBER.fullmatch(value):
        number = float(value)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        number = _as_float(value)
    else:
        expected = "a number, as a string or not" if from_string else "a number"
        raise InvalidDocument(field=field, value=value, cause=f"is not {expected}")
    if not math.isfinite(number):
        raise InvalidDocument(field=field, value=value, cause="is not a finite number")
    return number


def _scaled(number: float, scale: float, *, field: str) -> float:
    scaled = number * scale
    if number < 0 or not math.isfinite(scaled):
        raise InvalidDocument(field=field, value=number, cause="is negative or out of range")
    return scaled


def _as_float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:  # an integer beyond 1.8e308
        return math.inf
