"""The worked case that the README shows: one machine of 100 TH/s and 3,050 W on Fujian's August tariff."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from blsflow.domain.policy import NegativeProfitAction
from blsflow_cli import decide_report
from blsflow_cli.decide_document import DecideDocument
from blsflow_cli.decide_inputs import inputs_of

SAMPLE = Path(__file__).parents[2] / "examples" / "decide_worked_case.json"
NETS = {
    "valley": ("2025-08-01T03:00:00+08:00", 32.24),
    "flat": ("2025-08-01T09:00:00+08:00", 15.00),
    "peak": ("2025-08-01T10:30:00+08:00", -0.88),
    "sharp": ("2025-08-01T11:30:00+08:00", -6.90),
}


def answer(at: str, action: str, **machine: Any) -> dict[str, Any]:
    """The one machine's answer at a time of that day, with its inputs as fresh as they were."""
    document = json.loads(SAMPLE.read_text())
    document["now"] = at
    document["policy"]["negative_profit_action"] = action
    document["projects"][0]["price"]["taken_at"] = at
    document["machines"][0] |= {"reported_at": at} | machine
    inputs = inputs_of(DecideDocument.model_validate_json(json.dumps(document)))
    found: dict[str, Any] = decide_report.as_json(decide_report.report_of(inputs))["machines"][0]
    return found


@pytest.mark.parametrize("period", NETS)
@pytest.mark.parametrize("action", list(NegativeProfitAction))
def test_net_and_decision_per_period(period: str, action: NegativeProfitAction) -> None:
    """R2.2, R3.5: revenue minus 3.05 kW x 24 h at the period's price; below zero the policy's action."""
    at, net = NETS[period]
    found = answer(at, action)
    assert found["electricity"]["period"] == period
    assert found["current_net_cny_per_day"] == pytest.approx(net, abs=0.01)
    assert found["projects"][0]["figures"]["net_cny_per_day"] == pytest.approx(net, abs=0.01)
    expected = (action.value, "negative_profit") if net < 0 else ("keep", "already_best")
    assert (found["action"], found["reason"]) == expected


@pytest.mark.parametrize(
    ("period", "expected"),
    [
        ("valley", ("start", "restart_threshold_cleared")),
        ("flat", ("start", "restart_threshold_cleared")),
        ("peak", ("keep", "below_restart_threshold")),
        ("sharp", ("keep", "below_restart_threshold")),
    ],
)
def test_stopped_by_the_scheduler(period: str, expected: tuple[str, str]) -> None:
    """R3.5: once the tariff lets the machine earn again it is started, and not before."""
    found = answer(NETS[period][0], "stop", status="stopped", flags=["stopped_by_scheduler"])
    assert (found["action"], found["reason"]) == expected


def test_start_shortly_before_the_peak_waits() -> None:
    """R3.4: at 09:57 the three minutes left before the peak do not pay for a start."""
    found = answer("2025-08-01T09:57:00+08:00", "stop", status="stopped", flags=["stopped_by_scheduler"])
    assert (found["action"], found["reason"]) == ("keep", "tariff_change_ahead")


def test_sharp_only_in_its_months() -> None:
    """R2.2: what is sharp in August would be peak in October, were the tariff still in force; it is a gap."""
    found = answer("2025-10-01T11:30:00+08:00", "stop")
    assert (found["action"], found["reason"]) == ("keep", "tariff_gap")
