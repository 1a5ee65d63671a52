"""Jobs of the device-control service, and the locks under which they move machines (R5)."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated
from uuid import UUID

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Body, Path, Query

from blsflow.documents import Strict, located
from blsflow.domain.occurrence import AttemptState
from blsflow.flow import control
from blsflow.flow import jobs as flow
from blsflow.web.caller import Scope

from .routing import answer, caller, operation, store
from .shapes import Answer, Cursor, Figure, Limit, Page, PathId, QueryId, Why

TAG = "jobs"
JobId = Annotated[UUID, Path()]


class Job(Answer):
    """A batch that was or will be sent, of a policy, a benchmark run or a command; `reference` is the service's job id."""

    id: UUID
    policy_id: int | None
    tick_id: int | None
    command_id: UUID | None
    benchmark_run_id: UUID | None
    benchmark_step: str | None
    action: str
    project_id: int | None
    run_config_id: int | None
    state: str
    reason: str | None
    reference: str | None
    job_state: str | None
    prepared_at: datetime
    valid_until: datetime
    dispatched_at: datetime | None
    unresolved_alerted_at: datetime | None
    ended_at: datetime | None
    open: bool
    machines: int
    pending: int
    succeeded: int
    failed: int


class JobMachine(Answer):
    """How one machine of a batch stands: its own outcome, confirmed by what it then did."""

    machine_id: int
    state: str
    reason: str | None
    job_ended_at: datetime | None
    ended_at: datetime | None


class Lock(Answer):
    """A machine that is held: by whom, since when, and until when (null: until its job's end is confirmed)."""

    machine_id: int
    owner_kind: str
    owner_id: UUID
    owner_state: str | None
    owner_does: str | None
    policy_id: int | None
    command_id: UUID | None
    taken_at: datetime
    age_sec: Figure
    expires_at: datetime | None


class ReleaseIn(Strict):
    """Why an operator says that it is over although nobody could confirm it."""

    reason: Why


class ClosedJob(Answer):
    """A job that was closed by hand: how many machines were open, and the job that may still act on them."""

    action: str
    job_id: str | None
    machines: int


class ReleasedMachine(Answer):
    """A machine that was freed by hand, and the job that may still act on it; none is named past its retention."""

    attempt_id: UUID | None
    action: str | None
    job_id: str | None
    attempt_ended: bool


@operation("GET", "/jobs", scope=Scope.READ, tag=TAG, makes={"job_id": "/items/0/id"})
def list_jobs(  # noqa: PLR0913, PLR0917 - filters
    state: Annotated[AttemptState | None, Query()] = None,
    open: Annotated[bool | None, Query(description="only those that have not ended, or have")] = None,  # noqa: A002 - the parameter's name
    policy_id: QueryId = None,
    command_id: Annotated[UUID | None, Query()] = None,
    benchmark_run_id: Annotated[UUID | None, Query()] = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Response[Page[Job]]:
    """List batches that were or will be sent, the newest first."""
    with located("query"):
        page = flow.jobs(
            store(),
            tenant_id=caller().tenant_id,
            state=state,
            policy_id=policy_id,
            command_id=command_id,
            benchmark_run_id=benchmark_run_id,
            is_open=open,
            cursor=cursor,
            limit=limit,
        )
    return answer(Page[Job].of(page.rows, page.cursor, Job))


@operation("GET", "/jobs/<job_id>", scope=Scope.READ, tag=TAG, problems=["not_found"])
def read_job(job_id: JobId) -> Response[Job]:
    """Read one job."""
    row, _ = flow.job_with_machines(store(), job_id, tenant_id=caller().tenant_id, limit=1)
    return answer(Job.model_validate(row))


@operation("GET", "/jobs/<job_id>/machines", scope=Scope.READ, tag=TAG, problems=["not_found"])
def list_job_machines(job_id: JobId, cursor: Cursor = None, limit: Limit = 50) -> Response[Page[JobMachine]]:
    """List the machines of a job, each with its own outcome, in the order of their ids."""
    with located("query"):
        _, page = flow.job_with_machines(
            store(), job_id, tenant_id=caller().tenant_id, cursor=cursor, limit=limit
        )
    return answer(Page[JobMachine].of(page.rows, page.cursor, JobMachine))


@operation("POST", "/jobs/<job_id>/close", scope=Scope.ADMIN, tag=TAG, problems=["not_found", "conflict"])
def close_job(job_id: JobId, why: Annotated[ReleaseIn, Body()]) -> Response[ClosedJob]:
    """Close a job or conversation whose end nobody can confirm, on the record: what it holds is freed.

    The service may still act on its machines: look before you do this.
    """
    who = caller()
    closed = control.release(store(), job_id, by=who.subject, why=why.reason, tenant_id=who.tenant_id)
    return answer(ClosedJob.model_validate(closed))


@operation("GET", "/locks", scope=Scope.READ, tag=TAG, makes={"machine_id": "/items/0/machine_id"})
def list_locks(
    machine_id: QueryId = None, policy_id: QueryId = None, cursor: Cursor = None, limit: Limit = 50
) -> Response[Page[Lock]]:
    """List the machines that are held, in the order of their ids."""
    with located("query"):
        page = flow.locks(
            store(),
            tenant_id=caller().tenant_id,
            machine_id=machine_id,
            policy_id=policy_id,
            cursor=cursor,
            limit=limit,
        )
    return answer(Page[Lock].of(page.rows, page.cursor, Lock))


@operation(
    "POST", "/locks/<machine_id>/release", scope=Scope.ADMIN, tag=TAG, problems=["not_found", "conflict"]
)
def release_lock(machine_id: PathId, why: Annotated[ReleaseIn, Body()]) -> Response[ReleasedMachine]:
    """Free one machine of a sent batch whose end nobody can confirm, on the record; its job may still act on it."""
    who = caller()
    closed = flow.release_machine(
        store(), machine_id, by=who.subject, why=why.reason, tenant_id=who.tenant_id
    )
    return answer(ReleasedMachine.model_validate(closed))
