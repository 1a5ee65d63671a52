"""What the template promises of live streams."""

from __future__ import annotations

import subprocess
import sys

from blsflow.adapters.postgres.connection import SILENCE_SEC
from functions.live import app
from tests.template import properties, template


def test_a_held_stream_is_answered_before_anybody_gives_up() -> None:
    """R9.3: the hold leaves seconds for connecting before and a last look after, within both time-outs."""
    integration = properties("LiveIntegration")["TimeoutInMillis"] / 1000
    ends = min(integration, properties("LiveFunction")["Timeout"], 30)
    assert ends >= app._HOLD_SEC + 5
    assert ends > app._HOLD_SEC + app._LAST_LOOK_SEC + SILENCE_SEC


def test_only_a_browsers_stream_takes_its_token_from_the_address() -> None:
    """R9.3: one route, whose authorizer no other route uses, and no access log with query strings."""
    routes = {
        properties(name)["RouteKey"]: properties(name).get("AuthorizerId")
        for name, resource in template()["Resources"].items()
        if resource["Type"] == "AWS::ApiGatewayV2::Route"
    }
    by_token = [key for key, authorizer in routes.items() if authorizer == {"Ref": "StreamTokenAuthorizer"}]
    assert by_token == ["GET /api/v1/smart-schedule/stream/browser"]
    assert routes["GET /api/v1/smart-schedule/stream"] == {"Ref": "JwtAuthorizer"}
    assert properties("StreamTokenAuthorizer")["IdentitySource"] == ["$request.querystring.access_token"]
    logged = properties("ApiStage")["AccessLogSettings"]["Format"]
    assert "$context.path" in logged
    assert "query" not in logged.lower()


def test_a_streams_function_loads_neither_router_nor_validator() -> None:
    """R9.3: a stream that reconnects into a new container waits for nothing that it does not need."""
    loaded = subprocess.run(
        [sys.executable, "-c", "import sys, functions.live.app; print(*sys.modules)"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    assert "functions.live.app" in loaded
    assert [
        name for name in loaded if name.startswith(("pydantic", "aws_lambda_powertools.event_handler"))
    ] == []
