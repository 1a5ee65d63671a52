"""SQS calls this with recorded occurrences: decide each policy's tick."""

from __future__ import annotations

from collections import Counter
from typing import Any

from aws_lambda_powertools.metrics import MetricUnit

from blsflow.bootstrap import application
from blsflow.delivery import each_message
from blsflow.observability import count, gauge, logger, summarized


def handler(event: dict[str, Any], context: object) -> dict[str, list[dict[str, str]]]:
    """Decide every message by itself; those that raised are delivered again."""
    with summarized("decide", context) as line:
        reports = []

        def failed(message_id: str, error: Exception) -> None:
            logger().error(
                "decide_failed", extra={"message_id": message_id, "error": repr(error)}, exc_info=error
            )

        response = each_message(
            event, lambda body: reports.append(application().decide(int(body["occurrence_id"]))), failed
        )
        decisions: Counter[tuple[str, str]] = Counter()
        for report in reports:
            for key, machines in report.counts.items():
                action, _, reason = key.partition("/")
                decisions[action, reason] += machines
            if report.frozen_for is not None:
                count("PolicyFrozen", 1)
        for (action, reason), machines in decisions.items():
            count("Decisions", machines, dimensions={"action": action, "reason": reason})
        if reports:
            gain = sum(report.gain_cny_per_day for report in reports)
            gauge("EstimatedGainCnyPerDay", gain, unit=MetricUnit.NoUnit)
        line |= {
            "ticks": [
                {
                    "outcome": report.outcome,
                    "policy_id": report.policy_id,
                    "tick_id": report.tick_id,
                    "machines": report.machines,
                    "attempts": report.attempts,
                    "frozen_for": report.frozen_for,
                }
                for report in reports
            ],
            "failures": len(response["batchItemFailures"]),
        }
    return response
