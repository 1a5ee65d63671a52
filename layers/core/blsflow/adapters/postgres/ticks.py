"""What ticks left behind, read in pages that an index gives in their order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from blsflow.adapters.postgres.history import IN_ORDER
from blsflow.adapters.postgres.part import Part
from blsflow.domain.pages import LARGEST_ID
from blsflow.ports.ticks import DecisionRow, StoredTick, TickRow

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from blsflow.ports.ticks import DecisionFilter, TickPlace

MOST_TICKS: Final = 20_000
"""Ticks that one page of a machine's decisions looks at, which takes some 60 ms."""
LOOKING_UP: Final = f"{IN_ORDER}; set local enable_seqscan = off"
"""A plan of yesterday takes the partition of today for empty, as it was then, and would read all of it for each tick."""


class TickRecordQueries(Part):
    """The part of a transaction that reads ticks and decisions for people."""

    def ticks(
        self, policy_id: int, *, tenant_id: str | None, before: TickPlace, limit: int
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

    def tenant_of_machine(self, machine_id: int, *, tenant_id: str | None) -> str | None:
        """Return whose machine it is; None if there is no such machine."""
        rows = self._session.query("tenant_of_machine", machine_id=machine_id, tenant_id=tenant_id)
        return rows[0]["tenant_id"] if rows else None

    def decisions_of_machine(
        self, machine_id: int, *, tenant_id: str, before: TickPlace, limit: int
    ) -> tuple[Sequence[DecisionRow], TickPlace | None]:
        """Return a page of one machine's decisions, newest first, and where the next page goes on."""
        self._session.run(LOOKING_UP)
        walk: dict[str, object] = {
            "tenant_id": tenant_id, "before_at": before[0], "before_id": before[1], "most_ticks": MOST_TICKS,
        }  # fmt: skip
        found = self._session.query("decisions_of_machine", machine_id=machine_id, page_size=limit, **walk)
        rows = [DecisionRow(**row) for row in found]
        if len(rows) == limit:
            return rows, (rows[-1].ticked_at, rows[-1].tick_id)
        ends = self._session.query("last_tick_walked", **walk)
        return rows, (ends[0]["ticked_at"], ends[0]["id"]) if ends else None

    def stored_decision(
        self, tick_id: int, machine_id: int, *, tenant_id: str | None
    ) -> Mapping[str, Any] | None:
        """Return a decision with the inputs that it came from; None if the tick had none for the machine."""
        rows = self._session.query(
            "stored_decision", tick_id=tick_id, machine_id=machine_id, tenant_id=tenant_id
        )
        return rows[0] if rows else None
