"""Which price holds at an instant, and what it costs."""

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from blsflow.domain.tariff import (
    Tariff,
    TariffPrice,
    TariffProblem,
    daily_cost_cny,
    energy_cost_cny,
    price_at,
    price_in_force,
    tariff_in_force,
)
from blsflow.domain.tariff_calendar import Season
from blsflow.domain.tariff_period import TariffPeriod
from tests.unit.tariff_samples import REST, WORKDAY, band, known, name_at, tariff


@pytest.mark.parametrize(
    ("clock", "price"),
    [
        ("21:29:59", 0.4447),
        ("21:30", 0.3912),
        ("23:00", 0.3912),
        ("00:00", 0.3912),
        ("02:00", 0.3912),
        ("05:29", 0.3912),
        ("05:29:59.999999", 0.3912),
        ("05:30", 0.4447),
    ],
)
def test_a_night_zone_holds_until_its_end_in_the_morning(clock: str, price: float) -> None:
    """R2.2: a period that crosses midnight covers both sides of it and is half-open at its end."""
    layered = tariff(
        band("base", "00:00", "24:00", 0.4447), band("night", "21:30", "05:30", 0.3912, priority=1)
    )
    assert known(layered, f"2026-03-02T{clock}") == price


@pytest.mark.parametrize(
    ("clock", "matches"),
    [("23:00", True), ("02:00", True), ("06:00", False), ("22:59", False), ("05:59:59", True)],
)
def test_a_window_across_midnight_alone_is_a_gap_elsewhere(clock: str, *, matches: bool) -> None:
    """R2.2: outside the only period the price is unknown, inside it is known on both sides of midnight."""
    expected = 0.5 if matches else "tariff_gap"
    assert known(tariff(band("night", "23:00", "06:00")), f"2026-03-02T{clock}") == expected


@pytest.mark.parametrize(
    ("clock", "period"),
    [
        ("06:59:59", "night"),
        ("07:00:00", "morning"),
        ("09:59:59", "morning"),
        ("10:00", "day"),
        ("17:00", "evening"),
        ("21:00", "late"),
        ("22:59:59", "late"),
        ("23:00:00", "night"),
        ("00:00:00", "night"),
    ],
)
def test_five_bands_partition_the_day(clock: str, period: str) -> None:
    """R2.2: at a boundary the period that starts holds, never the one that ends."""
    bands = tariff(
        band("morning", "07:00", "10:00"),
        band("day", "10:00", "17:00"),
        band("evening", "17:00", "21:00"),
        band("late", "21:00", "23:00"),
        band("night", "23:00", "07:00"),
    )
    assert name_at(bands, f"2026-03-02T{clock}") == period


def test_the_boundary_minute_has_the_new_price() -> None:
    """R2.2: in the very minute of a change the new price holds."""
    steps = tariff(
        band("a", "00:00", "06:30", 0.3), band("b", "06:30", "18:30", 0.6), band("c", "18:30", "24:00", 0.3)
    )
    assert [known(steps, f"2026-03-02T{clock}") for clock in ("06:29:59", "06:30", "18:29:59", "18:30")] == [
        0.3, 0.6, 0.6, 0.3,
    ]  # fmt: skip


def test_an_equal_start_and_end_is_the_whole_day() -> None:
    """R2.2: 00:00-00:00 and 07:00-07:00 are 24 hours, not none."""
    for clock in ("00:00", "07:00"):
        whole = tariff(band("all", clock, clock))
        assert [known(whole, f"2026-03-02T{at}") for at in ("00:00", "06:59:59", "07:00", "23:59:59")] == [
            0.5
        ] * 4


def test_a_seasonal_zone_overrides_the_base_in_its_months_only() -> None:
    """R2.2: the seasonal period outranks the daily one in winter and is absent in summer."""
    winter = frozenset({1, 2, 3, 10, 11, 12})
    layered = tariff(
        band("low", "00:00", "05:00", 0.16),
        band("high", "05:00", "24:00", 0.26),
        band("winter low", "02:30", "05:00", 0.0915, months=winter, priority=1),
        band("winter peak", "18:15", "21:15", 0.2903, months=winter, priority=1),
        zone="Europe/Berlin",
    )
    clocks = ("02:29", "02:30", "18:15", "21:15")
    assert [known(layered, f"2025-12-24T{clock}") for clock in clocks] == [0.16, 0.0915, 0.2903, 0.26]
    assert [known(layered, f"2025-07-24T{clock}") for clock in clocks] == [0.16, 0.16, 0.26, 0.26]
    assert [known(layered, f"2025-{day}T03:00") for day in ("03-31", "04-01", "09-30", "10-01")] == [
        0.0915, 0.16, 0.16, 0.0915,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("day", "inside"),
    [("10-15", False), ("10-16", True), ("12-31", True), ("01-01", True), ("05-15", True), ("05-16", False)],
)
def test_a_season_may_cross_the_years_end(day: str, *, inside: bool) -> None:
    """R2.2: a season from October 16 to May 15 includes New Year and both its bounds."""
    seasonal = tariff(band("cold", "00:00", "24:00", seasons=(Season(first=(10, 16), last=(5, 15)),)))
    assert known(seasonal, f"2026-{day}T12:00") == (0.5 if inside else "tariff_gap")


def test_a_season_that_ends_on_a_leap_day_ends_with_february() -> None:
    """R2.2: a season until February 29 includes the 28th of a common year and the 29th of a leap year."""
    season = Season(first=(12, 1), last=(2, 29))
    days = (date(2026, 2, 28), date(2026, 3, 1), date(2028, 2, 29), date(2028, 3, 1))
    assert [season.contains(day) for day in days] == [
        True, False, True, False,
    ]  # fmt: skip


def test_dst_end_shifts_the_zone_with_the_wall_clock() -> None:
    """R2.2: on the day Sydney ends DST, 18:00-20:00 starts at 08:00Z, not an hour early at 07:30Z."""
    evening = tariff(band("evening", "18:00", "20:00"), zone="Australia/Sydney")
    asked = (datetime(2026, 4, 5, 7, 30, tzinfo=UTC), datetime(2026, 4, 5, 8, 0, tzinfo=UTC))
    assert [isinstance(price_at(evening, at), TariffPrice) for at in asked] == [False, True]


def test_both_passes_of_a_repeated_hour_have_its_price() -> None:
    """R2.2: an hour that DST repeats is priced by its wall clock both times."""
    night = tariff(band("repeated", "02:00", "03:00"), zone="Europe/Berlin")
    passes = [datetime(2026, 10, 25, hour, 30, tzinfo=UTC) for hour in (0, 1)]
    assert [isinstance(price_at(night, at), TariffPrice) for at in passes] == [True, True]
    assert price_at(night, datetime(2026, 10, 25, 2, 0, tzinfo=UTC)) == TariffProblem(
        kind="tariff_gap", names=("t",)
    )


def test_a_missing_hour_is_a_gap_and_not_the_price_before() -> None:
    """R2.2: 22:30 between 21-22 and 23-24 is a gap: neither 0 nor the previous price."""
    holed = tariff(band("a", "21:00", "22:00", 2.604), band("b", "23:00", "24:00", 2.553))
    asked = ("21:59:59", "22:00", "22:30", "23:00")
    assert [known(holed, f"2025-09-26T{clock}") for clock in asked] == [
        2.604,
        "tariff_gap",
        "tariff_gap",
        2.553,
    ]


def test_a_tariff_without_periods_is_a_gap() -> None:
    """R2.2: a tariff that prices nothing leaves the price unknown."""
    assert price_at(tariff(), datetime(2026, 1, 1, tzinfo=UTC)) == TariffProblem(
        kind="tariff_gap", names=("t",)
    )


def test_an_open_ended_tariff_stays_in_force() -> None:
    """R2.2: valid_to null means no end, valid_from null no start; bounds given are half-open."""
    flat = band("flat", "00:00", "24:00", 24.5)
    start = datetime(2025, 4, 1, tzinfo=UTC)
    open_end, open_start = tariff(flat, valid_from=start), tariff(flat, valid_to=start)
    for at in (start, datetime(2025, 4, 1, 10, 52, tzinfo=UTC), datetime(2099, 1, 1, tzinfo=UTC)):
        assert price_at(open_end, at) == TariffPrice(tariff="t", period="flat", price_cny_per_kwh=24.5)
        assert price_at(open_start, at) == TariffProblem(kind="tariff_gap")
    before = datetime(2025, 3, 31, 23, 59, 59, 999999, tzinfo=UTC)
    assert isinstance(price_at(open_end, before), TariffProblem)
    assert isinstance(price_at(open_start, before), TariffPrice)


def test_the_tariff_in_force_is_chosen_by_validity() -> None:
    """R2.2: of successive tariffs the one in force prices; none is a gap, two at once an overlap."""
    change, end = datetime(2026, 7, 1, tzinfo=UTC), datetime(2026, 9, 1, tzinfo=UTC)
    flat = (band("flat", "00:00", "24:00"),)
    june = Tariff(name="june", zone="Asia/Shanghai", periods=flat, valid_to=change)
    july = Tariff(name="july", zone="Asia/Shanghai", periods=flat, valid_from=change, valid_to=end)
    stray = Tariff(
        name="stray", zone="Asia/Shanghai", periods=flat, valid_from=datetime(2026, 8, 1, tzinfo=UTC)
    )
    assert tariff_in_force([june, july], datetime(2026, 6, 30, 23, 59, 59, tzinfo=UTC)) is june
    assert tariff_in_force([june, july], change) is july
    assert tariff_in_force([june, july], end) == TariffProblem(kind="tariff_gap")
    assert price_in_force([], change) == TariffProblem(kind="tariff_gap")
    assert price_in_force([june, july, stray], datetime(2026, 8, 1, tzinfo=UTC)) == TariffProblem(
        kind="tariff_overlap", names=("july", "stray")
    )


def test_equal_priorities_at_the_top_are_an_overlap_even_at_equal_prices() -> None:
    """R2.2: two periods of equal and highest priority leave the price unknown; hidden ones do not matter."""
    first, second = band("a", "08:00", "12:00"), band("b", "11:00", "14:00")
    clocks = ("10:59:59", "11:00", "11:59:59", "12:00")
    assert [known(tariff(first, second), f"2026-03-02T{clock}") for clock in clocks] == [
        0.5, "tariff_overlap", "tariff_overlap", 0.5,
    ]  # fmt: skip
    covered = tariff(first, second, band("top", "10:00", "13:00", 0.9, priority=5))
    assert known(covered, "2026-03-02T11:30") == 0.9
    at = datetime(2026, 3, 2, 3, 30, tzinfo=UTC)
    assert price_at(tariff(second, first), at) == TariffProblem(kind="tariff_overlap", names=("a", "b"))


@pytest.mark.parametrize(("price", "daily"), [(-0.05, -3.66), (0.0, 0.0), (0.05, 3.66)])
def test_a_negative_price_is_income_and_zero_is_a_price(price: float, daily: float) -> None:
    """R2.2: cost = W / 1000 x 24 x price with its sign: never clipped at zero, never its absolute value."""
    result = price_at(tariff(band("noon", "00:00", "24:00", price)), datetime(2026, 3, 2, 4, tzinfo=UTC))
    assert isinstance(result, TariffPrice)
    assert daily_cost_cny(3050, result.price_cny_per_kwh) == pytest.approx(daily)
    assert energy_cost_cny(3050, 1, result.price_cny_per_kwh) == pytest.approx(daily / 24)


def test_holidays_outrank_weekdays_and_make_up_days_outrank_weekends() -> None:
    """R2.2: a Monday holiday and a Saturday have the rest price, a worked Saturday the workday one."""
    days = tariff(
        band("work", "07:00", "19:00", 0.25, day_types=WORKDAY),
        band("night", "19:00", "07:00", 0.15, day_types=WORKDAY),
        band("rest", "00:00", "24:00", 0.1, day_types=REST),
        holidays=frozenset({date(2025, 5, 5)}),
        make_up_workdays=frozenset({date(2025, 5, 17)}),
    )
    asked = {
        "2025-05-05T11:00": 0.1,
        "2025-05-05T23:59:59": 0.1,
        "2025-05-06T00:00": 0.15,
        "2025-05-06T11:00": 0.25,
        "2025-05-10T11:00": 0.1,
        "2025-05-17T11:00": 0.25,
        "2025-05-18T11:00": 0.1,
    }
    assert {at: known(days, at) for at in asked} == asked


def test_the_calendar_day_governs_a_night_also_after_midnight() -> None:
    """R2.2: the workday night covers Monday's early hours and not Saturday's: no gap, no overlap."""
    week = tariff(
        band("day", "07:00", "23:00", day_types=WORKDAY),
        band("night", "23:00", "07:00", day_types=WORKDAY),
        band("rest", "00:00", "24:00", day_types=REST),
    )
    assert name_at(week, "2026-03-02T03:00") == "night"  # a Monday
    assert name_at(week, "2026-03-06T23:30") == "night"  # a Friday
    assert name_at(week, "2026-03-07T03:00") == "rest"
    summer = tariff(band("night", "22:00", "06:00", months=frozenset({7})))
    assert [known(summer, at) for at in ("2026-06-30T23:00", "2026-07-01T03:00", "2026-08-01T03:00")] == [
        "tariff_gap", 0.5, "tariff_gap",
    ]  # fmt: skip


def test_weekdays_are_those_of_the_clusters_zone() -> None:
    """R2.2: Sunday 22:00Z is already Monday in Shanghai."""
    monday = tariff(band("monday", "00:00", "24:00", weekdays=frozenset({1})))
    assert isinstance(price_at(monday, datetime(2026, 3, 1, 22, tzinfo=UTC)), TariffPrice)
    assert isinstance(price_at(monday, datetime(2026, 3, 2, 16, tzinfo=UTC)), TariffProblem)


def test_a_currency_without_a_rate_leaves_the_price_unknown() -> None:
    """R2.2: a price in pounds without a rate is unknown, never 0; with one it is converted, sign kept."""
    flat, at = band("flat", "00:00", "24:00", -0.2), datetime(2026, 3, 2, tzinfo=UTC)
    assert price_at(tariff(flat, currency="GBP"), at) == TariffProblem(kind="tariff_currency", names=("GBP",))
    converted = price_at(tariff(flat, currency="GBP", cny_rate=9.0), at)
    assert converted == TariffPrice(tariff="t", period="flat", price_cny_per_kwh=-1.8)


def test_decimal_prices_are_taken() -> None:
    """R2.2: what a database stores as numeric is a price like any other."""
    flat = TariffPeriod(name="flat", price_per_kwh=Decimal("0.584169"))
    assert known(tariff(flat), "2026-03-02T12:00") == pytest.approx(0.584169)
