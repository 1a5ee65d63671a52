from __future__ import annotations

import math
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from blsflow.domain.machine import (
    FLAGGED,
    FOREIGN,
    LOCKED,
    OPERATOR_HOLD,
    RETRY_BACKOFF,
    STOPPED_BY_HUMAN,
    STOPPED_BY_SCHEDULER,
    UNDER_BENCHMARK,
    Status,
)
from blsflow.domain.policy import NegativeProfitAction, Window, WindowAction
from blsflow.domain.reading import Known, Reading, Stale, Unknown
from blsflow.domain.tariff import TariffProblem
from tests.scenes import (
    AT,
    COST_CNY_PER_DAY,
    HASHRATE_HS,
    NOW,
    POWER_W,
    A,
    B,
    C,
    a_benchmark,
    a_class,
    a_machine,
    a_market,
    a_policy,
    a_stopped_machine,
    decide,
    outcome,
)

GOOD = a_market({A: 10, B: 30, C: 20})
STALE = Stale(last_value=1.0, taken_at=NOW - timedelta(hours=1), reason="stale")
UNKNOWN = Unknown(reason="missing")
QUARANTINED = Unknown(reason="quarantined")


# ---------------------------------------------------------------- which project


def test_the_greatest_net_wins() -> None:
    """R3.3: the candidate with the greatest net per day is switched to, with its configuration."""
    verdict = decide(a_policy(), GOOD, a_machine(A))
    assert (verdict.action, verdict.reason) == ("switch", "better_net")
    assert (verdict.from_project, verdict.to_project, verdict.run_config_id) == (A, B, B * 10)
    assert verdict.current_net == pytest.approx(10)
    assert verdict.best_net == pytest.approx(30)


def test_net_not_revenue_decides() -> None:
    """R2.2: a project that earns more but draws more power loses to one with the greater net."""
    hungry = a_benchmark(B, power_w=3 * POWER_W)
    machine = a_machine(A, measured=(A, C))._replace(benchmarks=(a_benchmark(A), hungry, a_benchmark(C)))
    assert outcome(a_policy(), a_market({A: 30, B: 80, C: 70}, price=1.0), machine) == (
        "switch",
        "better_net",
        C,
    )


def test_best_already_running() -> None:
    """R3.3: a machine on the best project stays."""
    assert outcome(a_policy(), GOOD, a_machine(B)) == ("keep", "already_best", None)


@pytest.mark.parametrize("running", [A, B, C])
def test_ties_go_to_the_running_project(running: int) -> None:
    """R3.3: when all net the same, the machine stays on whatever it runs."""
    equal = a_market({A: 20, B: 20 * (1 + 1e-13), C: 20})
    assert outcome(a_policy(), equal, a_machine(running)) == ("keep", "already_best", None)


def test_rounding_is_no_gain() -> None:
    """R3.3: a project that nets more by a rounding error only ties, against the running one and among others."""
    more = 20 * (1 + 1e-13)
    assert outcome(a_policy(), a_market({A: more, B: 20, C: 20}), a_machine(C))[1] == "already_best"
    assert outcome(a_policy(), a_market({A: 10, B: 20, C: more}), a_machine(A))[2] == B
    assert outcome(a_policy(), a_market({A: 10, B: 20, C: 20 * (1 + 1e-8)}), a_machine(A))[2] == C


@pytest.mark.parametrize("order", [(B, C), (C, B)])
def test_ties_between_others_go_to_candidate_order(order: tuple[int, int]) -> None:
    """R3.3: of candidates that net the same the first named wins, in any order of benchmarks."""
    market = a_market({A: 10, B: 20, C: 20})
    for measured in ((A, B, C), (C, B, A)):
        assert outcome(a_policy(candidates=order), market, a_machine(A, measured=measured))[2] == order[0]


def test_running_project_need_not_be_a_candidate() -> None:
    """R3.3: what runs is compared with the candidates even if the policy does not list it."""
    policy = a_policy(candidates=(C,))
    assert outcome(policy, GOOD, a_machine(B)) == ("keep", "already_best", None)
    assert outcome(policy, GOOD, a_machine(A)) == ("switch", "better_net", C)


def test_report_stands_in_for_the_running_projects_benchmark() -> None:
    """R2.4: without a benchmark the machine's own report values what it runs now."""
    machine = a_machine(A, measured=(B,), hashrate_hs=HASHRATE_HS / 2, power_w=POWER_W)
    verdict = decide(a_policy(candidates=(B,)), GOOD, machine)
    assert verdict.current_net == pytest.approx(5)
    assert verdict.action == "switch"


@pytest.mark.parametrize("power_w", [math.nan, 0.0, 9.9, math.inf, -1000.0])
def test_implausible_report_is_no_figure(power_w: float) -> None:
    """R2.3: a report below 10 W while hashing (kW read as W), or without power, values nothing."""
    machine = a_machine(A, measured=(B,), hashrate_hs=HASHRATE_HS, power_w=power_w)
    assert outcome(a_policy(), GOOD, machine) == ("benchmark_required", "current_benchmark_missing", None)


# ---------------------------------------------------------------- who may run it


@pytest.mark.parametrize(
    ("changes", "machine_bits", "expected"),
    [
        ({"allowed": frozenset({A, B})}, {}, B),
        ({"allowed": frozenset({A})}, {}, None),
        ({"denied": frozenset({B})}, {}, C),
        ({"allowed": frozenset({A})}, {"allow_bits": 0b010}, B),
        ({}, {"deny_bits": 0b010}, C),
        ({"denied": frozenset({B})}, {"allow_bits": 0b010}, C),
        ({"run_configs": {A: 1, C: 3}}, {}, C),
        ({"run_configs": {A: 1}}, {}, None),
    ],
)
def test_only_eligible_and_runnable_candidates(
    changes: dict[str, Any], machine_bits: dict[str, Any], expected: int | None
) -> None:
    """R1.2: chosen are those with an allow and no deny at any level, and a runnable configuration."""
    market = a_market({A: 10, B: 30, C: 20}, machines=a_class(**changes))
    assert decide(a_policy(), market, a_machine(A, **machine_bits)).to_project == expected


def test_only_candidates() -> None:
    """R1.2: being eligible never forces a switch; the policy names what it wants considered."""
    assert outcome(a_policy(candidates=(A, C)), GOOD, a_machine(A)) == ("switch", "better_net", C)


def test_project_that_only_a_window_names_is_no_candidate() -> None:
    """R3.1: windows play no part where profit decides, and neither do the projects that they name."""
    window = Window(id=1, starts="00:00", ends="24:00", action=WindowAction.RUN_PROJECT, project_id=B)
    policy = a_policy(candidates=(A, C), windows=(window,))
    assert outcome(policy, GOOD, a_machine(A)) == ("switch", "better_net", C)


def test_losing_eligibility_does_not_move_a_machine() -> None:
    """R1.2: a running project that is eligible no more still counts as what runs."""
    market = a_market({A: 10, B: 30}, machines=a_class(denied=frozenset({B})))
    assert outcome(a_policy(), market, a_machine(B)) == ("keep", "already_best", None)


# ---------------------------------------------------------------- skipped


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"overridden_by": 9}, "overridden"),
        ({"flags": OPERATOR_HOLD}, "operator_hold"),
        ({"flags": UNDER_BENCHMARK}, "under_benchmark"),
        ({"flags": LOCKED}, "locked"),
        ({"flags": LOCKED | OPERATOR_HOLD}, "operator_hold"),
        ({"reported_at": math.nan}, "offline"),
        ({"reported_at": AT - 601}, "offline"),
        ({"reported_at": AT + 31}, "offline"),
        ({"flags": RETRY_BACKOFF}, "retry_backoff"),
        ({"flags": FOREIGN, "foreign_changes": 4}, "foreign_control"),
        ({"overridden_by": 9, "flags": LOCKED, "reported_at": math.nan}, "overridden"),
    ],
)
def test_machines_left_out(changes: dict[str, Any], reason: str) -> None:
    """R3.7: an overridden, held, locked, measured, offline, backing-off or contested machine is skipped."""
    assert outcome(a_policy(), GOOD, a_machine(A, **changes)) == ("skip", reason, None)


@pytest.mark.parametrize(
    "changes",
    [{"reported_at": AT - 600}, {"reported_at": AT + 30}, {"flags": FOREIGN, "foreign_changes": 3}],
)
def test_machines_just_not_left_out(changes: dict[str, Any]) -> None:
    """R2.4: a report of exactly the greatest age counts, and as many foreign changes as the policy allows."""
    assert outcome(a_policy(), GOOD, a_machine(A, **changes))[0] == "switch"


# ---------------------------------------------------------------- unknown inputs


@pytest.mark.parametrize("kind", ["tariff_gap", "tariff_overlap", "tariff_currency"])
@pytest.mark.parametrize("machine", [a_machine(A), a_stopped_machine()])
def test_unknown_electricity_price_holds(kind: str, machine: object) -> None:
    """R2.2: without a known price the machine is held, never costed at 0."""
    market = a_market({A: 10, B: 30}, price=TariffProblem(kind=kind))  # type: ignore[arg-type]
    assert outcome(a_policy(), market, machine) == ("keep", kind, None)  # type: ignore[arg-type]


def test_unknown_cluster_holds() -> None:
    """R2.2: a cluster that has no market is a gap."""
    assert outcome(a_policy(), replace(GOOD, clusters={}), a_machine(A)) == ("keep", "tariff_gap", None)


@pytest.mark.parametrize(
    ("reading", "reason"),
    [
        (UNKNOWN, "price_unknown"),
        (STALE, "price_stale"),
        (QUARANTINED, "price_quarantined"),
        (None, "price_unknown"),
    ],
)
def test_unknown_price_of_what_runs_holds(reading: Reading | None, reason: str) -> None:
    """R2.1: a running project without a known price, or gone from the feed, keeps its machines."""
    revenues = {B: 30.0} | ({} if reading is None else {A: reading})
    assert outcome(a_policy(), a_market(revenues), a_machine(A)) == ("keep", reason, None)


@pytest.mark.parametrize("reading", [UNKNOWN, STALE, QUARANTINED])
def test_candidate_without_a_price_is_passed_over(reading: Reading) -> None:
    """R2.1: the other candidates still decide."""
    assert outcome(a_policy(), a_market({A: 10, B: reading, C: 20}), a_machine(A))[2] == C


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"status": Status.UNKNOWN}, "status_unknown"),
        ({"status": Status.UNKNOWN, "flags": STOPPED_BY_SCHEDULER}, "status_unknown"),
        ({"project_id": 0}, "running_project_unknown"),
    ],
)
def test_unknown_state_holds(changes: dict[str, Any], reason: str) -> None:
    """R2.1: a report that does not say whether, or what, the machine mines is no ground to move it."""
    assert outcome(a_policy(), GOOD, a_machine(A)._replace(**changes)) == ("keep", reason, None)


# ---------------------------------------------------------------- benchmarks


@pytest.mark.parametrize(
    "spoilt",
    [
        {"hashrate_hs": 0.0},
        {"hashrate_hs": -1.0},
        {"hashrate_hs": math.inf},
        {"hashrate_hs": math.nan},
        {"power_w": math.nan},
        {"power_w": 0.0},
        {"power_w": 9.0},
        {"power_w": math.inf},
        {"flags": FLAGGED},
        {"sampled_at": AT + 31},
        {"sampled_at": math.nan},
        {"sampled_at": AT - 2_592_001},
    ],
)
def test_candidate_with_an_unusable_benchmark_is_passed_over_and_requested(spoilt: dict[str, Any]) -> None:
    """R2.3, R3.9: only a plausible, unflagged benchmark within its time counts; another is asked for."""
    machine = a_machine(A)._replace(
        benchmarks=(a_benchmark(A), a_benchmark(B)._replace(**spoilt), a_benchmark(C))
    )
    verdict = decide(a_policy(), GOOD, machine)
    assert verdict.to_project == C
    assert verdict.benchmark_requests == (B,)


@pytest.mark.parametrize("sampled_at", [AT - 2_592_000, AT + 30])
def test_benchmark_just_usable(sampled_at: float) -> None:
    """R2.3: exactly the time to live, and a lead within a clock's drift, still count."""
    benchmarks = (a_benchmark(A), a_benchmark(B, sampled_at=sampled_at))
    assert decide(a_policy(), GOOD, a_machine(A)._replace(benchmarks=benchmarks)).to_project == B


@pytest.mark.parametrize(("revenue_of_b", "requested"), [(24.1, (B,)), (23.9, ())])
def test_expired_benchmark_is_renewed_only_if_it_could_win(
    revenue_of_b: float, requested: tuple[int, ...]
) -> None:
    """R3.9: a quarter more hashrate than last measured must reach the best, here 30 a day."""
    expired = a_benchmark(B, sampled_at=AT - 2_592_001)
    machine = a_machine(C)._replace(benchmarks=(expired, a_benchmark(C)))
    market = a_market({B: revenue_of_b, C: 30})
    assert decide(a_policy(candidates=(B, C)), market, machine).benchmark_requests == requested


def test_nothing_is_measured_that_may_not_run_or_has_no_price() -> None:
    """R3.9: a candidate that is not eligible, not runnable or not priced could not win."""
    market = a_market({A: 10, B: UNKNOWN, C: 30}, machines=a_class(denied=frozenset({C})))
    assert decide(a_policy(), market, a_machine(A, measured=(A,))).benchmark_requests == ()


@pytest.mark.parametrize(
    ("benchmark_of_a", "reason"),
    [
        ((), "current_benchmark_missing"),
        ((a_benchmark(A, sampled_at=AT - 9e9),), "current_benchmark_expired"),
        ((a_benchmark(A, hashrate_hs=0.0),), "current_benchmark_invalid"),
    ],
)
def test_current_net_unknown_asks_for_a_benchmark(benchmark_of_a: tuple[object, ...], reason: str) -> None:
    """R3.9: without a figure for what runs nothing can be compared, so it is measured first."""
    machine = a_machine(A)._replace(benchmarks=(*benchmark_of_a, a_benchmark(B)))  # type: ignore[arg-type]
    verdict = decide(a_policy(candidates=(A, B)), GOOD, machine)
    assert (verdict.action, verdict.reason) == ("benchmark_required", reason)
    assert verdict.benchmark_requests == (A,)


def test_current_net_unknown_and_nothing_to_measure() -> None:
    """R3.9: a machine on a project that is none of the candidates, all of them measured, is left alone."""
    policy = a_policy(candidates=(B,))
    assert outcome(policy, GOOD, a_machine(A, measured=(B,))) == ("keep", "current_net_unknown", None)


def test_no_candidate_measured() -> None:
    """R3.9: when no candidate is measured, nothing is decidable and a benchmark is required."""
    verdict = decide(a_policy(candidates=(B, C)), GOOD, a_machine(A, measured=(A,)))
    assert (verdict.action, verdict.reason) == ("benchmark_required", "candidate_benchmark_missing")
    assert verdict.benchmark_requests == (B, C)


# ---------------------------------------------------------------- hysteresis


@pytest.mark.parametrize(
    ("policy", "changes", "reason"),
    [
        ({"min_dwell_sec": 86_401}, {}, "min_dwell"),
        ({"min_dwell_sec": 86_400}, {}, "better_net"),
        ({}, {"project_since": math.nan}, "min_dwell"),
        ({}, {"project_since": AT + 1}, "min_dwell"),
        ({"min_gain_cny_per_day": 20.1}, {}, "gain_below_absolute"),
        ({"min_gain_cny_per_day": 19.9}, {}, "better_net"),
        ({"min_gain_ratio": 2.01}, {}, "gain_below_ratio"),
        ({"min_gain_ratio": 1.99}, {}, "better_net"),
        # 20 a day over an hour is 0.83; the switch costs 30 a day for its seconds
        ({"holding_time_sec": 3600, "switch_cost_sec": 2401}, {}, "switch_cost_not_recovered"),
        ({"holding_time_sec": 3600, "switch_cost_sec": 2399}, {}, "better_net"),
        ({"min_dwell_sec": 90_000, "min_gain_cny_per_day": 99.0}, {}, "min_dwell"),
    ],
)
def test_what_a_switch_must_clear(policy: dict[str, float], changes: dict[str, Any], reason: str) -> None:
    """R3.4: dwell, absolute and relative gain, and the switch's own cost; the first in the way is named."""
    expected = "switch" if reason == "better_net" else "keep"
    assert outcome(a_policy(**policy), GOOD, a_machine(A, **changes))[:2] == (expected, reason)


def test_tariff_change_shortens_the_time_to_pay_off() -> None:
    """R3.4: only the time up to the next tariff change counts, however long a policy would hold."""
    policy = a_policy(switch_cost_sec=300)
    near, far = (a_market({A: 10, B: 30}, change_in_sec=seconds) for seconds in (440, 460))
    assert outcome(policy, near, a_machine(A))[:2] == ("keep", "switch_cost_not_recovered")
    assert outcome(policy, far, a_machine(A))[0] == "switch"


def test_switch_that_outlasts_the_time_left_loses_no_more_than_that_time() -> None:
    """R3.4: within 300 s a 600 s switch can cost 300 s of revenue; leaving a great loss still pays."""
    machine = a_machine(A)._replace(benchmarks=(a_benchmark(A, power_w=3000.0), a_benchmark(B)))
    market = a_market({A: 1, B: 50}, price=1.0, change_in_sec=300)
    assert outcome(a_policy(switch_cost_sec=600), market, machine) == ("switch", "better_net", B)


def test_relative_gain_of_a_loss() -> None:
    """R3.4: the ratio is of the size of the current net, so that a machine that loses little is not stuck."""
    market = a_market({A: COST_CNY_PER_DAY - 10, B: COST_CNY_PER_DAY + 5}, price=1.0)
    assert outcome(a_policy(min_gain_ratio=1.4), market, a_machine(A))[0] == "switch"
    assert outcome(a_policy(min_gain_ratio=1.6), market, a_machine(A))[:2] == ("keep", "gain_below_ratio")


# ---------------------------------------------------------------- losses, stops and starts

LOSING = a_market({A: 10, B: 20, C: 15}, price=1.0)


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        (NegativeProfitAction.KEEP, "keep"),
        (NegativeProfitAction.STOP, "stop"),
        (NegativeProfitAction.POWER_OFF, "power_off"),
    ],
)
def test_negative_profit_action(action: NegativeProfitAction, expected: str) -> None:
    """R3.5: when even the best net is below zero, the policy says what becomes of the machine."""
    verdict = decide(a_policy(negative_profit_action=action), LOSING, a_machine(A))
    assert (verdict.action, verdict.reason, verdict.to_project) == (expected, "negative_profit", None)
    assert verdict.best_net == pytest.approx(20 - COST_CNY_PER_DAY)


def test_loss_that_a_candidate_mends_is_a_switch() -> None:
    """R3.5: the best net decides, not the current one."""
    market = a_market({A: 10, B: 30}, price=1.0)
    policy = a_policy(negative_profit_action=NegativeProfitAction.STOP)
    assert outcome(policy, market, a_machine(A)) == ("switch", "better_net", B)


def test_zero_net_is_no_loss() -> None:
    """R3.5: exactly zero is not below zero."""
    policy = a_policy(negative_profit_action=NegativeProfitAction.STOP, candidates=(A,))
    assert outcome(policy, a_market({A: COST_CNY_PER_DAY}, price=1.0), a_machine(A))[0] == "keep"


@pytest.mark.parametrize("reading", [UNKNOWN, STALE, QUARANTINED])
def test_measured_candidate_of_unknown_price_prevents_a_stop(reading: Reading) -> None:
    """R2.1: nothing is stopped for a loss that an unknown price might turn into a profit."""
    market = a_market({A: 10, B: reading}, price=1.0)
    policy = a_policy(negative_profit_action=NegativeProfitAction.STOP)
    assert outcome(policy, market, a_machine(A)) == ("keep", "candidate_price_unknown", None)


def test_stopped_machine_starts_above_the_threshold() -> None:
    """R3.5: a machine that the scheduler stopped starts again once the best net clears the threshold."""
    for threshold, expected in ((30.0, "start"), (30.1, "keep")):
        policy = a_policy(restart_threshold_cny_per_day=threshold)
        verdict = decide(policy, GOOD, a_stopped_machine())
        assert verdict.action == expected
        assert verdict.best_net == pytest.approx(30)
        assert verdict.current_net is None
    assert outcome(a_policy(), GOOD, a_stopped_machine()) == ("start", "restart_threshold_cleared", B)
    assert outcome(policy, GOOD, a_stopped_machine()) == ("keep", "below_restart_threshold", None)


def test_powered_off_machine_starts_too() -> None:
    """R3.5: whether it was stopped or powered off makes no difference."""
    assert outcome(a_policy(), GOOD, a_stopped_machine(status=Status.OFF))[0] == "start"


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (STOPPED_BY_HUMAN, "stopped_by_human"),
        (STOPPED_BY_HUMAN | STOPPED_BY_SCHEDULER, "stopped_by_human"),
        (0, "not_ours_to_start"),
    ],
)
def test_others_stops_are_respected(flags: int, reason: str) -> None:
    """R3.5: a machine that a human stopped, or that nobody here did, stays stopped."""
    assert outcome(a_policy(), GOOD, a_stopped_machine(flags=flags)) == ("keep", reason, None)


def test_start_waits_for_a_near_tariff_change() -> None:
    """R3.4: a start that would not pay off before the tariff changes waits."""
    policy = a_policy(switch_cost_sec=600)
    assert (
        outcome(policy, a_market({B: 30}, change_in_sec=600), a_stopped_machine())[1] == "tariff_change_ahead"
    )
    assert outcome(policy, a_market({B: 30}, change_in_sec=601), a_stopped_machine())[0] == "start"


def test_start_that_never_pays_off_is_not_blamed_on_the_tariff() -> None:
    """R3.4: without a change ahead it is the switch's own cost that is not recovered."""
    policy = a_policy(switch_cost_sec=600, holding_time_sec=600)
    assert outcome(policy, a_market({B: 30}), a_stopped_machine())[1] == "switch_cost_not_recovered"


@pytest.mark.parametrize(
    ("revenues", "measured", "expected"),
    [
        ({}, (A, B, C), ("keep", "no_price_known", None)),
        ({A: UNKNOWN, B: STALE, C: QUARANTINED}, (A, B, C), ("keep", "no_price_known", None)),
        ({B: 30.0}, (), ("benchmark_required", "candidate_benchmark_missing", None)),
    ],
)
def test_stopped_machine_with_too_little_known(
    revenues: dict[int, float | Reading], measured: tuple[int, ...], expected: tuple[str, str, None]
) -> None:
    """R2.1: a machine is started on known figures only."""
    assert outcome(a_policy(), a_market(revenues), a_stopped_machine(measured=measured)) == expected


def test_stopped_machine_that_may_run_nothing() -> None:
    """R1.2: without an eligible and runnable candidate there is nothing to start."""
    market = a_market({B: 30}, machines=a_class(allowed=frozenset()))
    assert outcome(a_policy(), market, a_stopped_machine()) == ("keep", "no_candidate", None)


def test_negative_electricity_price_is_income() -> None:
    """R2.2: a negative price adds to the net; the machine that draws more earns more."""
    market = a_market({A: 1}, price=-0.05)
    policy = a_policy(candidates=(A,), negative_profit_action=NegativeProfitAction.STOP)
    verdict = decide(policy, market, a_machine(A))
    assert verdict.action == "keep"
    assert verdict.current_net == pytest.approx(1 + 0.05 * COST_CNY_PER_DAY)


@pytest.mark.parametrize("figures", [{"hashrate_hs": 1e308, "power_w": 1e308}, {"hashrate_hs": 1e308}])
def test_absurd_figures_stop_nothing_but_themselves(figures: dict[str, float]) -> None:
    """R2.3: a benchmark whose net no number can hold is passed over, and the machine is still decided."""
    market = a_market({A: 1e20, B: 3e20, C: 2e20}, price=1.0)
    benchmarks = (a_benchmark(A), a_benchmark(B)._replace(**figures), a_benchmark(C))  # type: ignore[arg-type]
    assert decide(a_policy(), market, a_machine(A)._replace(benchmarks=benchmarks)).to_project == C
    reporting = a_machine(A)._replace(benchmarks=(a_benchmark(C),), hashrate_hs=1e308, power_w=POWER_W)
    assert outcome(a_policy(candidates=(C,)), market, reporting)[:2] == ("keep", "current_net_unknown")


def test_a_stopped_machine_is_held_where_every_revenue_is_absurd() -> None:
    """R3.10: a price so large that a machine would earn no finite number says nothing, and stops nobody else's decision."""
    absurd = Known(value=1e308, taken_at=NOW)
    market = a_market({A: absurd}, machines=a_class(run_configs={A: 110}, allowed=frozenset({A})))
    found = outcome(a_policy(), market, a_stopped_machine(measured=[A]))
    assert found == ("keep", "no_price_known", None)
