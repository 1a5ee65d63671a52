"""Refusals as RFC 9457 problem documents: one table of stable codes, each with its status and title (R9.2)."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from blsflow.domain.errors import BlsflowError
from blsflow.ports.errors import SecretUnreadable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from blsflow.ports.errors import StoreUnavailable

CONTENT_TYPE: Final = "application/problem+json"

PROBLEMS: Final[Mapping[str, tuple[HTTPStatus, str]]] = {
    "malformed_request": (HTTPStatus.BAD_REQUEST, "The request cannot be read"),
    "unauthorized": (HTTPStatus.UNAUTHORIZED, "Sign in first"),
    "insufficient_scope": (HTTPStatus.FORBIDDEN, "The token does not allow this"),
    "unfit_token": (HTTPStatus.FORBIDDEN, "The token is good for too much to stand in an address"),
    "not_found": (HTTPStatus.NOT_FOUND, "There is no such thing"),
    "method_not_allowed": (HTTPStatus.METHOD_NOT_ALLOWED, "This cannot be done there"),
    "conflict": (HTTPStatus.CONFLICT, "The state of things does not allow this"),
    "request_conflict": (HTTPStatus.CONFLICT, "The request's id was used for another request"),
    "execution_target_unavailable": (HTTPStatus.CONFLICT, "The target of the execution is not available"),
    "execution_not_allowed": (HTTPStatus.CONFLICT, "Nothing may be executed now"),
    "version_conflict": (HTTPStatus.PRECONDITION_FAILED, "It has changed since it was read"),
    "payload_too_large": (HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "The body is too large"),
    "unsupported_media_type": (HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "The body is not JSON"),
    "answer_too_large": (HTTPStatus.UNPROCESSABLE_ENTITY, "The answer would be larger than one can be"),
    "invalid_request": (HTTPStatus.UNPROCESSABLE_ENTITY, "The request has fields that cannot be meant"),
    "invalid_execution_request": (
        HTTPStatus.UNPROCESSABLE_ENTITY,
        "The execution request has fields that cannot be meant",
    ),
    "precondition_required": (HTTPStatus.PRECONDITION_REQUIRED, "Say which version is to be changed"),
    "too_many_streams": (HTTPStatus.TOO_MANY_REQUESTS, "Too many live streams are open"),
    "internal_error": (HTTPStatus.INTERNAL_SERVER_ERROR, "The fault is ours; it has been logged"),
    "unavailable": (HTTPStatus.SERVICE_UNAVAILABLE, "Not now; try again"),
}
"""By code: the status, and what it means in general. A code is for programs and never changes."""


class Problem(BlsflowError):
    """A refusal: its code is in `PROBLEMS`; ``detail`` is for people, ``params`` are the figures in it, for programs."""

    def __init__(
        self, code: str, detail: str, *, headers: Mapping[str, str] | None = None, **params: object
    ) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.headers = dict(headers or {})
        self.params = params

    @property
    def status(self) -> HTTPStatus:
        """The HTTP status of its code."""
        return PROBLEMS[self.code][0]

    def document(self, request_id: str | None) -> dict[str, Any]:
        """Return the problem document; ``request_id`` is what finds the request in the logs."""
        return {
            "type": f"urn:blsflow-scheduler:problem:{self.code}",
            "title": PROBLEMS[self.code][1],
            "status": int(self.status),
            "detail": self.detail,
            "code": self.code,
            "params": self.params,
            "request_id": request_id,
        }

    def text(self, request_id: str | None) -> str:
        """Return the problem document as it is sent."""
        document = self.document(request_id)
        return json.dumps(document, ensure_ascii=False, default=str, separators=(",", ":"))


def unavailable(error: StoreUnavailable, *, retry_after_sec: int) -> Problem:
    """Return what a caller is told while the database, or a secret of the settings, is not to be had: why is in the log."""
    detail = (
        "a secret that this deployment needs cannot be read"
        if isinstance(error, SecretUnreadable)
        else "the database does not answer"
    )
    return Problem("unavailable", detail, headers={"retry-after": str(retry_after_sec)})


def as_response(problem: Problem, request_id: str | None) -> dict[str, Any]:
    """Return the answer that a function behind an HTTP API gives (payload 2.0)."""
    return {
        "statusCode": int(problem.status),
        "headers": {"content-type": CONTENT_TYPE, "cache-control": "no-store"} | problem.headers,
        "body": json.dumps(
            problem.document(request_id), ensure_ascii=False, default=str, separators=(",", ":")
        ),
    }
