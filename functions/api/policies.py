"""Policy groups: their documents, where they stand, and what they froze for (R9.1)."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Body, Query

from blsflow.bootstrap import application
from blsflow.documents import Strict, located
from blsflow.documents.policies import NewPolicyDocument, PolicyDocument
from blsflow.flow import policies as flow
from blsflow.flow.policy_status import policy_status
from blsflow.flow.requests import fingerprint, once
from blsflow.web.caller import Scope

from .routing import answer, caller, named_version, operation, store
from .shapes import Answer, Cursor, Figure, IdempotencyKey, IfMatch, Limit, Page, PathId, Why

TAG = "policies"


class Policy(Answer):
    """A policy: its document, and what was made of it by enabling, freezing and saying how far it goes.

    In lists the document is without `scope`, which may be long: `scope_count` says how many entries it has.
    """

    policy_id: int
    version: int
    document: dict[str, Any]
    scope_count: int
    enabled: bool
    execution_mode: str
    frozen_for: str | None
    next_run_at: datetime | None
    schedule_broken: str | None
    created_by: str
    created_at: datetime
    updated_at: datetime
    archived_at: datetime | None


class OpenFreeze(Answer):
    """What it is frozen for, with the figures that crossed their limit; only enabling lifts it."""

    cause: str
    detail: dict[str, Any]
    frozen_by: str
    frozen_at: datetime


class NewestTick(Answer):
    """What the newest tick concluded; `counts` is by action and reason."""

    tick_id: int
    ticked_at: datetime
    machines: int
    counts: dict[str, int]
    failure: str | None
    gain_cny_per_day: Figure


class LeaseState(Answer):
    """Which system may act for the tenant; `held` if it is this one, now."""

    holder: str | None
    expires_at: datetime | None
    held: bool


class SamplingCost(Answer):
    """What benchmark runs took from a policy's machines: money where their net was known, `unpriced` runs beside these."""

    succeeded: int
    failed: int
    open: int
    lost_minutes: float
    lost_cny: float
    unpriced: int


class Standing(Answer):
    """Where a policy stands."""

    policy_id: int
    name: str
    version: int
    mode: str
    execution_mode: str
    enabled: bool
    freeze: OpenFreeze | None
    consecutive_failures: int
    tariff_problems: list[str]
    newest_tick: NewestTick | None
    open_attempts: int
    live_locks: int
    lease: LeaseState
    next_run_at: datetime | None
    schedule_broken: str | None


class PolicyStatus(Standing):
    """Where a policy stands, and what its sampling has cost so far."""

    sampling: SamplingCost


class Freeze(Answer):
    """A freeze: why, with which figures, and by whom; lifted by whom and why, or still open."""

    freeze_id: int
    cause: str
    detail: dict[str, Any]
    frozen_at: datetime
    frozen_by: str
    lifted_at: datetime | None
    lifted_by: str | None
    lift_reason: str | None


class ArchiveIn(Strict):
    """Why a policy is taken out of use."""

    reason: Why


@operation("GET", "/policies", scope=Scope.READ, tag=TAG, makes={"policy_id": "/items/0/policy_id"})
def list_policies(
    archived: Annotated[bool, Query(description="archived ones too")] = False,  # noqa: FBT002 - a query parameter
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Response[Page[Policy]]:
    """List the tenant's policies in the order of their ids."""
    with located("query"):
        rows, following = flow.list_policies(
            store(), tenant_id=caller().tenant_id, cursor=cursor, limit=limit, include_archived=archived
        )
    return answer(Page[Policy].of(rows, following, Policy))


@operation(
    "POST",
    "/policies",
    scope=Scope.WRITE,
    tag=TAG,
    status=201,
    problems=["request_conflict"],
    makes={"policy_id": "/policy_id"},
)
def create_policy(
    policy: Annotated[NewPolicyDocument, Body()], idempotency_key: IdempotencyKey
) -> Response[Policy]:
    """Store a new policy: disabled, and in `shadow` unless it says `dry_run`.

    Enabling it and letting it execute are verbs of their own, on the record.
    """
    who = caller()
    document = policy.policy()
    with store().transaction() as tx:
        made = once(
            tx,
            tenant_id=who.tenant_id,
            key=idempotency_key,
            fingerprint=fingerprint("POST /policies", document),
            by=who.subject,
            make=lambda: {
                "id": flow.create_policy_in(
                    tx,
                    tenant_id=who.tenant_id,
                    by=who.subject,
                    document=document,
                    tick_interval_sec=application().settings.tick_interval_sec,
                ).policy_id
            },
        )
    return _current(made.document["id"], status=201)


@operation("GET", "/policies/<policy_id>", scope=Scope.READ, tag=TAG, problems=["not_found"])
def read_policy(policy_id: PathId) -> Response[Policy]:
    """Read a policy with its version, also an archived one."""
    return _current(policy_id)


@operation(
    "PUT",
    "/policies/<policy_id>",
    scope=Scope.WRITE,
    tag=TAG,
    problems=["not_found", "version_conflict", "precondition_required"],
)
def change_policy(
    policy_id: PathId, policy: Annotated[PolicyDocument, Body()], if_match: IfMatch = None
) -> Response[Policy]:
    """Put another document in a policy's place, unless somebody else has changed it since it was read.

    What was prepared under the old one is not sent any more. A freeze stays.
    """
    who = caller()
    flow.change_policy(
        store(),
        policy_id,
        version=named_version(if_match),
        by=who.subject,
        document=policy.policy(),
        tick_interval_sec=application().settings.tick_interval_sec,
        tenant_id=who.tenant_id,
    )
    return _current(policy_id)


@operation(
    "POST",
    "/policies/<policy_id>/archive",
    scope=Scope.WRITE,
    tag=TAG,
    problems=["not_found", "version_conflict", "precondition_required"],
)
def archive_policy(
    policy_id: PathId, why: Annotated[ArchiveIn, Body()], if_match: IfMatch = None
) -> Response[Policy]:
    """Take a policy out of use for good; what it sent is followed to its end."""
    who = caller()
    flow.archive_policy(
        store(),
        policy_id,
        version=named_version(if_match),
        by=who.subject,
        why=why.reason,
        tenant_id=who.tenant_id,
    )
    return _current(policy_id)


@operation("GET", "/policies/<policy_id>/status", scope=Scope.READ, tag=TAG, problems=["not_found"])
def read_policy_status(policy_id: PathId) -> Response[PolicyStatus]:
    """Read where a policy stands: its freeze and why, its newest tick, what it has under way, its sampling, and the lease."""
    found = policy_status(store(), policy_id, tenant_id=caller().tenant_id)
    return answer(PolicyStatus.model_validate(found))


@operation("GET", "/policies/<policy_id>/freezes", scope=Scope.READ, tag=TAG, problems=["not_found"])
def list_freezes(policy_id: PathId, cursor: Cursor = None, limit: Limit = 50) -> Response[Page[Freeze]]:
    """List what a policy froze for, and who lifted it and why, the newest first."""
    with located("query"):
        rows, following = flow.freezes(
            store(), policy_id, tenant_id=caller().tenant_id, cursor=cursor, limit=limit
        )
    return answer(Page[Freeze].of(rows, following, Freeze))


def _current(policy_id: int, *, status: int = 200) -> Response[Policy]:
    view = flow.read_policy(store(), policy_id, tenant_id=caller().tenant_id)
    location = f"/policies/{policy_id}" if status == 201 else None  # noqa: PLR2004 - Created
    return answer(Policy.model_validate(view), status=status, version=view.version, location=location)
