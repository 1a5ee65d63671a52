"""Tariffs against the plain reading of their definition, minute by minute."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from blsflow.domain.tariff import Tariff, TariffPrice, TariffProblem, daily_cost_cny, price_at, price_in_force
from blsflow.domain.tariff_calendar import Season
from blsflow.domain.tariff_period import TariffPeriod
from blsflow.domain.tariff_survey import next_change, survey

ZONES = ["Asia/Shanghai", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Sao_Paulo",
         "Africa/Cairo", "Asia/Beirut", "Pacific/Apia", "Europe/Moscow", "Asia/Kathmandu"]  # fmt: skip
QUARTER = timedelta(minutes=15)
# Days around which at least one of the zones moves its clock or its date, and the year's end.
STARTS = ["2018-02-17", "2018-11-03", "2026-03-07", "2026-03-28", "2026-04-04", "2026-10-03", "2026-10-24",
          "2026-10-31", "2011-12-29", "2014-10-25", "2026-12-30", "2024-02-28"]  # fmt: skip

quarters = st.integers(0, 95).map(lambda quarter: quarter * 900)
periods = st.builds(
    TariffPeriod,
    name=st.sampled_from("abcde"),
    price_per_kwh=st.sampled_from([-0.1, 0.0, 0.3, 0.9]),
    start_sec=quarters,
    end_sec=quarters | st.just(86_400),
    weekdays=st.frozensets(st.integers(1, 7), min_size=3),
    months=st.frozensets(st.integers(1, 12), min_size=9),
    seasons=st.sampled_from([(), (Season(first=(10, 25), last=(3, 28)),)]),
    day_types=st.frozensets(st.sampled_from(["workday", "weekend", "holiday"]), min_size=2),
    priority=st.integers(0, 3),
)
starts = st.sampled_from(STARTS).map(lambda day: datetime.fromisoformat(day).replace(tzinfo=UTC))


@st.composite
def tariff_sets(draw: st.DrawFn) -> tuple[list[Tariff], datetime]:
    """One or two tariffs of a cluster near a start, the second from some hour on."""
    zone, start = draw(st.sampled_from(ZONES)), draw(starts)
    change = start + draw(st.integers(0, 288)) * QUARTER
    holidays = draw(st.frozensets(st.integers(0, 4).map(lambda days: (start + timedelta(days=days)).date())))
    first = Tariff(
        name="first",
        zone=zone,
        periods=tuple(draw(st.lists(periods, max_size=5))),
        holidays=holidays,
        valid_to=draw(st.none() | st.just(change)),
    )
    second = Tariff(
        name="second", zone=zone, periods=tuple(draw(st.lists(periods, max_size=3))), valid_from=change
    )
    return draw(st.sampled_from([[first], [first, second]])), start


@settings(max_examples=80, deadline=None)
@given(tariff_sets(), st.integers(0, 95))
def test_the_next_change_is_the_first_quarter_hour_that_differs(
    drawn: tuple[list[Tariff], datetime], offset: int
) -> None:
    """R2.2: with bounds on quarter hours, stepping finds the same next change, DST days included."""
    tariffs, start = drawn
    at = start + offset * QUARTER
    now = price_in_force(tariffs, at)
    steps = (at + step * QUARTER for step in range(1, 4 * 96 + 1))
    stepped = next((step for step in steps if price_in_force(tariffs, step) != now), None)
    assert next_change(tariffs, at, 4 * 96 * QUARTER) == stepped


@settings(max_examples=80, deadline=None)
@given(tariff_sets())
def test_a_survey_is_a_partition_that_agrees_with_every_instant(drawn: tuple[list[Tariff], datetime]) -> None:
    """R2.2: segments are whole, ordered, unlike their neighbours, and right at every quarter hour."""
    tariffs, start = drawn
    end = start + timedelta(days=4)
    segments = survey(tariffs, start, end)
    assert (segments[0].start, segments[-1].end) == (start, end)
    for before, after in pairwise(segments):
        assert before.end == after.start
        assert before.status != after.status
    for segment in segments:
        at = segment.start
        while at < segment.end:
            assert price_in_force(tariffs, at) == segment.status
            at += QUARTER


@settings(max_examples=100, deadline=None)
@given(tariff_sets(), st.integers(0, 4 * 86_400 - 1))
def test_a_price_is_that_of_the_one_highest_period_or_unknown(
    drawn: tuple[list[Tariff], datetime], second: int
) -> None:
    """R2.2: a known price is that of the only period of highest priority; else it is a problem."""
    (tariff, *_), start = drawn
    at = start + timedelta(seconds=second)
    result = price_at(tariff, at)
    alone = [
        period
        for period in tariff.periods
        if isinstance(price_at(replace(tariff, periods=(period,)), at), TariffPrice)
    ]
    top = [period for period in alone if period.priority == max(other.priority for other in alone)]
    if len(top) == 1:
        assert isinstance(result, TariffPrice)
        assert (result.period, result.price_cny_per_kwh) == (top[0].name, top[0].price_per_kwh)
    else:
        assert isinstance(result, TariffProblem)
        assert result.kind == ("tariff_overlap" if top else "tariff_gap")


@given(st.floats(0, 1e5), st.floats(-5, 5), st.floats(-5, 5))
def test_cost_grows_with_the_price_through_zero(power_w: float, one: float, other: float) -> None:
    """R2.2: a dearer kilowatt hour never costs less, and the cost has the price's sign."""
    low, high = sorted((one, other))
    assert daily_cost_cny(power_w, low) <= daily_cost_cny(power_w, high)
    assert daily_cost_cny(power_w, low) * low >= 0
