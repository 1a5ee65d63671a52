"""What operators get of the database, and what came of what they asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from blsflow.domain.texts import render

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from typing import Any

    from blsflow.domain.catalogue import Texts
    from blsflow.ports.decide import BegunTick


@dataclass(frozen=True, kw_only=True, slots=True)
class ScheduleVersion:
    """A schedule as it was written; ``version`` is what a change must name."""

    schedule_id: int
    version: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Cancelled:
    """Where an occurrence stands after a cancel; ``asked`` is False when it had ended or was cancelled before."""

    state: str
    asked: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class NotificationRow:
    """A notification as its tenant's people see it; unread while ``read_at`` is None."""

    notification_id: int
    policy_id: int | None
    code: str
    params: Mapping[str, object]
    created_at: datetime
    read_at: datetime | None
    read_by: str | None

    @property
    def texts(self) -> Texts:
        """What it says, in both languages (R9.4)."""
        return render(self.code, self.params)


@dataclass(frozen=True, kw_only=True, slots=True)
class OccurrenceRow:
    """An occurrence as history shows it."""

    occurrence_id: int
    schedule_id: int
    tenant_id: str
    kind: str
    origin: str
    planned_at: datetime
    state: str
    reason: str | None
    missed_count: int | None
    request_id: str | None
    recorded_at: datetime
    began_at: datetime | None
    ended_at: datetime | None
    output_ref: str | None
    error: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class SetEnabled:
    """A policy that an operator enabled or disabled.

    ``lifted`` is the cause of the freeze that ended with it, ``machines_forgiven`` how many machines may be moved again
    although others kept changing them.
    """

    name: str
    version: int
    lifted: str | None
    machines_forgiven: int
    next_run_at: datetime | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ModeChange:
    """A policy whose execution mode an operator set, the version that this made, and the mode that it had."""

    name: str
    version: int
    was: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ManualFreeze:
    """A policy that an operator froze; ``opened`` is False when it was frozen already."""

    name: str
    tenant_id: str
    opened: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class TrialTick:
    """A tick of which nothing is stored: it has neither an id nor an occurrence (both 0)."""

    tick: BegunTick
    enabled: bool
    frozen_for: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredRequest:
    """What a key stands for already: the fingerprint of what was asked under it, and what that came to."""

    fingerprint: str
    answer: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class RequestedRun:
    """The occurrence of a manual run; ``fingerprint`` is that of the body with which it was first asked for."""

    occurrence_id: int
    state: str
    reason: str | None
    fingerprint: str
    is_new: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class ClosedAttempt:
    """An attempt that an operator closed: how many machines were still open, and the job that may still act on them."""

    action: str
    job_id: str | None
    machines: int


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptEnd:
    """An attempt that nobody has to close: it has ended, or was never sent (``ended_at`` is None)."""

    state: str
    ended_at: datetime | None


@dataclass(frozen=True, kw_only=True, slots=True)
class LeaseChange:
    """Who held a tenant's executor lease until now, and how many attempts are still under way."""

    was: str | None
    open_attempts: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Lease:
    """Which system may act for a tenant; ``holder`` is None if none may, ``expires_at`` None if it never ends."""

    holder: str | None
    expires_at: datetime | None
    changed_by: str | None
    changed_at: datetime | None
