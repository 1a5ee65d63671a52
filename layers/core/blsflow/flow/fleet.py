"""The fleet as the services that own it tell of it: what a policy's scope and candidates can name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from blsflow.domain.pages import CLUSTERS, MACHINES, PROJECTS
from blsflow.flow.pages import read

if TYPE_CHECKING:
    from blsflow.domain.pages import Page
    from blsflow.ports.store import Store


def clusters(store: Store, *, tenant_id: str | None, cursor: str | None = None, limit: int = 50) -> Page:
    """Return a page of clusters by id, each with how many machines it has."""
    with store.transaction() as tx:
        return read(tx, CLUSTERS, filters={"tenant_id": tenant_id}, cursor=cursor, limit=limit)


def projects(store: Store, *, tenant_id: str | None, cursor: str | None = None, limit: int = 50) -> Page:
    """Return a page of projects by id."""
    with store.transaction() as tx:
        return read(tx, PROJECTS, filters={"tenant_id": tenant_id}, cursor=cursor, limit=limit)


def machines(  # noqa: PLR0913 - the filters of a page
    store: Store,
    *,
    tenant_id: str | None,
    cluster_id: int | None = None,
    model: str | None = None,
    status: str | None = None,
    cursor: str | None = None,
    limit: int = 50,
) -> Page:
    """Return a page of machines by id, each with its newest report; ``status`` is the report's own word."""
    filters = {"tenant_id": tenant_id, "cluster_id": cluster_id, "model": model, "status": status}
    with store.transaction() as tx:
        return read(tx, MACHINES, filters=filters, cursor=cursor, limit=limit)
