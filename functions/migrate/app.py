"""CloudFormation calls this as a custom resource, so that a deployment brings the schema up to date before its functions."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

from blsflow.bootstrap import application
from blsflow.observability import summarized

_ANSWER_TIMEOUT_SEC = 10


def handler(event: dict[str, Any], context: object) -> dict[str, object]:
    """Migrate on create and update (and on a direct call), do nothing on delete; CloudFormation is always answered."""
    with summarized("migrate", context) as line:
        applied: list[str] = []
        try:
            if event.get("RequestType") != "Delete":
                applied = application().migrate()
        except Exception as error:
            _answer(event, "FAILED", f"{type(error).__name__}: {error}")
            raise
        _answer(event, "SUCCESS", f"applied {applied}")
        line |= {"applied": applied}
    return {"applied": applied}


def _answer(event: dict[str, Any], status: str, reason: str) -> None:
    """Tell CloudFormation, at the address that it gave; a direct call gave none."""
    if "ResponseURL" not in event:
        return
    body = {
        "Status": status,
        "Reason": reason[:1000],
        "PhysicalResourceId": event.get("PhysicalResourceId") or "database-schema",
        "StackId": event["StackId"],
        "RequestId": event["RequestId"],
        "LogicalResourceId": event["LogicalResourceId"],
    }
    request = urllib.request.Request(  # noqa: S310 - CloudFormation's own pre-signed address
        event["ResponseURL"], data=json.dumps(body).encode(), method="PUT", headers={"Content-Type": ""}
    )
    urllib.request.urlopen(request, timeout=_ANSWER_TIMEOUT_SEC).close()  # noqa: S310 - likewise
