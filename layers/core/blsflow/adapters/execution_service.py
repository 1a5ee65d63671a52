"""The execution service over HTTP, by the contract in docs/contracts/execution_service.openapi.yaml.

Every request is sent once. Whatever goes wrong outside comes back as a value, never as an exception.
"""

from __future__ import annotations

from datetime import UTC, datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from blsflow.adapters.answers import (
    AMBIGUOUS_CLIENT_ERRORS,
    BUSY,
    CLIENT_ERROR,
    SUCCESS,
    OutsideContractError,
    described,
    document_of,
    identifier,
    problem_code,
    problem_detail,
    rows,
    words,
)
from blsflow.adapters.http import HttpFailure, JsonHttp, Secret, bearer, header_text
from blsflow.domain.conversation import (
    CancelAccepted,
    CancelTooLate,
    CancelUnknown,
    Conversation,
    RunForbidden,
    RunFound,
    RunNotFound,
    RunState,
    RunUnreadable,
    Target,
    TargetsForbidden,
    TargetsFound,
    TargetsUnreadable,
    TargetUnavailable,
)
from blsflow.domain.execution import Accepted, Ambiguous, Busy, Rejected

if TYPE_CHECKING:
    from blsflow.adapters.http import HttpAnswer
    from blsflow.domain.conversation import (
        CancelOutcome,
        CatalogueReport,
        ConversationCommand,
        RunReport,
        StartOutcome,
    )

_MAX_ID_CHARS: Final = 200
_MAX_OUTPUT_REF_CHARS: Final = 2000
_MAX_CURSOR_CHARS: Final = 1000
_NO_TARGET: Final = frozenset(
    {
        (HTTPStatus.NOT_FOUND, "target_not_found"),
        (HTTPStatus.NOT_FOUND, "conversation_not_found"),
        (HTTPStatus.GONE, "target_gone"),
        (HTTPStatus.GONE, "conversation_gone"),
    }
)


class HttpExecutionService:
    """Starts, follows and cancels runs; safe to use from many threads. `timeout_sec` is as in `JsonHttp`."""

    def __init__(self, base_url: str, token: Secret, timeout_sec: float) -> None:
        self._http = JsonHttp(
            base_url,
            timeout_sec=timeout_sec,
            headers={"Authorization": bearer(token)},
            keep_for_reading=True,
        )

    def targets(
        self, *, caller_tenant: str, caller_subject: str, cursor: str | None = None
    ) -> CatalogueReport:
        """Return a page of what the user may have prompts sent to; the first one without a cursor."""
        query = {} if cursor is None else {"cursor": cursor}
        headers = _identity(caller_tenant, caller_subject)
        try:
            answer = self._http.request("GET", "/v1/targets", query=query, headers=headers)
            if _is_forbidden(answer):
                return TargetsForbidden()
            if answer.status != HTTPStatus.OK:
                return TargetsUnreadable(cause=described(answer))
            return _page(document_of(answer))
        except (HttpFailure, OutsideContractError) as fault:
            return TargetsUnreadable(cause=str(fault))

    def start(self, command: ConversationCommand) -> StartOutcome:
        """Send the command once.

        Busy for 423 and 429; TargetUnavailable for a 404 or 410 with one of the contract's codes for it;
        Rejected for the other 4xx. Ambiguous for all that leaves the effect open: time-out, dropped or refused
        connection, 408, 409, 5xx, a redirect, and a 2xx that names no run.
        """
        headers = {
            **_identity(command.caller_tenant, command.caller_subject),
            "Idempotency-Key": header_text(command.key),
            "X-Expires-At": command.expires_at.isoformat(),
        }
        body = {
            "target_id": command.target,
            "conversation_id": command.conversation_id,
            "prompt": command.prompt,
        }
        try:
            answer = self._http.request("POST", "/v1/runs", body=body, headers=headers)
            if answer.status in BUSY:
                return Busy(reason=problem_code(answer))
            if (answer.status, problem_code(answer)) in _NO_TARGET:
                return TargetUnavailable(detail=problem_detail(answer) or problem_code(answer))
            if answer.status in CLIENT_ERROR and answer.status not in AMBIGUOUS_CLIENT_ERRORS:
                return Rejected(reason=problem_code(answer), detail=problem_detail(answer))
            if answer.status not in SUCCESS:
                return Ambiguous(cause=described(answer))
            run_id = identifier(document_of(answer), "run_id", max_chars=_MAX_ID_CHARS)
            return Accepted(job_id=run_id, refused=())
        except (HttpFailure, OutsideContractError) as fault:
            return Ambiguous(cause=str(fault))

    def read_back(
        self, *, caller_tenant: str, caller_subject: str, key: str, run_id: str | None
    ) -> RunReport:
        """Ask for the run by its id, or by our key while the id is unknown.

        Not found and forbidden only if the service itself says so with its problem code: a proxy's 404 or 403
        proves nothing. Nor does a 401, which is about this product's token and not about the user.
        """
        headers = _identity(caller_tenant, caller_subject)
        try:
            answer = self._http.request("GET", _path(key, run_id), headers=headers)
            if _is_forbidden(answer):
                return RunForbidden()
            if answer.status == HTTPStatus.NOT_FOUND and problem_code(answer) == "run_not_found":
                return RunNotFound()
            if answer.status != HTTPStatus.OK:
                return RunUnreadable(cause=described(answer))
            return _run(document_of(answer), key=key, run_id=run_id)
        except (HttpFailure, OutsideContractError) as fault:
            return RunUnreadable(cause=str(fault))

    def cancel(
        self, *, caller_tenant: str, caller_subject: str, key: str, run_id: str | None
    ) -> CancelOutcome:
        """Ask the run to end, once, by its id, or by our key while the id is unknown.

        Unknown for every refusal too, *not found* included: the start may still be on its way.
        """
        headers = _identity(caller_tenant, caller_subject)
        try:
            answer = self._http.request("POST", f"{_path(key, run_id)}/cancel", headers=headers)
            if answer.status not in SUCCESS:
                return CancelUnknown(cause=described(answer))
            found = _run(document_of(answer), key=key, run_id=run_id)
        except (HttpFailure, OutsideContractError) as fault:
            return CancelUnknown(cause=str(fault))
        if found.state.is_end and found.state is not RunState.CANCELLED:
            return CancelTooLate(state=found.state)
        return CancelAccepted()


def _identity(tenant: str, subject: str) -> dict[str, str]:
    return {"X-Caller": header_text(tenant), "X-On-Behalf-Of": header_text(subject)}


def _path(key: str, run_id: str | None) -> str:
    return f"/v1/attempts/{quote(key, safe='')}" if run_id is None else f"/v1/runs/{quote(run_id, safe='')}"


def _is_forbidden(answer: HttpAnswer) -> bool:
    return answer.status == HTTPStatus.FORBIDDEN and problem_code(answer) == "forbidden"


def _run(document: dict[str, Any], *, key: str, run_id: str | None) -> RunFound:
    """Decode a run, which must be the one that was asked for and must not contradict itself."""
    try:
        found = RunFound(
            run_id=identifier(document, "run_id", max_chars=_MAX_ID_CHARS),
            state=RunState(str(document.get("state"))),
            output_ref=_output_ref(document),
            error=_error(document.get("error")),
            started_at=_instant(document, "started_at"),
            ended_at=_instant(document, "ended_at"),
        )
    except ValueError as fault:
        raise OutsideContractError(f"the answer has an unknown state: {words(str(fault))}") from fault
    if document.get("key") != key or run_id not in (None, found.run_id):
        raise OutsideContractError("the answer is about another run")
    if found.state.is_end != (found.ended_at is not None):
        raise OutsideContractError(f"the answer contradicts itself: {found.state}, ended at {found.ended_at}")
    return found


def _output_ref(document: dict[str, Any]) -> str | None:
    if document.get("output_ref") is None:
        return None
    return identifier(document, "output_ref", max_chars=_MAX_OUTPUT_REF_CHARS)


def _error(error: object) -> str | None:
    if error is None:
        return None
    code, detail = (error.get("code"), error.get("detail")) if isinstance(error, dict) else (None, None)
    if not isinstance(code, str) or not code:
        raise OutsideContractError("the answer's 'error' has no code")
    return words(f"{code}: {detail}" if isinstance(detail, str) and detail else code)


def _instant(document: dict[str, Any], name: str) -> datetime | None:
    value = document.get(name)
    if value is None:
        return None
    try:
        instant = datetime.fromisoformat(value)
        if instant.tzinfo is not None:
            return instant.astimezone(UTC)
    except (TypeError, ValueError, OverflowError) as fault:
        raise OutsideContractError(f"the answer's {name!r} is not an instant") from fault
    raise OutsideContractError(f"the answer's {name!r} has no offset")


def _page(document: dict[str, Any]) -> TargetsFound:
    cursor = document.get("next_cursor")
    return TargetsFound(
        targets=tuple(_target(row) for row in rows(document, "targets")),
        next_cursor=None
        if cursor is None
        else identifier(document, "next_cursor", max_chars=_MAX_CURSOR_CHARS),
    )


def _target(row: dict[str, Any]) -> Target:
    reason = row.get("unavailable_reason")
    return Target(
        target=identifier(row, "target_id", max_chars=_MAX_ID_CHARS),
        name=_text(row, "name"),
        unavailable_reason=None if reason is None else _text(row, "unavailable_reason"),
        conversations=tuple(
            Conversation(
                conversation_id=identifier(conversation, "conversation_id", max_chars=_MAX_ID_CHARS),
                title=_text(conversation, "title"),
            )
            for conversation in rows(row, "conversations")
        ),
    )


def _text(document: dict[str, Any], name: str) -> str:
    value = document.get(name)
    if not isinstance(value, str):
        raise OutsideContractError(f"the answer has no text {name!r}")
    return words(value)
