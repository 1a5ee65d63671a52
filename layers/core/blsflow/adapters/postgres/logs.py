"""The statements that read the log in the order of its transactions: pages, what follows a place, frames of a stream.

Each reader's filter is written into its statement, so that the index of that filter gives the rows in their order, and no
more of them are read than are shown. Values are left to the execution: one plan serves all policies and tenants.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from blsflow.adapters.postgres.part import Part
from blsflow.domain.log import MOST_ROWS, START, LogPlace
from blsflow.ports.logs import Frames, LogPage, LogRow

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from blsflow.domain.log import LogQuery

READING: Final = (
    "set local enable_sort = off; set local enable_bitmapscan = off;"
    " set local plan_cache_mode = force_generic_plan"
)
"""A plan that knows no values takes windows for small, and would read and sort all of a long one."""

MOST_FRAMES: Final = MOST_ROWS
MOST_BYTES: Final = 1_000_000
"""Of frames in one answer, which takes one more event; a function's answer is bounded at 6 MB, as escaped JSON."""
MOST_SCANNED: Final = 20_000
"""Events that one page with a filter by level, code or kind looks at."""

# Columns are ordered by as e.xid: a bare xid would be that of the output, which is a text.
KEY_COLUMNS: Final = "xid::text as xid, id"
ROW_COLUMNS: Final = (
    f"{KEY_COLUMNS}, at, tenant_id, policy_id, kind, level, code, params, tick_id, attempt_id, machine_id"
)
_SETTLED: Final = "xid < pg_snapshot_xmin(pg_current_snapshot())"
_AFTER: Final = "(xid, id) > (:after_xid::text::xid8, :after_id::bigint)"

_PLACE: Final = "xid::text || '-' || id"
_FRAME: Final = rf"""
    'event: ' || kind || E'\nid: ' || {_PLACE} || E'\ndata: {{"id":' || id || ',"at":' || to_json(at)::text
    || ',"kind":"' || kind || '","level":"' || level || '","code":' || to_json(code)::text
    || ',"params":' || params::text || ',"policy_id":' || coalesce(policy_id::text, 'null')
    || ',"tick_id":' || coalesce(tick_id::text, 'null') || ',"attempt_id":' || coalesce('"' || attempt_id || '"', 'null')
    || ',"machine_id":' || coalesce(machine_id::text, 'null') || E'}}\n\n'"""
"""One server-sent event: JSON as the server writes it has no line breaks of its own."""


class LogQueries(Part):
    """The log's part of a transaction."""

    def knows_policy(self, policy_id: int, *, tenant_id: str | None) -> bool:
        """Whether the tenant has, or had, such a policy."""
        known: bool = self._session.query("policy_of_tenant", policy_id=policy_id, tenant_id=tenant_id)[0][
            "known"
        ]
        return known

    def newest_place(self, *, policy_id: int | None, tenant_id: str) -> LogPlace:
        """Return the place of the newest settled event."""
        rows = self._read(*newest(policy_id=policy_id, tenant_id=tenant_id, limit=1, columns=KEY_COLUMNS))
        return _place(rows[0]) if rows else START

    def has_place(self, place: LogPlace, *, tenant_id: str) -> bool:
        """Whether an event of the tenant is at this place."""
        found: bool = self._session.query(
            "place_exists", xid=str(place.xid), event_id=place.event_id, tenant_id=tenant_id
        )[0]["found"]
        return found

    def place_of(self, event_id: int, *, tenant_id: str) -> LogPlace | None:
        """Return an event's place, settled or not; None if the tenant has no such event."""
        rows = self._session.query("place_of_event", event_id=event_id, tenant_id=tenant_id)
        return LogPlace(xid=int(rows[0]["xid"]), event_id=event_id) if rows else None

    def is_settled(self, place: LogPlace) -> bool:
        """Whether nothing can be added before this place any more."""
        return place.xid < int(self.log_position())

    def newest_frames(self, *, policy_id: int | None, tenant_id: str, limit: int) -> Frames:
        """Return the newest events, oldest first, as frames; fewer of them if they are large."""
        sql, params = newest(policy_id=policy_id, tenant_id=tenant_id, limit=limit)
        return self._frames(sql, params, newest_first=True)

    def next_frames(self, after: LogPlace, *, policy_id: int | None, tenant_id: str) -> Frames:
        """Return the next events after a place as frames, as many as one answer takes."""
        sql, params = following(after, policy_id=policy_id, tenant_id=tenant_id, limit=MOST_FRAMES)
        return self._frames(sql, params, newest_first=False)

    def log_page(self, query: LogQuery, *, tenant_id: str, upto: LogPlace) -> LogPage:
        """Return a page of what stands at or below ``upto``, without ``stream_after``."""
        window, params = _window(query, tenant_id, upto)
        wanted = [
            f"{name} = :{name}" for name in ("level", "code", "kind") if getattr(query, name) is not None
        ]
        floor = None
        if wanted:
            stretch = f"{_newest(KEY_COLUMNS, window, 1)} offset {MOST_SCANNED - 1}"
            floor = next(map(_place, self._read(stretch, params)), None)
            params |= {
                name: getattr(query, name)
                for name in ("level", "code", "kind")
                if getattr(query, name) is not None
            }
        if floor is not None:
            wanted.append("(xid, id) >= (:floor_xid::text::xid8, :floor_id::bigint)")
            params |= {"floor_xid": str(floor.xid), "floor_id": floor.event_id}
        rows = [
            _row(row) for row in self._read(_newest(ROW_COLUMNS, [*window, *wanted], query.limit), params)
        ]
        return LogPage(
            rows=tuple(rows), next=rows[-1].place if len(rows) == query.limit else floor, stream_after=None
        )

    def log_tail(
        self, *, policy_id: int | None, tenant_id: str | None, limit: int, before_xid: str | None = None
    ) -> Sequence[Mapping[str, Any]]:
        """Return the newest log events, oldest first; those that following from ``before_xid`` shows are left out."""
        conditions, params = _whose(policy_id, tenant_id)
        if before_xid is not None:
            conditions = [*conditions, "xid < :before_xid::text::xid8"]
            params["before_xid"] = before_xid
        return self._read(_newest(ROW_COLUMNS, conditions, limit), params)[::-1]

    def log_position(self) -> str:
        """Return the transaction from which following begins: older ones have all ended."""
        xid: str = self._session.query("log_position")[0]["xid"]
        return xid

    def follow_log(
        self, *, after: LogPlace, policy_id: int | None, tenant_id: str | None, limit: int
    ) -> Sequence[Mapping[str, Any]]:
        """Return the next settled log events after a place.

        None is ever passed over, whatever order transactions commit in: an event is shown once every transaction older
        than its own has ended.
        """
        sql, params = following(
            after, policy_id=policy_id, tenant_id=tenant_id, limit=limit, columns=ROW_COLUMNS
        )
        return self._read(sql, params)

    def take_stream(self, tenant_id: str, *, per_tenant: int, in_all: int) -> str | None:
        """Take a stream's place until it is freed or the session ends; else say whose places are all taken."""
        full_of: str | None = self._session.query(
            "take_stream", tenant_id=tenant_id, per_tenant=per_tenant, in_all=in_all
        )[0]["full_of"]
        return full_of

    def free_stream(self) -> None:
        """Give the place back."""
        self._session.query("free_stream")

    def _read(self, sql: str, params: Mapping[str, object]) -> list[dict[str, Any]]:
        self._session.run(READING)
        return self._session.query_text(sql, **params)

    def _frames(self, events: str, params: Mapping[str, object], *, newest_first: bool) -> Frames:
        row = self._read(framed(events, newest_first=newest_first), params)[0]
        if not row["events"]:
            return Frames()
        xid, event_id = row["place"].split("-")
        place = LogPlace(xid=int(xid), event_id=int(event_id))
        is_full = row["events"] == MOST_FRAMES or row["bytes"] >= MOST_BYTES
        return Frames(text=row["frames"], events=row["events"], place=place, is_full=is_full)


def newest(
    *, policy_id: int | None, tenant_id: str | None, limit: int, columns: str = "*"
) -> tuple[str, dict[str, object]]:
    """Return the statement of the newest settled events, newest first."""
    whose, params = _whose(policy_id, tenant_id)
    return _newest(columns, [*whose, _SETTLED], limit), params


def following(
    after: LogPlace, *, policy_id: int | None, tenant_id: str | None, limit: int, columns: str = "*"
) -> tuple[str, dict[str, object]]:
    """Return the statement of the settled events after a place, never past the oldest transaction still open.

    The order of ids alone would not do: a transaction with a lower id of an event may have begun later and commit last.
    """
    whose, params = _whose(policy_id, tenant_id)
    params |= {"after_xid": str(after.xid), "after_id": after.event_id}
    conditions = " and ".join([*whose, _AFTER, _SETTLED])
    return (
        f"select {columns} from smart_schedule_log_events e where {conditions} order by e.xid, e.id limit {limit:d}",  # noqa: S608 - fragments of ours
        params,
    )


def framed(events: str, *, newest_first: bool) -> str:
    """Return the statement that makes one text of a statement's events, and bounds it without leaving a gap in it.

    Of the newest, the oldest are dropped; of those that follow, the last, which come next.
    """
    direction = "desc" if newest_first else "asc"
    return f"""
        select coalesce(string_agg(frame, '' order by xid, id), '') as frames, count(*) as events, max(bytes) as bytes,
               (array_agg({_PLACE} order by xid, id))[count(*)] as place
        from (select xid, id, frame, sum(octet_length(frame)) over (order by xid {direction}, id {direction}) as bytes
              from (select xid, id, {_FRAME} as frame from ({events}) e) f) g
        where bytes - octet_length(frame) < {MOST_BYTES}"""  # noqa: S608 - fragments of ours


def _newest(columns: str, conditions: Sequence[str], limit: int) -> str:
    where = f"where {' and '.join(conditions)}" if conditions else ""
    # Written out: of a limit that it does not know, the server expects a tenth of all rows.
    return f"select {columns} from smart_schedule_log_events e {where} order by e.xid desc, e.id desc limit {limit:d}"  # noqa: S608 - likewise


def _whose(policy_id: int | None, tenant_id: str | None) -> tuple[list[str], dict[str, object]]:
    conditions, params = [], dict[str, object]()
    if policy_id is not None:
        conditions.append("policy_id = :policy_id::bigint")
        params["policy_id"] = policy_id
    if tenant_id is not None:
        conditions.append("tenant_id = :tenant_id")
        params["tenant_id"] = tenant_id
    return conditions, params


def _window(query: LogQuery, tenant_id: str, upto: LogPlace) -> tuple[list[str], dict[str, object]]:
    """What a page lies in; settled, because ``upto`` is."""
    window, params = _whose(query.policy_id, tenant_id)
    compare, place = ("<=", upto) if query.after is None else ("<", min(query.after, upto, key=_order))
    window.append(f"(xid, id) {compare} (:place_xid::text::xid8, :place_id::bigint)")
    params |= {"place_xid": str(place.xid), "place_id": place.event_id}
    for name, compare_at in (("since", ">="), ("until", "<")):
        if getattr(query, name) is not None:
            window.append(f"at {compare_at} :{name}::timestamptz")
            params[name] = getattr(query, name)
    return window, params


def _order(place: LogPlace) -> tuple[int, int]:
    return place.xid, place.event_id


def _place(row: Mapping[str, Any]) -> LogPlace:
    return LogPlace(xid=int(row["xid"]), event_id=row["id"])


def _row(row: Mapping[str, Any]) -> LogRow:
    names = ("at", "policy_id", "kind", "level", "code", "params", "tick_id", "attempt_id", "machine_id")
    return LogRow(place=_place(row), **{name: row[name] for name in names})
