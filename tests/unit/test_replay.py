from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from blsflow.domain.machine import STOPPED_BY_SCHEDULER, UNKNOWN, Machine, Status
from blsflow.domain.policy import NegativeProfitAction
from blsflow.domain.replay import Followed, Instant, Stretch
from blsflow.domain.replay_ledger import Ledger, Replayed
from blsflow.domain.shadow import speaks_for, stretches_of
from blsflow.domain.tariff import TariffProblem
from tests.scenes import AT, CLUSTER, HASHRATE_HS, NOW, POWER_W, A, B, C, a_machine, a_market, a_policy

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

HOUR = timedelta(hours=1)


def replayed(
    records: Sequence[Machine], revenues: Mapping[int, float], *, price: float = 0.0, **policy: Any
) -> Replayed:
    """One machine as an hour after the other finds it, at unchanged prices."""
    fleet: dict[int, Followed] = {}
    ledger = Ledger(len(records))
    for hour, record in enumerate(records):
        now = NOW + hour * HOUR
        market = a_market(revenues, price=price, now=now)
        stretches = stretches_of(market, now + HOUR, HOUR)
        instant = Instant(a_policy(**policy), market, stretches, fleet, ledger)
        heard = record._replace(reported_at=AT + hour * 3600)
        instant.settle(instant.decide([heard]), withheld=False)
        ledger.end_instant(now + HOUR)
    return ledger.replayed(1)


def test_until_its_first_move_a_policy_is_credited_with_nothing_that_others_did() -> None:
    """R4.5: somebody switches the machine from A to B; a policy that would not have moved is as it was, costs included."""
    records = [a_machine(A), a_machine(B), a_machine(B)]
    found = replayed(records, {A: 24.0, B: 48.0, C: 1.0}, min_gain_cny_per_day=100.0, switch_cost_sec=900)
    assert not found.moves
    assert found.policy_cny == found.as_is_cny == pytest.approx(1 + 2 * (1 - 0.25) + 2)
    assert found.gain_cny == 0
    assert found.always_on_cny == pytest.approx(3)


def test_after_its_own_move_a_policy_does_not_follow_what_others_switch() -> None:
    """R4.5: the virtual machine is on B from the first hour on; that the real one goes to C later is as it was."""
    found = replayed([a_machine(A), a_machine(A), a_machine(C)], {A: 24.0, B: 48.0, C: 12.0})
    assert found.moves == {"switch": 1}
    assert found.policy_cny == pytest.approx(6)
    assert found.as_is_cny == pytest.approx(1 + 1 + 0.5)


def test_a_rest_by_another_hand_ends_a_virtual_machines_mining_until_it_ends() -> None:
    """R4.5: switched to B, stopped by somebody for two hours, then back on B, where the policy had left it."""
    resting = a_machine(A, status=Status.STOPPED, hashrate_hs=0.0)
    found = replayed([a_machine(A), resting, resting, a_machine(A)], {A: 24.0, B: 48.0, C: 1.0})
    assert found.moves == {"switch": 1}
    assert found.decisions["keep/not_ours_to_start"] == 2
    assert found.policy_cny == pytest.approx(2 + 0 + 0 + 2)
    assert found.as_is_cny == found.always_on_cny == pytest.approx(1 + 1)


def test_a_rest_by_another_hand_does_not_undo_the_policys_own_stop() -> None:
    """R4.5, R3.5: stopped by the policy, then by somebody too; when that is over it is the policy's to start again."""
    resting = a_machine(A, measured=(A,), status=Status.STOPPED)
    mining = a_machine(A, measured=(A,))
    stop = {"negative_profit_action": NegativeProfitAction.STOP}
    found = replayed([mining, resting, mining], {A: 12.0}, price=1.0, **stop)
    assert found.moves == {"stop": 1}
    assert found.decisions == {
        "keep/below_restart_threshold": 1,
        "keep/not_ours_to_start": 1,
        "stop/negative_profit": 1,
    }
    assert found.policy_cny == 0
    assert found.always_on_cny == pytest.approx(2 * (0.5 - 1))


def test_what_the_scheduler_really_stopped_still_counts_as_on_where_always_on() -> None:
    """R4.5: where the policy executed, its stop is how it was; always on would have mined at a loss."""
    stopped = a_machine(A, measured=(A,), status=Status.OFF, flags=STOPPED_BY_SCHEDULER)
    found = replayed([stopped, stopped], {A: 12.0}, price=1.0)
    assert (found.policy_cny, found.as_is_cny) == (0, 0)
    assert found.always_on_cny == pytest.approx(2 * (0.5 - 1))


def test_a_report_says_what_a_machine_does_only_where_it_runs() -> None:
    """R4.5, R3.3: unmeasured A is worth what the machine reports; on B, where it never was, that report says nothing."""
    on_a = a_machine(A, measured=(B,), hashrate_hs=HASHRATE_HS / 2, power_w=POWER_W)
    found = replayed([on_a, on_a], {A: 24.0, B: 48.0})
    assert found.as_is_cny == pytest.approx(2 * 0.5)
    assert found.policy_cny == pytest.approx(2 * 2)
    # after the move to B only A's report is known, so that the next hour compares B with nothing
    assert found.decisions == {"keep/already_best": 1, "switch/better_net": 1}


def test_what_a_machine_hashes_on_another_project_says_nothing_of_the_virtual_one() -> None:
    """R4.5, R3.3: on B virtually, whose measurement is gone, while the real machine reports from A: B is not known."""
    measured = a_machine(A, measured=(A, B))
    reporting = a_machine(A, measured=(A,), hashrate_hs=HASHRATE_HS, power_w=POWER_W)
    found = replayed([measured, reporting], {A: 24.0, B: 48.0})
    assert found.decisions == {"benchmark_required/current_benchmark_missing": 1, "switch/better_net": 1}
    assert found.unknown_hours == {"current_net_unknown": 1.0}


def test_hours_are_unknown_by_the_first_reason_that_holds() -> None:
    """R4.5: silent machines, words that say nothing, and projects that nobody named."""
    for record, reason in (
        (a_machine(A, status=Status.UNKNOWN), "status_unknown"),
        (a_machine(0), "running_project_unknown"),
        (a_machine(A, measured=()), "current_net_unknown"),
        (a_machine(A, measured=(), hashrate_hs=1e300, power_w=UNKNOWN), "current_net_unknown"),
        (a_machine(99), "price_unknown"),
    ):
        found = replayed([record], {A: 24.0})
        assert found.unknown_hours == {reason: 1.0}
        assert found.gain_cny is None


def test_a_tick_speaks_for_twice_the_usual_distance() -> None:
    """R4.5: one late tick does not stretch what the others are taken for."""
    minutes = (0, 1, 2, 3, 60, 61)
    assert speaks_for([NOW + timedelta(minutes=each) for each in minutes]) == timedelta(minutes=2)
    assert speaks_for([NOW]) == timedelta(minutes=5)


def test_electricity_is_known_until_the_change_that_the_tick_knew_of() -> None:
    """R4.5, R2.2: half an hour at the tick's price, a quarter after the change, and a quarter for which it does not speak."""
    market = a_market({A: 1.0}, price=2.0, change_in_sec=1800)
    stretch = stretches_of(market, NOW + HOUR, timedelta(minutes=45))[CLUSTER]
    assert stretch == Stretch(0.5, 0.001, {"no_tick": 0.25, "tariff_change": 0.25})
    gap = a_market({A: 1.0}, price=TariffProblem(kind="tariff_overlap"))
    assert stretches_of(gap, NOW + HOUR, HOUR)[CLUSTER] == Stretch(
        0.0, 0.0, {"no_tick": 0.0, "tariff_overlap": 1.0}
    )
