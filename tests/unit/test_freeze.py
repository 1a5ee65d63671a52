from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from blsflow.domain.freeze import FreezeCause, freeze_for, tick_failure
from blsflow.domain.policy import Window, WindowAction
from blsflow.domain.reading import Reading, Stale, Unknown
from blsflow.domain.tariff import TariffProblem
from tests.scenes import NOW, A, B, a_market, a_policy, a_window_policy

POLICY = a_policy(freeze_after_failures=3, max_move_share=0.5, freeze_jump_factor=10.0, max_failed_share=0.5)
OPEN = a_policy(max_move_share=None, freeze_jump_factor=None, max_failed_share=1.0)
UNUSABLE: dict[int, float | Reading] = {
    A: Unknown(reason="missing"),
    B: Stale(last_value=1.0, taken_at=NOW, reason="stale"),
}


@pytest.mark.parametrize(
    ("figures", "cause"),
    [
        ({}, None),
        ({"consecutive_failures": 2}, None),
        ({"consecutive_failures": 3}, "profit_unusable"),
        ({"consecutive_failures": 4}, "profit_unusable"),
        ({"flagged": ("BTC",)}, "anomaly_flagged"),
        ({"worst_jump": 10.0}, None),
        ({"worst_jump": 10.1}, "price_jump"),
        ({"moves": 5, "machines": 10}, None),
        ({"moves": 6, "machines": 10}, "move_share"),
        ({"moves": 1, "machines": 1}, None),
        ({"moves": 2, "machines": 2}, "move_share"),
        ({"failed": 4, "finished": 4}, None),
        ({"failed": 3, "finished": 5}, "failed_share"),
        ({"failed": 5, "finished": 10}, None),
        ({"consecutive_failures": 3, "flagged": ("BTC",), "worst_jump": 99.0}, "profit_unusable"),
    ],
)
def test_causes_at_their_limits(figures: dict[str, Any], cause: str | None) -> None:
    """R6.1: consecutive failures, flagged anomalies, a price jump, too many moves, too many failed jobs."""
    freeze = freeze_for(POLICY, **figures)
    assert (freeze and freeze.cause) == cause


def test_limits_that_are_off() -> None:
    """R6.1: the guards that a policy leaves out freeze nothing."""
    assert freeze_for(OPEN, worst_jump=1e9, moves=10, machines=10, failed=10, finished=10) is None


def test_detail_tells_the_figures() -> None:
    """R6.3: a freeze says what crossed its limit."""
    freeze = freeze_for(POLICY, moves=9, machines=10)
    assert freeze is not None
    assert (freeze.cause, freeze.detail) == (FreezeCause.MOVE_SHARE, {"moves": 9, "machines": 10})


@pytest.mark.parametrize(
    ("market", "failure"),
    [
        (a_market({A: 1.0}), None),
        (a_market(UNUSABLE | {A: 1.0}), None),
        (a_market(UNUSABLE), "no_price_known"),
        (a_market({}), "no_price_known"),
        (a_market({99: 1.0}), "no_price_known"),
        (a_market({A: 1.0}, price=TariffProblem(kind="tariff_gap")), "no_tariff_known"),
        (replace(a_market({A: 1.0}), clusters={}), "no_tariff_known"),
        (replace(a_market({A: 1.0}), clusters={}, classes=()), None),
    ],
)
def test_failed_tick(market: Any, failure: str | None) -> None:
    """R2.1, R6.4: a tick without a known candidate price or a known tariff counts; one known of each resets."""
    assert tick_failure(a_policy(), market) == failure


def test_windows_need_no_prices() -> None:
    """R3.1: in time_window mode no price or tariff makes a tick fail."""
    window = Window(id=1, starts="00:00", ends="24:00", action=WindowAction.STOP)
    assert tick_failure(a_window_policy(window), a_market({})) is None


def test_policy_without_candidates_can_still_guard() -> None:
    """R3.5: a policy that only guards against losses has no candidate price to fail on."""
    assert tick_failure(a_policy(candidates=()), a_market({A: 1.0})) is None
