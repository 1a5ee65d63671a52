"""How the statements of a scan reach their rows, also in a database whose tables have no statistics yet."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from pg8000.native import to_statement

from blsflow.adapters.postgres.connection import Session
from blsflow.adapters.postgres.statements import as_array, literal, statements
from tests.integration.plans import WHATEVER_THE_VALUES, explained, nodes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from blsflow.adapters.postgres.address import DatabaseAddress

SCHEDULES = 5000
PAGE = 500

_SCHEDULES = f"""
insert into smart_schedule_schedules (tenant_id, created_by, kind, work, rule, next_run_at)
    select 'acme', 'test', 'conversation', '{{"target": "a", "conversation_id": "c", "prompt": "p"}}',
           '{{"kind": "interval", "every_sec": 60}}', now()
    from generate_series(1, {SCHEDULES}) g;
"""
_OCCURRENCES = f"""
insert into smart_schedule_occurrences (tenant_id, schedule_id, kind, origin, planned_at, state, recorded_at)
    select 'acme', g, 'conversation', 'planned', now(), 'recorded', now() from generate_series(1, {SCHEDULES}) g;
"""


@pytest.fixture
def session(database: DatabaseAddress) -> Iterator[Session]:
    """A session in which nothing has statistics."""
    with closing(Session(database)) as opened:
        opened.run("alter table smart_schedule_occurrences set (autovacuum_enabled = off)")
        opened.run("alter table smart_schedule_schedules set (autovacuum_enabled = off)")
        opened.run(_SCHEDULES)
        yield opened


def test_what_went_out_is_noted_by_an_index_and_in_place(session: Session) -> None:
    """R8.3: also by a plan that was made while the table was empty; a noted row needs no entry in any index."""
    sql, values = to_statement(statements()["mark_occurrences_enqueued"])

    def noting(ids: Sequence[int]) -> str:
        given = values({"ids": as_array(ids), "lowest": min(ids), "highest": max(ids)})
        return f"execute noting ({', '.join(map(literal, given))})"

    session.run(f"{WHATEVER_THE_VALUES.replace('local', 'session')}; prepare noting as {sql}; {noting([1])}")
    session.run(_OCCURRENCES)
    ((found,),) = session.run(f"explain (analyze, buffers, format json) {noting(range(1001, 1001 + PAGE))}")
    plan = found[0]["Plan"]
    (read,) = plan["Plans"]
    assert (read["Node Type"], read["Actual Rows"]) == ("Index Scan", PAGE)
    assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < 6 * PAGE


def test_a_page_of_due_schedules_is_locked_by_an_index(session: Session) -> None:
    """R8.3: choosing the page reads what is due; locking it does not read all that again."""
    plan = explained(
        session, statements()["due_schedules"], {"page_size": PAGE}, settings=WHATEVER_THE_VALUES
    )
    (locking,) = (node for node in nodes(plan) if node["Node Type"] == "LockRows")
    read = [node for node in locking["Plans"] for node in nodes(node) if node.get("Alias") == "s"]
    assert next(node["Actual Rows"] for node in read if "Scan" in node["Node Type"]) == PAGE
