"""What operators do with a policy: enable, disable, freeze, say how far it goes, and try a tick without a trace."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Body
from pydantic import Field

from blsflow.documents import Strict
from blsflow.domain.policy import ExecutionMode
from blsflow.flow import control
from blsflow.web.caller import Scope

from .routing import answer, caller, named_version, operation, store
from .shapes import Answer, IfMatch, PathId, Why

TAG = "policies"


class ReasonIn(Strict):
    """Why something is done, for the record."""

    reason: Why


class ModeIn(Strict):
    """How far a policy goes, and why."""

    execution_mode: Annotated[ExecutionMode, Field(strict=False)]
    reason: Why


class Enabled(Answer):
    """`lifted` is the cause of the freeze that ended with it; `next_run_at` is null while disabled."""

    name: str
    version: int
    lifted: str | None
    machines_forgiven: int
    next_run_at: datetime | None


class ModeChange(Answer):
    """The mode that the policy had before, and the version that it has now."""

    name: str
    version: int
    was: str


class Frozen(Answer):
    """`opened` is false when the policy was frozen already."""

    name: str
    opened: bool


@operation(
    "POST",
    "/policies/<policy_id>/enable",
    scope=Scope.EXECUTE,
    tag=TAG,
    problems=["not_found", "conflict", "version_conflict", "precondition_required"],
)
def enable_policy(
    policy_id: PathId, why: Annotated[ReasonIn, Body()], if_match: IfMatch = None
) -> Response[Enabled]:
    """Let a policy tick, as it was read. This alone lifts a freeze, on the record with who, when and why."""
    who = caller()
    done = control.enable(
        store(),
        policy_id,
        by=who.subject,
        why=why.reason,
        version=named_version(if_match),
        tenant_id=who.tenant_id,
    )
    return answer(Enabled.model_validate(done), version=done.version)


@operation("POST", "/policies/<policy_id>/disable", scope=Scope.EXECUTE, tag=TAG, problems=["not_found"])
def disable_policy(policy_id: PathId, why: Annotated[ReasonIn, Body()]) -> Response[Enabled]:
    """Let a policy tick no more, whatever its version; what it sent is followed to its end."""
    who = caller()
    done = control.disable(store(), policy_id, by=who.subject, why=why.reason, tenant_id=who.tenant_id)
    return answer(Enabled.model_validate(done), version=done.version)


@operation("POST", "/policies/<policy_id>/freeze", scope=Scope.EXECUTE, tag=TAG, problems=["not_found"])
def freeze_policy(policy_id: PathId, why: Annotated[ReasonIn, Body()]) -> Response[Frozen]:
    """Freeze a policy, whatever its version: no new action for the whole domain, until it is enabled again."""
    who = caller()
    done = control.freeze(store(), policy_id, by=who.subject, why=why.reason, tenant_id=who.tenant_id)
    return answer(Frozen.model_validate(done))


@operation(
    "PUT",
    "/policies/<policy_id>/mode",
    scope=Scope.EXECUTE,
    tag=TAG,
    problems=["not_found", "version_conflict", "precondition_required"],
)
def set_policy_mode(
    policy_id: PathId, mode: Annotated[ModeIn, Body()], if_match: IfMatch = None
) -> Response[ModeChange]:
    """Say how far a policy goes, as it was read: `dry_run`, `shadow` or `execute`.

    What was decided before is not sent any more.
    """
    who = caller()
    done = control.set_mode(
        store(),
        policy_id,
        mode.execution_mode,
        by=who.subject,
        why=mode.reason,
        version=named_version(if_match),
        tenant_id=who.tenant_id,
    )
    return answer(ModeChange.model_validate(done), version=done.version)
