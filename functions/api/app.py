"""API Gateway calls this for everything under `/api/v1/smart-schedule` but the live stream."""

from __future__ import annotations

import traceback
from typing import Any

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.exceptions import RequestValidationError

from blsflow.observability import logger, summarized
from blsflow.web.problems import CONTENT_TYPE, Problem, as_response

from . import (
    benchmarks,
    commands,
    controls,
    document,
    explanations,
    fleet,
    health,
    jobs,
    leases,
    logs,
    notifications,
    occurrences,
    policies,
    readiness,
    reports,
    schedules,
    ticks,
)
from .reading import with_text_body
from .refusing import problem_of
from .routing import app
from .writing import require_bounded

NOUNS = (
    document,
    health,
    fleet,
    policies,
    controls,
    explanations,
    readiness,
    ticks,
    reports,
    commands,
    jobs,
    benchmarks,
    schedules,
    occurrences,
    logs,
    notifications,
    leases,
)
"""Importing a noun declares its operations."""


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:  # noqa: ANN401 - the runtime's own object
    """Answer one request; whatever goes wrong is a problem document, and a fault of ours is logged whole."""
    request = event.get("requestContext", {})
    http = request.get("http", {})
    with summarized("api", context) as line:
        line |= {"method": http.get("method"), "path": http.get("path"), "api_request_id": _request_id(event)}
        try:
            response = app.resolve(with_text_body(event), context)
            require_bounded(response)
        except Problem as problem:
            response = as_response(problem, _request_id(event))
        except ValueError as error:  # an answer that JSON has no form for
            response = as_response(_fault(error, _request_id(event)), _request_id(event))
        line["status"] = response["statusCode"]
    response.setdefault("headers", {})["x-request-id"] = _request_id(event)
    return response


@app.exception_handler(Exception)  # type: ignore[untyped-decorator]
def _refuse(error: Exception) -> Response[str]:
    """Answer with what the error is to the caller; its cause stays in the log."""
    route = app.context.get("_route")
    code = (
        "invalid_execution_request" if route is not None and "schedules" in route.tags else "invalid_request"
    )
    problem = problem_of(error, invalid_code=code, body=_body_of(error))
    request_id = _request_id(app.current_event.raw_event)
    if problem is None:
        problem = _fault(error, request_id)
    elif problem.code == "unavailable":
        cause = {"api_request_id": request_id, "error": type(error).__name__, "cause": str(error)}
        logger().warning("api_unavailable", extra=cause)
    return Response(
        status_code=int(problem.status),
        content_type=CONTENT_TYPE,
        headers={"cache-control": "no-store"} | problem.headers,
        body=problem.text(request_id),
    )


def _fault(error: Exception, request_id: str) -> Problem:
    """Log a fault of ours whole; return what its caller is told."""
    logger().error(
        "api_fault",
        extra={
            "api_request_id": request_id,
            "error": type(error).__name__,
            "trace": "".join(traceback.format_exception(error, limit=-8)),
        },
    )
    return Problem(
        "internal_error", "something went wrong on our side; the request's id finds it in the logs"
    )


def _body_of(error: Exception) -> object:
    """Return the body that a refusal speaks of, as it was read; None if it speaks of none."""
    read = isinstance(error, RequestValidationError) and any(e["loc"][0] == "body" for e in error.errors())
    return app.current_event.json_body if read and app.current_event.body else None


def _request_id(event: dict[str, Any]) -> str:
    """Return API Gateway's own id of the request, which its access log has too."""
    return str(event.get("requestContext", {}).get("requestId", "-"))
