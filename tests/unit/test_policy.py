from __future__ import annotations

import math
from typing import Any

import pytest

from blsflow.domain.errors import InvalidDocument
from blsflow.domain.policy import Window, WindowAction
from tests.scenes import a_policy


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", ""),
        ("time_zone", "Mars/Olympus"),
        ("time_zone", ""),
        ("candidates", (1, 2, 1)),
        ("candidates", (0,)),
        ("candidates", tuple(range(1, 66))),
        *[(name, 0) for name in ("profit_max_age_sec", "report_max_age_sec", "benchmark_ttl_sec")],
        *[(name, 0) for name in ("holding_time_sec", "decision_validity_sec", "freeze_after_failures")],
        *[
            (name, -1)
            for name in ("price_hold_sec", "min_dwell_sec", "switch_cost_sec", "max_foreign_changes")
        ],
        ("min_gain_cny_per_day", -0.01),
        ("min_gain_cny_per_day", math.nan),
        ("min_gain_ratio", math.inf),
        ("restart_threshold_cny_per_day", math.nan),
        ("price_jump_factor", 1.0),
        ("freeze_jump_factor", math.nan),
        ("max_move_share", 0.0),
        ("max_move_share", 1.1),
        ("max_failed_share", math.nan),
    ],
)
def test_nonsense_is_refused_by_field(field: str, value: Any) -> None:
    """R8.2: a policy that cannot be meant is never decided by; the refusal names the field."""
    with pytest.raises(InvalidDocument) as refused:
        a_policy(**{field: value})
    assert refused.value.field == field


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_move_share", None),
        ("max_move_share", 1.0),
        ("freeze_jump_factor", None),
        ("restart_threshold_cny_per_day", -5.0),
        ("candidates", tuple(range(1, 65))),
        ("max_foreign_changes", 0),
    ],
)
def test_limits_at_their_bounds(field: str, value: Any) -> None:
    """R3.4: the bounds themselves are fine; None turns a freeze limit off."""
    assert getattr(a_policy(**{field: value}), field) == value


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("starts", {"starts": "24:00"}),
        ("starts", {"starts": "8"}),
        ("ends", {"ends": "24:01"}),
        ("weekdays", {"weekdays": frozenset()}),
        ("weekdays", {"weekdays": frozenset({0})}),
        ("weekdays", {"weekdays": frozenset({8})}),
        ("project_id", {"action": WindowAction.RUN_PROJECT}),
        ("project_id", {"action": WindowAction.START}),
        ("project_id", {"project_id": 1}),
    ],
)
def test_window_nonsense_is_refused_by_field(field: str, changes: dict[str, Any]) -> None:
    """R8.2: a window that cannot be meant is refused; what runs something names it, and what stops does not."""
    fine: dict[str, Any] = {"id": 1, "starts": "08:00", "ends": "09:00", "action": WindowAction.STOP}
    with pytest.raises(InvalidDocument) as refused:
        Window(**fine | changes)
    assert (refused.value.field, refused.value.code) == (field, "invalid_document")


def test_window_ids_are_unique() -> None:
    """R3.6: the lower id wins, so no two windows share one."""
    window = Window(id=1, starts="08:00", ends="09:00", action=WindowAction.STOP)
    with pytest.raises(InvalidDocument, match="windows: names a window id twice"):
        a_policy(windows=(window, window))
