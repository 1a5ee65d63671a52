"""Who of the template's functions reaches the execution service."""

from __future__ import annotations

import re

from local.stack.processes import REPOSITORY

TEMPLATE = (REPOSITORY / "template.yaml").read_text(encoding="utf-8")
_RESOURCE = re.compile(r"^  (\w+):\n((?:(?:    .*)?\n)+)", re.MULTILINE)


def _resources_with(text: str) -> set[str]:
    resources = TEMPLATE.split("\nResources:\n")[1]
    return {name for name, body in _RESOURCE.findall(resources) if text in body}


def test_only_senders_and_followers_reach_the_execution_service() -> None:
    """R8.1, R11.3: its address and token are given to who sends, follows, and runs or cancels at a person's word."""
    functions = {"ExecuteFunction", "ReconcileFunction", "ApiFunction"}
    assert _resources_with("EXECUTION_API_BASE_URL: !Ref ExecutionServiceBaseUrl") == functions
    assert _resources_with("EXECUTION_API_TOKEN_SECRET_ARN: !Ref ExecutionServiceTokenSecretArn") == functions
    assert _resources_with("Resource: !Ref ExecutionServiceTokenSecretArn") == {
        "ExecuteRole",
        "ReconcileRole",
        "ApiRole",
    }
    assert "EXECUTION_API" not in TEMPLATE.split("\nResources:\n")[0]
