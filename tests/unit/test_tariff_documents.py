"""What a tariff's documents may say, and how their ends are read."""

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from blsflow.domain.errors import InvalidTariff
from blsflow.domain.tariff import Tariff
from blsflow.domain.tariff_calendar import Season, seconds_of_day
from blsflow.domain.tariff_period import TariffPeriod, close_document_gaps
from tests.unit.tariff_samples import band, known, sec, tariff


def test_ends_written_to_the_last_second_are_half_open() -> None:
    """R2.2: 15:00:00-15:59:59 is read up to 16:00, so that 15:59:59.5 has a price; also at the last slot."""
    periods = (band("a", "15:00:00", "15:59:59", 0.1), band("b", "16:00:00", "16:59:59", 0.2))
    closed = tariff(*close_document_gaps(periods))
    assert known(closed, "2026-03-02T15:59:59.500000") == 0.1
    assert known(closed, "2026-03-02T16:59:59.500000") == 0.2
    assert known(closed, "2026-03-02T17:00:00") == "tariff_gap"


@pytest.mark.parametrize(
    ("end", "next_start", "read_as"),
    [
        ("06:59", "07:00", "07:00"),
        ("06:59", "12:00", "07:00"),
        ("06:29", "06:30", "06:30"),
        ("06:29:59", "06:30", "06:30"),
        ("06:29", "07:00", "06:29"),
        ("23:59", "07:00", "24:00"),
        ("23:59:59", "00:00", "24:00"),
        ("07:00", "07:00", "07:00"),
        ("06:59", "06:59", "06:59"),
        ("24:00", "00:00", "24:00"),
    ],
)
def test_inclusive_ends_are_read_up_to_the_next_start(end: str, next_start: str, read_as: str) -> None:
    """R2.2: ends at :59 or :59:59 are half-open to the next start; ends that leave nothing open stay."""
    first, _ = close_document_gaps((band("a", "02:00", end), band("b", next_start, "23:00")))
    assert first.end_sec == sec(read_as)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("price_per_kwh", value) for value in (float("nan"), float("inf"), Decimal("sNaN"), 10**400)),
        *(("price_per_kwh", value) for value in (True, "1", None)),
        *(("start_sec", value) for value in (-1, 86_400, True, 1.5)),
        *(("end_sec", value) for value in (-1, 86_401, True)),
        *(("weekdays", frozenset(value)) for value in ((), (0,), (8,))),
        *(("months", frozenset(value)) for value in ((), (0,), (13,))),
        *(("day_types", frozenset(value)) for value in ((), ("sunday",))),
        ("weekdays", [1]),
        ("priority", 0.5),
        ("name", ""),
    ],
)  # fmt: skip
def test_nonsense_in_a_period_is_refused_by_its_field(field: str, value: object) -> None:
    """R2.2: a period that cannot be meant names the field and the value that was wrong."""
    with pytest.raises(InvalidTariff) as refused:
        TariffPeriod(**{"name": "p", "price_per_kwh": 0.5, field: value})  # type: ignore[arg-type]
    assert refused.value.field == field
    assert refused.value.value is value
    assert field in str(refused.value)


@pytest.mark.parametrize(
    ("field", "values"),
    [
        *(
            ("zone", {"zone": zone})
            for zone in ("UTC+3", "Europe", "", "America/New_Yrok", "../UTC", "localtime")
        ),
        ("valid_from", {"valid_from": datetime(2026, 1, 1)}),  # noqa: DTZ001
        (
            "valid_to",
            {"valid_from": datetime(2026, 1, 1, tzinfo=UTC), "valid_to": datetime(2026, 1, 1, tzinfo=UTC)},
        ),
        (
            "make_up_workdays",
            {
                "holidays": frozenset({date(2026, 1, 1)}),
                "make_up_workdays": frozenset({date(2026, 1, 1)}),
            },
        ),
        ("currency", {"currency": ""}),
        ("cny_rate", {"currency": "USD", "cny_rate": 0.0}),
        ("cny_rate", {"currency": "USD", "cny_rate": float("nan")}),
        ("cny_rate", {"cny_rate": 7.2}),
        ("name", {"name": ""}),
    ],
)
def test_nonsense_in_a_tariff_is_refused_by_its_field(field: str, values: dict[str, object]) -> None:
    """R2.2: a tariff that cannot be meant names the field."""
    with pytest.raises(InvalidTariff) as refused:
        Tariff(**{"name": "t", "zone": "Asia/Shanghai", "periods": (), **values})  # type: ignore[arg-type]
    assert refused.value.field == field


@pytest.mark.parametrize("month_day", [(2, 30), (0, 1), (13, 1), (4, 31), (1,), ("1", 1)])
def test_a_season_on_an_impossible_date_is_refused(month_day: object) -> None:
    """R2.2: a season's bound must be a day of some year."""
    with pytest.raises(InvalidTariff) as refused:
        Season(first=month_day, last=(12, 31))  # type: ignore[arg-type]
    assert refused.value.field == "season.first"


@pytest.mark.parametrize(
    "text", ["24:01", "24:00:01", "7", "7:5", "07:60", "-1:00", "", "７:00", None, 7, "07:00 "]
)
def test_a_text_that_is_no_time_of_day_is_refused(text: object) -> None:
    """R2.2: a time of day is HH:MM or HH:MM:SS up to 24:00."""
    with pytest.raises(InvalidTariff) as refused:
        seconds_of_day(text, field="periods[0].start")
    assert refused.value.field == "periods[0].start"
