"""The OpenAPI document: written from the declarations that validate, with every problem an operation may answer with."""

from __future__ import annotations

import json
from functools import cache
from http import HTTPStatus
from typing import Any, Final

from aws_lambda_powertools.event_handler import Response

from blsflow.domain.pages import LARGEST_ID
from blsflow.web.problems import CONTENT_TYPE, PROBLEMS

from .routing import PREFIX, app, operation
from .streaming import stream_paths

_ANY: Final = ("malformed_request", "invalid_request", "answer_too_large", "internal_error", "unavailable")
_OF_SIGNED_IN: Final = ("unauthorized", "insufficient_scope")
_OF_BODIES: Final = ("payload_too_large", "unsupported_media_type")
_BOUNDS: Final = {"ge": "minimum", "le": "maximum", "gt": "exclusiveMinimum", "lt": "exclusiveMaximum"}
"""JSON Schema's names for what Powertools writes under its own."""
_PROBLEM_SCHEMA: Final = {
    "title": "Problem",
    "description": "RFC 9457; `code` is stable, `params` are the figures in `detail`.",
    "type": "object",
    "required": ["type", "title", "status", "detail", "code", "params", "request_id"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "code": {"type": "string", "enum": sorted(PROBLEMS)},
        "params": {"type": "object"},
        "request_id": {"type": ["string", "null"]},
    },
}
_VERSION: Final = {"type": "string", "pattern": '^"[0-9]{1,18}"$', "examples": ['"1"']}
_GATEWAY_REFUSAL: Final = {
    "schema": {
        "type": "object",
        "required": ["message"],
        "properties": {"message": {"type": "string"}},
    }
}
"""What the gateway itself says to a request without a token that it can verify."""

_DESCRIPTION: Final = (
    "Controls BLSFlow Scheduler and shows what it does. Sign in with a JWT of the deployment's issuer; its claims name"
    " the tenant, and its scopes what it is good for. What is another tenant's does not exist: 404."
)


@operation("GET", "/openapi.json", scope=None, tag="deployment")
def openapi() -> Response[dict[str, Any]]:
    """Serve this document."""
    return Response(
        status_code=200,
        content_type="application/json",
        headers={"cache-control": "max-age=300"},
        body=openapi_document(),
    )


@cache
def openapi_document() -> dict[str, Any]:
    """Return the document of all operations declared so far."""
    from aws_lambda_powertools.event_handler.openapi.models import (  # noqa: PLC0415 - a tenth of a cold start
        HTTPBearer,
        Server,
    )

    document: dict[str, Any] = json.loads(
        app.get_openapi_json_schema(
            title="BLSFlow Scheduler",
            version="1",
            openapi_version="3.1.0",
            description=_DESCRIPTION,
            servers=[Server(url=PREFIX)],
            security_schemes={"jwt": HTTPBearer(bearerFormat="JWT")},
        )
    )
    document["paths"] |= stream_paths()
    schemas = document["components"]["schemas"]
    for name in ("HTTPValidationError", "ResponseValidationError", "ValidationError"):
        schemas.pop(name, None)
    schemas["Problem"] = _PROBLEM_SCHEMA
    for path in document["paths"].values():
        for each in path.values():
            _describe_problems(each)
            _describe_parameters(each)
    _write_bounds_exactly(document)
    _describe_links([each for path in document["paths"].values() for each in path.values()])
    return document


def _write_bounds_exactly(part: object) -> None:
    """Write bounds as the integers that they are: as floats the largest id would be one more than it is."""
    if isinstance(part, list):
        for each in part:
            _write_bounds_exactly(each)
    elif isinstance(part, dict):
        for name, value in part.items():
            if name in _BOUNDS.values() and isinstance(value, float) and value.is_integer():
                part[name] = min(int(value), LARGEST_ID)
            else:
                _write_bounds_exactly(value)


def _describe_links(operations: list[dict[str, Any]]) -> None:
    """Lead from an answer to every operation that takes the ids in it, beside those that the request had."""
    taken = {each["operationId"]: _in_path(each) for each in operations}
    for each in operations:
        made = {name: f"$response.body#{pointer}" for name, pointer in each.pop("x-makes").items()}
        known = {name: f"$request.path.{name}" for name in taken[each["operationId"]]} | made
        answer = next(answer for status, answer in each["responses"].items() if status < "300")
        links = {
            follower: {"operationId": follower, "parameters": {name: known[name] for name in sorted(names)}}
            for follower, names in taken.items()
            if names & set(made) and names <= set(known)
        }
        if links:
            answer["links"] = links


def _in_path(described: dict[str, Any]) -> set[str]:
    return {each["name"] for each in described.get("parameters", []) if each["in"] == "path"}


def _describe_problems(described: dict[str, Any]) -> None:
    """Write the statuses that an operation may refuse with, each with its codes."""
    codes = [*_ANY, *described.pop("x-problems", [])]
    if "x-function" in described:  # reads its few parameters by itself
        codes.remove("invalid_request")
    if "security" in described:
        codes += _OF_SIGNED_IN
    if "requestBody" in described:
        codes += _OF_BODIES
    if "schedules" in described["tags"]:
        codes.append("invalid_execution_request")
    by_status: dict[int, list[str]] = {}
    for code in sorted(set(codes)):
        by_status.setdefault(int(PROBLEMS[code][0]), []).append(code)
    described["responses"].pop("422", None)
    for status, of_status in sorted(by_status.items()):
        described["responses"][str(status)] = {
            "description": "; ".join(f"`{code}`: {PROBLEMS[code][1]}" for code in of_status),
            "content": {CONTENT_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
        if status == HTTPStatus.UNAUTHORIZED:
            described["responses"][str(status)]["content"]["application/json"] = _GATEWAY_REFUSAL


def _describe_parameters(described: dict[str, Any]) -> None:
    """Write bounds as JSON Schema has them, and what a version looks like."""
    for parameter in described.get("parameters", []):
        schema = parameter["schema"]
        for ours, standard in _BOUNDS.items():
            if ours in schema:
                schema[standard] = schema.pop(ours)
        if parameter["name"] == "if-match":  # whoever leaves it out is told so with a status of its own
            parameter |= {"required": True, "schema": _VERSION}
