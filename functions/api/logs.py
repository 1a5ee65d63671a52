"""The log, newest first, in pages that hand over to the live stream; and the stream itself, which `live` answers (R9.3)."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Query

from blsflow.bootstrap import application
from blsflow.documents import located
from blsflow.domain.events import Level
from blsflow.domain.log import LogQuery, read_place
from blsflow.domain.texts import render
from blsflow.web.caller import Scope

from .routing import answer, caller, operation
from .shapes import Answer, Cursor, Instant, Limit, QueryId, Texts

TAG = "logs"


class LogEvent(Answer):
    """One event: a stable code with its parameters, and the same in words."""

    id: int
    at: datetime
    policy_id: int | None
    kind: str
    level: str
    code: str
    params: dict[str, Any]
    texts: Texts
    tick_id: int | None
    attempt_id: UUID | None
    machine_id: int | None


class LogPage(Answer):
    """Settled events; a stream that goes on after the first page's `stream_after` leaves no gap and repeats nothing."""

    items: list[LogEvent]
    next_cursor: str | None
    stream_after: str | None


@operation("GET", "/logs", scope=Scope.READ, tag=TAG, problems=["not_found"])
def list_log_events(  # noqa: PLR0913, PLR0917 - filters
    policy_id: QueryId = None,
    level: Annotated[Level | None, Query()] = None,
    code: Annotated[str | None, Query(max_length=100, pattern="^[a-z_]+$")] = None,
    kind: Annotated[Literal["log", "progress", "tick"] | None, Query()] = None,
    since: Annotated[Instant | None, Query(description="at or after")] = None,
    until: Annotated[Instant | None, Query(description="before")] = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Response[LogPage]:
    """List log events, the newest first. With filters a page may be short and still have a next one."""
    with located("query"):
        query = LogQuery(
            policy_id=policy_id,
            level=level,
            code=code,
            kind=kind,
            since=since,
            until=until,
            after=None if cursor is None else read_place("cursor", cursor),
            limit=limit,
        )
    page = application().log_page(query, tenant_id=caller().tenant_id)
    return answer(
        LogPage(
            items=[
                LogEvent(
                    id=row.place.event_id,
                    texts=Texts.model_validate(render(row.code, row.params)),
                    **{
                        name: getattr(row, name)
                        for name in (
                            "at", "policy_id", "kind", "level", "code", "params", "tick_id", "attempt_id", "machine_id",
                        )
                    },
                )
                for row in page.rows
            ],
            next_cursor=None if page.next is None else str(page.next),
            stream_after=None if page.stream_after is None else str(page.stream_after),
        )
    )  # fmt: skip
