"""Calling the API's handler as API Gateway does, on a real database, as anybody."""

from __future__ import annotations

import base64
import json
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from functions.api.app import handler

if TYPE_CHECKING:
    from collections.abc import Mapping

PREFIX = "/api/v1/smart-schedule"
ALL_SCOPES = "schedule:read schedule:write schedule:execute schedule:admin"


@dataclass(frozen=True, kw_only=True)
class Answered:
    """What came back; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: Any

    @property
    def code(self) -> str | None:
        """The problem's code; None for an answer that is no problem."""
        is_problem = self.headers["content-type"] == "application/problem+json"
        return str(self.body["code"]) if is_problem else None

    @property
    def fields(self) -> list[str]:
        """The fields that a refusal names."""
        return [error["field"] for error in self.body["params"]["errors"]]


@dataclass(frozen=True, kw_only=True)
class Api:
    """Somebody with a token."""

    tenant: str | None = "acme"
    subject: str = "ann"
    scopes: str = ALL_SCOPES
    expires_in: float = 300
    claims: Mapping[str, object] = field(default_factory=dict)

    def get(self, path: str, **query: object) -> Answered:
        """Read something."""
        return self.call("GET", path, query=query)

    def post(self, path: str, body: object = None, **headers: str) -> Answered:
        """Do something; header names have underscores for hyphens."""
        return self.call("POST", path, body=body, headers=headers)

    def put(self, path: str, body: object = None, **headers: str) -> Answered:
        """Change something."""
        return self.call("PUT", path, body=body, headers=headers)

    def call(  # noqa: PLR0913 - the parts of a request
        self,
        method: str,
        path: str,
        *,
        body: object = None,
        query: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
        request_id: str = "request-1",
    ) -> Answered:
        """Call the handler with an event of payload format 2.0; a text or bytes body is sent as it is."""
        event = {
            "version": "2.0",
            "rawPath": PREFIX + path,
            "rawQueryString": urlencode(query or {}, quote_via=quote),
            "queryStringParameters": {name: str(value) for name, value in (query or {}).items()},
            "headers": {"content-type": "application/json"}
            | {name.replace("_", "-"): value for name, value in (headers or {}).items()},
            "requestContext": {
                "requestId": request_id,
                "stage": "$default",
                "http": {"method": method, "path": PREFIX + path},
                **self._authorizer(),
            },
            "isBase64Encoded": False,
            **_body(body),
        }
        answer = handler(event, None)
        text = answer.get("body") or "null"
        return Answered(
            status=answer["statusCode"],
            headers={name.lower(): value for name, value in answer["headers"].items()},
            body=json.loads(text, parse_constant=_refuse),
        )

    def _authorizer(self) -> dict[str, Any]:
        if self.tenant is None:
            return {}
        claims = {
            "sub": self.subject,
            "tenant_id": self.tenant,
            "scope": self.scopes,
            "exp": str(int(time.time() + self.expires_in)),
            **self.claims,
        }
        return {"authorizer": {"jwt": {"claims": claims, "scopes": None}}}


def _refuse(constant: str) -> None:
    message = f"the answer is not JSON: {constant}"
    raise AssertionError(message)


def _body(body: object) -> dict[str, Any]:
    if isinstance(body, bytes):
        return {"body": base64.b64encode(body).decode(), "isBase64Encoded": True}
    if body is None or isinstance(body, str):
        return {"body": body}
    return {"body": json.dumps(body)}
