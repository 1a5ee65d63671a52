"""What each error becomes: the one table from the product's errors to problem codes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from aws_lambda_powertools.event_handler.openapi.exceptions import RequestValidationError

from blsflow.documents import cause_of
from blsflow.domain.catalogue import word
from blsflow.domain.errors import InvalidDocument, InvalidExecutionRequest
from blsflow.domain.replay_ledger import TooMuchToReplay
from blsflow.flow import (
    benchmarks,
    commands,
    control,
    jobs,
    notifications,
    occurrences,
    requests,
    schedules,
    ticks,
    versions,
)
from blsflow.ports.errors import EnqueueFailed, StoreConflict, StoreUnavailable
from blsflow.web.problems import Problem, unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_MOST_FIELDS: Final = 20
_RETRY_SEC: Final = {"retry-after": "2"}


def _missing(what: str, attribute: str) -> Callable[[Any], Problem]:
    """Say the same of what is someone else's and of what is nobody's."""

    def problem(error: object) -> Problem:
        key = getattr(error, attribute)
        return Problem("not_found", f"there is no {what} {key}", what=what, id=key)

    return problem


def _field(code: str) -> Callable[[InvalidDocument], Problem]:
    def problem(error: InvalidDocument) -> Problem:
        errors = [{"field": error.field, "cause": error.cause}]
        return Problem(code, f"{error.field}: {error.cause}", errors=errors)

    return problem


_REFUSALS: Final[Mapping[type[Exception], Callable[[Any], Problem]]] = {
    control.UnknownPolicy: _missing("policy", "policy_id"),
    control.NeverTicks: lambda e: Problem("conflict", f"it {e.cause}", policy_id=e.policy_id),
    control.UnknownAttempt: _missing("job", "attempt_id"),
    control.UnknownTenant: _missing("tenant", "tenant_id"),
    schedules.UnknownSchedule: _missing("schedule", "schedule_id"),
    occurrences.UnknownOccurrence: _missing("occurrence", "occurrence_id"),
    jobs.UnknownJob: _missing("job", "job_id"),
    jobs.NotLocked: _missing("locked machine", "machine_id"),
    jobs.LockNotReleasable: lambda e: Problem(
        "conflict",
        f"machine {e.machine_id} is held by {e.holder.owner_kind} {e.holder.owner_id}, which frees it by itself",
        owner_kind=e.holder.owner_kind,
        owner_id=e.holder.owner_id,
        state=e.holder.state,
        open_job_id=e.holder.open_attempt_id,
    ),
    commands.UnknownCommand: _missing("command", "command_id"),
    commands.UnknownProject: _missing("project", "project_id"),
    commands.CommandWithheld: lambda e: Problem(
        "execution_not_allowed", f"no machine can be commanded: {word(e.gate).en}", gate=str(e.gate)
    ),
    benchmarks.NotOfOneTenant: lambda _: Problem(
        "not_found", "there is no such policy, machine or project", what="policy, machine or project"
    ),
    TooMuchToReplay: lambda e: Problem("conflict", str(e), machines=e.machines, steps=e.steps, limit=e.limit),
    ticks.UnknownTick: _missing("tick", "tick_id"),
    ticks.UnknownMachine: _missing("machine", "machine_id"),
    ticks.UnknownDecision: lambda e: Problem(
        "not_found",
        f"tick {e.tick_id} decided nothing for machine {e.machine_id}, or too long ago",
        what="decision",
        id=e.machine_id,
    ),
    ticks.UnreadableDecision: lambda e: Problem("conflict", f"it cannot be explained: {e.cause}"),
    versions.VersionConflict: lambda e: Problem(
        "version_conflict",
        f"it is at version {e.current}: read it again",
        version=e.version,
        current=e.current,
    ),
    notifications.UnknownNotification: _missing("notification", "notification_id"),
    requests.KeyConflict: lambda e: Problem(
        "request_conflict", f"{e.key!r} was used for another request: use a new one", request_id=e.key
    ),
    schedules.TickOfPolicy: lambda e: Problem(
        "conflict", str(e), schedule_id=e.schedule_id, policy_id=e.policy_id
    ),
    occurrences.ExecutionTargetUnavailable: lambda e: Problem(
        "execution_target_unavailable",
        "the execution service knows no such target or conversation",
        occurrence_id=e.occurrence_id,
    ),
    control.NothingToRelease: lambda e: Problem(
        "conflict", f"it is {e.state}: there is nothing to release", state=e.state
    ),
    InvalidExecutionRequest: _field("invalid_execution_request"),
    InvalidDocument: _field("invalid_request"),
    StoreUnavailable: lambda e: unavailable(e, retry_after_sec=2),
    StoreConflict: lambda _: Problem(
        "unavailable", "somebody else changes the same at this moment", headers=_RETRY_SEC
    ),
    EnqueueFailed: lambda _: Problem(
        "unavailable", "it is recorded, and begins with the next tick", headers=_RETRY_SEC
    ),
}
"""By error, nearest class first; what is not here is a fault of ours."""


def problem_of(
    error: Exception, *, invalid_code: str = "invalid_request", body: object = None
) -> Problem | None:
    """Return what an error is to the caller; None for a fault of ours. ``body`` is the request's, as it was read."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, RequestValidationError):
        return _invalid(error.errors(), body, invalid_code)
    if type(error) is InvalidDocument:
        return _field(invalid_code)(error)
    for kind in type(error).__mro__:
        if kind in _REFUSALS:
            return _REFUSALS[kind](error)
    return None


def _invalid(found: Sequence[Mapping[str, Any]], body: object, code: str) -> Problem:
    """Name each field as its reader would: ``rule.every_sec``, ``query.limit``; never the value, which may be a secret."""
    errors = [
        {"field": _field_name(each, body), "cause": cause_of(_untagged(each))}
        for each in found[:_MOST_FIELDS]
    ]
    told = "; ".join(f"{each['field']}: {each['cause']}" for each in errors[:3])
    return Problem(code, told, errors=errors)


def _untagged(error: Mapping[str, Any]) -> Mapping[str, Any]:
    """Take a part that does not say of which kind it is as one whose kind is missing."""
    return {**error, "type": "missing"} if error["type"] == "union_tag_not_found" else error


def _field_name(error: Mapping[str, Any], body: object) -> str:
    place = error["loc"]
    if place[:1] == ("body",):
        place = _without_labels([part for part in place[1:] if part != "body"], body, error["type"])
        if error["type"].startswith("union_tag"):
            place.append(error["ctx"]["discriminator"].strip("'"))
    text = ""
    for part in place:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text or "body"


def _without_labels(place: Sequence[Any], body: object, kind: str) -> list[Any]:
    """Leave out the names of alternatives, which Pydantic puts in between and no body has."""
    kept = []
    for part in place:
        is_there = (
            part in body if isinstance(body, dict) else isinstance(body, list) and isinstance(part, int)
        )
        if is_there or (kind == "missing" and part is place[-1] and isinstance(body, dict)):
            kept.append(part)
            body = body[part] if is_there else None  # type: ignore[index] # a dict or a list, see above
    return kept
