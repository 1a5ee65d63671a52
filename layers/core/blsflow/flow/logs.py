"""Logs: a page of a tenant's log, newest first, that hands over to a live stream."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from blsflow.flow.control import UnknownPolicy

if TYPE_CHECKING:
    from blsflow.domain.log import LogQuery
    from blsflow.ports.logs import LogPage
    from blsflow.ports.store import Store


def log_page(store: Store, query: LogQuery, *, tenant_id: str) -> LogPage:
    """Return a page of settled events: no row is added to it or to one after it later, and none is in two pages.

    A stream that goes on after the first page's ``stream_after`` shows everything that the pages do not, once. A policy of
    somebody else is as unknown as none.
    """
    with store.transaction() as tx:
        if query.policy_id is not None and not tx.knows_policy(query.policy_id, tenant_id=tenant_id):
            raise UnknownPolicy(query.policy_id)
        newest = tx.newest_place(policy_id=query.policy_id, tenant_id=tenant_id)
        page = tx.log_page(query, tenant_id=tenant_id, upto=newest)
    return replace(page, stream_after=newest if query.after is None else None)
