"""EventBridge Scheduler calls this every minute: publish what the outbox holds."""

from __future__ import annotations

from typing import Any

from blsflow.bootstrap import application
from blsflow.observability import count, summarized

_BUDGET_SEC = 40


def handler(_event: dict[str, Any], context: object) -> dict[str, object]:
    """Publish until nothing waits or the budget is spent."""
    with summarized("notify", context) as line:
        report = application().notify(budget_sec=_BUDGET_SEC)
        line |= {
            "published": report.published,
            "failures": {str(row): str(error) for row, error in report.failures.items()},
        }
        if report.failures:
            count("NotificationsNotPublished", len(report.failures))
    return {"published": report.published}
