"""What `blsflow serve` says of a round."""

from __future__ import annotations

from typing import TYPE_CHECKING

from blsflow.flow.decide import DecideReport
from blsflow_cli.serve_voice import Round, Voice
from blsflow_cli.work import DecidedTick

if TYPE_CHECKING:
    import pytest


def _tick(outcome: str, **counts: int) -> DecidedTick:
    report = DecideReport(outcome=outcome, machines=sum(counts.values()), counts=counts)
    return DecidedTick(occurrence_id=1, report=report)


def test_machines_and_ticks_are_counted_apart(capsys: pytest.CaptureFixture[str]) -> None:
    """R11.5: what a line counts adds up: machines by action, and beside them ticks that did not begin, by their reason."""
    ticks = [
        _tick("decided", **{"keep/already_best": 3, "switch/better_net": 1}),
        _tick("frozen"),
        _tick("frozen"),
        _tick("previous_unfinished"),
    ]
    Voice(as_json=False).round(Round(ticks=ticks))
    Voice(as_json=False).round(Round(ticks=ticks[1:]))
    first, second = capsys.readouterr().out.splitlines()
    assert first.endswith(
        "decided 4 machines: 3 keep, 1 switch; ticks without decisions: 2 frozen, 1 previous_unfinished"
    )
    assert second.endswith("Z ticks without decisions: 2 frozen, 1 previous_unfinished")
