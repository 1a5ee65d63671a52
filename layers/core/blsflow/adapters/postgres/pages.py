"""Pages of rows: a listing's statement, narrowed to what was asked for and read from a place in its order."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from blsflow.adapters.postgres.part import Part
from blsflow.adapters.postgres.statements import statements

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from blsflow.domain.pages import Listing

_TYPES: Final[Mapping[type, str]] = {
    int: "bigint",
    str: "text",
    UUID: "uuid",
    bool: "boolean",
    datetime: "timestamptz",
}


class PageQueries(Part):
    """The part of a transaction that reads pages."""

    def read_page(
        self,
        listing: Listing,
        *,
        filters: Mapping[str, object],
        after: Mapping[str, object] | None,
        limit: int,
    ) -> Sequence[Mapping[str, Any]]:
        """Return the rows of a listing after a place, at most ``limit``; a filter that is None is left out."""
        asked = {name: value for name, value in filters.items() if value is not None}
        conditions = [f"p.{name} = :{name}::{_TYPES[listing.filters[name]]}" for name in asked]
        columns = ", ".join(f"p.{name}" for name in listing.columns)
        if after is not None:
            places = ", ".join(f":after_{name}::{_TYPES[kind]}" for name, kind in listing.columns.items())
            conditions.append(f"({columns}) {'<' if listing.newest_first else '>'} ({places})")
            asked |= {f"after_{name}": value for name, value in after.items()}
        where = f" where {' and '.join(conditions)}" if conditions else ""
        order = ", ".join(
            f"p.{name} desc" if listing.newest_first else f"p.{name}" for name in listing.columns
        )
        # The limit is written out: of one that it does not know, the server expects a tenth of all rows, and sorts them.
        sql = f"select p.* from ({statements()[listing.name]}) p{where} order by {order} limit {limit:d}"  # noqa: S608 - fragments of ours
        return self._session.query_text(sql, **asked)
