"""When prices change, and what a stretch of time costs."""

from datetime import UTC, date, datetime, timedelta
from time import perf_counter
from zoneinfo import ZoneInfo

import pytest

from blsflow.domain.local_time import local_day
from blsflow.domain.tariff import Tariff, TariffPrice, TariffProblem
from blsflow.domain.tariff_calendar import Season
from blsflow.domain.tariff_survey import next_change, span_cost_cny, survey
from tests.unit.tariff_samples import REST, WORKDAY, band, tariff

WEEK = timedelta(days=7)


def utc(text: str) -> datetime:
    """An instant."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def kinds(tariffs: list[Tariff], start: datetime, end: datetime) -> list[tuple[datetime, datetime, str]]:
    """Segments as start, end and period or problem."""
    return [
        (s.start, s.end, s.status.period if isinstance(s.status, TariffPrice) else s.status.kind)
        for s in survey(tariffs, start, end)
    ]


def test_the_next_change_is_seen_minutes_ahead() -> None:
    """R2.2: at 12:50 the change at 13:00 is known, so that nothing is started for ten minutes."""
    steps = tariff(band("cheap", "00:00", "13:00", 0.3), band("dear", "13:00", "24:00", 0.9))
    change = datetime(2026, 3, 2, 5, 0, tzinfo=UTC)
    assert next_change([steps], change - timedelta(minutes=10), WEEK) == change
    assert next_change([steps], change - timedelta(microseconds=1), WEEK) == change
    assert next_change([steps], change, WEEK) == utc("2026-03-02T16:00")


def test_a_change_beyond_the_horizon_is_none() -> None:
    """R2.2: the horizon is included, what lies beyond is not looked at, and a flat tariff never changes."""
    steps = tariff(band("cheap", "00:00", "13:00", 0.3), band("dear", "13:00", "24:00", 0.9))
    at = datetime(2026, 3, 2, 4, 0, tzinfo=UTC)
    assert next_change([steps], at, timedelta(hours=1)) == at + timedelta(hours=1)
    assert next_change([steps], at, timedelta(minutes=59)) is None
    assert next_change([tariff(band("flat", "00:00", "24:00"))], at, timedelta(days=400)) is None


def test_a_hidden_boundary_is_no_change() -> None:
    """R2.2: where a lower layer changes beneath a higher one, nothing changes."""
    layered = tariff(
        band("a", "00:00", "12:00"),
        band("b", "12:00", "24:00"),
        band("top", "10:00", "14:00", 0.9, priority=1),
    )
    assert next_change([layered], utc("2026-03-02T02:00"), WEEK) == utc("2026-03-02T06:00")


def test_a_change_to_unknown_is_a_change() -> None:
    """R2.2: the start of a gap, of an overlap, and the end of a validity are changes."""
    end = utc("2026-03-03T00:00")
    holed = tariff(band("a", "00:00", "12:00"), band("b", "11:00", "13:00"), valid_to=end)
    expected = [
        "2026-03-02T03:00",
        "2026-03-02T04:00",
        "2026-03-02T05:00",
        "2026-03-02T16:00",
        "2026-03-03T00:00",
    ]
    at, seen = utc("2026-03-01T16:00"), []
    while (change := next_change([holed], at, timedelta(days=30))) is not None:
        seen.append(change)
        at = change
    assert seen == [utc(text) for text in expected]


def test_another_tariff_with_the_same_price_is_no_change() -> None:
    """R2.2: a monthly tariff that is renewed unchanged does not end the holding time."""
    change = utc("2026-04-01T00:00")
    flat = (band("flat", "00:00", "24:00"),)
    march = Tariff(name="march", zone="Asia/Shanghai", periods=flat, valid_to=change)
    april = Tariff(name="april", zone="Asia/Shanghai", periods=flat, valid_from=change)
    assert next_change([march, april], utc("2026-03-31T00:00"), WEEK) is None
    dearer = Tariff(
        name="april", zone="Asia/Shanghai", periods=(band("flat", "00:00", "24:00", 0.6),), valid_from=change
    )
    assert next_change([march, dearer], utc("2026-03-31T00:00"), WEEK) == change


def test_a_season_that_starts_months_ahead_is_found() -> None:
    """R2.2: the next change of a seasonal tariff lies at the local midnight of its first day."""
    seasonal = tariff(
        band("all", "00:00", "24:00"),
        band("summer", "00:00", "24:00", 0.9, seasons=(Season(first=(7, 1), last=(9, 30)),), priority=1),
    )
    assert next_change([seasonal], utc("2026-01-01T00:00"), timedelta(days=366)) == utc("2026-06-30T16:00")


@pytest.mark.parametrize(
    ("zone", "day", "hours"),
    [
        ("Europe/Berlin", date(2024, 3, 31), 23),
        ("Europe/Berlin", date(2024, 10, 27), 25),
        ("Europe/Berlin", date(2024, 6, 1), 24),
        ("Australia/Lord_Howe", date(2026, 4, 5), 24.5),
        ("Australia/Lord_Howe", date(2026, 10, 4), 23.5),
        ("America/Sao_Paulo", date(2018, 11, 4), 23),
        ("America/Sao_Paulo", date(2018, 2, 17), 25),
        ("Pacific/Apia", date(2011, 12, 30), 0),
    ],
)
def test_a_days_total_counts_the_hours_that_pass(zone: str, day: date, hours: float) -> None:
    """R2.2: the day's total on a DST day is over 23 or 25 hours, and no hour is missing or counted twice."""
    start, end = local_day(day, ZoneInfo(zone))
    flat = tariff(band("night", "22:00", "02:30", 0.5), band("day", "02:30", "22:00", 0.5), zone=zone)
    segments = survey([flat], start, end)
    assert sum(segment.hours for segment in segments) == hours
    assert span_cost_cny(1000, segments) == pytest.approx(hours * 0.5)


def test_both_dst_days_split_at_the_wall_clock() -> None:
    """R2.2: a boundary that is skipped takes effect at the gap's end; one in the repeated hour, twice."""
    berlin = tariff(band("a", "00:00", "02:30"), band("b", "02:30", "24:00"), zone="Europe/Berlin")
    assert kinds([berlin], utc("2024-03-30T23:00"), utc("2024-03-31T22:00")) == [
        (utc("2024-03-30T23:00"), utc("2024-03-31T01:00"), "a"),
        (utc("2024-03-31T01:00"), utc("2024-03-31T22:00"), "b"),
    ]
    assert kinds([berlin], utc("2024-10-26T22:00"), utc("2024-10-27T23:00")) == [
        (utc("2024-10-26T22:00"), utc("2024-10-27T00:30"), "a"),
        (utc("2024-10-27T00:30"), utc("2024-10-27T01:00"), "b"),
        (utc("2024-10-27T01:00"), utc("2024-10-27T01:30"), "a"),
        (utc("2024-10-27T01:30"), utc("2024-10-27T23:00"), "b"),
    ]


def test_gaps_and_overlaps_of_a_year_are_listed() -> None:
    """R2.2: a year's survey lists each stretch without a price, with its reason, and is whole."""
    start, end = utc("2026-01-01T00:00"), utc("2027-01-01T00:00")
    work = band("work", "00:00", "24:00", day_types=WORKDAY)
    rest = band("rest", "00:00", "24:00", day_types=REST)
    stray = band("stray", "00:00", "24:00", weekdays=frozenset({6}), months=frozenset({5}))
    faulty = Tariff(
        name="t", zone="UTC", periods=(work, rest, stray), valid_to=utc("2026-12-31T12:00"),
        holidays=frozenset({date(2026, 5, 2)}),
    )  # fmt: skip
    segments = survey([faulty], start, end)
    assert [a.end for a in segments[:-1]] == [b.start for b in segments[1:]]
    assert (segments[0].start, segments[-1].end) == (start, end)
    problems = [(s.start, s.hours, s.status) for s in segments if isinstance(s.status, TariffProblem)]
    overlap = TariffProblem(kind="tariff_overlap", names=("rest", "stray"))
    assert problems == [
        *((utc(f"2026-05-{day:02}T00:00"), 24.0, overlap) for day in (2, 9, 16, 23, 30)),
        (utc("2026-12-31T12:00"), 12.0, TariffProblem(kind="tariff_gap")),
    ]


def test_a_span_with_an_unknown_price_has_no_cost() -> None:
    """R2.2: one gap makes the cost of a day unknown, not smaller; a negative price makes it income."""
    start, end = utc("2026-03-02T00:00"), utc("2026-03-03T00:00")
    holed = tariff(band("most", "00:00", "23:59"), zone="UTC")
    assert span_cost_cny(1000, survey([holed], start, end)) == TariffProblem(kind="tariff_gap", names=("t",))
    sunny = tariff(band("noon", "11:00", "13:00", -0.1), band("else", "13:00", "11:00", 0.2), zone="UTC")
    assert span_cost_cny(2000, survey([sunny], start, end)) == pytest.approx(2 * (22 * 0.2 - 2 * 0.1))


def test_a_change_at_the_end_of_a_span_adds_nothing() -> None:
    """R2.2: a span that ends where the price changes has one segment, half-open like the span."""
    steps = tariff(band("a", "00:00", "12:00"), band("b", "12:00", "24:00"), zone="UTC")
    start, end = utc("2026-03-02T00:00"), utc("2026-03-02T12:00")
    assert kinds([steps], start, end) == [(start, end, "a")]


def test_an_empty_span_has_no_segments() -> None:
    """R2.2: from an instant to itself nothing passes."""
    at = utc("2026-03-02T00:00")
    assert survey([tariff(band("flat", "00:00", "24:00"))], at, at) == []


def test_a_year_is_surveyed_at_once() -> None:
    """R2.2: a year of a tariff with a dozen periods is surveyed in well under a second."""
    hours = [band(f"h{hour}", f"{hour}:00", f"{hour + 2}:00", hour / 10) for hour in range(0, 24, 2)]
    began = perf_counter()
    segments = survey(
        [tariff(*hours, zone="Europe/Berlin")], utc("2026-01-01T00:00"), utc("2027-01-01T00:00")
    )
    assert len(segments) > 4000
    assert perf_counter() - began < 3
