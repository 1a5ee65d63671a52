"""Live: one answer of a live stream. It is held until there are events or its time is up; the caller asks again.

Between looks no transaction is open, and each look has a snapshot of its own.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from blsflow.domain.errors import BlsflowError
from blsflow.domain.log import START, LogPlace
from blsflow.flow.control import UnknownPolicy
from blsflow.ports.errors import StoreUnavailable
from blsflow.ports.logs import Frames

if TYPE_CHECKING:
    from collections.abc import Callable

    from blsflow.domain.log import LiveQuery
    from blsflow.flow.budget import Budget
    from blsflow.ports.logs import LogTransaction
    from blsflow.ports.store import Store

_LOOK_SEC: Final = 0.5
_GATHER_SEC: Final = 0.2
"""What comes this soon after an event goes out with it: a transaction's events, and those of the next."""


class TooManyStreams(BlsflowError):
    """All places for streams are taken: ``full_of`` says whose (tenant or deployment), ``most`` how many there are."""

    def __init__(self, full_of: str, most: int) -> None:
        super().__init__(
            f"this {full_of} has {most} live streams open, as many as it may: close one, or try again later"
        )
        self.full_of = full_of
        self.most = most


class UnknownEvent(BlsflowError):
    """The tenant's log has no such event (any more)."""

    def __init__(self, event_id: int) -> None:
        super().__init__(f"there is no log event {event_id}: leave after_id out to begin from now")
        self.event_id = event_id


@dataclass(frozen=True, kw_only=True, slots=True)
class StreamLimits:
    """How many streams may be open at once."""

    per_tenant: int
    in_all: int


@dataclass(frozen=True, kw_only=True, slots=True)
class LiveAnswer:
    """What a stream has to say, and the place after which it goes on.

    ``lost`` is the place that the caller came with if its event is not in the log any more (past retention, or lost by a
    restore): what came after it cannot be told, and the stream begins from now.
    """

    frames: str
    events: int
    place: LogPlace
    lost: LogPlace | None


def live(  # noqa: PLR0913 - what to follow, for whom, how long, how many
    store: Store,
    query: LiveQuery,
    *,
    tenant_id: str,
    limits: StreamLimits,
    hold: Budget,
    pause: Callable[[float], None] = time.sleep,
) -> LiveAnswer:
    """Return the next events of a tenant's log, each once and in order over all answers, or none after the hold.

    Raises:
        TooManyStreams: all places are taken.
        UnknownPolicy: there is no such policy, or it is somebody else's.
        UnknownEvent: there is no event of the number after which to begin.
    """
    with store.transaction() as tx:
        full_of = tx.take_stream(tenant_id, per_tenant=limits.per_tenant, in_all=limits.in_all)
    if full_of is not None:
        raise TooManyStreams(full_of, limits.per_tenant if full_of == "tenant" else limits.in_all)
    try:
        answer = _held(store, query, tenant_id, hold, pause)
    except StoreUnavailable:
        raise  # its session was given up, and the place goes with it
    except BaseException:
        _free(store)
        raise
    _free(store)
    return answer


def _free(store: Store) -> None:
    with store.transaction() as tx:
        tx.free_stream()


def _held(
    store: Store, query: LiveQuery, tenant_id: str, hold: Budget, pause: Callable[[float], None]
) -> LiveAnswer:
    def look(after: LogPlace) -> Frames:
        with store.transaction() as tx:
            return tx.next_frames(after, policy_id=query.policy_id, tenant_id=tenant_id)

    with store.transaction() as tx:
        if query.policy_id is not None and not tx.knows_policy(query.policy_id, tenant_id=tenant_id):
            raise UnknownPolicy(query.policy_id)
        found, place, lost = _begin(tx, query, tenant_id)
    if lost is None and not found.events:
        found = look(place)
        while not found.events and hold.is_left():
            pause(min(_LOOK_SEC, hold.left_sec()))
            found = look(place)
        if found.events and not found.is_full:
            pause(min(_GATHER_SEC, hold.left_sec()))
            found = _joined(found, look(found.place))
    return LiveAnswer(
        frames=found.text, events=found.events, place=found.place if found.events else place, lost=lost
    )


def _begin(tx: LogTransaction, query: LiveQuery, tenant_id: str) -> tuple[Frames, LogPlace, LogPlace | None]:
    """Return what to begin with, the place to go on from, and the place that was asked for if it is lost."""
    after = query.after
    if isinstance(after, int):
        place = tx.place_of(after, tenant_id=tenant_id)
        if place is None:
            raise UnknownEvent(after)
        if tx.is_settled(place):
            return Frames(), place, None
        # What is not settled may still get something before it; shown again is better than never shown.
        return Frames(), tx.newest_place(policy_id=query.policy_id, tenant_id=tenant_id), None
    if after is not None and (after == START or tx.has_place(after, tenant_id=tenant_id)):
        return Frames(), after, None
    if query.backfill and after is None:
        newest = tx.newest_frames(policy_id=query.policy_id, tenant_id=tenant_id, limit=query.backfill)
        return newest, newest.place, None
    return Frames(), tx.newest_place(policy_id=query.policy_id, tenant_id=tenant_id), after


def _joined(first: Frames, then: Frames) -> Frames:
    return (
        Frames(text=first.text + then.text, events=first.events + then.events, place=then.place)
        if then.events
        else first
    )
