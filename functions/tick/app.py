"""EventBridge Scheduler calls this every minute: read prices, record what is due, enqueue it, sweep."""

from __future__ import annotations

from typing import Any

from blsflow.bootstrap import application
from blsflow.observability import count, gauge, summarized

_BUDGET_SEC = 40


def handler(_event: dict[str, Any], context: object) -> dict[str, object]:
    """Run one scan; a step that failed makes the invocation fail after all the others are done."""
    with summarized("tick", context) as line:
        report = application().tick(budget_sec=_BUDGET_SEC)
        line |= {
            "feed": report.feed,
            "prices": report.prices,
            "recorded": report.recorded,
            "missed": report.missed,
            "broken": report.broken,
            "lag_sec": round(report.lag_sec, 3),
            "closed_unbegun": report.closed_unbegun,
            "expired_attempts": report.expired_attempts,
            "requeued_attempts": report.requeued_attempts,
            "failures": {step: str(error) for step, error in report.failures.items()},
        }
        gauge("TickLagSeconds", report.lag_sec)
        if report.broken:
            count("SchedulesBroken", report.broken)
        if report.failures:
            message = "steps of the tick failed"
            raise ExceptionGroup(message, list(report.failures.values()))
    return {"recorded": report.recorded}
