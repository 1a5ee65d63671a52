"""The fleet that policies are written for: clusters, projects and machines, as other services keep them (R1.2)."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Query

from blsflow.documents import located
from blsflow.flow import fleet as flow
from blsflow.web.caller import Scope

from .routing import answer, caller, operation, store
from .shapes import Answer, Cursor, Figure, Limit, Name, Page, QueryId

TAG = "fleet"


class Cluster(Answer):
    """A site, and how many machines it has."""

    id: int
    time_zone: str
    machines: int


class Project(Answer):
    """What a machine can mine, and the key under which the feed knows its price."""

    id: int
    name: str
    price_key: str
    algorithm: str


class Machine(Answer):
    """A machine and its newest report; one that never reported has no `reported_at`."""

    id: int
    cluster_id: int
    model: str
    operator_hold: bool
    status: str | None
    project_id: int | None
    hashrate_hs: Figure
    reported_at: datetime | None


@operation("GET", "/clusters", scope=Scope.READ, tag=TAG)
def list_clusters(cursor: Cursor = None, limit: Limit = 50) -> Response[Page[Cluster]]:
    """List the tenant's clusters, in the order of their ids."""
    with located("query"):
        page = flow.clusters(store(), tenant_id=caller().tenant_id, cursor=cursor, limit=limit)
    return answer(Page[Cluster].of(page.rows, page.cursor, Cluster))


@operation("GET", "/projects", scope=Scope.READ, tag=TAG)
def list_projects(cursor: Cursor = None, limit: Limit = 50) -> Response[Page[Project]]:
    """List the tenant's projects, in the order of their ids."""
    with located("query"):
        page = flow.projects(store(), tenant_id=caller().tenant_id, cursor=cursor, limit=limit)
    return answer(Page[Project].of(page.rows, page.cursor, Project))


@operation("GET", "/machines", scope=Scope.READ, tag=TAG)
def list_machines(
    cluster_id: QueryId = None,
    model: Annotated[Name | None, Query(max_length=200)] = None,
    status: Annotated[Name | None, Query(max_length=50, description="mining, stopped or off")] = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Response[Page[Machine]]:
    """List the tenant's machines with what each reported last, in the order of their ids."""
    with located("query"):
        page = flow.machines(
            store(),
            tenant_id=caller().tenant_id,
            cluster_id=cluster_id,
            model=model,
            status=status,
            cursor=cursor,
            limit=limit,
        )
    return answer(Page[Machine].of(page.rows, page.cursor, Machine))
