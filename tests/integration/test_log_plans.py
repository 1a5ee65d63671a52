"""What following and paging cost in a large log: an index gives a policy's or a tenant's own events in their order.

The policy and the tenant that are looked at wrote one event in
two hundred and in a hundred, evenly among the others'. What is read is what
is shown: nothing in these plans grows with the log but the depth of its b-trees, one level more at ten million rows than at
two hundred thousand. A partition without anything to show costs one look into its index.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from blsflow.adapters.postgres.connection import Session
from blsflow.adapters.postgres.logs import KEY_COLUMNS, READING, ROW_COLUMNS, following, framed, newest
from blsflow.domain.log import LogPlace
from tests.integration.plans import explained, nodes, rows_read

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from blsflow.adapters.postgres.address import DatabaseAddress

ROWS = 200_000
OTHERS = 200
PAGE = 100

_LOG = f"""
insert into smart_schedule_log_events (at, xid, tenant_id, policy_id, code, params)
    select now() - interval '2 days' * random(), (3 + g % 500)::text::xid8,
           case when g % {OTHERS // 2} = 0 then 't1' else 't' || (2 + g % 3) end, g % {OTHERS}, 'tick_decided',
           '{{"counts": {{"keep/already_best": 97, "switch/better_net": 3}}, "gain_cny_per_day": 12.5, "attempts": 1}}'
    from generate_series(1, {ROWS}) g;
"""


@pytest.fixture(scope="module")
def session(module_database: DatabaseAddress) -> Iterator[Session]:
    """Two hundred thousand events of two hundred policies, in partitions of several days."""
    with closing(Session(module_database)) as opened:
        opened.run("select smart_schedule_maintain_partitions(now() - interval '3 days', 7, 3650)")
        # the counter of transactions has to be past the events' own
        opened.run(_LOG)
        opened.run("vacuum analyze smart_schedule_log_events")
        yield opened


def _explained(session: Session, sql: str, params: Mapping[str, object]) -> Mapping[str, Any]:
    return explained(session, sql, params, settings=READING)


def _scans(plan: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [
        node for node in nodes(plan) if node.get("Relation Name", "").startswith("smart_schedule_log_events")
    ]


WHOSE: list[dict[str, Any]] = [
    {"policy_id": 0, "tenant_id": "t1"},
    {"policy_id": None, "tenant_id": "t1"},
    {"policy_id": 0, "tenant_id": None},
]


@pytest.mark.parametrize("backfill", [True, False], ids=["backfill", "following"])
@pytest.mark.parametrize(
    ("whose", "role"),
    [*((whose, "owner") for whose in WHOSE), *((whose, "tenant") for whose in WHOSE if whose["tenant_id"])],
    ids=["policy", "tenant", "operator", "policy under the role", "tenant under the role"],
)
def test_frames_of_one_reader_are_read_from_its_index(
    session: Session, whose: dict[str, Any], role: str, *, backfill: bool
) -> None:
    """R9.3: as many events are read as are sent and one of each partition, by an index, under the tenant's role too."""
    after = LogPlace(xid=250, event_id=1)
    events, params = newest(**whose, limit=PAGE) if backfill else following(after, **whose, limit=PAGE)
    sql = framed(events, newest_first=backfill)
    if role == "tenant":
        session.run("set blsflow.tenant = 't1'; set role blsflow_tenant")
    try:
        plan = _explained(session, sql, params)
    finally:
        session.run("reset role; reset blsflow.tenant")
    scans = _scans(plan)
    assert {node["Node Type"] for node in scans} == {"Index Scan"}
    index = "policy_id" if whose["policy_id"] is not None else "tenant_id"
    # in a partition without a row, one index is as good as another
    assert all(f"({index} = " in node["Index Cond"] for node in scans if node["Actual Rows"])
    assert all("xid" in node["Index Cond"] for node in scans)
    assert plan["Actual Rows"] == 1
    assert rows_read(_scans(plan)) <= PAGE + len(scans)
    # a row each from a block of its own, and the levels of each partition's index
    assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] <= PAGE + 6 * len(scans)


@pytest.mark.parametrize("columns", [ROW_COLUMNS, KEY_COLUMNS], ids=["rows", "places"])
@pytest.mark.parametrize("whose", WHOSE, ids=["policy", "tenant", "operator"])
def test_a_page_is_read_from_its_readers_index(session: Session, whose: dict[str, Any], columns: str) -> None:
    """R9.1: the newest rows, and the newest place, come from an index in their order, without a sort."""
    plan = _explained(session, *newest(**whose, limit=PAGE, columns=columns))
    scans = _scans(plan)
    assert {node["Node Type"] for node in scans} <= {"Index Scan", "Index Only Scan"}
    assert rows_read(_scans(plan)) <= PAGE + len(scans)


@pytest.mark.parametrize("whose", WHOSE, ids=["policy", "tenant", "operator"])
def test_an_idle_look_reads_no_event(session: Session, whose: dict[str, Any]) -> None:
    """R9.3: twice a second, a held stream looks into the index of each partition and reads nothing of what others wrote."""
    events, params = following(LogPlace(xid=502, event_id=ROWS), **whose, limit=PAGE)
    plan = _explained(session, framed(events, newest_first=False), params)
    assert rows_read(_scans(plan)) == 0
    assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] <= 4 * len(_scans(plan))


def test_partitions_made_later_have_the_order_too(session: Session) -> None:
    """R9.3: maintenance attaches each day's partition with the indexes of the log."""
    session.run("select smart_schedule_maintain_partitions(now() + interval '20 days', 1, 3650)")
    parts, in_order = session.run(
        "select (select count(*) from pg_inherits where inhparent = 'smart_schedule_log_events'::regclass),"
        " (select count(*) from pg_indexes where tablename like 'smart_schedule_log_events_%'"
        "  and (indexdef like '%(policy_id, xid, id)' or indexdef like '%(tenant_id, xid, id)'))"
    )[0]
    assert in_order == 2 * parts
