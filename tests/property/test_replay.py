"""What holds for every backtest, whatever the prices, the tariff and the fleet."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blsflow.domain.backtest import BacktestRun
from blsflow.domain.machine import OPERATOR_HOLD, UNKNOWN, Status
from blsflow.domain.policy import NegativeProfitAction
from tests.replay_scenes import HOUR, MIDNIGHT, a_scenario, a_tariff, backtested, hourly
from tests.scenes import A, B, C, a_machine, a_stopped_machine

if TYPE_CHECKING:
    from blsflow.domain.backtest import Scenario
    from blsflow.domain.prices import PriceReading
    from blsflow.domain.replay_ledger import Replayed

HOURS = 6
money = st.sampled_from([1.0, 12.0, 24.0, 30.0, 48.0, 96.0])
feeds = st.lists(st.one_of(st.none(), money, money), min_size=HOURS, max_size=HOURS)
known_feeds = st.lists(money, min_size=HOURS, max_size=HOURS)
readings = st.builds(lambda a, b, c: hourly({A: a, B: b, C: c}), feeds, feeds, feeds)
known_readings = st.builds(lambda a, b, c: hourly({A: a, B: b, C: c}), known_feeds, known_feeds, known_feeds)
prices = st.sampled_from([-1.0, 0.0, 0.5, 1.0, 2.0])
tariffs = st.builds(
    lambda first, second, start: a_tariff((0, 3, first), (start, 24, second)), prices, prices, st.sampled_from([3, 4])
)  # fmt: skip
projects = st.sampled_from([A, B, C])
fleets = st.lists(
    st.one_of(
        st.builds(a_machine, projects),
        st.builds(a_machine, projects, measured=st.just((A, B))),
        st.builds(a_machine, projects, status=st.just(Status.STOPPED)),
        st.builds(a_machine, projects, flags=st.just(OPERATOR_HOLD)),
        st.builds(a_machine, projects, reported_at=st.just(UNKNOWN)),
        st.builds(a_stopped_machine),
    ),
    min_size=1,
    max_size=4,
).map(lambda machines: [machine._replace(machine_id=at + 1) for at, machine in enumerate(machines)])
policies: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "switch_cost_sec": st.sampled_from([0, 600, 5400]),
        "min_dwell_sec": st.sampled_from([0, 7200]),
        "negative_profit_action": st.sampled_from(list(NegativeProfitAction)),
        "price_jump_factor": st.sampled_from([3.0, 1e9]),
    }
)
scenarios = st.builds(
    lambda fleet, tariff, policy: a_scenario(*fleet, tariff=tariff, policy=policy, hours=HOURS), fleets, tariffs, policies
)  # fmt: skip


def same(one: Replayed, other: Replayed) -> bool:
    """Whether two replays came to the same, but for the rounding of sums."""
    sums = ("known_hours", "policy_cny", "as_is_cny", "always_on_cny", "switch_cost_cny", "lost_hours")
    return (
        all(getattr(one, name) == pytest.approx(getattr(other, name), abs=1e-9) for name in sums)
        and dict(one.unknown_hours) == pytest.approx(dict(other.unknown_hours))
        and (one.moves, one.decisions) == (other.moves, other.decisions)
    )


@given(scenarios, readings)
def test_every_machine_hour_is_known_or_unknown_and_counts_once(
    scenario: Scenario, past: list[PriceReading]
) -> None:
    """R4.6: known and unknown hours together are all there are."""
    found = backtested(scenario, past).replayed
    total = found.known_hours + sum(found.unknown_hours.values())
    assert total == pytest.approx(HOURS * len(scenario.machines))


@given(scenarios, readings)
def test_a_policy_that_never_moves_is_as_it_was(scenario: Scenario, past: list[PriceReading]) -> None:
    """R4.6: without a move there is no gain and no cost."""
    still = replace(
        scenario,
        policy=replace(
            scenario.policy,
            min_gain_cny_per_day=1e9,
            restart_threshold_cny_per_day=1e9,
            negative_profit_action=NegativeProfitAction.KEEP,
        ),
    )
    found = backtested(still, past).replayed
    assert not found.moves
    assert found.policy_cny == found.as_is_cny
    assert found.switch_cost_cny == 0


@given(scenarios, readings)
def test_the_order_of_machines_does_not_matter(scenario: Scenario, past: list[PriceReading]) -> None:
    """R4.6, R3.10: a fleet read backwards comes to the same."""
    backwards = replace(scenario, machines=scenario.machines[::-1])
    assert same(backtested(scenario, past).replayed, backtested(backwards, past).replayed)


@given(scenarios, readings, st.integers(1, HOURS - 1))
def test_a_period_in_two_parts_with_its_state_carried_is_the_whole(
    scenario: Scenario, past: list[PriceReading], hours: int
) -> None:
    """R4.6: what a machine was moved to, dwells on and still pays for crosses the border."""
    run = BacktestRun(scenario, past)
    list(run.advance(MIDNIGHT + hours * HOUR))
    half = run.backtested()
    assert half.until == MIDNIGHT + hours * HOUR
    list(run.advance(scenario.until))
    assert run.backtested() == backtested(scenario, past)


@given(st.builds(a_machine, projects), tariffs, known_readings)
def test_without_costs_and_thresholds_a_policy_never_earns_less(
    machine: Any, tariff: Any, past: list[PriceReading]
) -> None:
    """R4.6: where all is known, what moves for free and stops what loses gains something or nothing."""
    policy = {"negative_profit_action": NegativeProfitAction.STOP, "restart_threshold_cny_per_day": 0.0}
    found = backtested(a_scenario(machine, tariff=tariff, policy=policy, hours=HOURS), past).replayed
    assert found.policy_cny >= found.as_is_cny - 1e-9
    assert found.policy_cny >= found.always_on_cny - 1e-9


@given(scenarios, readings)
def test_a_shift_of_the_whole_past_changes_nothing(scenario: Scenario, past: list[PriceReading]) -> None:
    """R4.6, R3.10: the same day a week earlier comes to the same; nothing looks at today."""
    week = timedelta(days=7)
    earlier = replace(scenario, since=scenario.since - week, until=scenario.until - week)
    shifted = [
        reading._replace(
            received_at=reading.received_at - week,
            raw=replace(reading.raw, taken_at=reading.raw.taken_at - week),
        )
        for reading in past
    ]
    machines = tuple(
        m._replace(project_since=m.project_since - week.total_seconds()) for m in scenario.machines
    )
    earlier = replace(earlier, machines=machines)
    assert same(backtested(scenario, past).replayed, backtested(earlier, shifted).replayed)
