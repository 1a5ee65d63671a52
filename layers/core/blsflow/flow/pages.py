"""Pages: rows in the order of their listing, each with the cursor of the next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from blsflow.domain.pages import Page, checked_limit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from blsflow.domain.pages import Listing
    from blsflow.ports.store import Transaction


def read(
    tx: Transaction, listing: Listing, *, filters: Mapping[str, object], cursor: str | None, limit: int
) -> Page:
    """Return one page; a filter that is None is left out, a cursor or limit that cannot be meant is refused."""
    checked_limit(limit)
    after = None if cursor is None else listing.place(cursor, filters)
    rows = tx.read_page(listing, filters=filters, after=after, limit=limit)
    return Page(rows=rows, cursor=None if len(rows) < limit else listing.cursor(rows[-1], filters))
