"""Benchmarks: what was measured, and the runs that measure (R7)."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Body, Query

from blsflow.documents import Id, Strict, located
from blsflow.flow import benchmarks as flow
from blsflow.web.caller import Scope

from .routing import answer, caller, operation, store
from .shapes import Answer, Cursor, Figure, IdempotencyKey, Limit, Page, QueryId

TAG = "benchmarks"
RunState = Literal["pending", "running", "restoring", "succeeded", "failed", "cancelled"]


class Benchmark(Answer):
    """What one machine does on one project; `shared_from` is the machine that it was measured on, if another."""

    machine_id: int
    project_id: int
    model: str
    hashrate_hs: Figure
    power_w: Figure
    power_estimated: bool
    sampled_at: datetime
    flagged: bool
    shared_from: int | None


class BenchmarkRun(Answer):
    """A run: who asked for it, where it stands, what it cost, and what it came to."""

    id: UUID
    policy_id: int | None
    machine_id: int
    project_id: int
    state: str
    step: str | None
    reason: str | None
    origin: str
    requested_by: str | None
    attempt_no: int
    value_cny_per_day: Figure
    not_before: datetime
    requested_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    restore_status: str | None
    lost_minutes: Figure
    lost_cny: Figure
    result: dict[str, Any]


class BenchmarkRunIn(Strict):
    """Which machine is to be measured on which project; its policy says within which limits."""

    policy_id: Id
    machine_id: Id
    project_id: Id


class RequestedRun(Answer):
    """The open run of the machine and project, where it stands, and the policy that carries it out.

    `waits_for` names what keeps that policy from beginning any run, by the codes of readiness and `sampling_off`.
    """

    run_id: UUID
    state: str
    policy_id: int | None
    waits_for: list[str]


@operation("GET", "/benchmarks", scope=Scope.READ, tag=TAG)
def list_benchmarks(
    machine_id: QueryId = None, project_id: QueryId = None, cursor: Cursor = None, limit: Limit = 50
) -> Response[Page[Benchmark]]:
    """List what was measured or shared, in the order of machines and projects."""
    with located("query"):
        page = flow.benchmarks(
            store(),
            tenant_id=caller().tenant_id,
            machine_id=machine_id,
            project_id=project_id,
            cursor=cursor,
            limit=limit,
        )
    return answer(Page[Benchmark].of(page.rows, page.cursor, Benchmark))


@operation("GET", "/benchmark-runs", scope=Scope.READ, tag=TAG)
def list_benchmark_runs(  # noqa: PLR0913, PLR0917 - filters
    state: Annotated[RunState | None, Query()] = None,
    open: Annotated[bool | None, Query(description="only those that have not ended, or have")] = None,  # noqa: A002 - the parameter's name
    policy_id: QueryId = None,
    machine_id: QueryId = None,
    project_id: QueryId = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Response[Page[BenchmarkRun]]:
    """List benchmark runs, the newest first."""
    with located("query"):
        page = flow.benchmark_runs(
            store(),
            tenant_id=caller().tenant_id,
            policy_id=policy_id,
            machine_id=machine_id,
            project_id=project_id,
            state=state,
            is_open=open,
            cursor=cursor,
            limit=limit,
        )
    return answer(Page[BenchmarkRun].of(page.rows, page.cursor, BenchmarkRun))


@operation(
    "POST",
    "/benchmark-runs",
    scope=Scope.EXECUTE,
    tag=TAG,
    status=202,
    problems=["not_found", "request_conflict"],
)
def request_benchmark_run(
    run: Annotated[BenchmarkRunIn, Body()], idempotency_key: IdempotencyKey
) -> Response[RequestedRun]:
    """Ask for a machine to be measured before all others; an open run of the same machine and project is that one."""
    who = caller()
    asked = flow.request_benchmark_once(
        store(),
        policy_id=run.policy_id,
        machine_id=run.machine_id,
        project_id=run.project_id,
        tenant_id=who.tenant_id,
        request_id=idempotency_key,
        by=who.subject,
    )
    return answer(RequestedRun.model_validate(asked), status=202)
