from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from blsflow.domain.errors import InvalidDocument
from blsflow.domain.freeze import FreezeCause
from blsflow.domain.inputs import ClusterInput
from blsflow.domain.machine import (
    LOCKED,
    OPERATOR_HOLD,
    STOPPED_BY_HUMAN,
    UNDER_BENCHMARK,
    UNKNOWN,
    Status,
)
from blsflow.domain.policy import Mode, NegativeProfitAction, Window, WindowAction
from blsflow.domain.replay_ledger import MAX_POINTS, TooMuchToReplay
from blsflow.domain.tariff import TariffPrice
from tests.replay_scenes import (
    FREE,
    HOUR,
    MIDNIGHT,
    a_reading,
    a_scenario,
    a_tariff,
    backtested,
    hourly,
)
from tests.scenes import CLUSTER, A, B, a_machine, a_stopped_machine

STOP = {"negative_profit_action": NegativeProfitAction.STOP}


def test_a_day_of_two_prices_with_one_best_switch_comes_to_what_is_computed_by_hand() -> None:
    """R4.6: A makes 48 CNY a day throughout, B 24 until noon and 96 after; the policy switches once, at noon."""
    scenario = a_scenario(tariff=a_tariff((0, 12, 0.5), (12, 24, 1.0)), policy={"switch_cost_sec": 1800})
    found = backtested(scenario, hourly({A: [48.0] * 24, B: [24.0] * 12 + [96.0] * 12})).replayed
    # 24 h at 2 CNY an hour, less 12 x 0.5 + 12 x 1.0 for a kilowatt
    assert found.as_is_cny == pytest.approx(48 - 18)
    assert found.always_on_cny == pytest.approx(48 - 18)
    # 12 h at 2, then 12 h at 4 of which half an hour is lost, with the same electricity
    assert found.policy_cny == pytest.approx(24 + 48 - 2 - 18)
    assert found.gain_cny == pytest.approx(22)
    assert found.switch_cost_cny == pytest.approx(2)
    assert found.lost_hours == pytest.approx(0.5)
    assert found.moves == {"switch": 1}
    assert found.known_hours == pytest.approx(24)
    assert not found.unknown_hours


def test_a_machine_is_stopped_through_the_dear_hours_and_started_again() -> None:
    """R4.6, R3.5: 24 CNY a day against 0.5 and 2 CNY per kWh; stopping from noon to 18:00 saves 6 x (2 - 1) CNY."""
    tariff = a_tariff((0, 12, 0.5), (12, 18, 2.0), (18, 24, 0.5))
    scenario = a_scenario(a_machine(A, measured=(A,)), tariff=tariff, policy=STOP)
    found = backtested(scenario, hourly({A: [24.0] * 24})).replayed
    assert found.always_on_cny == pytest.approx(24 - 6 - 12 - 3)
    assert found.policy_cny == pytest.approx(18 - 9)
    assert found.gain_over_always_on_cny == pytest.approx(6)
    assert found.moves == {"start": 1, "stop": 1}


def test_a_negative_price_of_electricity_is_income() -> None:
    """R4.6, R2.2: at -1 CNY per kWh a machine earns 24 CNY a day beside its revenue, and is not stopped."""
    found = backtested(
        a_scenario(a_machine(A, measured=(A,)), tariff=a_tariff((0, 24, -1.0)), policy=STOP),
        hourly({A: [24.0] * 24}),
    ).replayed
    assert found.policy_cny == pytest.approx(48)
    assert not found.moves


def test_hours_without_a_price_are_unknown_and_no_gain() -> None:
    """R4.6, R2.1: where the running project's price is missing, the hours count on no path."""
    prices = hourly({A: [48.0] * 6 + [None] * 6 + [48.0] * 12, B: [96.0] * 24})
    held = backtested(a_scenario(policy={"min_gain_cny_per_day": 1000.0}), prices).replayed
    assert held.known_hours == pytest.approx(18)
    assert held.unknown_hours == {"price_stale": pytest.approx(6)}
    assert held.as_is_cny == pytest.approx(36)
    nothing = backtested(a_scenario(), []).replayed
    assert nothing.known_hours == 0
    assert nothing.gain_cny is None
    assert nothing.gain_over_always_on_cny is None
    assert nothing.unknown_hours == {"price_unknown": pytest.approx(24)}
    document = nothing.document()
    assert (document["policy_cny"], document["as_is_cny"], document["gain_cny"]) == (None, None, None)


def test_hours_that_no_tariff_covers_are_unknown_to_the_second() -> None:
    """R4.6, R2.2: a gap from 06:00 to 09:30 takes 3.5 hours out, also where it ends within a step."""
    tariff = a_tariff((0, 6, 1.0), (10, 24, 1.0))
    half_past = a_tariff((0, 24, 1.0)).periods[0]
    late = type(half_past)(name="late", start_sec=34_200, end_sec=36_000, price_per_kwh=1.0)
    scenario = a_scenario(tariff=a_tariff(periods=(*tariff.periods, late)))
    found = backtested(scenario, hourly({A: [48.0] * 24, B: [24.0] * 24}))
    assert found.replayed.unknown_hours == {"tariff_gap": pytest.approx(3.5)}
    assert found.replayed.policy_cny == pytest.approx(20.5 * (2 - 1))
    spans = found.tariff_spans[CLUSTER]
    assert [span.hours for span in spans] == [6, 3.5, 0.5, 14]
    assert [isinstance(span.status, TariffPrice) for span in spans] == [True, False, True, True]


@pytest.mark.parametrize(
    ("since", "hours"),
    [(datetime(2025, 3, 29, 23, tzinfo=UTC), 23), (datetime(2025, 10, 25, 22, tzinfo=UTC), 25)],
)
def test_a_local_day_has_23_or_25_hours_on_its_dst_days(since: datetime, hours: int) -> None:
    """R4.6, R2.2: one hour of night price less in spring and one more in autumn, none lost and none unknown."""
    scenario = a_scenario(
        tariff=a_tariff((0, 6, 1.0), (6, 24, 2.0), zone="Europe/Berlin"),
        since=since, hours=hours,
        policy={"min_gain_cny_per_day": 1000.0},
    )  # fmt: skip
    found = backtested(scenario, hourly({A: [240.0] * hours}, since)).replayed
    assert found.as_is_cny == pytest.approx(10 * hours - (hours - 18) * 1.0 - 18 * 2.0)
    assert found.known_hours == pytest.approx(hours)


def test_a_machine_of_which_nothing_was_known_stays_unknown() -> None:
    """R4.6, R2.4: an offline machine is neither moved nor counted as earning nothing."""
    silent = a_machine(A, reported_at=UNKNOWN)
    found = backtested(
        a_scenario(silent, a_machine(A, machine_id=8)), hourly({A: [48.0] * 24, B: [96.0] * 24})
    ).replayed
    assert found.unknown_hours == {"offline": pytest.approx(24)}
    assert found.moves == {"switch": 1}
    assert found.known_hours == pytest.approx(24)


def test_what_was_true_only_for_the_moment_does_not_hold_for_the_period() -> None:
    """R4.6, R3.7: a lock or a benchmark run is over soon; an operator's hold lasts, and so does a human's stop."""
    prices = hourly({A: [48.0] * 24, B: [96.0] * 24})
    passing = a_machine(A, flags=LOCKED | UNDER_BENCHMARK, foreign_changes=9, overridden_by=5)
    assert backtested(a_scenario(passing), prices).replayed.moves == {"switch": 1}
    for lasting in (a_machine(A, flags=OPERATOR_HOLD), a_stopped_machine(flags=STOPPED_BY_HUMAN)):
        assert not backtested(a_scenario(lasting), prices).replayed.moves


def test_a_machine_that_rests_by_another_hand_rests_on_every_path() -> None:
    """R4.6, R3.5: nobody could count on it: it earns nothing always on, either."""
    resting = a_machine(A, status=Status.STOPPED)
    found = backtested(a_scenario(resting), hourly({A: [48.0] * 24})).replayed
    assert (found.policy_cny, found.as_is_cny, found.always_on_cny) == (0, 0, 0)
    assert found.known_hours == pytest.approx(24)


def test_a_machine_that_the_scheduler_had_stopped_is_left_stopped_as_it_was() -> None:
    """R4.6: as it was nets 0, always on mines at a loss in the dear half, the policy mines in the cheap one."""
    tariff = a_tariff((0, 12, 0.5), (12, 24, 2.0))
    found = backtested(
        a_scenario(a_stopped_machine(measured=(A,)), tariff=tariff, policy=STOP), hourly({A: [24.0] * 24})
    ).replayed
    assert found.as_is_cny == 0
    assert found.always_on_cny == pytest.approx(24 - 6 - 24)
    assert found.policy_cny == pytest.approx(12 - 6)


def test_dwell_and_thresholds_hold_the_virtual_machine_as_a_real_one() -> None:
    """R4.6, R3.4: after its own switch at 00:00 a machine stays for the four hours of dwell, whatever earns more."""
    prices = hourly({A: [48.0, 96.0] + [96.0] * 22, B: [96.0] + [48.0] * 23})
    found = backtested(a_scenario(policy={"min_dwell_sec": 4 * 3600}), prices).replayed
    assert found.moves == {"switch": 2}
    assert found.decisions["keep/min_dwell"] == 3
    assert found.policy_cny == pytest.approx(4 + 3 * 2 + 20 * 4)


def test_a_tariff_change_ahead_holds_a_start_as_in_ticks() -> None:
    """R4.6, R3.5: one cheap hour gains 0.5 CNY and a start costs 1; the rest of the day is dear."""
    tariff = a_tariff((0, 1, 0.5), (1, 24, 2.0))
    stopped = a_stopped_machine(measured=(A,))
    scenario = a_scenario(stopped, tariff=tariff, policy=STOP | {"switch_cost_sec": 3600})
    found = backtested(scenario, hourly({A: [24.0] * 24})).replayed
    assert not found.moves
    assert found.decisions == {"keep/tariff_change_ahead": 1, "keep/below_restart_threshold": 23}


def test_windows_move_machines_in_a_backtest_too() -> None:
    """R4.6, R3.1: a window policy stops from 10:00 to 12:00 and runs B from 12:00 on, by its own clock."""
    windows = (
        Window(id=1, starts="10:00", ends="12:00", action=WindowAction.STOP),
        Window(id=2, starts="12:00", ends="24:00", action=WindowAction.RUN_PROJECT, project_id=B),
    )
    scenario = a_scenario(policy={"mode": Mode.TIME_WINDOW, "windows": windows})
    found = backtested(scenario, hourly({A: [48.0] * 24, B: [24.0] * 24})).replayed
    assert found.moves == {"start": 1, "stop": 1}
    assert found.policy_cny == pytest.approx(10 * 2 + 12 * 1)


def test_a_step_that_would_freeze_moves_nothing() -> None:
    """R4.6, R6.1: ten of ten machines would move; the step is counted as a freeze, and so is each that tries again."""
    machines = [a_machine(A, machine_id=each) for each in range(1, 11)]
    scenario = a_scenario(*machines, hours=3, policy={"max_move_share": 0.5})
    found = backtested(scenario, hourly({A: [48.0] * 3, B: [96.0] * 3}))
    assert found.freeze_count == 3
    assert [each.cause for each in found.freezes] == [FreezeCause.MOVE_SHARE] * 3
    assert not found.replayed.moves
    assert found.replayed.decisions == {"skip/better_net": 30}


def test_a_jump_is_quarantined_over_time_as_in_ticks() -> None:
    """R4.6, R2.1: a price that rises tenfold moves nothing until it has held for two hours."""
    policy = {"price_jump_factor": 3.0, "price_hold_sec": 7200}
    prices = hourly({A: [48.0] * 6, B: [24.0, 24.0] + [240.0] * 4})
    found = backtested(a_scenario(hours=6, policy=policy), prices).replayed
    assert found.policy_cny == pytest.approx(4 * 2 + 2 * 10)


def test_a_reading_counts_from_when_it_was_received_on() -> None:
    """R4.6: what came in one second after a step is not decided on at that step."""
    late = a_reading(B, MIDNIGHT + timedelta(seconds=1), 96.0)
    readings = [*hourly({A: [48.0] * 2})[:1], late, a_reading(A, MIDNIGHT + HOUR, 48.0)]
    found = backtested(a_scenario(hours=2, policy={"profit_max_age_sec": 3600}), readings).replayed
    assert found.moves == {"switch": 1}
    assert found.policy_cny == pytest.approx(2 + 4)


def test_a_tariff_that_cannot_be_read_makes_its_hours_unknown() -> None:
    """R4.6, R2.2: no price is made up for it."""
    broken = (ClusterInput(cluster_id=CLUSTER, tariffs=(FREE,), fault="periods: none"),)
    found = backtested(a_scenario(clusters=broken), hourly({A: [48.0] * 24})).replayed
    assert found.unknown_hours == {"tariff_gap": pytest.approx(24)}


def test_old_measurements_count_throughout_the_period() -> None:
    """R4.6: a backtest of last year's prices takes machines as they were measured since, and does not call it the future."""
    last_year = MIDNIGHT - timedelta(days=365)
    found = backtested(
        a_scenario(since=last_year), hourly({A: [48.0] * 24, B: [96.0] * 24}, last_year)
    ).replayed
    assert found.moves == {"switch": 1}
    assert found.known_hours == pytest.approx(24)


def test_too_much_is_refused_with_what_to_reduce() -> None:
    """R4.6: machines times steps are bounded, and the refusal says by how much it is too many."""
    with pytest.raises(
        TooMuchToReplay, match=r"2 machines at 24 instants are 48 decisions, and at most 20 .* steps 3 times"
    ):
        a_scenario(a_machine(), a_machine(machine_id=8), limit=20)
    with pytest.raises(TooMuchToReplay):
        a_scenario(machines=(), limit=20)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"hours": 0}, "until"),
        ({"step": timedelta(0)}, "step_sec"),
        ({"since": datetime(2025, 8, 1)}, "since"),  # noqa: DTZ001 - that it names no zone is the point
    ],
)
def test_a_period_that_is_none_is_refused(changes: dict[str, object], field: str) -> None:
    """R4.6: an end before the beginning, or no step, is named."""
    with pytest.raises(InvalidDocument) as refusal:
        a_scenario(**changes)  # type: ignore[arg-type]
    assert refusal.value.field == field


def test_the_series_is_cumulated_and_bounded() -> None:
    """R4.6: at most a thousand points, whose last is the total."""
    scenario = a_scenario(step=timedelta(seconds=60))
    readings = [a_reading(A, MIDNIGHT + timedelta(minutes=each), 48.0) for each in range(1440)]
    found = backtested(scenario, readings).replayed
    assert found.instants == 1440
    assert 500 < len(found.series) <= MAX_POINTS
    assert found.series[-1].at == scenario.until
    assert found.series[-1].policy_cny == found.policy_cny == pytest.approx(48)
    assert found.series[0].policy_cny == pytest.approx(48 * 2 / 1440)


def test_a_result_is_plain_json() -> None:
    """R4.6: times as text, both gains said, nothing that JSON lacks."""
    document = backtested(a_scenario(hours=1), hourly({A: [48.0], B: [96.0]})).replayed.document()
    assert document["gain_cny"] == pytest.approx(2)
    assert document["series"][0]["at"] == "2025-08-01T01:00:00+00:00"
