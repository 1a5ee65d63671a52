"""The log and the outbox, as everything that has something to tell writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from blsflow.adapters.postgres.part import Part
from blsflow.adapters.postgres.statements import as_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from blsflow.domain.events import LogEvent, Notification


class EventQueries(Part):
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
