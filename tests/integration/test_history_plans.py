"""What a page of history costs in a large ledger: an index gives its rows in order, and only its rows are read.

Nothing in these plans grows with the ledger but the depth of its b-trees. At 240,000 rows an index has three levels, at ten
million four (more than 100 entries a block), so that a page costs at most one block more for each stretch of the index that
it reads, of which there are 18 at most.

The exception is a filter by state within one schedule: it follows that schedule's own history back to the page's rows, and
so costs what the schedule had in between, never what others had.
"""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from blsflow.adapters.postgres.connection import Session
from blsflow.adapters.postgres.history import IN_ORDER, page_of
from blsflow.domain.history import HistoryCursor, HistoryQuery
from tests.integration.plans import WHATEVER_THE_VALUES, explained, nodes, rows_read

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from blsflow.adapters.postgres.address import DatabaseAddress

TENANTS = 4
SCHEDULES = 60
ROWS = 240_000
PAGE = 50
MOST_BLOCKS = 450
"""Of 8 kB, for 50 rows from 18 stretches; reading the table or an index through takes thousands."""

FIRST = datetime(2026, 1, 1, tzinfo=UTC)
MIDDLE = FIRST + timedelta(seconds=ROWS // 2)

_LEDGER = f"""
insert into smart_schedule_schedules (tenant_id, created_by, kind, work, rule, created_at)
    select 't' || g % {TENANTS}, 'test', 'conversation', '{{"target": "a", "conversation_id": "c", "prompt": "p"}}',
           '{{"kind": "interval", "every_sec": 60}}', now()
    from generate_series(1, {SCHEDULES}) g;
insert into smart_schedule_policy_groups (tenant_id, name, mode, created_by) values ('t1', 'p', 'profit_guard', 'test');
insert into smart_schedule_schedules (tenant_id, created_by, kind, policy_id, rule, created_at)
    values ('t1', 'test', 'policy_tick', 1, '{{"kind": "interval", "every_sec": 60}}', now());
insert into smart_schedule_occurrences
    (tenant_id, schedule_id, kind, origin, planned_at, state, reason, recorded_at, ended_at)
    select s.tenant_id, s.id, s.kind, 'planned', timestamptz '{FIRST.isoformat()}' + interval '1 second' * g,
           case when g % 20000 = 19999 then 'failed' when g % 10 = 0 then 'skipped' else 'succeeded' end, 'busy', now(), now()
    from generate_series(1, {ROWS}) g join smart_schedule_schedules s on s.id = 1 + g % {SCHEDULES};
insert into smart_schedule_occurrences
    (tenant_id, schedule_id, kind, origin, planned_at, state, recorded_at, ended_at)
    select s.tenant_id, s.id, s.kind, 'planned', timestamptz '{FIRST.isoformat()}' + interval '1 second' * g, 'succeeded',
           now(), now()
    from generate_series(1, 30) g join smart_schedule_schedules s on s.kind = 'policy_tick';
"""


@pytest.fixture(scope="module")
def session(module_database: DatabaseAddress) -> Iterator[Session]:
    """A ledger of a quarter of a million occurrences in sixty schedules of four tenants, and few of a rare kind and state."""
    with closing(Session(module_database)) as opened:
        opened.run(_LEDGER)
        opened.run("vacuum analyze smart_schedule_occurrences")
        opened.run("vacuum analyze smart_schedule_schedules")
        yield opened


def _explained(session: Session, query: HistoryQuery) -> Mapping[str, Any]:
    return explained(session, *page_of(query), settings=f"{WHATEVER_THE_VALUES}; {IN_ORDER}")


def _scans(plan: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [node for node in nodes(plan) if node.get("Relation Name") == "smart_schedule_occurrences"]


_ONE_TENANT: list[dict[str, Any]] = [
    {},
    {"kind": "conversation"},
    {"kind": "policy_tick"},
    {"state": "succeeded"},
    {"state": "failed"},
    {"state": "cancelling"},
    {"kind": "conversation", "state": "skipped"},
    {"kind": "policy_tick", "state": "failed"},
    {"schedule_id": 2},
    {"schedule_id": 2, "kind": "conversation"},
    {"schedule_id": 2, "kind": "policy_tick"},
    {"schedule_id": 3},
    {"schedule_id": 4711},
]
_WINDOWS: list[dict[str, Any]] = [
    {},
    {"since": MIDDLE},
    {"until": MIDDLE},
    {"since": MIDDLE, "until": MIDDLE + timedelta(hours=1)},
    {"after": HistoryCursor(planned_at=MIDDLE, occurrence_id=ROWS // 2)},
    {"since": FIRST, "after": HistoryCursor(planned_at=MIDDLE, occurrence_id=ROWS // 2)},
]


@pytest.mark.parametrize("window", _WINDOWS, ids=lambda window: "+".join(window) or "newest")
@pytest.mark.parametrize(
    "filters", _ONE_TENANT, ids=lambda filters: " ".join(map(str, filters.values())) or "all"
)
def test_a_tenants_page_reads_its_own_rows_in_the_order_of_an_index(
    session: Session, filters: dict[str, Any], window: dict[str, Any]
) -> None:
    """R8.12: nothing is sorted, and hardly more rows are read than shown, for each combination of filters."""
    plan = _explained(session, HistoryQuery(tenant_id="t1", limit=PAGE, **filters, **window))
    kinds = {
        node["Node Type"] for node in nodes(plan) if node.get("Relation Name") != "smart_schedule_schedules"
    }
    assert kinds <= {"Limit", "Append", "Merge Append", "Index Scan", "Index Only Scan", "Result"}, kinds
    assert all(node["Node Type"] == "Index Scan" for node in _scans(plan))
    # a merge holds one row of each of at most 18 stretches ahead
    assert rows_read(_scans(plan)) <= PAGE + 18
    assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] <= MOST_BLOCKS


@pytest.mark.parametrize("window", _WINDOWS, ids=lambda window: "+".join(window) or "newest")
@pytest.mark.parametrize(
    "filters",
    [each for each in _ONE_TENANT if "schedule_id" not in each],
    ids=lambda filters: " ".join(map(str, filters.values())) or "all",
)
def test_an_operators_page_reads_a_page_of_each_tenant(
    session: Session, filters: dict[str, Any], window: dict[str, Any]
) -> None:
    """R8.12: over all tenants, a page of each is read in the order of an index and merged; nothing grows with the ledger."""
    plan = _explained(session, HistoryQuery(limit=PAGE, **filters, **window))
    assert all(node["Node Type"] == "Index Scan" for node in _scans(plan))
    assert rows_read(_scans(plan)) <= TENANTS * (PAGE + 18)
    assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] <= TENANTS * MOST_BLOCKS


@pytest.mark.parametrize("window", _WINDOWS, ids=lambda window: "+".join(window) or "newest")
@pytest.mark.parametrize("state", ["succeeded", "failed", "cancelled"])
def test_a_state_of_one_schedule_costs_no_more_than_its_own_history(
    session: Session, state: str, window: dict[str, Any]
) -> None:
    """R8.12: a filter by state within a schedule reads that schedule's rows, however rare the state, and nobody else's."""
    plan = _explained(session, HistoryQuery(schedule_id=2, state=state, limit=PAGE, **window))
    assert not any(node["Node Type"] == "Seq Scan" for node in nodes(plan))
    assert rows_read(_scans(plan)) <= ROWS / SCHEDULES + 1
