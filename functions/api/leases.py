"""The executor lease: which system may act for the tenant, this one or the legacy tick (R4.2)."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Body

from blsflow.documents import Strict
from blsflow.flow import control
from blsflow.web.caller import Scope

from .routing import answer, caller, operation, store
from .shapes import Answer, Why

TAG = "deployment"


class LeaseIn(Strict):
    """Who may act from now on, and why."""

    holder: Literal["blsflow", "legacy"]
    reason: Why


class Lease(Answer):
    """Who may act; `expires_at` is null if it never ends. Without a holder nobody may."""

    holder: str | None
    expires_at: datetime | None
    changed_by: str | None
    changed_at: datetime | None


class LeaseChange(Answer):
    """Who held it until now, and how many attempts are still under way."""

    was: str | None
    open_attempts: int


@operation("GET", "/lease", scope=Scope.READ, tag=TAG)
def read_lease() -> Response[Lease]:
    """Read which system may act for the tenant."""
    return answer(Lease.model_validate(control.read_lease(store(), caller().tenant_id)))


@operation("PUT", "/lease", scope=Scope.ADMIN, tag=TAG, problems=["not_found"])
def change_lease(lease: Annotated[LeaseIn, Body()]) -> Response[LeaseChange]:
    """Say which system may act for the tenant from now on, on the record. What is under way is followed to its end."""
    who = caller()
    change = control.lease(store(), who.tenant_id, holder=lease.holder, by=who.subject, why=lease.reason)
    return answer(LeaseChange.model_validate(change))
