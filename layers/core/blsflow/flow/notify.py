"""Notify: publish what the outbox holds.

A row is claimed, published and marked in one transaction: two publishers never take the same row, and a crash loses none.
Only a crash between the publishing and the commit publishes twice; the notification's id tells receivers so.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, timedelta
from typing import TYPE_CHECKING, Final

from blsflow.domain.texts import render
from blsflow.ports.errors import PublishFailed
from blsflow.ports.services import NotificationMessage

if TYPE_CHECKING:
    from collections.abc import Callable

    from blsflow.ports.notify import PendingNotification
    from blsflow.ports.services import Publisher
    from blsflow.ports.store import Store

_LONGEST_WAIT: Final = timedelta(hours=1)


@dataclass(kw_only=True, slots=True)
class NotifyReport:
    """What one run published, and what it could not."""

    published: int = 0
    failures: dict[int, PublishFailed] = field(default_factory=dict)


def notify(store: Store, *, publisher: Publisher, time_left: Callable[[], bool]) -> NotifyReport:
    """Publish rows one at a time while there are any and there is time; one that fails waits longer each time."""
    report = NotifyReport()
    while time_left():
        with store.transaction() as tx:
            claimed = tx.claim_notifications(1)
            if not claimed:
                return report
            pending = claimed[0]
            try:
                publisher.publish(_message(pending))
            except PublishFailed as error:
                tx.mark_unpublished(pending.notification_id, _wait(pending.tries))
                report.failures[pending.notification_id] = error
            else:
                tx.mark_published(pending.notification_id)
                report.published += 1
    return report


def _message(pending: PendingNotification) -> NotificationMessage:
    """Return the notification in words, English before Chinese, and as a document with both texts (R9.4)."""
    notification = pending.notification
    texts = render(notification.code, notification.params)
    of_policy = None if notification.policy_id is None else f"policy {notification.policy_id}"
    whose = " of ".join(filter(None, [of_policy, notification.tenant_id]))
    text = f"""{texts.en}

{texts.zh}

{whose}
{pending.created_at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC
{notification.code}, notification {pending.notification_id}
"""
    return NotificationMessage(
        notification_id=pending.notification_id,
        tenant_id=notification.tenant_id,
        code=notification.code,
        subject=f"BLSFlow, {whose}: {texts.en}",
        text=text,
        document={
            "notification_id": pending.notification_id,
            "tenant_id": notification.tenant_id,
            "policy_id": notification.policy_id,
            "code": notification.code,
            "params": dict(notification.params),
            "texts": {"en": texts.en, "zh": texts.zh},
            "created_at": pending.created_at.isoformat(),
        },
    )


def _wait(tries: int) -> timedelta:
    return min(_LONGEST_WAIT, timedelta(seconds=30 * 2.0 ** min(tries, 10)))
