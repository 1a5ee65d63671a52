"""Notifications in people's hands: the list with its read marks (R10.1).

Someone else's notification is as unknown as none. Reading has nothing to do with publishing: neither waits for the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from blsflow.domain.errors import BlsflowError
from blsflow.domain.pages import encode_cursor, is_id

if TYPE_CHECKING:
    from collections.abc import Sequence

    from blsflow.domain.notifications import NotificationQuery
    from blsflow.ports.people import NotificationRow
    from blsflow.ports.store import Store


class UnknownNotification(BlsflowError):
    """The tenant has no such notification."""

    def __init__(self, notification_id: int) -> None:
        super().__init__(f"there is no notification {notification_id}: the list has those that there are")
        self.notification_id = notification_id


def list_notifications(
    store: Store, query: NotificationQuery
) -> tuple[Sequence[NotificationRow], str | None]:
    """Return a page of a tenant's notifications and the cursor of the next one, None when this is the last."""
    with store.transaction() as tx:
        rows = tx.list_notifications(query)
    return rows, encode_cursor("notifications", rows[-1].notification_id) if len(
        rows
    ) == query.limit else None


def mark_read(store: Store, notification_id: int, *, by: str, tenant_id: str) -> NotificationRow:
    """Note who has read it and when; the first one stays on the record, whoever marks it again."""
    return _mark(store, notification_id, read_by=by, tenant_id=tenant_id)


def mark_unread(store: Store, notification_id: int, *, tenant_id: str) -> NotificationRow:
    """Take the mark away; one that is unread already stays so."""
    return _mark(store, notification_id, read_by=None, tenant_id=tenant_id)


def _mark(store: Store, notification_id: int, *, read_by: str | None, tenant_id: str) -> NotificationRow:
    if not is_id(notification_id):
        raise UnknownNotification(notification_id)
    with store.transaction() as tx:
        row = tx.mark_notification(notification_id, tenant_id=tenant_id, read_by=read_by)
    if row is None:
        raise UnknownNotification(notification_id)
    return row
