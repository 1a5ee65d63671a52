"""The log as the use cases read it: its rows, ready-made frames of a stream, and their part of a transaction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from blsflow.domain.log import START

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from uuid import UUID

    from blsflow.domain.log import LogPlace, LogQuery


@dataclass(frozen=True, kw_only=True, slots=True)
class LogRow:
    """A settled event of the log with its place."""

    place: LogPlace
    at: datetime
    policy_id: int | None
    kind: str
    level: str
    code: str
    params: Mapping[str, Any]
    tick_id: int | None
    attempt_id: UUID | None
    machine_id: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class LogPage:
    """A page, newest first; ``next`` is where the next one begins, None after the last.

    The first page says after which place a stream goes on without a gap and without a repetition (``stream_after``). With
    filters a page may hold fewer rows than asked for and yet have a next one.
    """

    rows: tuple[LogRow, ...]
    next: LogPlace | None
    stream_after: LogPlace | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Frames:
    """So many server-sent events as one text, and the place of the last; without any, `START`.

    ``is_full`` when a bound may have left out others.
    """

    text: str = ""
    events: int = 0
    place: LogPlace = START
    is_full: bool = False


class LogTransaction(Protocol):
    """The log's part of a transaction; only settled events are seen. A policy's reader names the policy's tenant."""

    def knows_policy(self, policy_id: int, *, tenant_id: str | None) -> bool:
        """Whether the tenant has, or had, such a policy."""

    def newest_place(self, *, policy_id: int | None, tenant_id: str) -> LogPlace:
        """Return the place of the newest event."""

    def has_place(self, place: LogPlace, *, tenant_id: str) -> bool:
        """Whether an event of the tenant is at this place."""

    def place_of(self, event_id: int, *, tenant_id: str) -> LogPlace | None:
        """Return an event's place, settled or not; None if the tenant has no such event."""

    def is_settled(self, place: LogPlace) -> bool:
        """Whether nothing can be added before this place any more."""

    def newest_frames(self, *, policy_id: int | None, tenant_id: str, limit: int) -> Frames:
        """Return the newest events, oldest first, as frames."""

    def next_frames(self, after: LogPlace, *, policy_id: int | None, tenant_id: str) -> Frames:
        """Return the next events after a place as frames, as many as one answer takes."""

    def log_page(self, query: LogQuery, *, tenant_id: str, upto: LogPlace) -> LogPage:
        """Return a page of what stands at or below ``upto``, without ``stream_after``."""

    def take_stream(self, tenant_id: str, *, per_tenant: int, in_all: int) -> str | None:
        """Take a stream's place until it is freed or the session ends; else say whose places are all taken."""

    def free_stream(self) -> None:
        """Give the place back."""
