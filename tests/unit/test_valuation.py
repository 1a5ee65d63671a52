"""Inputs as read, turned into the market of a tick."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from blsflow.domain.freeze import tick_failure
from blsflow.domain.inputs import ClusterInput, ProjectInput, Scope, TickInputs
from blsflow.domain.price_level import PriceLevel
from blsflow.domain.prices import RawPrice
from blsflow.domain.reading import Known, Reading, Stale, Unknown
from blsflow.domain.tariff import TariffPrice, TariffProblem
from blsflow.domain.valuation import Valuation, value_market
from tests.scenes import NOW, A, B, C, a_class, a_policy
from tests.unit.tariff_samples import band, tariff

if TYPE_CHECKING:
    from collections.abc import Mapping

    from blsflow.domain.policy import Policy

POLICY = a_policy(price_jump_factor=3.0, price_hold_sec=1800, profit_max_age_sec=300)
FLAT = tariff(band("flat", "00:00", "24:00", 0.5))
RATE = 7.2


def raw(revenue: float = 0.08, *, age_sec: float = 30, **changes: Any) -> RawPrice:
    """A row of the feed in USDT per TH/s and day."""
    plain = RawPrice(
        key="X",
        algorithm="SHA-256",
        revenue=revenue,
        unit="TH/s",
        currency="USDT",
        taken_at=NOW - timedelta(seconds=age_sec),
    )
    return replace(plain, **changes)


def inputs(
    prices: Mapping[int, RawPrice | None] | None = None,
    *,
    levels: Mapping[int, PriceLevel] | None = None,
    clusters: tuple[ClusterInput, ...] = (ClusterInput(cluster_id=1, tariffs=(FLAT,)),),
) -> TickInputs:
    """Projects by the row that the feed sent for them, in a cluster with one flat price."""
    return TickInputs(
        projects=tuple(
            ProjectInput(project_id=project, name=f"P{project}", algorithm="SHA-256", raw=price)
            for project, price in ({A: raw()} if prices is None else prices).items()
        ),
        clusters=clusters,
        classes=tuple(
            a_class(index=index, cluster_id=cluster.cluster_id) for index, cluster in enumerate(clusters)
        ),
        scope=Scope(everything=True),
        others=(),
        levels=levels or {},
    )


def level(usdt_per_th: float, *, age_sec: float = 60, **changes: Any) -> PriceLevel:
    """An accepted level, in the base unit that levels are kept in."""
    plain = PriceLevel(level=usdt_per_th / 1e12, level_at=NOW - timedelta(seconds=age_sec))
    return replace(plain, **changes)


def valued(read: TickInputs, policy: Policy = POLICY, rate: float | None = RATE) -> Valuation:
    """The valuation at `NOW`."""
    return value_market(read, policy, now=NOW, rate=rate)


def revenue_of(valuation: Valuation, project: int) -> Reading:
    """What a project is worth."""
    return valuation.market.projects[project].revenue


def tariffs_of(*currencies: str, rate: float | None = RATE) -> list[TariffPrice | TariffProblem]:
    """What clusters with tariffs in these currencies pay."""
    clusters = tuple(
        ClusterInput(cluster_id=number, tariffs=(replace(FLAT, currency=currency),))
        for number, currency in enumerate(currencies, 1)
    )
    market = valued(inputs(clusters=clusters), rate=rate).market
    return [market.clusters[number].tariff for number in range(1, len(currencies) + 1)]


def test_a_usable_price_is_worth_its_cny() -> None:
    """R2.1: USDT per TH/s and day become CNY per H/s and day by the rate; the first reading is the level."""
    valuation = valued(inputs())
    reading = revenue_of(valuation, A)
    assert isinstance(reading, Known)
    assert reading.value == pytest.approx(0.08 * 7.2 / 1e12)
    assert valuation.levels[A].level == pytest.approx(0.08 / 1e12)
    assert (valuation.flagged, valuation.worst_jump) == ((), 1.0)


@pytest.mark.parametrize("rate", [None, 0.0, -1.0, float("nan"), float("inf")])
@pytest.mark.parametrize("prices", [{A: raw(0.00012)}, {A: raw(0.0059), B: raw(1.0)}])
def test_without_a_rate_nothing_is_worth_anything_known(
    rate: float | None, prices: dict[int, RawPrice | None]
) -> None:
    """R2.1 (P01, P02): a missing or zero rate makes every value unknown, never 0, and the tick a failed one."""
    valuation = valued(inputs(prices), rate=rate)
    for project in prices:
        assert revenue_of(valuation, project) == Unknown(reason="exchange_rate_unknown")
    assert tick_failure(POLICY, valuation.market) == "no_price_known"


def test_a_price_keeps_its_level_while_the_rate_is_missing() -> None:
    """R2.1: levels are kept in the feed's currency, so that a rate that comes back is no jump."""
    before = valued(inputs(), rate=None)
    assert before.levels[A].level == pytest.approx(0.08 / 1e12)
    after = valued(inputs({A: raw(0.081, age_sec=0)}, levels=before.levels))
    assert isinstance(revenue_of(after, A), Known)


@pytest.mark.parametrize(
    ("row", "reason", "flagged"),
    [
        (raw(flags=("spread",)), "flagged_anomalous", True),
        (raw(flags=("lagging", "spread")), "flagged_anomalous", True),
        (raw(age_sec=300, flags=("spread",)), "flagged_anomalous", True),
        (raw(age_sec=301, flags=("spread",)), "flagged_anomalous", False),
        (raw(age_sec=86_400, flags=("spread",)), "flagged_anomalous", False),
        (raw(flags=("lagging",)), "stale", False),
        (raw(age_sec=301), "stale", False),
        (raw(-1.0, flags=("spread",)), "sentinel", False),
        (raw(0.0), "zero", False),
        (None, "missing", False),
    ],
)
def test_only_a_fresh_flag_on_a_figure_is_an_anomaly(row: RawPrice, reason: str, *, flagged: bool) -> None:
    """R2.1, R6.1: monitoring's flag freezes; an old one says nothing of today, and a source that lags is merely stale."""
    valuation = valued(inputs({A: row, B: raw()}))
    reading = revenue_of(valuation, A)
    assert isinstance(reading, Stale | Unknown)
    assert reading.reason == reason
    assert valuation.flagged == ((f"P{A}",) if flagged else ())
    assert A not in valuation.levels, "what cannot be used sets no level"


def test_flags_and_jumps_of_others_projects_are_no_affair_of_this_policy() -> None:
    """R6.1: only its own candidates can freeze a policy, and only theirs are kept as levels."""
    policy = a_policy(candidates=(B,))
    levels = {A: level(0.0001)}
    valuation = valued(inputs({A: raw(flags=("spread",)), C: raw(80.0), B: raw()}, levels=levels), policy)
    assert (valuation.flagged, valuation.worst_jump) == ((), 1.0)
    assert set(valuation.levels) == {A, B}
    assert valuation.levels[A] == levels[A]
    assert isinstance(revenue_of(valuation, C), Known), (
        "a running project that is no candidate is still valued"
    )


@pytest.mark.parametrize(
    ("before", "now", "jump"),
    [
        (1.3, 1300.0, 1000.0),
        (0.0002, 0.2, 1000.0),
        (0.2, 0.0002, 1000.0),
        (1.3, 3.901, 3.0008),
        (1.3, 1.3 / 3.01, 3.01),
    ],
)
def test_a_jump_is_held_back_and_told(before: float, now: float, jump: float) -> None:
    """R2.1 (P05, P06): a thousandfold is a unit's change, not profit: unknown for now, with its factor reported."""
    valuation = valued(inputs({A: raw(now), B: raw()}, levels={A: level(before)}))
    assert revenue_of(valuation, A) == Unknown(reason="quarantined")
    assert valuation.worst_jump == pytest.approx(jump, rel=1e-3)
    assert valuation.levels[A].level == pytest.approx(before / 1e12)
    assert valuation.levels[A].pending_level == pytest.approx(now / 1e12)
    assert isinstance(revenue_of(valuation, B), Known)
    assert tick_failure(POLICY, valuation.market) is None, "one usable price is enough to decide on"


@pytest.mark.parametrize(("before", "now"), [(1.3, 1.31), (1.3, 3.89), (1.3, 0.44)])
def test_a_change_within_the_factor_moves_the_level(before: float, now: float) -> None:
    """R2.1 (P05): the neighbours of a jump are prices like any other, and the level follows them."""
    valuation = valued(inputs({A: raw(now)}, levels={A: level(before)}))
    assert isinstance(revenue_of(valuation, A), Known)
    assert valuation.levels[A] == PriceLevel(level=now / 1e12, level_at=NOW - timedelta(seconds=30))


@pytest.mark.parametrize(("held_sec", "admitted"), [(1799, False), (1800, True), (7200, True)])
def test_a_new_level_counts_once_it_has_held(held_sec: float, *, admitted: bool) -> None:
    """R2.1: the quarantine ends when the new level has stood for `price_hold_sec`."""
    since = NOW - timedelta(seconds=30 + held_sec)
    pending = level(1.3, age_sec=90, pending_level=1300e-12, pending_since=since)
    valuation = valued(inputs({A: raw(1290.0)}, levels={A: pending}))
    assert isinstance(revenue_of(valuation, A), Known) is admitted


def test_a_tariff_in_dollars_is_priced_by_the_rate_and_one_in_pounds_is_not() -> None:
    """R2.2 (P03): dollars have a rate here; pounds have none, which is unknown electricity and never free."""
    cny, usd, usdt, gbp = tariffs_of("CNY", "USD", "USDT", "GBP")
    assert isinstance(cny, TariffPrice)
    assert cny.price_cny_per_kwh == pytest.approx(0.5)
    for dollars in (usd, usdt):
        assert isinstance(dollars, TariffPrice)
        assert dollars.price_cny_per_kwh == pytest.approx(3.6)
    assert isinstance(gbp, TariffProblem)
    assert gbp.kind == "tariff_currency"


def test_a_tariff_in_dollars_is_unknown_without_a_rate() -> None:
    """R2.2 (P01): without the rate only prices in CNY are known."""
    cny, usd = tariffs_of("CNY", "USD", rate=None)
    assert isinstance(cny, TariffPrice)
    assert isinstance(usd, TariffProblem)


def test_a_fleet_whose_electricity_is_unpriced_fails_its_tick() -> None:
    """R2.2, R6.1 (P03): all clusters in pounds: every tick counts as a failure, which freezes in the end."""
    pounds = ClusterInput(cluster_id=1, tariffs=(replace(FLAT, currency="GBP"),))
    assert tick_failure(POLICY, valued(inputs(clusters=(pounds,))).market) == "no_tariff_known"


def test_a_tariff_that_cannot_be_read_stops_its_own_cluster_only() -> None:
    """R2.2: the fault is named, its cluster's price is unknown, and the neighbour's is what it was."""
    clusters = (
        ClusterInput(cluster_id=1, tariffs=(), fault="starts: not a time of day"),
        ClusterInput(cluster_id=2, tariffs=(FLAT,)),
        ClusterInput(cluster_id=3, tariffs=()),
    )
    market = valued(inputs(clusters=clusters)).market
    bad, good, none = (market.clusters[number].tariff for number in (1, 2, 3))
    assert bad == TariffProblem(kind="tariff_gap", names=("starts: not a time of day",))
    assert isinstance(good, TariffPrice)
    assert isinstance(none, TariffProblem)
    assert none.kind == "tariff_gap"
    assert tick_failure(POLICY, market) is None


@pytest.mark.parametrize(("holding_time_sec", "seen"), [(3600, False), (14_400, True)])
def test_the_next_price_change_is_looked_for_within_the_holding_time(
    holding_time_sec: int, *, seen: bool
) -> None:
    """R3.4: at noon in Shanghai, with a peak from 14:00 on, a gain counts on two hours at most."""
    day = tariff(band("flat", "00:00", "14:00"), band("peak", "14:00", "24:00", 0.9))
    cluster = ClusterInput(cluster_id=1, tariffs=(day,))
    policy = a_policy(holding_time_sec=holding_time_sec)
    found = valued(inputs(clusters=(cluster,)), policy).market.clusters[1].next_change_at
    assert found == (NOW + timedelta(hours=2) if seen else None)
