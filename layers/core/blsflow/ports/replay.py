"""What reports and backtests read of the past."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime, timedelta

    from blsflow.domain.prices import PriceReading


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplayedTick:
    """A tick of the past; ``withheld`` says that it froze its policy and moved nothing."""

    tick_id: int
    ticked_at: datetime
    execution_mode: str
    policy_version: int
    machines: int
    withheld: bool


class ReplayTransaction(Protocol):
    """Reports' and backtests' part of a transaction; all of it only reads."""

    def policy_name(self, policy_id: int, *, tenant_id: str | None) -> str | None:
        """Return the name of a policy in use; None if there is none of the tenant."""

    def stored_ticks(self, policy_id: int, *, since: datetime, every: timedelta) -> Sequence[ReplayedTick]:
        """Return a policy's ticks from then on, oldest first: the first of each stretch of ``every``, or all if it is 0."""

    def stored_tick_inputs(self, tick_ids: Sequence[int]) -> Mapping[int, Mapping[str, Any]]:
        """Return what the machines of each tick shared, as it was stored."""

    def read_stored_records(
        self, ticks: Sequence[ReplayedTick], sink: Callable[[int, memoryview], None]
    ) -> None:
        """Feed the packed records of the ticks' machines to ``sink`` with the tick's id, in blocks, tick after tick."""

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
