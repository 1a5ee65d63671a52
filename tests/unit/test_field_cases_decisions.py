"""Faults that others met in the field, as decisions here, each with the inputs next to it."""

from __future__ import annotations

import math
from datetime import timedelta

import pytest

from blsflow.domain.freeze import freeze_for, tick_failure
from blsflow.domain.machine import FOREIGN, STOPPED_BY_SCHEDULER, Status
from blsflow.domain.policy import NegativeProfitAction, Policy, Window, WindowAction
from blsflow.domain.prices import RawPrice, judge_price, resolve_key, to_cny
from blsflow.domain.reading import Known, Reading
from blsflow.domain.tariff import TariffProblem
from blsflow.domain.units import HashFamily
from tests.scenes import (
    NOW,
    A,
    B,
    a_benchmark,
    a_machine,
    a_market,
    a_policy,
    a_stopped_machine,
    a_window_policy,
    decide,
    outcome,
)

STOPPING = a_policy(candidates=(A,), negative_profit_action=NegativeProfitAction.STOP)


def judged(revenue: float, *, rate: float | None = 7.2) -> Reading:
    """What a feed's figure in USDT per TH/s and day is worth in CNY."""
    raw = RawPrice(
        key="BTC", algorithm=None, revenue=revenue, unit="TH/s", currency="USDT",
        taken_at=NOW - timedelta(seconds=30),
    )  # fmt: skip
    reading = judge_price(
        raw, now=NOW, max_age_sec=300, expected_algorithm=None, expected_family=HashFamily.HASH
    )
    return to_cny(reading, rate)


def follow(policy: Policy, ticks: list[dict[int, float]], start: int) -> list[int]:
    """What a machine runs after each tick, if every decision is carried out."""
    running, seen = start, []
    for revenues in ticks:
        verdict = decide(policy, a_market(revenues), a_machine(running))
        running = verdict.to_project or running
        seen.append(running)
    return seen


def test_s01_close_profits_do_not_flap() -> None:
    """R3.4 (S01): profits that cross by less than the threshold every loop leave the machine where it is."""
    ticks = [{A: 2.0, B: 2.2}, {A: 2.2, B: 2.0}, {A: 1.8, B: 2.4}]
    assert follow(a_policy(min_gain_ratio=0.25), ticks, B) == [B, B, B]
    assert follow(a_policy(min_gain_ratio=0.05), ticks, B) == [B, A, B]
    assert follow(a_policy(min_gain_ratio=0.25), [{A: 2.6, B: 2.0}], B) == [A]


def test_s03_a_later_tick_does_not_follow_an_old_target() -> None:
    """R3.8 (S03): ten minutes later the target has fallen and another is best; the tick then says so."""
    later = 13
    assert decide(a_policy(), a_market({A: 1.0, B: 1.2}), a_machine(A)).to_project == B
    assert decide(a_policy(), a_market({A: 1.0, B: 0.9, later: 1.4}), a_machine(A)).to_project == later
    assert decide(a_policy(), a_market({A: 1.0, B: 0.9}), a_machine(A)).action == "keep"


@pytest.mark.parametrize(
    ("minute", "expected"), [(0, "keep"), (1, "stop"), (3, "stop"), (90, "stop"), (121, "keep")]
)
def test_t20_a_window_that_began_while_nobody_ticked(minute: int, expected: str) -> None:
    """R3.1 (T20): the first tick after a restart stops the machine, as long as the window lasts."""
    policy = a_window_policy(Window(id=1, starts="04:01", ends="06:01", action=WindowAction.STOP))
    now = NOW + timedelta(minutes=minute)
    machine = a_machine(A, reported_at=now.timestamp())
    assert decide(policy, a_market({}, now=now), machine).action == expected


@pytest.mark.parametrize(
    ("to_change_sec", "expected"),
    [(600, "tariff_change_ahead"), (599, "tariff_change_ahead"), (0, "tariff_change_ahead")],
)
def test_t21_no_start_shortly_before_an_unprofitable_period(to_change_sec: int, expected: str) -> None:
    """R3.4 (T21): ten minutes before the price rises, a start that takes ten minutes brings nothing."""
    policy = a_policy(switch_cost_sec=600, restart_threshold_cny_per_day=0.0)
    market = a_market({A: 2.16}, change_in_sec=to_change_sec)
    assert outcome(policy, market, a_stopped_machine())[:2] == ("keep", expected)


def test_t21_no_switch_shortly_before_a_change_but_in_good_time() -> None:
    """R3.4 (T21): the same for a switch; with hours left it is made."""
    policy = a_policy(switch_cost_sec=600)
    soon, late = (a_market({A: 1.0, B: 2.16}, change_in_sec=seconds) for seconds in (600, 7200))
    assert outcome(policy, soon, a_machine(A))[:2] == ("keep", "switch_cost_not_recovered")
    assert outcome(policy, late, a_machine(A))[:2] == ("switch", "better_net")


@pytest.mark.parametrize(
    ("revenue", "rate"),
    [
        (0.00012, None),  # P01: the exchange rate is missing
        (0.0059, 0.0),  # P02: the exchange rate is 0
        (0.0059, math.nan),
        (0.0059, -7.2),
        (-1.0, 7.2),  # P09: the feed's word for no data
        (0.0, 7.2),
        (math.nan, 7.2),  # P08
        (math.inf, 7.2),
    ],
)
def test_p01_p02_p08_p09_unusable_price_is_unknown_not_zero(revenue: float, rate: float | None) -> None:
    """R2.1 (P01, P02, P08, P09): the machine keeps mining, the tick counts as failed, and nothing is stopped."""
    market = a_market({A: judged(revenue, rate=rate)}, price=1.0)
    assert outcome(STOPPING, market, a_machine(A)) == ("keep", "price_unknown", None)
    assert tick_failure(STOPPING, market) == "no_price_known"
    usable = a_market({A: judged(0.0059)}, price=1.0)
    assert outcome(STOPPING, usable, a_machine(A))[0] == "stop"


def test_p02_freezes_after_n_failures() -> None:
    """R6.1 (P02): a rate that stays unusable freezes the policy; it stops no machine."""
    freezes = [freeze_for(STOPPING, consecutive_failures=count) for count in (1, 2, 3)]
    assert [freeze and freeze.cause for freeze in freezes] == [None, None, "profit_unusable"]


def test_p03_unknown_currency_of_a_tariff_is_never_free_electricity() -> None:
    """R2.2 (P03): a tariff in a currency without a rate holds its machines and fails the tick."""
    market = a_market({A: 1.0}, price=TariffProblem(kind="tariff_currency", names=("GBP",)))
    assert outcome(STOPPING, market, a_machine(A)) == ("keep", "tariff_currency", None)
    assert tick_failure(STOPPING, market) == "no_tariff_known"


def test_p08_the_one_finite_price_wins() -> None:
    """R2.1 (P08): NaN and infinity compare as nothing, so the project with a price is chosen."""
    nan, infinite, finite = 11, 12, 13
    market = a_market({nan: judged(math.nan), infinite: judged(math.inf), finite: 1.0})
    assert outcome(a_policy(), market, a_stopped_machine())[::2] == ("start", finite)


def test_p10_mining_resumes_when_profit_is_back() -> None:
    """R3.5 (P10): 0.5, -0.2, 0.6 is mine, stop, mine."""
    policy = a_policy(
        candidates=(A,), negative_profit_action=NegativeProfitAction.STOP, restart_threshold_cny_per_day=0.55
    )
    machine, seen = a_machine(A), []
    for net in (0.5, -0.2, 0.5, 0.6):
        action = decide(policy, a_market({A: 24 + net}, price=1.0), machine).action
        if action == "stop":
            machine = machine._replace(status=Status.STOPPED, flags=STOPPED_BY_SCHEDULER)
        if action == "start":
            machine = a_machine(A)
        seen.append((action.value, machine.status == Status.MINING))
    assert seen == [("keep", True), ("stop", False), ("keep", False), ("start", True)]


def test_p12_renamed_coin_keeps_its_benchmark_and_a_vanished_one_its_machines() -> None:
    """R2.1 (P12): benchmarks hang on the project, not on the feed's word for it; no price is no switch."""
    aliases = {"Ravencoin": "RVN"}
    assert resolve_key("RVN", aliases) == resolve_key("ravencoin", aliases)
    machine = a_machine(A)
    assert outcome(a_policy(), a_market({B: 99.0}), machine) == ("keep", "price_unknown", None)
    assert outcome(a_policy(), a_market({A: 1.0}), machine) == ("keep", "already_best", None)


@pytest.mark.parametrize(("price", "expected"), [(-0.05, "keep"), (0.0, "keep"), (0.05, "stop")])
def test_t17_negative_price_is_income_and_zero_is_a_price(price: float, expected: str) -> None:
    """R2.2 (T17): mining does not stop on a negative price, and a price of 0 is no missing price."""
    machine = a_machine(A)._replace(benchmarks=(a_benchmark(A, power_w=3050.0),))
    verdict = decide(a_policy(candidates=(A,), negative_profit_action=NegativeProfitAction.STOP),
                     a_market({A: 1.0}, price=price), machine)  # fmt: skip
    assert verdict.action == expected
    assert verdict.current_net == pytest.approx(1.0 - 3.05 * 24 * price)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [(0, "switch"), (3, "switch"), (4, "skip"), (255, "skip")],
)
def test_c07_two_controllers_do_not_fight(changes: int, expected: str) -> None:
    """R5.6 (C07): after a set number of foreign changes the machine is left to the other controller."""
    machine = a_machine(A, flags=FOREIGN, foreign_changes=changes)
    verdict = decide(a_policy(max_foreign_changes=3), a_market({A: 1.0, B: 2.0}), machine)
    assert verdict.action == expected
    assert expected == "switch" or verdict.reason == "foreign_control"


@pytest.mark.parametrize(("lead_sec", "expected"), [(30, "switch"), (31, "skip"), (108, "skip")])
def test_l04_report_from_the_future_is_no_fresh_report(lead_sec: int, expected: str) -> None:
    """R2.4 (L04): beyond a clock's drift of 30 seconds the report's time is not to be believed."""
    machine = a_machine(A, reported_at=NOW.timestamp() + lead_sec)
    assert outcome(a_policy(), a_market({A: 1.0, B: 2.0}), machine)[0] == expected


@pytest.mark.parametrize("power_w", [None, 0.142, 0.0])
def test_u02_b05_absent_or_kilowatt_power_is_no_benchmark(power_w: float | None) -> None:
    """R2.3 (U02, B05): power that is missing, or in kW where W is meant, never makes a machine cost nothing."""
    spoilt = a_benchmark(B, power_w=math.nan if power_w is None else power_w)
    machine = a_machine(A)._replace(benchmarks=(a_benchmark(A), spoilt))
    verdict = decide(a_policy(), a_market({A: 30.0, B: 31.0}, price=1.0), machine)
    assert (verdict.to_project, verdict.benchmark_requests) == (None, (B,))


def test_known_readings_are_what_these_cases_say() -> None:
    """R2.1: a usable figure of the feed is known, in CNY per H/s."""
    reading = judged(0.080219)
    assert isinstance(reading, Known)
    assert reading.value == pytest.approx(0.080219 / 1e12 * 7.2, rel=1e-9, abs=0)
