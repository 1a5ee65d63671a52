"""The log as tests write and follow it: events in transactions of their own, and what an answer of a stream says."""

from __future__ import annotations

import json
import time
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.integration.control_scenes import connect

if TYPE_CHECKING:
    import pg8000.native

    from blsflow.adapters.postgres.address import DatabaseAddress

NORTH, SOUTH = "north-mining", "south-mining"


def policy_of(connection: pg8000.native.Connection, tenant_id: str) -> int:
    """Insert a policy of a tenant."""
    policy_id: int = connection.run(
        "insert into smart_schedule_policy_groups (tenant_id, name, mode, created_by)"
        " values (:tenant_id, 'p', 'profit_guard', 'test') returning id",
        tenant_id=tenant_id,
    )[0][0]
    return policy_id


def write(  # noqa: PLR0913 - an event's columns
    connection: pg8000.native.Connection,
    code: str,
    *,
    policy_id: int | None = None,
    tenant_id: str = NORTH,
    kind: str = "log",
    level: str = "info",
    params: object = None,
) -> int:
    """Insert an event in whatever transaction is open; return its id."""
    event_id: int = connection.run(
        "insert into smart_schedule_log_events (at, tenant_id, policy_id, kind, level, code, params) values"
        " (now(), :tenant_id, :policy_id, :kind, :level, :code, :params::jsonb) returning id",
        tenant_id=tenant_id,
        policy_id=policy_id,
        kind=kind,
        level=level,
        code=code,
        params=json.dumps(params or {}),
    )[0][0]
    return event_id


def begin(connection: pg8000.native.Connection) -> None:
    """Open a transaction that has its place in the order before it writes anything."""
    connection.run("begin")
    connection.run("select pg_current_xact_id()")


def wait_for_the_server(address: DatabaseAddress) -> None:
    """Wait until what the server does by itself, and for other databases, is over: an open transaction holds up all logs."""
    alone = (
        "select not exists (select from pg_stat_activity where backend_xid is not null"
        " and (datname is distinct from current_database() or backend_type <> 'client backend'))"
    )
    with closing(connect(address)) as connection:
        while connection.run(alone) != [[True]]:
            time.sleep(0.01)


@dataclass(frozen=True, kw_only=True)
class Frame:
    """A block of a stream."""

    event: str
    last_id: str
    data: Any


def frames_of(body: str) -> list[Frame]:
    """The blocks of an answer that have an id or data, strictly read: one line per field."""
    found = []
    for block in body.removesuffix("\n\n").split("\n\n"):
        lines = [line.partition(": ") for line in block.split("\n") if not line.startswith(":")]
        fields = {name: value for name, _, value in lines}
        assert len(fields) == len(lines)
        if "id" in fields:
            data = json.loads(fields["data"]) if "data" in fields else None
            found.append(Frame(event=fields.get("event", ""), last_id=fields["id"], data=data))
    return found
