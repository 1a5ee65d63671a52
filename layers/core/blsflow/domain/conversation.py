"""A scheduled conversation: what is sent to the execution service, every answer, and what settles it (R8.1, R8.11). Pure.

The answers are closed sets of types, as those of device control are, and mean the same::

    StartOutcome     Accepted | Busy | Rejected | TargetUnavailable | Ambiguous
    RunReport        RunFound | RunNotFound | RunForbidden | RunUnreadable
    CancelOutcome    CancelAccepted | CancelTooLate | CancelUnknown
    CatalogueReport  TargetsFound | TargetsForbidden | TargetsUnreadable

Only `Ambiguous` leaves open whether a run was started: it is resolved by reading back, never by starting again.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from blsflow.domain.execution import Accepted, Ambiguous, Busy, Rejected
from blsflow.domain.settle import CLOCK_MARGIN

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime, timedelta


@dataclass(frozen=True, kw_only=True, slots=True)
class ConversationCommand:
    """One prompt for one conversation, sent at most once.

    `key` is our idempotency key, unique for each tenant. The service runs the prompt with the rights of
    `caller_subject`, who created the schedule. It must not accept the request after `expires_at`; that is what
    makes a "not found" read back later than it conclusive.
    """

    key: str
    caller_tenant: str
    caller_subject: str
    target: str
    conversation_id: str
    prompt: str
    expires_at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class TargetUnavailable:
    """The service knows no such target or conversation, or none any more; nothing was started (R8.9)."""

    detail: str


StartOutcome = Accepted | Busy | Rejected | TargetUnavailable | Ambiguous
"""An `Accepted` carries the run's id as `job_id` and refuses nothing."""


class RunState(StrEnum):
    """Where a run stands. INTERRUPTED: the service itself lost it on the way."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"

    @property
    def is_end(self) -> bool:
        """Whether the run will never change again."""
        return self not in (RunState.QUEUED, RunState.RUNNING)


@dataclass(frozen=True, kw_only=True, slots=True)
class RunFound:
    """The run as the service reports it now; `ended_at` is known exactly if `state` is an end.

    `output_ref` is the service's own reference to what the run left behind, `error` its words on what went wrong.
    """

    run_id: str
    state: RunState
    output_ref: str | None
    error: str | None
    started_at: datetime | None
    ended_at: datetime | None


@dataclass(frozen=True, kw_only=True, slots=True)
class RunNotFound:
    """The service itself says that it knows no such run; conclusive once the command has expired."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunForbidden:
    """The service will not tell this user, who may have left the tenant. Says nothing about the run."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunUnreadable:
    """No usable answer this time (network, time-out, fault of the service, answer outside the contract)."""

    cause: str


RunReport = RunFound | RunNotFound | RunForbidden | RunUnreadable


@dataclass(frozen=True, kw_only=True, slots=True)
class CancelAccepted:
    """The run was asked to end, or has been cancelled; how it ends only a read-back tells."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CancelTooLate:
    """The run had ended otherwise before the cancel reached it."""

    state: RunState


@dataclass(frozen=True, kw_only=True, slots=True)
class CancelUnknown:
    """Nobody knows whether the cancel reached the run. It may be sent again: a cancel has no other effect."""

    cause: str


CancelOutcome = CancelAccepted | CancelTooLate | CancelUnknown


@dataclass(frozen=True, kw_only=True, slots=True)
class Conversation:
    """A conversation that a user can have prompts sent to."""

    conversation_id: str
    title: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """One entry of the catalogue: who answers, and in which of the user's conversations with it.

    `unavailable_reason` is the service's stable code for why it takes no prompts now; None: it does.
    """

    target: str
    name: str
    unavailable_reason: str | None
    conversations: tuple[Conversation, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class TargetsFound:
    """A page of the catalogue; `next_cursor` asks for the next one, None if this is the last."""

    targets: tuple[Target, ...]
    next_cursor: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class TargetsForbidden:
    """The user has no rights in this tenant."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TargetsUnreadable:
    """No usable answer this time."""

    cause: str


CatalogueReport = TargetsFound | TargetsForbidden | TargetsUnreadable


class RunAlert(StrEnum):
    """What people are told of, each at most once per attempt."""

    UNRESOLVED = "unresolved"  # no end is confirmed, for longer than the alert time (R5.4)
    UNREACHABLE = (
        "unreachable"  # and the service does not know the run any more, or will not tell its user (R8.11)
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class RunSettlement:
    """What to write for an attempt after one read-back.

    `state` is the attempt's end, None while it stays open; then `waiting_for` says for what: run_end, not_found,
    forbidden or unreadable. `reason` is a stable code, None for a success. `reference` is the run's id if this
    report names it; None says nothing about one that is known already.
    """

    state: RunState | None
    reason: str | None
    output_ref: str | None
    error: str | None
    waiting_for: str | None
    alert: RunAlert | None
    reference: str | None
    started_at: datetime | None
    ended_at: datetime | None


def settle_run(  # noqa: PLR0913 - what an attempt's row tells, each by its name
    report: RunReport,
    *,
    bound: bool,
    now: datetime,
    request_expires_at: datetime,
    dispatched_at: datetime,
    unresolved_alert: timedelta,
    alerted: Collection[RunAlert] = (),
) -> RunSettlement:
    """Judge one answer of the service; a conversation has no telemetry, so the service's end is the end.

    ::

        service says            bound to a run id   outcome
        ----------------------  ------------------  ----------------------------------------------------------
        an end                  either              that end
        queued, running         either              waits; alert
        not found               no                  failed `not_received`, 30 s after the request expired
        not found               yes                 waits; alert of its own; an operator may close it
        forbidden               either              waits; alert of its own; an operator may close it
        unreadable              either              waits; alert

    `now` must be no later than the moment at which the service was asked: an answer that was long on its way
    says nothing about the time since. `alerted` are the alerts that were raised before; they are not raised again.
    """
    found = report if isinstance(report, RunFound) else None
    state, reason = _end(report, conclusive=not bound and now > request_expires_at + CLOCK_MARGIN)
    waiting_for = None if state else _waiting_for(report)
    alert = None
    if waiting_for is not None and now - dispatched_at > unresolved_alert:
        unreachable = waiting_for == "forbidden" or (bound and waiting_for == "not_found")
        alert = RunAlert.UNREACHABLE if unreachable else RunAlert.UNRESOLVED
    return RunSettlement(
        state=state,
        reason=reason,
        output_ref=found.output_ref if found and state else None,
        error=found.error if found and state else None,
        waiting_for=waiting_for,
        alert=None if alert in alerted else alert,
        reference=found.run_id if found else None,
        started_at=found.started_at if found else None,
        ended_at=found.ended_at if found else None,
    )


def _end(report: RunReport, *, conclusive: bool) -> tuple[RunState | None, str | None]:
    """Return the end that a report proves, with its reason."""
    match report:
        case RunFound(state=state) if state.is_end:
            return state, None if state is RunState.SUCCEEDED else f"run_{state}"
        case RunNotFound() if conclusive:
            return RunState.FAILED, "not_received"
        case _:
            return None, None


def _waiting_for(report: RunReport) -> str:
    match report:
        case RunFound():
            return "run_end"
        case RunNotFound():
            return "not_found"
        case RunForbidden():
            return "forbidden"
        case RunUnreadable():
            return "unreadable"
