"""The second wall: what a tenant's transaction sees and may change, whatever its statements say."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from blsflow.adapters.postgres.connection import Session
from blsflow.adapters.postgres.store import PostgresStore
from blsflow.ports.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from blsflow.adapters.postgres.address import DatabaseAddress

# Everything of a tenant hangs from these three; each has one row of each tenant.
_ROWS = """
insert into clusters values (1, 'acme', 'site', 'UTC'), (2, 'other', 'site', 'UTC');
insert into cluster_tariffs (id, cluster_id, name) values (1, 1, 'flat'), (2, 2, 'flat');
insert into cluster_tariff_periods (id, tariff_id, name, starts, ends, price_per_kwh)
    values (1, 1, 'flat', '00:00', '24:00', 0.3), (2, 2, 'flat', '00:00', '24:00', 0.3);
insert into machine_models values ('S21', 'SHA-256', 1e14, 3000);
insert into machines (id, tenant_id, cluster_id, model, name)
    values (1, 'acme', 1, 'S21', 'a'), (2, 'other', 2, 'S21', 'b');
insert into machine_mining_runtime (machine_id, status, reported_at)
    values (1, 'running', now()), (2, 'running', now());
insert into metric_powers values (1, now(), 3000), (2, now(), 3000);
insert into projects values (1, 'acme', 'A', 'A', 'A', 'SHA-256'), (2, 'other', 'B', 'B', 'B', 'SHA-256');
insert into project_run_configurations values (1, 1, 'S21', true), (2, 2, 'S21', true);
insert into smart_schedule_machine_project_benchmarks (machine_id, project_id, sampled_at)
    values (1, 1, now()), (2, 2, now());
insert into smart_schedule_resource_eligibilities
    values ('acme', 1, 'cluster', '1', true), ('other', 2, 'cluster', '2', true);
insert into smart_schedule_executor_leases (tenant_id, holder, changed_by)
    values ('acme', 'blsflow', 't'), ('other', 'blsflow', 't');
insert into smart_schedule_policy_groups (tenant_id, name, mode, created_by)
    values ('acme', 'p', 'profit_guard', 't'), ('other', 'p', 'profit_guard', 't');
insert into smart_schedule_policy_scopes values (1, 'tenant', ''), (2, 'tenant', '');
insert into smart_schedule_policy_candidates (policy_id, project_id, position) values (1, 1, 0), (2, 2, 0);
insert into smart_schedule_policy_windows (policy_id, starts, ends, action)
    values (1, '08:00', '09:00', 'stop'), (2, '08:00', '09:00', 'stop');
insert into smart_schedule_freezes (policy_id, tenant_id, cause, frozen_at, frozen_by)
    values (1, 'acme', 'manual', now(), 't'), (2, 'other', 'manual', now(), 't');
insert into smart_schedule_schedules (tenant_id, created_by, kind, policy_id, rule)
    values ('acme', 't', 'policy_tick', 1, '{"kind": "daily"}'), ('other', 't', 'policy_tick', 2, '{"kind": "daily"}');
insert into smart_schedule_occurrences (tenant_id, schedule_id, kind, origin, planned_at, state, recorded_at)
    values ('acme', 1, 'policy_tick', 'planned', now(), 'recorded', now()),
           ('other', 2, 'policy_tick', 'planned', now(), 'recorded', now());
insert into smart_schedule_ticks
    (tenant_id, policy_id, occurrence_id, ticked_at, execution_mode, policy_version, inputs, valid_until)
    values ('acme', 1, 1, now(), 'shadow', 1, '{}', now()), ('other', 2, 2, now(), 'shadow', 1, '{}', now());
insert into smart_schedule_machine_decisions (ticked_at, tick_id, machine_id, action, reason, proposed, figures)
    select ticked_at, id, id, 'keep', 'r', 'keep', '' from smart_schedule_ticks;
insert into smart_schedule_attempts (id, tenant_id, kind, idempotency_key, action, state, prepared_at, valid_until)
    values ('00000000-0000-0000-0000-000000000001', 'acme', 'device_batch', 'a', 'stop', 'prepared', now(), now()),
           ('00000000-0000-0000-0000-000000000002', 'other', 'device_batch', 'b', 'stop', 'prepared', now(), now());
insert into smart_schedule_attempt_machines (attempt_id, machine_id, fencing_token)
    select id, row_number() over (order by id), 1 from smart_schedule_attempts;
insert into smart_schedule_machine_locks (machine_id, tenant_id, owner_kind, owner_id, fencing_token, taken_at, expires_at)
    select row_number() over (order by id), tenant_id, 'attempt', id, 1, now(), now() from smart_schedule_attempts;
insert into smart_schedule_machine_states (machine_id, tenant_id, expected, changed_at)
    values (1, 'acme', 'unset', now()), (2, 'other', 'unset', now());
insert into smart_schedule_benchmark_runs (id, tenant_id, machine_id, project_id, state, not_before, requested_at)
    values ('00000000-0000-0000-0000-000000000001', 'acme', 1, 1, 'pending', now(), now()),
           ('00000000-0000-0000-0000-000000000002', 'other', 2, 2, 'pending', now(), now());
insert into smart_schedule_commands (id, tenant_id, action, why, requested_by, requested_at, machines)
    values ('00000000-0000-0000-0000-000000000001', 'acme', 'stop', 'w', 't', now(), 1),
           ('00000000-0000-0000-0000-000000000002', 'other', 'stop', 'w', 't', now(), 1);
insert into smart_schedule_command_machines (command_id, machine_id, skipped)
    select id, row_number() over (order by id), 'locked' from smart_schedule_commands;
insert into smart_schedule_log_events (at, tenant_id, code) values (now(), 'acme', 'x'), (now(), 'other', 'x');
insert into smart_schedule_outbox (tenant_id, code, created_at, next_try_at)
    values ('acme', 'x', now(), now()), ('other', 'x', now(), now());
insert into smart_schedule_requests (tenant_id, key, fingerprint, made_by, made_at)
    values ('acme', 'k', 'f', 't', now()), ('other', 'k', 'f', 't', now());
"""

OF_EVERYBODY = {
    "machine_models",
    "smart_schedule_price_aliases",
    "smart_schedule_profit_readings",
    "smart_schedule_profit_fetches",
}
"""Tables that hold nothing of anybody in particular."""
OF_NOBODY = {"smart_schedule_migrations"}
"""Tables that the API's role does not read."""


@pytest.fixture
def store(database: DatabaseAddress) -> Iterator[PostgresStore]:
    """A database with one row of each of two tenants in every table."""
    with closing(Session(database)) as session:
        session.run(_ROWS)
    store = PostgresStore(lambda: Session(database))
    yield store
    store.close()


def _tables(store: PostgresStore) -> list[str]:
    with store.transaction() as tx:
        found = tx._session.run(
            "select c.relname from pg_class c where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p')"
            " and not c.relispartition order by 1"
        )
    return [row[0] for row in found]


def test_a_tenant_sees_its_own_rows_of_every_table_and_no_others(store: PostgresStore) -> None:
    """R9.1: whatever table there is, one that was added later included, shows a tenant one row of the two."""
    seen = {}
    for table in set(_tables(store)) - OF_EVERYBODY - OF_NOBODY:
        with store.of_tenant("acme").transaction() as tx:
            seen[table] = tx._session.run(f"select count(*) from {table}")[0][0]
    assert len(seen) > 25
    assert {table: count for table, count in seen.items() if count != 1} == {}


def test_without_a_tenant_nothing_is_seen(store: PostgresStore) -> None:
    """R9.1: the role alone is nobody; so is a tenant that there is none of."""
    for nobody in ("", "nobody", "acme'; reset role; --"):
        for table in set(_tables(store)) - OF_EVERYBODY - OF_NOBODY:
            with store.of_tenant(nobody).transaction() as tx:
                assert tx._session.run(f"select count(*) from {table}")[0][0] == 0, table


@pytest.mark.parametrize(
    "statement",
    [
        "update smart_schedule_policy_groups set name = 'mine' where id = 2",
        "delete from smart_schedule_policy_scopes where policy_id = 2",
        "update smart_schedule_machine_locks set freed_at = now(), freed_by = 'me' where machine_id = 2",
    ],
)
def test_what_is_not_theirs_is_not_changed(store: PostgresStore, statement: str) -> None:
    """R9.1: a change without its condition on the tenant reaches no row of another."""
    with store.of_tenant("acme").transaction() as tx:
        assert tx._session.run(f"with done as ({statement} returning 1) select count(*) from done")[0][0] == 0


@pytest.mark.parametrize(
    "statement",
    [
        "insert into smart_schedule_log_events (at, tenant_id, code) values (now(), 'other', 'x')",
        (
            "insert into smart_schedule_machine_locks (machine_id, tenant_id, owner_kind, owner_id, fencing_token, taken_at,"
            " expires_at) select 99, 'acme', owner_kind, owner_id, 2, now(), now() from smart_schedule_machine_locks"
        ),
        "insert into smart_schedule_policy_candidates (policy_id, project_id, position) values (2, 1, 5)",
        "update smart_schedule_policy_groups set tenant_id = 'other' where id = 1",
        "select * from public.machines",
        "update machines set operator_hold = true",
        "delete from smart_schedule_machine_decisions",
        "create table x ()",
    ],
)
def test_what_a_tenant_may_not_do_is_refused(store: PostgresStore, statement: str) -> None:
    """R9.1, R1.2: rows for others, the tables behind the views, and what other services own are out of reach."""
    with pytest.raises(StoreError), store.of_tenant("acme").transaction() as tx:
        tx._session.run(statement)


def test_the_role_ends_with_its_transaction(store: PostgresStore) -> None:
    """R9.1: the same session serves the next tenant, and the deployment's own work, whether the one before failed or not."""
    with pytest.raises(StoreError), store.of_tenant("acme").transaction() as tx:
        tx._session.run("select 1 / 0")
    with store.of_tenant("other").transaction() as tx:
        assert tx._session.run("select tenant_id from machines") == [["other"]]
    with store.transaction() as tx:
        assert tx._session.run("select count(*) from machines, pg_roles where rolname = current_user") == [
            [2]
        ]
