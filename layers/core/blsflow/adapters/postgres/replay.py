"""What reports and backtests read of the past: stored ticks with their machines' records, and price readings."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

from blsflow.adapters.postgres.copying import RecordReader
from blsflow.adapters.postgres.inputs import raw_price_of
from blsflow.adapters.postgres.part import Part
from blsflow.adapters.postgres.statements import inlined
from blsflow.domain.prices import PriceReading
from blsflow.ports.replay import ReplayedTick

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime, timedelta


_TICK_ID: Final = struct.Struct(">q")


class ReplayQueries(Part):
    """Reports' and backtests' part of a transaction."""

    def policy_name(self, policy_id: int, *, tenant_id: str | None) -> str | None:
        """Return the name of a policy in use; None if there is none of the tenant."""
        rows = self._session.query("policy_name", policy_id=policy_id, tenant_id=tenant_id)
        return rows[0]["name"] if rows else None

    def stored_ticks(self, policy_id: int, *, since: datetime, every: timedelta) -> Sequence[ReplayedTick]:
        """Return a policy's ticks from then on, oldest first: the first of each stretch of ``every``, or all if it is 0."""
        rows = self._session.query(
            "stored_ticks", policy_id=policy_id, since=since, every_sec=every.total_seconds()
        )
        return [ReplayedTick(**row) for row in rows]

    def stored_tick_inputs(self, tick_ids: Sequence[int]) -> Mapping[int, Mapping[str, Any]]:
        """Return what the machines of each tick shared, as it was stored."""
        rows = self._session.query("stored_tick_inputs", tick_ids=list(tick_ids))
        return {row["id"]: row["inputs"] for row in rows}

    def read_stored_records(
        self, ticks: Sequence[ReplayedTick], sink: Callable[[int, memoryview], None]
    ) -> None:
        """Feed the packed records of the ticks' machines to ``sink`` with the tick's id, in blocks, tick after tick."""

        def take(block: bytes) -> None:
            sink(_TICK_ID.unpack_from(block)[0], memoryview(block)[_TICK_ID.size :])

        times = [tick.ticked_at for tick in ticks]
        sql = inlined(
            "read_stored_records",
            tick_ids=[tick.tick_id for tick in ticks],
            first=min(times),
            last=max(times),
        )
        self._session.copy(sql, RecordReader(take))

    def price_history(  # noqa: PLR0913 - whose prices, and which part of the period
        self,
        project_ids: Sequence[int],
        *,
        tenant_id: str,
        start: datetime,
        after: datetime,
        until: datetime,
        step: timedelta,
    ) -> Sequence[PriceReading]:
        """Return what was received in (``after``, ``until``], oldest first: of each step since ``start`` only the newest."""
        rows = self._session.query(
            "price_history",
            project_ids=list(project_ids),
            tenant_id=tenant_id,
            start=start,
            after=after,
            until=until,
            step_sec=step.total_seconds(),
        )
        prices = ((row, raw_price_of(row["price_key"], row)) for row in rows)
        return [
            PriceReading(row["received_at"], row["project_id"], raw) for row, raw in prices if raw is not None
        ]
