import math

import pytest

from blsflow.domain.errors import InvalidDocument
from blsflow.domain.units import (
    HashFamily,
    UnitMismatch,
    energy_kwh,
    family_of,
    hashrate_unit,
    parse_hashrate,
    parse_power,
    plausible_power_w,
)

HASH = HashFamily.HASH


@pytest.mark.parametrize(
    ("unit", "scale"),
    [
        ("H/s", 1.0),
        ("kH/s", 1e3),
        ("KH/s", 1e3),
        ("MH/s", 1e6),
        ("Mh/s", 1e6),
        ("GH/s", 1e9),
        ("TH/s", 1e12),
        ("PH/s", 1e15),
        ("EH/s", 1e18),
    ],
)
def test_hash_units_have_their_decimal_scale(unit: str, scale: float) -> None:
    """R2.5: hashrates are read in every unit from H/s to EH/s."""
    assert parse_hashrate(2, unit, expected_family=HASH) == 2 * scale


@pytest.mark.parametrize(
    ("unit", "family", "hashrate"),
    [
        ("Sol/s", HashFamily.SOLUTION, 140.0),
        ("kSol/s", HashFamily.SOLUTION, 140e3),
        ("MSol/s", HashFamily.SOLUTION, 140e6),
        ("g/s", HashFamily.GRAPH, 140.0),
        ("kg/s", HashFamily.GRAPH, 140e3),
    ],
)
def test_solutions_and_graphs_are_families_of_their_own(
    unit: str, family: HashFamily, hashrate: float
) -> None:
    """R2.5: Sol/s and graphs/s are read as what they count."""
    assert parse_hashrate(140.0, unit, expected_family=family) == hashrate


@pytest.mark.parametrize(
    ("unit", "expected"),
    [("kSol/s", HASH), ("TH/s", HashFamily.SOLUTION), ("g/s", HASH), ("H/s", HashFamily.GRAPH)],
)
def test_a_unit_of_another_family_is_refused(unit: str, expected: HashFamily) -> None:
    """R2.5: a mismatch of what is counted is refused with the field named, never scaled."""
    with pytest.raises(UnitMismatch) as refusal:
        parse_hashrate(1.0, unit, expected_family=expected, field="machines[3].hashrate")
    assert (refusal.value.field, refusal.value.value) == ("machines[3].hashrate.unit", unit)


@pytest.mark.parametrize(
    "unit", ["", "TH", "th/s", "mH/s", "XH/s", "TH/s ", "GS/s", "G/s", "H", "Hz", None, 1e12, True]
)
def test_what_is_no_unit_of_hashrate_is_refused(unit: object) -> None:
    """R2.5: a unit is explicit; missing, unknown and ambiguous ones (m is milli) are refused."""
    with pytest.raises(InvalidDocument, match="is no unit of hashrate"):
        hashrate_unit(unit, expected_family=HASH)


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, -math.inf, -1, -0.001, True, False, None, [], 10**400, 1e300, "4938.8993"]
)
def test_a_hashrate_that_cannot_be_is_refused(value: object) -> None:
    """R2.5: NaN, infinite, negative and overflowing values, bools and undeclared strings are refused."""
    with pytest.raises(InvalidDocument) as refusal:
        parse_hashrate(value, "TH/s", expected_family=HASH)
    assert refusal.value.field == "hashrate"


def test_a_string_is_read_in_the_unit_of_its_edge() -> None:
    """R2.5 (U01): cgminer's "MHS 5s" is a string in MH/s: 4.94 GH/s where 4.9 are rated."""
    hashrate_hs = parse_hashrate("4938.8993", "MH/s", expected_family=HASH, from_string=True)
    assert hashrate_hs == pytest.approx(4.94e9, rel=1e-3)


@pytest.mark.parametrize(
    "text", ["", " 1", "1_000", "1,000", "0x10", "nan", "inf", "1e999", "-5", "1.2.3", "٣", ".5", "5."]
)
def test_a_string_that_is_no_plain_number_is_refused(text: str) -> None:
    """R2.5: also where strings are declared, only plain finite numbers are measurements."""
    with pytest.raises(InvalidDocument):
        parse_hashrate(text, "MH/s", expected_family=HASH, from_string=True)


@pytest.mark.parametrize(
    ("value", "unit", "power_w"),
    [(3050, "W", 3050.0), (0.142, "kW", 142.0), (1.5, "MW", 1.5e6), (0, "W", 0.0)],
)
def test_powers_are_read_into_watts(value: float, unit: str, power_w: float) -> None:
    """R2.5: power units are explicit and end as W; zero is a power (a machine that is off)."""
    assert parse_power(value, unit) == pytest.approx(power_w)


@pytest.mark.parametrize("unit", ["mW", "w", "KW", "kWh", "", None, 1000])
def test_what_is_no_unit_of_power_is_refused(unit: object) -> None:
    """R2.5: mW is not MW and kWh is no power."""
    with pytest.raises(InvalidDocument, match="is no unit of power"):
        parse_power(1.0, unit, field="power_w")


@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0, True, None, "142"])
def test_a_power_that_cannot_be_is_refused(value: object) -> None:
    """R2.5: NaN, infinite and negative powers, bools and undeclared strings are refused."""
    with pytest.raises(InvalidDocument):
        parse_power(value, "W")


@pytest.mark.parametrize(
    ("power_w", "hashing", "plausible"),
    [
        (0.142, True, False),
        (9.99, True, False),
        (10.0, True, True),
        (142.0, True, True),
        (0.0, True, False),
        (0.0, False, True),
        (4.0, False, True),
        (-5.0, False, False),
        (math.nan, False, False),
        (math.inf, True, False),
    ],
)
def test_a_hashing_machine_draws_at_least_ten_watts(
    power_w: float, *, hashing: bool, plausible: bool
) -> None:
    """R2.5 (U02): 0.142 for a hashing machine is kW read as W, and is not to be stored."""
    assert plausible_power_w(power_w, hashing=hashing) is plausible


def test_energy_is_power_times_hours() -> None:
    """R2.2 (U03): 480 W for 300 minutes is 2.4 kWh, not the 0.077 of a day's figure added as hours."""
    assert energy_kwh(480.0, 300 / 60) == pytest.approx(2.4)


@pytest.mark.parametrize(
    ("algorithm", "family"),
    [
        ("SHA-256", HASH),
        ("Scrypt", HASH),
        ("KHeavyHash", HASH),
        ("Equihash", HashFamily.SOLUTION),
        ("Equihash(144,5)", HashFamily.SOLUTION),
        ("ZHash", HashFamily.SOLUTION),
        ("BeamHashIII", HashFamily.SOLUTION),
        ("Cuckatoo32", HashFamily.GRAPH),
        ("Cuckoo Cycle", HashFamily.GRAPH),
        ("Cuckaroo29", HashFamily.GRAPH),
    ],
)
def test_an_algorithm_tells_what_its_hashrates_count(algorithm: str, family: HashFamily) -> None:
    """R2.5: where a source names the algorithm only, its family still keeps figures apart."""
    assert family_of(algorithm) is family
