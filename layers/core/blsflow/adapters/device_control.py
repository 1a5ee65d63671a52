"""The device-control service over HTTP, by the contract in docs/contracts/device_control.openapi.yaml.

A command is sent by one POST and never again: not by this adapter, not by the HTTP library and not by a
redirect. Whatever goes wrong outside comes back as a value, never as an exception. Every exchange has a
connection of its own, since on a kept one that the service is just closing a command would look dropped.
"""

import json
import time
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import requests
from urllib3.exceptions import HTTPError, ReadTimeoutError

from blsflow.domain.execution import (
    Accepted,
    Ambiguous,
    BatchCommand,
    Busy,
    JobForbidden,
    JobFound,
    JobNotFound,
    JobReport,
    JobState,
    JobUnreadable,
    MachineResult,
    MachineResultState,
    Refusal,
    Rejected,
    SubmitOutcome,
)

_MAX_ANSWER_BYTES = 8 * 1024 * 1024
_CHUNK_BYTES = 64 * 1024
_MAX_JOB_ID_CHARS = 200
_MAX_REASON_CHARS = 500
# Client errors that do not say that nothing happened: a proxy gave up waiting, or the key is in use.
_AMBIGUOUS_CLIENT_ERRORS = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.CONFLICT})
_BUSY = frozenset({HTTPStatus.LOCKED, HTTPStatus.TOO_MANY_REQUESTS})
_SUCCESS = range(200, 300)
_CLIENT_ERROR = range(400, 500)


class _UnreadableError(Exception):
    """An answer that is missing or outside the contract; the message is the cause."""


class HttpDeviceControl:
    """Sends batches and reads jobs back; safe to use from many threads.

    `timeout_sec` bounds connecting, waiting for the answer to begin, and then reading it.
    """

    def __init__(self, base_url: str, token: str, timeout_sec: float) -> None:
        self._base_url = base_url.rstrip("/")
        self._timeout_sec = timeout_sec
        self._headers = {
            "Authorization": f"Bearer {token}",
            "Accept": "application/json, application/problem+json",
            # Answers are small, and a compressed one has no bounded size.
            "Accept-Encoding": "identity",
        }

    def submit(self, command: BatchCommand) -> SubmitOutcome:
        """Send the command once.

        Busy for 423 and 429, Rejected for the other 4xx. Ambiguous for all that leaves the effect open:
        time-out, dropped or refused connection, 408, 409, 5xx, a redirect, and a 2xx that names no job.
        """
        headers = {
            "Idempotency-Key": command.key,
            "X-Caller": command.caller,
            "X-Expires-At": command.expires_at.isoformat(),
        }
        body = {
            "kind": command.kind.value,
            "project_id": command.project_id,
            "run_config_id": command.run_config_id,
            "machines": [
                {"machine_id": target.machine_id, "fencing_token": target.fencing_token}
                for target in command.targets
            ],
        }
        try:
            status, answer = self._exchange("POST", "/v1/batches", headers, body)
            if status in _BUSY:
                return Busy(reason=_problem(status, answer)[0])
            if status in _CLIENT_ERROR and status not in _AMBIGUOUS_CLIENT_ERRORS:
                reason, detail = _problem(status, answer)
                return Rejected(reason=reason, detail=detail)
            if status not in _SUCCESS:
                return Ambiguous(cause=f"http {status}: {_problem(status, answer)[0]}")
            return _accepted(_object(answer), {target.machine_id for target in command.targets})
        except _UnreadableError as fault:
            return Ambiguous(cause=str(fault))

    def read_back(self, *, caller: str, key: str, job_id: str | None) -> JobReport:
        """Ask for the job by its id, or by our key while the id is unknown.

        Not found only if the service itself says so with its problem code: a 404 of a proxy proves nothing.
        """
        path = (
            f"/v1/batches/{quote(key, safe='')}" if job_id is None else f"/v1/jobs/{quote(job_id, safe='')}"
        )
        try:
            status, answer = self._exchange("GET", path, {"X-Caller": caller}, None)
            if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
                return JobForbidden()
            if status == HTTPStatus.NOT_FOUND and _problem(status, answer)[0] == "job_not_found":
                return JobNotFound()
            if status != HTTPStatus.OK:
                return JobUnreadable(cause=f"http {status}: {_problem(status, answer)[0]}")
            found = _job(_object(answer))
        except _UnreadableError as fault:
            return JobUnreadable(cause=str(fault))
        if job_id is not None and found.job_id != job_id:
            return JobUnreadable(cause="the answer is about another job")
        return found

    def _exchange(
        self, method: str, path: str, headers: Mapping[str, str], body: Mapping[str, Any] | None
    ) -> tuple[int, bytes]:
        """One request, one answer of bounded size and time; any fault becomes `_UnreadableError`."""
        try:
            with requests.Session() as session:
                # The environment's proxies and .netrc must neither redirect commands nor replace the token.
                session.trust_env = False
                response = session.request(
                    method,
                    self._base_url + path,
                    headers={**self._headers, **headers},
                    json=body,
                    timeout=self._timeout_sec,
                    allow_redirects=False,
                    stream=True,
                )
                return response.status_code, self._read(response)
        except (requests.Timeout, ReadTimeoutError) as fault:
            raise _UnreadableError("time-out") from fault
        except (requests.RequestException, HTTPError, ValueError, OSError) as fault:
            raise _UnreadableError(f"connection: {type(fault).__name__}") from fault

    def _read(self, response: requests.Response) -> bytes:
        deadline = time.monotonic() + self._timeout_sec
        answer = bytearray()
        # read1 returns with what is there, so that a dripping answer meets the deadline.
        while chunk := response.raw.read1(_CHUNK_BYTES, decode_content=True):
            answer += chunk
            if len(answer) > _MAX_ANSWER_BYTES:
                raise _UnreadableError("the answer is too large")
            if time.monotonic() > deadline:
                raise _UnreadableError("time-out while reading the answer")
        return bytes(answer)


def _object(answer: bytes) -> dict[str, Any]:
    try:
        document = json.loads(answer)
    except ValueError as fault:
        raise _UnreadableError("the answer is not JSON") from fault
    if not isinstance(document, dict):
        raise _UnreadableError("the answer is not a JSON object")
    return document


def _problem(status: int, answer: bytes) -> tuple[str, str]:
    """The stable code and the words of an RFC 9457 problem, or stand-ins made from the status."""
    try:
        document = _object(answer)
    except _UnreadableError:
        document = {}
    code, detail = document.get("code"), document.get("detail")
    return (
        code[:_MAX_REASON_CHARS] if isinstance(code, str) and code else f"http_{status}",
        detail[:_MAX_REASON_CHARS] if isinstance(detail, str) else "",
    )


def _accepted(document: dict[str, Any], asked: set[int]) -> Accepted:
    refused = tuple(
        Refusal(machine_id=_machine_id(row), reason=_reason(row) or "unspecified")
        for row in _rows(document, "refused")
    )
    if not {refusal.machine_id for refusal in refused} <= asked:
        raise _UnreadableError("the answer refuses a machine that was not asked for")
    return Accepted(job_id=_job_id(document), refused=refused)


def _job(document: dict[str, Any]) -> JobFound:
    try:
        return JobFound(
            job_id=_job_id(document),
            state=JobState(str(document.get("state"))),
            machines=tuple(
                MachineResult(
                    machine_id=_machine_id(row),
                    state=MachineResultState(str(row.get("state"))),
                    reason=_reason(row),
                )
                for row in _rows(document, "machines")
            ),
        )
    except ValueError as fault:
        raise _UnreadableError(f"the answer has an unknown state: {fault}") from fault


def _job_id(document: dict[str, Any]) -> str:
    job_id = document.get("job_id")
    if not isinstance(job_id, str) or not 0 < len(job_id) <= _MAX_JOB_ID_CHARS:
        raise _UnreadableError("the answer names no job")
    return job_id


def _rows(document: dict[str, Any], name: str) -> list[dict[str, Any]]:
    rows = document.get(name)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise _UnreadableError(f"the answer has no list {name!r}")
    return rows


def _machine_id(row: dict[str, Any]) -> int:
    machine_id = row.get("machine_id")
    if type(machine_id) is not int:
        raise _UnreadableError("the answer has a row without a machine id")
    return machine_id


def _reason(row: dict[str, Any]) -> str | None:
    reason = row.get("reason")
    return reason[:_MAX_REASON_CHARS] if isinstance(reason, str) and reason else None
