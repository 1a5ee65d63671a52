"""Pages of what was decided for a machine: by its tenant's ticks, of which each page walks through so many at most."""

from __future__ import annotations

from contextlib import closing
from itertools import product
from typing import TYPE_CHECKING

import pytest

from blsflow.adapters.postgres import ticks as adapter
from blsflow.adapters.postgres.connection import Session
from blsflow.adapters.postgres.store import PostgresStore
from blsflow.flow.ticks import UnknownMachine, machine_history

if TYPE_CHECKING:
    from collections.abc import Iterator

    from blsflow.adapters.postgres.address import DatabaseAddress
    from blsflow.ports.store import Store

TICKS = 60
EVERY = 10
"""Ticks of one policy after the other, of which one in ten has decided on machine 1."""

_WORLD = f"""
insert into clusters values (1, 'acme', 'c1', 'UTC'), (2, 'other', 'c2', 'UTC');
insert into machines (id, tenant_id, cluster_id, model, name)
    values (1, 'acme', 1, 'S21', 'm1'), (2, 'acme', 1, 'S21', 'm2'), (3, 'other', 2, 'S21', 'm3');
insert into smart_schedule_policy_groups (tenant_id, name, mode, created_by)
    select case g when 3 then 'other' else 'acme' end, 'p' || g, 'profit_guard', 't' from generate_series(1, 3) g;
insert into smart_schedule_schedules (tenant_id, created_by, kind, policy_id, rule)
    select tenant_id, 't', 'policy_tick', id, '{{"kind": "daily"}}' from smart_schedule_policy_groups;
insert into smart_schedule_occurrences (tenant_id, schedule_id, kind, origin, planned_at, state, recorded_at, ended_at)
    select s.tenant_id, s.id, 'policy_tick', 'planned', now() - interval '1 hour' * g, 'succeeded', now(), now()
    from generate_series(1, {TICKS}) g join smart_schedule_schedules s on s.id = 1 + g % 3;
insert into smart_schedule_ticks
    (tenant_id, policy_id, occurrence_id, ticked_at, execution_mode, policy_version, inputs, valid_until)
    select tenant_id, schedule_id, id, planned_at, 'shadow', 1, '{{}}', now()
    from smart_schedule_occurrences order by planned_at desc;
insert into smart_schedule_machine_decisions (ticked_at, tick_id, machine_id, action, reason, proposed, figures)
    select ticked_at, id, 1, 'keep', 'best_already', 'keep', '' from smart_schedule_ticks where id % {EVERY} = 0;
"""


@pytest.fixture
def store(database: DatabaseAddress) -> Iterator[PostgresStore]:
    """Sixty ticks of three policies, one of them another tenant's, in partitions of several days."""
    with closing(Session(database)) as session:
        session.run("select smart_schedule_maintain_partitions(now() - interval '4 days', 6, 3650)")
        session.run(_WORLD)
    opened = PostgresStore(lambda: Session(database))
    yield opened
    opened.close()


def ids(store: PostgresStore, condition: str) -> list[int]:
    """The ticks of these conditions that decided on the machine, newest first."""
    with store.transaction() as tx:
        rows = tx._session.run(
            "select t.id from smart_schedule_ticks t join smart_schedule_machine_decisions d on d.tick_id = t.id"
            f" where {condition} order by t.ticked_at desc"
        )
    return [row[0] for row in rows]


def pages(store: Store, machine_id: int, *, tenant_id: str | None, limit: int) -> list[list[int]]:
    """The ticks on every page until the last."""
    found = []
    cursor = None
    while True:
        rows, cursor = machine_history(store, machine_id, tenant_id=tenant_id, cursor=cursor, limit=limit)
        found.append([row.tick_id for row in rows])
        if cursor is None:
            return found


@pytest.mark.parametrize("as_tenant", [True, False], ids=["tenant", "operator"])
def test_pages_that_end_early_go_on_where_they_ended(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch, *, as_tenant: bool
) -> None:
    """R8.12: short and empty pages have a next one, and none of them repeats or loses a row."""
    expected = ids(store, "t.tenant_id = 'acme'")
    wall: Store = store.of_tenant("acme") if as_tenant else store
    for most, limit in product([1, 5, 7, 20, 39, 40, 41, 1000], [1, 2, 3, 50]):
        monkeypatch.setattr(adapter, "MOST_TICKS", most)
        seen = pages(wall, 1, tenant_id="acme" if as_tenant else None, limit=limit)
        assert [each for page in seen for each in page] == expected, (most, limit)
        assert all(len(page) <= limit for page in seen)
        # the tenant has forty ticks; a page that is filled ends sooner, by itself
        assert len(seen) <= 1 + 40 // most + len(expected) // limit


def test_a_machine_that_nothing_was_decided_for_has_no_pages(store: PostgresStore) -> None:
    """R8.12: one empty page, the last."""
    assert pages(store, 2, tenant_id="acme", limit=5) == [[]]


def test_a_machines_decisions_are_those_of_its_tenants_ticks(store: PostgresStore) -> None:
    """R9.1: what was decided for it when it was another tenant's is that tenant's; so it is to operators."""
    assert len(ids(store, "t.tenant_id = 'other'")) == 2
    with store.transaction() as tx:
        tx._session.run("update machines set tenant_id = 'other' where id = 1")
    others = ids(store, "t.tenant_id = 'other'")
    assert pages(store, 1, tenant_id=None, limit=50) == [others]
    assert pages(store.of_tenant("other"), 1, tenant_id="other", limit=50) == [others]
    for wall, claimed in (
        (store, "acme"),
        (store.of_tenant("acme"), "other"),
        (store.of_tenant("acme"), None),
    ):
        with pytest.raises(UnknownMachine):
            machine_history(wall, 1, tenant_id=claimed)


def test_a_tick_that_is_committed_between_pages_is_not_repeated(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R8.12: newer ones come before what was shown, and the walk goes on from where it was."""
    monkeypatch.setattr(adapter, "MOST_TICKS", 10)
    first, cursor = machine_history(store, 1, limit=50)
    with store.transaction() as tx:
        tx._session.run(
            "with o as (insert into smart_schedule_occurrences"
            " (tenant_id, schedule_id, kind, origin, planned_at, state, recorded_at, ended_at)"
            " values ('acme', 1, 'policy_tick', 'planned', now(), 'succeeded', now(), now()) returning id)"
            " insert into smart_schedule_ticks"
            " (tenant_id, policy_id, occurrence_id, ticked_at, execution_mode, policy_version, inputs, valid_until)"
            " select 'acme', 1, id, now(), 'shadow', 1, '{}', now() from o"
        )
    seen = [row.tick_id for row in first]
    while cursor is not None:
        rows, cursor = machine_history(store, 1, cursor=cursor, limit=50)
        seen += [row.tick_id for row in rows]
    assert seen == ids(store, "t.tenant_id = 'acme'")
