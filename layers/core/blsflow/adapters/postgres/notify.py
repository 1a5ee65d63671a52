"""The outbox and the log: what is told to people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from blsflow.adapters.postgres.connection import as_json
from blsflow.adapters.postgres.part import Part
from blsflow.domain.events import Notification
from blsflow.ports.people import NotificationRow
from blsflow.ports.rows import PendingNotification

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from blsflow.domain.events import LogEvent
    from blsflow.domain.notifications import NotificationQuery


PLANNED_BY_VALUES: Final = "set local plan_cache_mode = force_custom_plan"
"""A plan for any tenant walks the rows of all tenants by id, which a tenant with few of them pays for."""


class NotifyQueries(Part):
    """The part of a transaction that tells people."""

    def write_events(self, events: Sequence[LogEvent], notifications: Sequence[Notification] = ()) -> None:
        """Write log events and notifications with the state that they tell of."""
        if events:
            self._session.query(
                "write_events",
                tenant_ids=[event.tenant_id for event in events],
                policy_ids=[event.policy_id for event in events],
                kinds=[event.kind for event in events],
                levels=[str(event.level) for event in events],
                codes=[event.code for event in events],
                params=[as_json(dict(event.params)) for event in events],
                tick_ids=[event.tick_id for event in events],
                attempt_ids=[event.attempt_id for event in events],
                machine_ids=[event.machine_id for event in events],
            )
        if notifications:
            self._session.query(
                "write_notifications",
                tenant_ids=[each.tenant_id for each in notifications],
                policy_ids=[each.policy_id for each in notifications],
                codes=[each.code for each in notifications],
                params=[as_json(dict(each.params)) for each in notifications],
            )

    def claim_notifications(self, limit: int) -> Sequence[PendingNotification]:
        """Lock unpublished outbox rows that nobody else has."""
        return [
            PendingNotification(
                notification_id=row["id"],
                notification=Notification(
                    tenant_id=row["tenant_id"],
                    policy_id=row["policy_id"],
                    code=row["code"],
                    params=row["params"],
                ),
                created_at=row["created_at"],
                tries=row["tries"],
            )
            for row in self._session.query("claim_notifications", page_size=limit)
        ]

    def mark_published(self, notification_id: int) -> None:
        """Note that one went out."""
        self._session.query("mark_published", notification_id=notification_id)

    def mark_unpublished(self, notification_id: int, retry_after: timedelta) -> None:
        """Note that one did not go out and when to try again."""
        self._session.query("mark_unpublished", notification_id=notification_id, retry_after=retry_after)

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
