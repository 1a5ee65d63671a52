"""SQS calls this with prepared batches and recorded conversations: send each one, at most once."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from blsflow.bootstrap import application
from blsflow.delivery import each_message
from blsflow.observability import count, logger, summarized


def handler(event: dict[str, Any], context: object) -> dict[str, list[dict[str, str]]]:
    """Send every attempt by itself; a message that raised is delivered again and finds what the first one committed."""
    with summarized("execute", context) as line:
        reports = []

        def failed(message_id: str, error: Exception) -> None:
            logger().error(
                "execute_failed", extra={"message_id": message_id, "error": repr(error)}, exc_info=error
            )

        response = each_message(event, lambda body: reports.append(application().send(body)), failed)
        sent = [{name: value for name, value in asdict(report).items() if value} for report in reports]
        line |= {"attempts": sent, "failures": len(response["batchItemFailures"])}
        if any("froze_policy" in each for each in sent):
            count("PolicyFrozen", 1)
    return response
