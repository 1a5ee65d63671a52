"""What the tenants' views of platform tables cost, and what they leave to those tables' owners."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from blsflow.adapters.postgres.connection import Session
from blsflow.adapters.postgres.store import PostgresStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from blsflow.adapters.postgres.address import DatabaseAddress

_FLEET = """
insert into clusters values (1, 'acme', 'site', 'UTC');
insert into machines (id, tenant_id, cluster_id, model, name)
    select i, 'acme', 1, 'S21', 'm' from generate_series(1, 20000) i;
insert into machine_mining_runtime (machine_id, status, reported_at) select id, 'mining', now() from machines;
insert into metric_powers select id, now(), 3000 from machines;
insert into smart_schedule_machine_project_benchmarks (machine_id, project_id, sampled_at) select id, 1, now() from machines;
insert into smart_schedule_machine_states (machine_id, tenant_id, expected, changed_at)
    select id, 'acme', 'unset', now() from machines;
insert into smart_schedule_machine_locks (machine_id, tenant_id, owner_kind, owner_id, fencing_token, taken_at, expires_at)
    select id, 'acme', 'attempt', gen_random_uuid(), 1, now(), now() from machines;
analyze;
"""


@pytest.fixture
def store(module_database: DatabaseAddress) -> Iterator[PostgresStore]:
    """A tenant of twenty thousand machines."""
    with closing(Session(module_database)) as session:
        if not session.run("select 1 from machines limit 1"):
            session.run(_FLEET)
    store = PostgresStore(lambda: Session(module_database))
    yield store
    store.close()


@pytest.mark.parametrize(
    "table",
    [
        "machine_mining_runtime",
        "metric_powers",
        "smart_schedule_machine_project_benchmarks",
        "smart_schedule_machine_benchmark_entries",
        "smart_schedule_machine_states",
        "smart_schedule_machine_locks",
    ],
)
def test_a_tenant_reads_of_a_few_machines_what_is_theirs(store: PostgresStore, table: str) -> None:
    """R9.1, R10.1: joined with machines, a view is read by its index, as the table is, and not in whole."""
    with store.of_tenant("acme").transaction() as tx:
        plan = tx._session.run(
            f"explain select t.* from machines m left join {table} t on t.machine_id = m.id"
            " where m.tenant_id = 'acme' and m.id between 1 and 10"
        )
    assert "Seq Scan" not in "\n".join(row[0] for row in plan)


def test_a_tenant_who_reads_no_list_of_projects_looks_for_none(store: PostgresStore) -> None:
    """R9.1, R10.1: whether a list is of the tenant's machines is asked of each that is read, up to the first machine."""
    read = (
        "explain (analyze, timing off) select * from smart_schedule_measured_projects where id = any ('{}')"
    )
    with store.of_tenant("acme").transaction() as tx:
        plan = [row[0] for row in tx._session.run(read)]
        assert len(tx._session.run("select id from smart_schedule_measured_projects")) == 1
    (scan,) = (line for line in plan if "machine_benchmark_entries" in line and "Scan" in line)
    assert "never executed" in scan
    with store.of_tenant("other").transaction() as tx:
        assert tx._session.run("select id from smart_schedule_measured_projects") == []


@pytest.mark.parametrize(
    "change",
    [
        "alter table machines drop column name",
        "alter table clusters alter column name type varchar(80)",
        "alter table projects drop column pool",
        "alter table machines add column rack text",
    ],
)
def test_owners_may_change_what_is_not_read_here(store: PostgresStore, change: str) -> None:
    """R1.2: a view depends on no column but those that it names; the others stay their table's owner's to change."""
    with store.transaction() as tx:
        tx._session.run(f"savepoint before; {change}; rollback to before")
