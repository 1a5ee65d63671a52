"""Ticks and their decisions: what was concluded for every machine, and why (R3.2)."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Query

from blsflow.documents import located
from blsflow.domain.explained import explained
from blsflow.domain.reasons import Action
from blsflow.flow import ticks as flow
from blsflow.ports.ticks import DecisionFilter
from blsflow.web.caller import Scope

from .explanations import Explained
from .routing import answer, caller, operation, store
from .shapes import Answer, Cursor, Figure, Limit, Page, PathId, QueryId

TAG = "ticks"


class Tick(Answer):
    """One evaluation of a policy; `counts` is by action and reason, `failure` why it had nothing usable."""

    tick_id: int
    policy_id: int
    policy_version: int
    occurrence_id: int
    execution_mode: str
    ticked_at: datetime
    valid_until: datetime
    failure: str | None
    machines: int
    counts: dict[str, int]
    gain_cny_per_day: Figure
    took_ms: int | None


class StoredTick(Answer):
    """A tick with all that its machines shared: policy, prices, tariffs."""

    tick: Tick
    inputs: dict[str, Any]


class Decision(Answer):
    """What a tick concluded for a machine; `proposed` is what the figures alone asked for, null nets are unknown."""

    tick_id: int
    ticked_at: datetime
    machine_id: int
    action: str
    reason: str
    proposed: str
    from_project: int | None
    to_project: int | None
    run_config_id: int | None
    current_net_cny_per_day: Figure
    best_net_cny_per_day: Figure
    overridden_by: int | None
    attempt_id: UUID | None
    job_id: str | None


class ExplainedDecision(Answer):
    """A stored decision computed again from what was stored with it; `differences` is empty if both agree."""

    tick_id: int
    ticked_at: datetime
    action: str
    reason: str
    proposed: str
    explanation: Explained
    differences: list[str]


@operation(
    "GET",
    "/policies/<policy_id>/ticks",
    scope=Scope.READ,
    tag=TAG,
    problems=["not_found"],
    makes={"tick_id": "/items/0/tick_id"},
)
def list_ticks(policy_id: PathId, cursor: Cursor = None, limit: Limit = 50) -> Response[Page[Tick]]:
    """List a policy's ticks, the newest first."""
    with located("query"):
        rows, following = flow.list_ticks(
            store(), policy_id, tenant_id=caller().tenant_id, cursor=cursor, limit=limit
        )
    return answer(Page[Tick].of(rows, following, Tick))


@operation("GET", "/ticks/<tick_id>", scope=Scope.READ, tag=TAG, problems=["not_found"])
def read_tick(tick_id: PathId) -> Response[StoredTick]:
    """Read a tick with the inputs that its machines shared."""
    return answer(StoredTick.model_validate(flow.read_tick(store(), tick_id, tenant_id=caller().tenant_id)))


@operation(
    "GET",
    "/ticks/<tick_id>/decisions",
    scope=Scope.READ,
    tag=TAG,
    problems=["not_found"],
    makes={"machine_id": "/items/0/machine_id"},
)
def list_decisions(  # noqa: PLR0913, PLR0917 - filters
    tick_id: PathId,
    action: Annotated[Action | None, Query()] = None,
    reason: Annotated[str | None, Query(max_length=100, pattern="^[a-z_]+$")] = None,
    machine_id: QueryId = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Response[Page[Decision]]:
    """List what a tick concluded, in the order of its machines."""
    with located("query"):
        rows, following = flow.list_decisions(
            store(),
            tick_id,
            only=DecisionFilter(action=action, reason=reason, machine_id=machine_id),
            tenant_id=caller().tenant_id,
            cursor=cursor,
            limit=limit,
        )
    return _page(rows, following)


@operation(
    "GET",
    "/ticks/<tick_id>/decisions/<machine_id>",
    scope=Scope.READ,
    tag=TAG,
    problems=["not_found", "conflict"],
)
def explain_decision(tick_id: PathId, machine_id: PathId) -> Response[ExplainedDecision]:
    """Explain a decision: computed again from what was stored with it, with the figures of each candidate."""
    found = flow.explain_decision(store(), tick_id, machine_id, tenant_id=caller().tenant_id)
    stored = {name: found.stored[name] for name in ("tick_id", "ticked_at", "action", "reason", "proposed")}
    return answer(
        ExplainedDecision(
            **stored,
            explanation=Explained.model_validate(explained(found.explanation)),
            differences=list(found.differences),
        )
    )


@operation(
    "GET",
    "/machines/<machine_id>/decisions",
    scope=Scope.READ,
    tag=TAG,
    problems=["not_found"],
    makes={"tick_id": "/items/0/tick_id"},
)
def list_decisions_of_machine(
    machine_id: PathId, cursor: Cursor = None, limit: Limit = 50
) -> Response[Page[Decision]]:
    """List what was decided for a machine, the newest first, by whichever policies of its tenant.

    A page looks at 20,000 of the tenant's ticks: it may be short, or empty, and still have a next one.
    """
    with located("query"):
        rows, following = flow.machine_history(
            store(), machine_id, tenant_id=caller().tenant_id, cursor=cursor, limit=limit
        )
    return _page(rows, following)


def _page(rows: Any, following: str | None) -> Response[Page[Decision]]:  # noqa: ANN401 - rows as they come
    return answer(Page[Decision].of(rows, following, Decision))
