"""SQS calls this with prepared attempts: send each one, at most once."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from blsflow.bootstrap import application
from blsflow.delivery import each_message
from blsflow.observability import logger, summarized


def handler(event: dict[str, Any], context: object) -> dict[str, list[dict[str, str]]]:
    """Send every attempt by itself; a message that raised is delivered again and finds what the first one committed."""
    with summarized("execute", context) as line:
        reports = []

        def failed(message_id: str, error: Exception) -> None:
            logger().error(
                "execute_failed", extra={"message_id": message_id, "error": repr(error)}, exc_info=error
            )

        response = each_message(
            event, lambda body: reports.append(application().execute(UUID(body["attempt_id"]))), failed
        )
        line |= {
            "attempts": [
                {
                    "outcome": report.outcome,
                    "attempt_id": str(report.attempt_id),
                    "tick_id": report.tick_id,
                    "job_id": report.job_id,
                    "machines": report.machines,
                    "refused": report.refused,
                }
                for report in reports
            ],
            "failures": len(response["batchItemFailures"]),
        }
    return response
