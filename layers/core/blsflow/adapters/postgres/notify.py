"""The outbox: what waits to be published."""

from __future__ import annotations

from typing import TYPE_CHECKING

from blsflow.adapters.postgres.part import Part
from blsflow.domain.events import Notification
from blsflow.ports.notify import PendingNotification

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta


class NotifyQueries(Part):
    """The part of a transaction that publishes."""

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
