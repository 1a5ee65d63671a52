"""The outbox as notify takes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

    from blsflow.domain.events import Notification


@dataclass(frozen=True, kw_only=True, slots=True)
class PendingNotification:
    """An outbox row claimed for publishing."""

    notification_id: int
    notification: Notification
    created_at: datetime
    tries: int
