"""The log as it is read: places in the order of its transactions, pages, and what is asked of a live stream.

Events are read in the order of (transaction, id), and only once every transaction older than their own has ended: so nothing
is ever added before a place that was shown, whatever order transactions commit in. A place is always that of an event,
or `START`; one whose event is not there any more says nothing about what came after it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from blsflow.domain.errors import InvalidDocument
from blsflow.domain.events import Level
from blsflow.domain.pages import LARGEST_ID

KINDS: Final = ("log", "progress", "tick")
MOST_ROWS: Final = 500
MOST_BACKFILL: Final = 1_000
_PLACE: Final = re.compile(r"([0-9]{1,20})-([0-9]{1,19})", re.ASCII)
_NUMBER: Final = re.compile(r"[0-9]{1,19}", re.ASCII)
_LARGEST_XID: Final = 2**64 - 1
_LONGEST_CODE: Final = 100


@dataclass(frozen=True, kw_only=True, slots=True)
class LogPlace:
    """The place of an event: its transaction and its id. As a text it is opaque to callers."""

    xid: int
    event_id: int

    def __str__(self) -> str:
        return f"{self.xid}-{self.event_id}"


START: Final = LogPlace(xid=0, event_id=0)
"""Before the first event; where a log without events stands."""


def read_place(field: str, text: str) -> LogPlace:
    """Read a place as we wrote it; anything else is refused, naming ``field``."""
    found = _PLACE.fullmatch(text)
    if found is not None:
        place = LogPlace(xid=int(found[1]), event_id=int(found[2]))
        if place.xid <= _LARGEST_XID and place.event_id <= LARGEST_ID:
            return place
    raise InvalidDocument(field=field, value=text[:100], cause="is not a place that was given here")


def read_place_or_id(field: str, text: str) -> LogPlace | int:
    """Read a place, or the plain number of an event."""
    if _NUMBER.fullmatch(text) and int(text) <= LARGEST_ID:
        return int(text)
    return read_place(field, text)


@dataclass(frozen=True, kw_only=True, slots=True)
class LiveQuery:
    """What is to be followed: a policy's log or (None) the tenant's, after a place or an event's id; without, from now.

    ``backfill`` is with how many of the newest events to begin if no place is given.
    """

    policy_id: int | None = None
    after: LogPlace | int | None = None
    backfill: int = 0

    def __post_init__(self) -> None:
        _refuse_no_id(self.policy_id)
        if not 0 <= self.backfill <= MOST_BACKFILL:
            raise InvalidDocument(field="backfill", value=self.backfill, cause=f"use 0 to {MOST_BACKFILL}")


@dataclass(frozen=True, kw_only=True, slots=True)
class LogQuery:
    """Which events, newest first; None leaves a filter out, times are half-open. ``after`` is the last place of a page."""

    policy_id: int | None = None
    level: str | None = None
    code: str | None = None
    kind: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    after: LogPlace | None = None
    limit: int = 50

    def __post_init__(self) -> None:
        _refuse_no_id(self.policy_id)
        if not 1 <= self.limit <= MOST_ROWS:
            raise InvalidDocument(field="limit", value=self.limit, cause=f"use 1 to {MOST_ROWS}")
        if self.level is not None and self.level not in set(Level):
            raise InvalidDocument(field="level", value=self.level, cause=f"use one of {', '.join(Level)}")
        if self.kind is not None and self.kind not in KINDS:
            raise InvalidDocument(field="kind", value=self.kind, cause=f"use one of {', '.join(KINDS)}")
        if self.code is not None and not (self.code.isprintable() and len(self.code) <= _LONGEST_CODE):
            raise InvalidDocument(field="code", value=self.code[:_LONGEST_CODE], cause="is no event's code")
        for name in ("since", "until"):
            _refuse_odd_time(name, getattr(self, name))


def _refuse_no_id(policy_id: int | None) -> None:
    if policy_id is not None and not 0 <= policy_id <= LARGEST_ID:
        raise InvalidDocument(field="policy_id", value=policy_id, cause="is no id")


def _refuse_odd_time(name: str, at: datetime | None) -> None:
    if at is None:
        return
    if at.utcoffset() is None:
        raise InvalidDocument(field=name, value=str(at), cause="say the offset from UTC")
    try:
        at.astimezone(UTC)
    except OverflowError as error:
        raise InvalidDocument(field=name, value=str(at), cause="is at the end of all times") from error
