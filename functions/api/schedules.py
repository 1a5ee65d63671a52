"""Schedules: stored conversations and the ticks of policies, with their next runs (R8)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Body, Query
from pydantic import Field

from blsflow.documents import Strict, located
from blsflow.documents.rules import RuleDocument, WorkDocument
from blsflow.domain.errors import InvalidExecutionRequest
from blsflow.domain.pages import encode_cursor
from blsflow.domain.recurrence import preview
from blsflow.domain.recurrence_document import parse_rule
from blsflow.flow import schedules as flow
from blsflow.flow.requests import fingerprint, once
from blsflow.web.caller import Scope

from .routing import answer, caller, named_version, operation, store
from .shapes import (
    Answer,
    Cursor,
    Digits,
    IdempotencyKey,
    IfMatch,
    Instant,
    Limit,
    Name,
    Page,
    PathId,
    id_cursor,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

TAG = "schedules"


class ScheduleIn(Strict):
    """A schedule of conversations."""

    name: Name = ""
    rule: RuleDocument
    work: WorkDocument


class Schedule(Answer):
    """A schedule: `next_run_at` is null when nothing comes any more, `broken` says why it was set aside."""

    id: int
    kind: str
    name: str
    policy_id: int | None
    created_by: str
    runs_as: str
    rule: dict[str, Any]
    work: dict[str, Any]
    paused: bool
    archived: bool
    version: int
    next_run_at: datetime | None
    broken: str | None
    newest_state: str | None


class PreviewIn(Strict):
    """A rule, and from when on its runs are asked for."""

    rule: RuleDocument
    after: Annotated[Instant | None, Field(strict=False, description="else now")] = None
    count: Annotated[int, Field(ge=1, le=100)] = 10


class PlannedRun(Answer):
    """A run: when it comes, the local time that it stands for, and what the zone's clock does to that time."""

    at: datetime
    planned_for: str
    clock: str


class Preview(Answer):
    """The next runs of a rule; fewer than asked for if it ends before."""

    time_zone: str
    runs: list[PlannedRun]


@operation("GET", "/schedules", scope=Scope.READ, tag=TAG, makes={"schedule_id": "/items/0/id"})
def list_schedules(cursor: Cursor = None, limit: Limit = 50) -> Response[Page[Schedule]]:
    """List the schedules in use, in the order of their ids."""
    rows = flow.list_schedules(
        store(), tenant_id=caller().tenant_id, after_id=id_cursor("schedules", cursor), limit=limit
    )
    following = encode_cursor("schedules", rows[-1]["id"]) if len(rows) == limit else None
    return answer(Page[Schedule].of([_schedule(row) for row in rows], following, Schedule))


@operation(
    "POST",
    "/schedules",
    scope=Scope.WRITE,
    tag=TAG,
    status=201,
    problems=["request_conflict"],
    makes={"schedule_id": "/id"},
)
def create_schedule(
    schedule: Annotated[ScheduleIn, Body()], idempotency_key: IdempotencyKey
) -> Response[Schedule]:
    """Store a schedule of conversations; its runs are made in the name of its creator.

    Its first run is the rule's next one from now. Once somebody else changes what is sent, it is sent in their name.
    """
    who = caller()
    document = schedule.model_dump(exclude_unset=True, mode="json")
    with store().transaction() as tx:
        made = once(
            tx,
            tenant_id=who.tenant_id,
            key=idempotency_key,
            fingerprint=fingerprint("POST /schedules", document),
            by=who.subject,
            make=lambda: {
                "id": flow.create_schedule_in(
                    tx, tenant_id=who.tenant_id, created_by=who.subject, by=who.subject, **_said(schedule)
                ).schedule_id
            },
        )
    return _current(made.document["id"], status=201)


@operation("POST", "/schedule-preview", scope=Scope.READ, tag=TAG)
def preview_rule(asked: Annotated[PreviewIn, Body()]) -> Response[Preview]:
    """List the next runs of a rule that need not be stored, with those marked that a change of the clock touches."""
    document = asked.rule.model_dump(exclude_unset=True)
    return answer(_preview(document, asked.after, asked.count))


@operation("GET", "/schedules/<schedule_id>", scope=Scope.READ, tag=TAG, problems=["not_found"])
def read_schedule(schedule_id: PathId) -> Response[Schedule]:
    """Read a schedule with its version, also an archived one."""
    return _current(schedule_id)


@operation(
    "PUT",
    "/schedules/<schedule_id>",
    scope=Scope.WRITE,
    tag=TAG,
    problems=["not_found", "conflict", "version_conflict", "precondition_required"],
)
def change_schedule(
    schedule_id: PathId, schedule: Annotated[ScheduleIn, Body()], if_match: IfMatch = None
) -> Response[Schedule]:
    """Replace a conversation's schedule, unless somebody else has changed it since it was read.

    What was recorded before and has not begun is then skipped as `config_changed`. Tenant and creator stay; if what is
    sent changes, it is sent in the name of who changed it (`runs_as`).
    """
    who = caller()
    flow.change_schedule(
        store(),
        schedule_id,
        version=named_version(if_match),
        by=who.subject,
        runs_as=who.subject,
        tenant_id=who.tenant_id,
        **_said(schedule),
    )
    return _current(schedule_id)


@operation(
    "POST", "/schedules/<schedule_id>/pause", scope=Scope.WRITE, tag=TAG, problems=["not_found", "conflict"]
)
def pause_schedule(schedule_id: PathId) -> Response[Schedule]:
    """Pause a conversation's schedule; its anchor does not move. Again changes nothing."""
    who = caller()
    flow.pause_schedule(store(), schedule_id, paused=True, by=who.subject, tenant_id=who.tenant_id)
    return _current(schedule_id)


@operation(
    "POST", "/schedules/<schedule_id>/resume", scope=Scope.WRITE, tag=TAG, problems=["not_found", "conflict"]
)
def resume_schedule(schedule_id: PathId) -> Response[Schedule]:
    """Go on with a paused schedule, in the rule's own rhythm from now. Again changes nothing."""
    who = caller()
    flow.pause_schedule(store(), schedule_id, paused=False, by=who.subject, tenant_id=who.tenant_id)
    return _current(schedule_id)


@operation(
    "POST", "/schedules/<schedule_id>/archive", scope=Scope.WRITE, tag=TAG, problems=["not_found", "conflict"]
)
def archive_schedule(schedule_id: PathId) -> Response[Schedule]:
    """Take a conversation's schedule out of use for good; its history stays, and what is under way ends as it does."""
    who = caller()
    flow.archive_schedule(store(), schedule_id, by=who.subject, tenant_id=who.tenant_id)
    return _current(schedule_id)


@operation("GET", "/schedules/<schedule_id>/preview", scope=Scope.READ, tag=TAG, problems=["not_found"])
def preview_schedule(
    schedule_id: PathId,
    after: Annotated[Instant | None, Query(description="else now")] = None,
    count: Annotated[int, Digits, Query(ge=1, le=100)] = 10,
) -> Response[Preview]:
    """List the next runs of a stored schedule."""
    row = flow.read_schedule(store(), schedule_id, tenant_id=caller().tenant_id)
    return answer(_preview(_rule(row), after, count))


def _current(schedule_id: int, *, status: int = 200) -> Response[Schedule]:
    row = flow.read_schedule(store(), schedule_id, tenant_id=caller().tenant_id)
    location = f"/schedules/{schedule_id}" if status == 201 else None  # noqa: PLR2004 - Created
    return answer(_schedule(row), status=status, version=row["version"], location=location)


def _schedule(row: Mapping[str, Any]) -> Schedule:
    return Schedule.model_validate({**row, "rule": _rule(row)})


def _rule(row: Mapping[str, Any]) -> dict[str, Any]:
    return {**row["rule"], "time_zone": row["time_zone"]}


def _said(schedule: ScheduleIn) -> dict[str, Any]:
    rule = schedule.rule.model_dump(exclude_unset=True)
    with located("rule"):
        parse_rule(rule)
    return {"name": schedule.name, "work": schedule.work.model_dump(), "rule": rule}


def _preview(document: Mapping[str, Any], after: datetime | None, count: int) -> Preview:
    with located("rule"):
        rule = parse_rule(document)
    try:
        runs = preview(rule, (after or datetime.now(UTC)).astimezone(UTC), count)
    except OverflowError as error:
        raise InvalidExecutionRequest(
            field="after", value=after, cause="is at the end of all times"
        ) from error
    return Preview(
        time_zone=rule.time_zone,
        runs=[PlannedRun(at=run.at, planned_for=run.wall.isoformat(), clock=run.mark) for run in runs],
    )
