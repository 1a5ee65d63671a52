"""What ticks left behind, read in pages that an index gives in their order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from blsflow.adapters.postgres.history import IN_ORDER
from blsflow.adapters.postgres.part import Part
from blsflow.domain.pages import LARGEST_ID
from blsflow.ports.ticks import DecisionRow, StoredTick, TickRow

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from typing import Any

    from blsflow.ports.ticks import DecisionFilter


class TickRecordQueries(Part):
    """The part of a transaction that reads ticks and decisions for people."""

    def ticks(
        self, policy_id: int, *, tenant_id: str | None, before: tuple[datetime, int], limit: int
    ) -> Sequence[TickRow]:
        """Return a page of a policy's ticks, newest first."""
        self._session.run(IN_ORDER)
        rows = self._session.query(
            "ticks_of_policy",
            policy_id=policy_id,
            tenant_id=tenant_id,
            before_at=before[0],
            before_id=before[1],
            page_size=limit,
        )
        return [TickRow(**row) for row in rows]

    def tick(self, tick_id: int, *, tenant_id: str | None) -> TickRow | None:
        """Return a tick; None if there is no such tick."""
        rows = self._session.query("tick", tick_id=tick_id, tenant_id=tenant_id)
        return TickRow(**rows[0]) if rows else None

    def stored_tick(self, tick_id: int, *, tenant_id: str | None) -> StoredTick | None:
        """Return a tick with its inputs; None if there is no such tick."""
        rows = self._session.query("stored_tick", tick_id=tick_id, tenant_id=tenant_id)
        if not rows:
            return None
        inputs = rows[0].pop("inputs")
        return StoredTick(tick=TickRow(**rows[0]), inputs=inputs)

    def decisions_of_tick(
        self, tick: TickRow, only: DecisionFilter, *, after: int, limit: int
    ) -> Sequence[DecisionRow]:
        """Return a page of a tick's decisions, in order of their machines."""
        first, last = after + 1, LARGEST_ID
        if only.machine_id is not None:
            first, last = max(first, only.machine_id), only.machine_id
        self._session.run(IN_ORDER)
        rows = self._session.query(
            "decisions_of_tick",
            tick_id=tick.tick_id,
            ticked_at=tick.ticked_at,
            first_machine=first,
            last_machine=last,
            action=only.action,
            reason=only.reason,
            page_size=limit,
        )
        return [DecisionRow(**row) for row in rows]

    def knows_machine(self, machine_id: int, *, tenant_id: str | None) -> bool:
        """Whether there is such a machine."""
        return bool(self._session.query("knows_machine", machine_id=machine_id, tenant_id=tenant_id))

    def decisions_of_machine(
        self, machine_id: int, *, tenant_id: str | None, before: tuple[datetime, int], limit: int
    ) -> Sequence[DecisionRow]:
        """Return a page of one machine's decisions, newest first; ``before`` is a time and a tick."""
        self._session.run(IN_ORDER)
        rows = self._session.query(
            "decisions_of_machine",
            machine_id=machine_id,
            tenant_id=tenant_id,
            before_at=before[0],
            before_id=before[1],
            page_size=limit,
        )
        return [DecisionRow(**row) for row in rows]

    def stored_decision(
        self, tick_id: int, machine_id: int, *, tenant_id: str | None
    ) -> Mapping[str, Any] | None:
        """Return a decision with the inputs that it came from; None if the tick had none for the machine."""
        rows = self._session.query(
            "stored_decision", tick_id=tick_id, machine_id=machine_id, tenant_id=tenant_id
        )
        return rows[0] if rows else None
