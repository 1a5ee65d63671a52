"""Handing prepared attempts over to be sent: the last thing that a tick or an operator's command does."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from blsflow.ports.services import Queue
    from blsflow.ports.store import Store


def enqueue_attempts(store: Store, queue: Queue, ids: Sequence[UUID]) -> None:
    """Send prepared attempts to be executed, after the commit that prepared them."""
    if not ids:
        return
    queue.send([{"attempt_id": str(attempt_id)} for attempt_id in ids])
    store.mark_attempts_enqueued(ids)
