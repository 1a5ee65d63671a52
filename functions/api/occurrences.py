"""Occurrences: what ran, of one schedule and of all, running now and cancelling (R8.7 to R8.12)."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Body, Query
from pydantic import Field

from blsflow.bootstrap import application
from blsflow.documents import Strict, located
from blsflow.domain.history import HistoryQuery, decode_cursor
from blsflow.domain.occurrence import OccurrenceState, ScheduleKind
from blsflow.flow import control, schedules
from blsflow.flow import occurrences as flow
from blsflow.web.caller import Scope

from .routing import answer, caller, operation, store
from .shapes import Answer, Cursor, Instant, Limit, Name, Page, PathId

TAG = "schedules"

Since = Annotated[Instant | None, Query(description="planned at or after")]
Until = Annotated[Instant | None, Query(description="planned before")]
State = Annotated[OccurrenceState | None, Query()]


class Occurrence(Answer):
    """One planned or manual run; an end is final, `reason` says why it was skipped or how it ended."""

    occurrence_id: int
    schedule_id: int
    kind: str
    origin: str
    planned_at: datetime
    state: str
    reason: str | None
    missed_count: int | None
    request_id: str | None
    recorded_at: datetime
    began_at: datetime | None
    ended_at: datetime | None
    output_ref: str | None
    error: str | None


class RunIn(Strict):
    """A run now; while the schedule is in use, the same `requestId` gives the same occurrence, whatever became of it."""

    requestId: Annotated[Name, Field(min_length=1)]  # noqa: N815 - the contract's own name


class Run(Answer):
    """The occurrence of a manual run; `is_new` tells whether this request made it."""

    occurrence_id: int
    state: str
    reason: str | None
    is_new: bool


class Cancelled(Answer):
    """Where the occurrence stands; `asked` is false when it had ended or was cancelled before."""

    state: str
    asked: bool


@operation(
    "GET",
    "/occurrences",
    scope=Scope.READ,
    tag=TAG,
    makes={"schedule_id": "/items/0/schedule_id", "occurrence_id": "/items/0/occurrence_id"},
)
def list_occurrences(  # noqa: PLR0913, PLR0917 - filters
    kind: Annotated[ScheduleKind | None, Query()] = None,
    state: State = None,
    since: Since = None,
    until: Until = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Response[Page[Occurrence]]:
    """List the occurrences of all schedules, newest planned time first.

    Pages neither repeat nor lose a row while rows are added.
    """
    return _page(None, kind, state, since, until, cursor, limit)


@operation(
    "GET",
    "/schedules/<schedule_id>/occurrences",
    scope=Scope.READ,
    tag=TAG,
    problems=["not_found"],
    makes={"occurrence_id": "/items/0/occurrence_id"},
)
def list_occurrences_of_schedule(  # noqa: PLR0913, PLR0917 - filters
    schedule_id: PathId,
    state: State = None,
    since: Since = None,
    until: Until = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Response[Page[Occurrence]]:
    """List the occurrences of a schedule, newest planned time first."""
    schedules.read_schedule(store(), schedule_id, tenant_id=caller().tenant_id)
    return _page(schedule_id, None, state, since, until, cursor, limit)


@operation(
    "GET",
    "/schedules/<schedule_id>/occurrences/<occurrence_id>",
    scope=Scope.READ,
    tag=TAG,
    problems=["not_found"],
)
def read_occurrence(schedule_id: PathId, occurrence_id: PathId) -> Response[Occurrence]:
    """Read one occurrence of a schedule."""
    row = flow.read_occurrence(store(), schedule_id, occurrence_id, tenant_id=caller().tenant_id)
    return answer(Occurrence.model_validate(row))


@operation(
    "POST",
    "/schedules/<schedule_id>/run",
    scope=Scope.EXECUTE,
    tag=TAG,
    status=202,
    problems=["not_found", "conflict", "request_conflict", "execution_target_unavailable"],
    makes={"occurrence_id": "/occurrence_id"},
)
def run_schedule(schedule_id: PathId, run: Annotated[RunIn, Body()]) -> Response[Run]:
    """Run a conversation now, whether or not its schedule is paused.

    The prompt is sent within this request, at most once. Where its target does not exist, the occurrence that says so does.
    """
    who = caller()
    requested = flow.run_schedule(
        store(),
        schedule_id,
        request_id=run.requestId,
        by=who.subject,
        converse=application().converse,
        tenant_id=who.tenant_id,
    )
    # what came of it is read again: sending has moved it on
    row = flow.read_occurrence(store(), schedule_id, requested.occurrence_id, tenant_id=who.tenant_id)
    return answer(
        Run(occurrence_id=row.occurrence_id, state=row.state, reason=row.reason, is_new=requested.is_new),
        status=202,
        location=f"/schedules/{schedule_id}/occurrences/{row.occurrence_id}",
    )


@operation(
    "POST",
    "/policies/<policy_id>/run",
    scope=Scope.EXECUTE,
    tag="policies",
    status=202,
    problems=["not_found", "conflict", "request_conflict"],
)
def run_policy(policy_id: PathId, run: Annotated[RunIn, Body()]) -> Response[Run]:
    """Tick a policy now, outside of its schedule; the occurrence tells what comes of it."""
    who = caller()
    requested = control.run(
        store(),
        policy_id,
        request_id=run.requestId,
        decide_queue=application().decide_queue,
        by=who.subject,
        tenant_id=who.tenant_id,
    )
    return answer(Run.model_validate(requested), status=202)


@operation(
    "POST",
    "/schedules/<schedule_id>/occurrences/<occurrence_id>/cancel",
    scope=Scope.EXECUTE,
    tag=TAG,
    status=202,
    problems=["not_found"],
)
def cancel_occurrence(schedule_id: PathId, occurrence_id: PathId) -> Response[Cancelled]:
    """Ask an occurrence to end; one that began keeps its slot until its end is confirmed."""
    who = caller()
    cancelled = flow.cancel_occurrence(
        store(),
        schedule_id,
        occurrence_id,
        by=who.subject,
        execution_service=application().execution_service,
        tenant_id=who.tenant_id,
    )
    return answer(Cancelled.model_validate(cancelled), status=202)


def _page(  # noqa: PLR0913, PLR0917 - filters
    schedule_id: int | None,
    kind: str | None,
    state: str | None,
    since: datetime | None,
    until: datetime | None,
    cursor: str | None,
    limit: int,
) -> Response[Page[Occurrence]]:
    with located("query"):
        after = None if cursor is None else decode_cursor(cursor)
    rows, following = flow.history(
        store(),
        HistoryQuery(
            tenant_id=caller().tenant_id,
            schedule_id=schedule_id,
            kind=kind,
            state=state,
            since=since,
            until=until,
            after=after,
            limit=limit,
        ),
    )
    return answer(Page[Occurrence].of(rows, following, Occurrence))
