"""Tariffs as they are published, in the shapes in which they arrive."""

import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from blsflow.domain.tariff import Tariff, TariffPrice, daily_cost_cny
from blsflow.domain.tariff_calendar import Season
from blsflow.domain.tariff_survey import survey
from tests.unit.tariff_samples import WORKDAY, band, known, name_at, tariff

FIELD_FIGURES = Path(__file__).parents[3] / "shared" / "data"
DAY_KINDS: dict[str, dict[str, Any]] = {
    "weekday": {"day_types": WORKDAY},
    "saturday": {"day_types": frozenset({"weekend"}), "weekdays": frozenset({6})},
    "sunday_holiday": {"day_types": frozenset({"weekend"}), "weekdays": frozenset({7})},
    "holiday": {"day_types": frozenset({"holiday"})},
}


def published(name: str) -> Any:
    """A file of real figures; the test is skipped where they are not at hand."""
    path = FIELD_FIGURES / name
    if not path.exists():
        pytest.skip(f"real figures {name} are not next to this checkout")
    return json.loads(path.read_text(encoding="utf-8"))


def fujian() -> Tariff:
    """Fujian's layers: flat overridden by valley, peak, sharp."""
    document = published("cn_fujian_industrial_2025-08.json")
    rank = document["priority_low_to_high"].index
    return tariff(
        *(
            band(
                row["name"],
                text.partition("-")[0],
                text.partition("-")[2],
                row["price"],
                priority=rank(row["name"]),
                months=frozenset(row.get("months", range(1, 13))),
            )
            for row in document["periods"]
            for text in row["ranges"]
        )
    )


def taipower() -> Tariff:
    """Taipower's three stages: two seasons, one across the year's end, and three kinds of day."""
    document = published("tw_taipower_high_voltage_three_stage_20251001.json")
    season = {
        row["name"]: Season(first=month_day(row["start"]), last=month_day(row["end"]))
        for row in document["seasons"]
    }
    price = {(r["season"], r["day_type"], r["period"]): r["cost"] for r in document["plan"]["rates"]}
    return Tariff(
        name="taipower",
        zone=document["tz"],
        currency="TWD",
        cny_rate=0.22,
        holidays=frozenset({date(2026, 1, 1), date(2026, 2, 28)}),
        periods=tuple(
            band(
                row["period"],
                row["start"],
                row["end"],
                price[row["season"], row["day_type"], row["period"]],
                seasons=(season[row["season"]],),
                **DAY_KINDS[kind],
            )
            for row in document["plan"]["schedules"]
            for kind in {"sunday_holiday": ("sunday_holiday", "holiday")}.get(
                row["day_type"], (row["day_type"],)
            )
        ),
    )


def month_day(text: str) -> tuple[int, int]:
    """(5, 16) of ``05-16``."""
    month, day = text.split("-")
    return int(month), int(day)


def test_fujians_layers_price_as_published() -> None:
    """R2.2: flat overridden by valley, peak and sharp, in real figures: each check of the source holds."""
    layered = fujian()
    for local, name, price in published("cn_fujian_industrial_2025-08.json")["checks"]:
        assert (name_at(layered, local), known(layered, local)) == (name, price)
    assert name_at(layered, "2025-10-01T11:00") == "peak"


def test_fujians_worked_case_costs_what_it_should() -> None:
    """R2.2: 3,050 W against 8.0219 USD at 7.2 nets 32.24 / 15.00 / -0.88 / -6.90 CNY a day by period."""
    layered = fujian()
    nets = {
        name_at(layered, f"2025-08-04T{clock}"): 8.0219 * 7.2
        - daily_cost_cny(3050, float(known(layered, f"2025-08-04T{clock}")))
        for clock in ("03:00", "09:00", "10:30", "17:30")
    }
    assert nets == pytest.approx({"valley": 32.24, "flat": 15.00, "peak": -0.88, "sharp": -6.90}, abs=0.01)


def test_real_tariffs_have_no_gap_and_no_overlap_in_a_year() -> None:
    """R2.2: layered and seasonal real tariffs price each instant of a year once."""
    start = datetime(2026, 1, 1, tzinfo=UTC)
    for real in (fujian(), taipower()):
        statuses = {type(segment.status) for segment in survey([real], start, start + timedelta(days=366))}
        assert statuses == {TariffPrice}


@pytest.mark.parametrize(
    ("local", "period", "price_twd"),
    [
        ("2026-07-01T16:00", "peak", 9.39),
        ("2026-07-01T15:59", "semi_peak", 5.85),
        ("2026-07-04T16:00", "semi_peak", 2.6),
        ("2026-07-05T16:00", "off_peak", 2.53),
        ("2026-01-01T16:00", "off_peak", 2.32),
        ("2026-01-02T16:00", "semi_peak", 5.47),
        ("2026-02-28T16:00", "off_peak", 2.32),
        ("2026-05-15T16:00", "semi_peak", 5.47),
        ("2026-05-18T16:00", "peak", 9.39),
        ("2026-10-15T16:00", "peak", 9.39),
        ("2026-10-16T16:00", "semi_peak", 5.47),
    ],
)
def test_taipowers_seasons_and_kinds_of_day(local: str, period: str, price_twd: float) -> None:
    """R2.2: seasons across the year's end, Saturdays, Sundays and holidays of a real tariff, in CNY."""
    real = taipower()
    assert name_at(real, local) == period
    assert known(real, local) == pytest.approx(price_twd * 0.22)
