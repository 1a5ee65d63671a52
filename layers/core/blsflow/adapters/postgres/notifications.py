"""Notifications as a tenant's people read them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from blsflow.adapters.postgres.part import Part
from blsflow.ports.people import NotificationRow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from blsflow.domain.notifications import NotificationQuery


PLANNED_BY_VALUES: Final = "set local plan_cache_mode = force_custom_plan"
"""A plan for any tenant walks the rows of all tenants by id, which a tenant with few of them pays for."""


class NotificationQueries(Part):
    """The part of a transaction that shows notifications, and which of them were read."""

    def list_notifications(self, query: NotificationQuery) -> Sequence[NotificationRow]:
        """Return a page of a tenant's notifications, newest first, by whichever index is best for this tenant."""
        self._session.run(PLANNED_BY_VALUES)
        rows = self._session.query(
            "list_notifications",
            tenant_id=query.tenant_id,
            before_id=query.before_id,
            unread=query.unread,
            code=query.code,
            policy_id=query.policy_id,
            page_size=query.limit,
        )
        return [NotificationRow(**row) for row in rows]

    def mark_notification(
        self, notification_id: int, *, tenant_id: str, read_by: str | None
    ) -> NotificationRow | None:
        """Mark one read by somebody, or unread (None); None if the tenant has no such notification."""
        if read_by is None:
            rows = self._session.query(
                "mark_notification_unread", notification_id=notification_id, tenant_id=tenant_id
            )
        else:
            rows = self._session.query(
                "mark_notification_read", notification_id=notification_id, tenant_id=tenant_id, by=read_by
            )
        return NotificationRow(**rows[0]) if rows else None
