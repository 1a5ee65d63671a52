"""What is asked of decisions by machine costs where a tenant has a thousand policies: lookups by ticks, in their partitions.

No index has decisions in the order of machines: each tick of a fleet would write into as many of its pages. Ticks are
walked instead, and the decision of each is looked up by its primary key, in the partition of the tick's day.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from blsflow.adapters.postgres.connection import Session
from blsflow.adapters.postgres.statements import statements
from blsflow.adapters.postgres.ticks import LOOKING_UP, MOST_TICKS
from tests.integration.fleets import make_machines, make_market
from tests.integration.plans import WHATEVER_THE_VALUES, explained, nodes, vacuum

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from blsflow.adapters.postgres.address import DatabaseAddress

POLICIES = 1_000
MINUTES = 21
MACHINES = 2_000
RUNS = 500
PAGE = 50
LOOKUP_BLOCKS = 4
"""Of one decision: the levels of its partition's index, and the row."""

_WORLD = f"""
select smart_schedule_maintain_partitions(now() - interval '10 days', 17, 3650);
insert into smart_schedule_policy_groups (tenant_id, name, mode, execution_mode, enabled, created_by)
    select case g when {POLICIES + 1} then 'small' else 'acme' end, 'p' || g, 'profit_guard', 'execute', true, 'test'
    from generate_series(2, {POLICIES + 1}) g;
insert into smart_schedule_policy_scopes
    select g, 'machine', g::text from generate_series(2, {POLICIES + 1}) g;
insert into smart_schedule_schedules (tenant_id, created_by, kind, policy_id, rule)
    select tenant_id, 'test', 'policy_tick', id, '{{"kind": "interval", "every_sec": 60}}'
    from smart_schedule_policy_groups where id > 1;
insert into smart_schedule_occurrences (tenant_id, schedule_id, kind, origin, planned_at, state, recorded_at, ended_at)
    select 'acme', p, 'policy_tick', 'planned', now() - interval '1 minute' * m, 'succeeded', now(), now()
    from generate_series(1, {MINUTES}) m, generate_series(1, {POLICIES}) p
    union all
    select 'small', {POLICIES + 1}, 'policy_tick', 'planned', now() - interval '1 hour' * h, 'succeeded', now(), now()
    from generate_series(1, 60) h;
insert into smart_schedule_ticks
    (tenant_id, policy_id, occurrence_id, ticked_at, execution_mode, policy_version, inputs, valid_until, machines)
    select o.tenant_id, s.policy_id, o.id, o.planned_at, 'execute', 1, '{{}}', now(), 1
    from smart_schedule_occurrences o join smart_schedule_schedules s on s.id = o.schedule_id
    order by o.planned_at, o.schedule_id;
insert into smart_schedule_machine_decisions (ticked_at, tick_id, machine_id, action, reason, proposed, figures)
    select t.ticked_at, t.id, m, 'keep', 'best_already', 'keep', ''
    from smart_schedule_ticks t
    cross join lateral (select t.policy_id as m where t.policy_id > 1
                        union all select g from generate_series(1, {MACHINES}) g where t.policy_id = 1) x;
insert into smart_schedule_benchmark_runs
    (id, tenant_id, policy_id, machine_id, project_id, state, not_before, requested_at, asked_at)
    select gen_random_uuid(), 'acme', g, g, 5, 'pending', now(), now(), now()
    from generate_series(1, {RUNS}) g;
"""


@pytest.fixture(scope="module")
def session(module_database: DatabaseAddress) -> Iterator[Session]:
    """A thousand policies that tick each minute, one of them over all machines and any other over one of its own."""
    with closing(Session(module_database)) as opened:
        make_market(opened)
        make_machines(opened, MACHINES)
        opened.run(_WORLD)
        vacuum(opened)
        yield opened


def _explained(
    session: Session, statement: str, settings: str, *, tenant: str | None = None, **params: object
) -> Mapping[str, Any]:
    if tenant is not None:
        session.run(
            f"set search_path = smart_schedule_tenant, public; set blsflow.tenant = '{tenant}'; set role blsflow_tenant"
        )
    try:
        return explained(session, statements()[statement], params, settings=settings)
    finally:
        session.run("rollback; reset role; reset blsflow.tenant; reset search_path")


def _lookups(plan: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The scans of decisions that were carried out; each has to be by the whole primary key."""
    scans = [
        node
        for node in nodes(plan)
        if node.get("Relation Name", "").startswith("smart_schedule_machine_decisions")
        and node["Actual Loops"]
    ]
    for node in scans:
        assert node["Node Type"] in {"Index Scan", "Index Only Scan"}
        assert all(f"({name} = " in node["Index Cond"] for name in ("tick_id", "machine_id", "ticked_at"))
    return scans


def _looked_up(scans: Sequence[Mapping[str, Any]]) -> int:
    return sum(int(node["Actual Loops"]) for node in scans)


PLANNED = pytest.mark.parametrize(
    "planned", [WHATEVER_THE_VALUES, "set local plan_cache_mode = force_custom_plan"]
)


@PLANNED
@pytest.mark.parametrize("role", ["owner", "tenant"])
@pytest.mark.parametrize(
    ("tenant", "machine_id", "shown", "walked", "days"),
    [("acme", 7, 40, MOST_TICKS, 2), ("small", POLICIES + 1, PAGE, PAGE, 4)],
    ids=["in one of a thousand policies", "in the only one"],
)
def test_a_page_looks_up_one_decision_of_each_tick_walked(  # noqa: PLR0913, PLR0917 - whose page, and what it may cost
    session: Session,
    planned: str,
    role: str,
    tenant: str,
    machine_id: int,
    shown: int,
    walked: int,
    days: int,
) -> None:
    """R8.12: no more ticks than the bound, no decision of any other machine, no partition of any other day."""
    plan = _explained(
        session, "decisions_of_machine", f"{planned}; {LOOKING_UP}", tenant=None if role == "owner" else tenant,
        tenant_id=tenant, machine_id=machine_id, before_at="infinity", before_id=1, most_ticks=MOST_TICKS, page_size=PAGE,
    )  # fmt: skip
    assert plan["Actual Rows"] == shown
    scans = _lookups(plan)
    assert _looked_up(scans) == walked
    assert len(scans) <= days
    (ticks,) = [node for node in nodes(plan) if node.get("Index Name") == "smart_schedule_ticks_of_tenant"]
    assert (ticks["Node Type"], ticks["Actual Rows"]) == ("Index Only Scan", walked)
    assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] <= LOOKUP_BLOCKS * walked + 500


@PLANNED
def test_the_tenants_wall_asks_for_the_tick_of_each_decision(session: Session, planned: str) -> None:
    """R9.1: a plan that was made for a tenant of few ticks, and serves another, never reads all ticks of a tenant."""
    ((tick_id, ticked_at),) = session.run(
        "select id, ticked_at from smart_schedule_ticks where tenant_id = 'small' order by id limit 1"
    )
    plan = _explained(
        session, "decisions_of_tick", planned, tenant="small", tick_id=tick_id, ticked_at=ticked_at,
        first_machine=0, last_machine=MACHINES, action=None, reason=None, page_size=PAGE,
    )  # fmt: skip
    assert plan["Actual Rows"] == 1
    walls = [node for node in nodes(plan) if node.get("Relation Name") == "smart_schedule_ticks"]
    assert {node["Index Name"] for node in walls} == {"smart_schedule_ticks_pkey"}


@PLANNED
def test_the_end_of_a_walk_is_read_from_the_index(session: Session, planned: str) -> None:
    """R8.12: without a decision, and without a tick's inputs."""
    plan = _explained(
        session, "last_tick_walked", f"{planned}; {LOOKING_UP}",
        tenant_id="acme", before_at="infinity", before_id=1, most_ticks=MOST_TICKS,
    )  # fmt: skip
    assert {node["Node Type"] for node in nodes(plan)} == {"Limit", "Index Only Scan"}
    assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] <= 1_000


@PLANNED
def test_who_decides_for_a_machine_is_looked_up_once_for_each_run(session: Session, planned: str) -> None:
    """R7.4, R9.1: in the newest tick of the run's own policy, for runs that nothing else keeps from beginning."""
    plan = _explained(session, "benchmark_prospects", planned, run_id=None, holder="blsflow", page_size=RUNS)
    assert plan["Actual Rows"] > 0
    scans = _lookups(plan)
    assert 0 < _looked_up(scans) <= RUNS
    assert len(scans) == 1


@PLANNED
@pytest.mark.parametrize("tenant", [None, "acme"], ids=["owner", "tenant"])
def test_a_wish_looks_at_the_newest_tick_of_each_policy(
    session: Session, planned: str, tenant: str | None
) -> None:
    """R7.4, R9.1: one decision of each of the tenant's at most, where a run waits already."""
    plan = _explained(
        session, "request_benchmark_by_hand", planned, tenant=tenant,
        policy_id=7, machine_id=7, project_id=5, by="kim", tenant_id="acme",
    )  # fmt: skip
    assert plan["Actual Rows"] == 1
    assert 0 < _looked_up(_lookups(plan)) <= POLICIES


@PLANNED
def test_drift_looks_at_policies_that_cover_the_machines(session: Session, planned: str) -> None:
    """R7.2, R9.1: a hundred machines that drift cost two hundred decisions, not those of a thousand policies each."""
    machines = list(range(1001, 1101)) + list(range(2, 52))
    plan = _explained(
        session, "request_drifted", planned,
        machine_ids=machines, project_ids=[3] * len(machines), ask_again_after="1 day",
    )  # fmt: skip
    assert plan["Actual Rows"] == 150
    assert _looked_up(_lookups(plan)) == 200
