"""The device-control service over HTTP, by the contract in docs/contracts/device_control.openapi.yaml.

A command is sent by one POST and never again, and whatever goes wrong outside comes back as a value, never as
an exception.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any
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
    from blsflow.domain.execution import BatchCommand, JobReport, SubmitOutcome

_MAX_JOB_ID_CHARS = 200


class HttpDeviceControl:
    """Sends batches and reads jobs back; safe to use from many threads. `timeout_sec` is as in `JsonHttp`."""

    def __init__(self, base_url: str, token: Secret, timeout_sec: float) -> None:
        self._http = JsonHttp(
            base_url,
            timeout_sec=timeout_sec,
            headers={"Authorization": bearer(token)},
            keep_for_reading=True,
        )

    def submit(self, command: BatchCommand) -> SubmitOutcome:
        """Send the command once.

        Busy for 423 and 429, Rejected for the other 4xx. Ambiguous for all that leaves the effect open:
        time-out, dropped or refused connection, 408, 409, 5xx, a redirect, and a 2xx that names no job.
        """
        headers = {
            "Idempotency-Key": header_text(command.key),
            "X-Caller": header_text(command.caller),
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
            if answer.status in BUSY:
                return Busy(reason=problem_code(answer))
            if answer.status in CLIENT_ERROR and answer.status not in AMBIGUOUS_CLIENT_ERRORS:
                return Rejected(reason=problem_code(answer), detail=problem_detail(answer))
            if answer.status not in SUCCESS:
                return Ambiguous(cause=described(answer))
            return _accepted(document_of(answer), {target.machine_id for target in command.targets})
        except (HttpFailure, OutsideContractError) as fault:
            return Ambiguous(cause=str(fault))

    def read_back(self, *, caller: str, key: str, job_id: str | None) -> JobReport:
        """Ask for the job by its id, or by our key while the id is unknown.

        Not found only if the service itself says so with its problem code: a 404 of a proxy proves nothing.
        """
        path = (
            f"/v1/batches/{quote(key, safe='')}" if job_id is None else f"/v1/jobs/{quote(job_id, safe='')}"
        )
        try:
            answer = self._http.request("GET", path, headers={"X-Caller": header_text(caller)})
            if answer.status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
                return JobForbidden()
            if answer.status == HTTPStatus.NOT_FOUND and problem_code(answer) == "job_not_found":
                return JobNotFound()
            if answer.status != HTTPStatus.OK:
                return JobUnreadable(cause=described(answer))
            found = _job(document_of(answer))
        except (HttpFailure, OutsideContractError) as fault:
            return JobUnreadable(cause=str(fault))
        if job_id is not None and found.job_id != job_id:
            return JobUnreadable(cause="the answer is about another job")
        return found


def _accepted(document: dict[str, Any], asked: set[int]) -> Accepted:
    refused = tuple(
        Refusal(machine_id=_machine_id(row), reason=_reason(row) or "unspecified")
        for row in rows(document, "refused")
    )
    if not {refusal.machine_id for refusal in refused} <= asked:
        raise OutsideContractError("the answer refuses a machine that was not asked for")
    return Accepted(job_id=identifier(document, "job_id", max_chars=_MAX_JOB_ID_CHARS), refused=refused)


def _job(document: dict[str, Any]) -> JobFound:
    try:
        state = JobState(str(document.get("state")))
        machines = tuple(
            MachineResult(
                machine_id=_machine_id(row),
                state=MachineResultState(str(row.get("state"))),
                reason=_reason(row),
            )
            for row in rows(document, "machines")
        )
    except ValueError as fault:
        raise OutsideContractError(f"the answer has an unknown state: {fault}") from fault
    if len({machine.machine_id for machine in machines}) < len(machines):
        raise OutsideContractError("the answer names a machine twice")
    job_id = identifier(document, "job_id", max_chars=_MAX_JOB_ID_CHARS)
    return JobFound(job_id=job_id, state=state, machines=machines)


def _machine_id(row: dict[str, Any]) -> int:
    machine_id = row.get("machine_id")
    if type(machine_id) is not int:
        raise OutsideContractError("the answer has a row without a machine id")
    return machine_id


def _reason(row: dict[str, Any]) -> str | None:
    reason = row.get("reason")
    return words(reason) or None if isinstance(reason, str) else None
