"""Report: had a policy acted for the last days, what it would have moved and gained, by what its ticks stored (R4.5).

Every figure is of its time: each tick kept the policy, the judged prices, the tariffs and every machine's own record.
Nothing is asked of today's prices, tariffs or benchmarks. It reads in pages of a few ticks, each in a transaction of its
own, so that neither memory nor the number of statements grows with the fleet.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from blsflow.domain import stored_inputs
from blsflow.domain.errors import InvalidDocument
from blsflow.domain.record import unpack_all
from blsflow.domain.replay import Followed, Instant
from blsflow.domain.replay_ledger import (
    MAX_MACHINE_STEPS,
    NO_TICK,
    UNREADABLE,
    Ledger,
    Replayed,
    TooMuchToReplay,
)
from blsflow.domain.shadow import speaks_for, stretches_of
from blsflow.flow.control import UnknownPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from blsflow.ports.replay import ReplayedTick
    from blsflow.ports.store import Store

_PAGE_TICKS: Final = 20
_LONGEST_DAYS: Final = 366
_HOUR: Final = timedelta(hours=1)


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """What a policy would have done from ``since`` to ``until``.

    ``ticks_by_mode`` are all that were looked at: in those of mode ``execute`` the policy really acted, so that "as it was"
    is what it made of it. ``policy_versions`` are those that decided.
    """

    policy_id: int
    name: str
    since: datetime
    until: datetime
    ticks_by_mode: Mapping[str, int]
    policy_versions: tuple[int, ...]
    replayed: Replayed

    def document(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return {
            "policy_id": self.policy_id,
            "name": self.name,
            "since": self.since.isoformat(),
            "until": self.until.isoformat(),
            "ticks_by_mode": dict(self.ticks_by_mode),
            "policy_versions": list(self.policy_versions),
            **self.replayed.document(),
        }


def report(  # noqa: PLR0913 - which policy, which past, whose, and how much of it
    store: Store,
    policy_id: int,
    *,
    days: float,
    tenant_id: str | None = None,
    every: timedelta = timedelta(0),
    limit: int = MAX_MACHINE_STEPS,
    progress: Callable[[float], None] | None = None,
) -> Report:
    """Replay the last ``days``; ``every`` looks at one tick per such stretch only (0: at all).

    ``progress`` is told the share that is done.

    Raises:
        UnknownPolicy: the tenant has no such policy.
        InvalidDocument: the days are none that can be meant.
        TooMuchToReplay: more than ``limit`` decisions; it says what to reduce.
    """
    if not 0 < days <= _LONGEST_DAYS:
        raise InvalidDocument(
            field="days", value=days, cause=f"a report covers more than 0 and at most {_LONGEST_DAYS} days"
        )
    with store.transaction() as tx:
        until, since = tx.now, tx.now - timedelta(days=days)
        name = tx.policy_name(policy_id, tenant_id=tenant_id)
        if name is None:
            raise UnknownPolicy(policy_id)
        ticks = tx.stored_ticks(policy_id, since=since, every=every)
    _check_size(ticks, days, limit)
    walk = _Walk(ticks, since=since, until=until)
    for start in range(0, len(ticks), _PAGE_TICKS):
        page = ticks[start : start + _PAGE_TICKS]
        with store.transaction() as tx:
            walk.inputs = tx.stored_tick_inputs([tick.tick_id for tick in page])
            tx.read_stored_records(page, walk.take)
        walk.finish(page)
        if progress is not None:
            progress((start + len(page)) / len(ticks))
    modes = [tick.execution_mode for tick in ticks]
    return Report(
        policy_id=policy_id,
        name=name,
        since=since,
        until=until,
        ticks_by_mode={mode: modes.count(mode) for mode in sorted(set(modes))},
        policy_versions=tuple(sorted({tick.policy_version for tick in ticks})),
        replayed=walk.replayed(),
    )


class _Walk:
    """Follows the machines from tick to tick, as blocks of records come in."""

    def __init__(self, ticks: Sequence[ReplayedTick], *, since: datetime, until: datetime) -> None:
        self.inputs: Mapping[int, Mapping[str, Any]] = {}
        ends = [*(tick.ticked_at for tick in ticks[1:]), until]
        self._until = {tick.tick_id: end for tick, end in zip(ticks, ends, strict=False)}  # no tick: no end
        self._ticks = {tick.tick_id: tick for tick in ticks}
        self._longest = speaks_for([tick.ticked_at for tick in ticks])
        self._ledger = Ledger(len(ticks))
        self._fleet: dict[int, Followed] = {}
        self._tick_id = 0
        self._instant: Instant | None = None
        self._seen = Counter[int]()
        if ticks:
            before = (ticks[0].ticked_at - since) / _HOUR
            self._ledger.unknown(NO_TICK, ticks[0].machines * before)
            self._ledger.begin(ticks[0].ticked_at)

    def take(self, tick_id: int, block: memoryview) -> None:
        """Follow the machines of a block; those whose record cannot be read any more are counted by `finish`."""
        tick = self._ticks[tick_id]
        if tick_id != self._tick_id:
            self._tick_id, self._instant = tick_id, self._begin(tick)
        if self._instant is not None:
            machines = list(unpack_all(block))
            self._seen[tick_id] += len(machines)
            self._instant.settle(self._instant.decide(machines), withheld=tick.withheld)

    def finish(self, page: Sequence[ReplayedTick]) -> None:
        """Note where the sums stand after each tick of a page, and of how many machines nothing is known."""
        for tick in page:
            unread = tick.machines - self._seen.pop(tick.tick_id, 0)
            if unread:
                self._ledger.unknown(UNREADABLE, unread * self._hours(tick))
            self._ledger.end_instant(self._until[tick.tick_id])

    def replayed(self) -> Replayed:
        """Return what it came to."""
        return self._ledger.replayed(len(self._fleet))

    def _begin(self, tick: ReplayedTick) -> Instant | None:
        try:
            policy, market = stored_inputs.load(dict(self.inputs[tick.tick_id]))
        except stored_inputs.UnreadableInputs:
            return None
        stretches = stretches_of(market, self._until[tick.tick_id], self._longest)
        return Instant(policy, market, stretches, self._fleet, self._ledger)

    def _hours(self, tick: ReplayedTick) -> float:
        """Return how long a tick speaks for."""
        return (self._until[tick.tick_id] - tick.ticked_at) / _HOUR


def _check_size(ticks: Sequence[ReplayedTick], days: float, limit: int) -> None:
    decisions = sum(tick.machines for tick in ticks)
    if decisions <= limit:
        return
    times = decisions / limit
    spacing = sorted(later.ticked_at - earlier.ticked_at for earlier, later in pairwise(ticks))
    usual = spacing[len(spacing) // 2].total_seconds() if spacing else 0.0
    advice = f"ask for fewer days (about {days / times:.2g})"
    if usual:
        minutes = math.ceil(round(usual * times) / 60)
        advice += f", or look at one tick in {60 * minutes} s only"
    raise TooMuchToReplay(
        machines=max(tick.machines for tick in ticks), steps=len(ticks), limit=limit, advice=advice
    )
