"""The device-control service over HTTP, by the contract in docs/contracts/device_control.openapi.yaml.

A command is sent by one POST and never again, and whatever goes wrong outside comes back as a value, never as
an exception.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from blsflow.adapters.http import HttpFailure, JsonHttp
from blsflow.domain.execution import (
    Accepted,
    Ambiguous,
    Busy,
    JobForbidden,
    JobFound,
    JobNotFound,
    JobState,
    JobUnreadable,
    MachineResult,
    MachineResultState,
    Refusal,
    Rejected,
)

if TYPE_CHECKING:
    from blsflow.adapters.http import HttpAnswer
    from blsflow.domain.execution import BatchCommand, JobReport, SubmitOutcome

_MAX_JOB_ID_CHARS = 200
_MAX_REASON_CHARS = 500
# Client errors that do not say that nothing happened: a proxy gave up waiting, or the key is in use.
_AMBIGUOUS_CLIENT_ERRORS = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.CONFLICT})
_BUSY = frozenset({HTTPStatus.LOCKED, HTTPStatus.TOO_MANY_REQUESTS})
_SUCCESS = range(200, 300)
_CLIENT_ERROR = range(400, 500)


class _OutsideContractError(Exception):
    """An answer that the contract does not know; the message says what is wrong with it."""


class HttpDeviceControl:
    """Sends batches and reads jobs back; safe to use from many threads. `timeout_sec` is as in `JsonHttp`."""

    def __init__(self, base_url: str, token: str, timeout_sec: float) -> None:
        self._http = JsonHttp(base_url, timeout_sec=timeout_sec, headers={"Authorization": f"Bearer {token}"})

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
            answer = self._http.request("POST", "/v1/batches", body=body, headers=headers)
            if answer.status in _BUSY:
                return Busy(reason=_code(answer))
            if answer.status in _CLIENT_ERROR and answer.status not in _AMBIGUOUS_CLIENT_ERRORS:
                return Rejected(reason=_code(answer), detail=_detail(answer))
            if answer.status not in _SUCCESS:
                return Ambiguous(cause=f"http {answer.status}: {_code(answer)}")
            return _accepted(_object(answer), {target.machine_id for target in command.targets})
        except (HttpFailure, _OutsideContractError) as fault:
            return Ambiguous(cause=str(fault))

    def read_back(self, *, caller: str, key: str, job_id: str | None) -> JobReport:
        """Ask for the job by its id, or by our key while the id is unknown.

        Not found only if the service itself says so with its problem code: a 404 of a proxy proves nothing.
        """
        path = (
            f"/v1/batches/{quote(key, safe='')}" if job_id is None else f"/v1/jobs/{quote(job_id, safe='')}"
        )
        try:
            answer = self._http.request("GET", path, headers={"X-Caller": caller})
            if answer.status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
                return JobForbidden()
            if answer.status == HTTPStatus.NOT_FOUND and _code(answer) == "job_not_found":
                return JobNotFound()
            if answer.status != HTTPStatus.OK:
                return JobUnreadable(cause=f"http {answer.status}: {_code(answer)}")
            found = _job(_object(answer))
        except (HttpFailure, _OutsideContractError) as fault:
            return JobUnreadable(cause=str(fault))
        if job_id is not None and found.job_id != job_id:
            return JobUnreadable(cause="the answer is about another job")
        return found


def _object(answer: HttpAnswer) -> dict[str, Any]:
    if not isinstance(answer.body, dict):
        raise _OutsideContractError("the answer is not a JSON object")
    return answer.body


def _code(answer: HttpAnswer) -> str:
    """Return the stable code of an RFC 9457 problem, or one made from the status."""
    code = answer.body.get("code") if isinstance(answer.body, dict) else None
    return code[:_MAX_REASON_CHARS] if isinstance(code, str) and code else f"http_{answer.status}"


def _detail(answer: HttpAnswer) -> str:
    detail = answer.body.get("detail") if isinstance(answer.body, dict) else None
    return detail[:_MAX_REASON_CHARS] if isinstance(detail, str) else ""


def _accepted(document: dict[str, Any], asked: set[int]) -> Accepted:
    refused = tuple(
        Refusal(machine_id=_machine_id(row), reason=_reason(row) or "unspecified")
        for row in _rows(document, "refused")
    )
    if not {refusal.machine_id for refusal in refused} <= asked:
        raise _OutsideContractError("the answer refuses a machine that was not asked for")
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
        raise _OutsideContractError(f"the answer has an unknown state: {fault}") from fault


def _job_id(document: dict[str, Any]) -> str:
    job_id = document.get("job_id")
    if not isinstance(job_id, str) or not 0 < len(job_id) <= _MAX_JOB_ID_CHARS:
        raise _OutsideContractError("the answer names no job")
    return job_id


def _rows(document: dict[str, Any], name: str) -> list[dict[str, Any]]:
    rows = document.get(name)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise _OutsideContractError(f"the answer has no list {name!r}")
    return rows


def _machine_id(row: dict[str, Any]) -> int:
    machine_id = row.get("machine_id")
    if type(machine_id) is not int:
        raise _OutsideContractError("the answer has a row without a machine id")
    return machine_id


def _reason(row: dict[str, Any]) -> str | None:
    reason = row.get("reason")
    return reason[:_MAX_REASON_CHARS] if isinstance(reason, str) and reason else None
