"""Notifications: what people were told, with read marks (R10.1)."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Query

from blsflow.domain.notifications import NotificationQuery
from blsflow.domain.pages import LARGEST_ID
from blsflow.flow import notifications as flow
from blsflow.web.caller import Scope

from .routing import answer, caller, operation, store
from .shapes import Answer, Cursor, Limit, Page, PathId, QueryId, Texts, id_cursor

TAG = "notifications"


class Notification(Answer):
    """One message to the tenant's people; unread while `read_at` is null."""

    notification_id: int
    policy_id: int | None
    code: str
    params: dict[str, Any]
    texts: Texts
    created_at: datetime
    read_at: datetime | None
    read_by: str | None


@operation(
    "GET", "/notifications", scope=Scope.READ, tag=TAG, makes={"notification_id": "/items/0/notification_id"}
)
def list_notifications(
    unread: Annotated[bool | None, Query(description="only those that are, or are not")] = None,
    code: Annotated[str | None, Query(max_length=100)] = None,
    policy_id: QueryId = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Response[Page[Notification]]:
    """List what people were told, the newest first."""
    rows, following = flow.list_notifications(
        store(),
        NotificationQuery(
            tenant_id=caller().tenant_id,
            unread=unread,
            code=code,
            policy_id=policy_id,
            before_id=id_cursor("notifications", cursor, first=LARGEST_ID),
            limit=limit,
        ),
    )
    return answer(Page[Notification].of(rows, following, Notification))


@operation("PUT", "/notifications/<notification_id>/read", scope=Scope.WRITE, tag=TAG, problems=["not_found"])
def mark_notification_read(notification_id: PathId) -> Response[Notification]:
    """Note that it was read, by whom and when; the first reader stays on the record."""
    who = caller()
    row = flow.mark_read(store(), notification_id, by=who.subject, tenant_id=who.tenant_id)
    return answer(Notification.model_validate(row))


@operation(
    "DELETE", "/notifications/<notification_id>/read", scope=Scope.WRITE, tag=TAG, problems=["not_found"]
)
def mark_notification_unread(notification_id: PathId) -> Response[Notification]:
    """Take the mark away."""
    row = flow.mark_unread(store(), notification_id, tenant_id=caller().tenant_id)
    return answer(Notification.model_validate(row))
