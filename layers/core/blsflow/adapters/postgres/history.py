"""The statement of a page of history: whatever its filters, an index gives its rows in their order (R8.12).

Only the filters asked for are in it. A filter by kind or state alone is asked value by value, so that each branch reads one
stretch of the index and the server merges them row by row: a page costs its own rows, not those that it passes over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from blsflow.adapters.postgres.part import Part
from blsflow.domain.occurrence import OccurrenceState, ScheduleKind
from blsflow.ports.people import OccurrenceRow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from blsflow.domain.history import HistoryQuery

_COLUMNS: Final = (
    "o.id, o.schedule_id, o.tenant_id, o.kind, o.origin, o.planned_at, o.state, o.reason, o.missed_count, o.request_id,"
    " o.recorded_at, o.began_at, o.ended_at, o.output_ref, o.error"
)


IN_ORDER: Final = "set local enable_sort = off; set local enable_bitmapscan = off"
"""A prepared plan guesses windows that it does not know to be small, and would read and sort all of a long one."""


_ONE: Final = (
    f"select {_COLUMNS} from smart_schedule_occurrences o where o.id = :occurrence_id::bigint"  # noqa: S608 - columns of ours
    " and o.schedule_id = :schedule_id::bigint and (:tenant_id::text is null or o.tenant_id = :tenant_id)"
)


class HistoryQueries(Part):
    """The part of a transaction that reads history."""

    def history(self, query: HistoryQuery) -> Sequence[OccurrenceRow]:
        """Return a page of occurrences, newest planned time first."""
        sql, params = page_of(query)
        self._session.run(IN_ORDER)
        rows = self._session.query_text(sql, **params)
        return [_row(row) for row in rows]

    def occurrence_row(
        self, schedule_id: int, occurrence_id: int, *, tenant_id: str | None
    ) -> OccurrenceRow | None:
        """Return one occurrence if it belongs to that schedule."""
        rows = self._session.query_text(
            _ONE, schedule_id=schedule_id, occurrence_id=occurrence_id, tenant_id=tenant_id
        )
        return _row(rows[0]) if rows else None


def _row(row: dict[str, Any]) -> OccurrenceRow:
    return OccurrenceRow(**{"occurrence_id": row.pop("id"), **row})


def page_of(query: HistoryQuery) -> tuple[str, dict[str, object]]:
    """Return the statement and its parameters."""
    named = {name: getattr(query, name) for name in ("tenant_id", "schedule_id", "kind", "state")}
    params: dict[str, object] = {name: value for name, value in named.items() if value is not None}
    window = []
    if query.since is not None:
        window.append("o.planned_at >= :since::timestamptz")
        params["since"] = query.since
    if query.until is not None:
        window.append("o.planned_at < :until::timestamptz")
        params["until"] = query.until
    if query.after is not None:
        window.append("(o.planned_at, o.id) < (:after_at::timestamptz, :after_id::bigint)")
        params |= {"after_at": query.after.planned_at, "after_id": query.after.occurrence_id}
    # Written out: of a limit that it does not know, the server expects a tenth of all rows, and sorts them.
    newest = f"order by o.planned_at desc, o.id desc limit {query.limit:d}"
    if query.schedule_id is not None:
        return _scan([*_of_schedule(query), *window], newest), params
    owner = "o.tenant_id = " + ("t.tenant_id" if query.tenant_id is None else ":tenant_id")
    branches = [_scan([owner, *branch, *window], newest) for branch in _branches(query)]
    page = branches[0]
    if len(branches) > 1:
        page = f"select o.* from ({' union all '.join(branches)}) o {newest}"  # noqa: S608 - fragments of ours
    if query.tenant_id is None:
        # A page of each tenant, of which the newest rows are kept.
        tenants = "select distinct tenant_id from smart_schedule_schedules"
        page = f"select o.* from ({tenants}) t cross join lateral ({page}) o {newest}"  # noqa: S608 - likewise
    return page, params


def _scan(conditions: Sequence[str], newest: str) -> str:
    where = " and ".join(conditions)
    return f"(select {_COLUMNS} from smart_schedule_occurrences o where {where} {newest})"  # noqa: S608 - likewise


def _of_schedule(query: HistoryQuery) -> list[str]:
    """A schedule has one tenant and one kind: others than these are none of its rows, and none is read."""
    conditions = ["o.schedule_id = :schedule_id::bigint"]
    whose = [f"s.{name} = :{name}" for name in ("tenant_id", "kind") if getattr(query, name) is not None]
    if whose:
        of_schedule = " and ".join(["s.id = :schedule_id::bigint", *whose])
        conditions.append(f"exists (select from smart_schedule_schedules s where {of_schedule})")
    if query.state is not None:
        conditions.append("o.state = :state")
    return conditions


def _branches(query: HistoryQuery) -> list[list[str]]:
    if query.kind is None and query.state is None:
        return [[]]
    kinds = [":kind"] if query.kind is not None else [f"'{kind}'" for kind in ScheduleKind]
    states = [":state"] if query.state is not None else [f"'{state}'" for state in OccurrenceState]
    return [[f"o.kind = {kind}", f"o.state = {state}"] for kind in kinds for state in states]
