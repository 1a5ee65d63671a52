"""What pages of ticks, decisions of a tick and freezes cost in a large history, and readiness over a large fleet.

As in test_history_plans.py: an index gives the rows in their order, and hardly more are read than shown. Readiness has to
count every machine; it does so in a constant number of statements, each of which reads every table once.
"""

from __future__ import annotations

import re
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from blsflow.adapters.postgres.connection import Session
from blsflow.adapters.postgres.history import IN_ORDER
from blsflow.adapters.postgres.statements import statements
from blsflow.adapters.postgres.store import _AS
from blsflow.domain.block import machines_of
from blsflow.domain.decide import Rules
from blsflow.domain.gates import Gates
from blsflow.domain.prospects import BenchmarkState, benchmark_of, benchmark_state, eligible_bits, valid_span
from blsflow.domain.reasons import Action
from blsflow.domain.record import HEAD_BYTES, pack
from blsflow.domain.terms import terms_of
from blsflow.domain.valuation import overriding, value_market
from blsflow.domain.verdict import Verdict
from blsflow.flow.control import UnknownPolicy
from blsflow.flow.policies import freezes
from blsflow.flow.readiness import readiness
from blsflow.flow.ticks import UnknownTick, list_decisions, list_ticks
from tests.integration.counting import counting_store
from tests.integration.fleets import make_machines, make_market
from tests.integration.plans import OF_A_TICK, WHATEVER_THE_VALUES, explained, nodes, rows_read, vacuum

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from blsflow.adapters.postgres.address import DatabaseAddress
    from blsflow.domain.block import Block
    from blsflow.domain.machine import Machine
    from tests.integration.plans import Plan

TICKS = 20_000
RUNS = 40_000
MACHINES = 2_000
PAGE = 50
MOST_BLOCKS = 450
LARGEST = 2**63 - 1

_HISTORY = f"""
insert into smart_schedule_policy_groups (tenant_id, name, mode, created_by)
    select 'acme', 'p' || g, 'profit_guard', 'test' from generate_series(2, 10) g;
insert into smart_schedule_schedules (tenant_id, created_by, kind, policy_id, rule)
    select 'acme', 'test', 'policy_tick', g, '{{"kind": "interval", "every_sec": 60}}' from generate_series(2, 10) g;
insert into smart_schedule_occurrences (tenant_id, schedule_id, kind, origin, planned_at, state, recorded_at, ended_at)
    select 'acme', 1 + g % 10, 'policy_tick', 'planned', now() - interval '1 second' * g, 'succeeded', now(), now()
    from generate_series(1, {TICKS}) g;
insert into smart_schedule_ticks
    (tenant_id, policy_id, occurrence_id, ticked_at, execution_mode, policy_version, inputs, valid_until)
    select 'acme', schedule_id, id, planned_at, 'shadow', 1, '{{}}', now()
    from smart_schedule_occurrences order by planned_at;
insert into smart_schedule_machine_decisions (ticked_at, tick_id, machine_id, action, reason, proposed, figures)
    select t.ticked_at, t.id, 1 + (t.id + g) % {MACHINES}, 'keep', 'best_already', 'keep', ''
    from smart_schedule_ticks t, generate_series(1, 10) g;
insert into smart_schedule_machine_decisions (ticked_at, tick_id, machine_id, action, reason, proposed, figures)
    select t.ticked_at, t.id, {MACHINES} + g, 'keep', 'best_already', 'keep', ''
    from (select * from smart_schedule_ticks order by id desc limit 1) t, generate_series(1, 20000) g;
insert into smart_schedule_freezes
    (policy_id, tenant_id, cause, frozen_at, frozen_by, lifted_at, lifted_by, lift_reason)
    select 1 + g % 10, 'acme', 'manual', now() - interval '1 second' * (g + 3), 'a', now(), 'b', 'c'
    from generate_series(1, {TICKS}) g;
insert into smart_schedule_benchmark_runs
    (id, tenant_id, policy_id, machine_id, project_id, state, not_before, requested_at, ended_at, lost_minutes, lost_cny)
    select gen_random_uuid(), 'acme', 1 + g % 10, 1 + g % {MACHINES}, 1 + g % 10,
           'succeeded', now(), now() - interval '1 minute' * g, now(), 2, 0.1
    from generate_series(1, {RUNS}) g;
"""


@pytest.fixture(scope="module")
def session(module_database: DatabaseAddress) -> Iterator[Session]:
    """Ten policies with 2,000 ticks and freezes each, and one tick of a large fleet."""
    with closing(Session(module_database)) as opened:
        make_market(opened)
        make_machines(opened, MACHINES)
        opened.run(_HISTORY)
        vacuum(opened)
        yield opened


def _explained(session: Session, statement: str, **params: object) -> Mapping[str, Any]:
    return explained(session, statements()[statement], params, settings=f"{WHATEVER_THE_VALUES}; {IN_ORDER}")


def _newest(session: Session) -> tuple[int, Any]:
    row = session.run("select id, ticked_at from smart_schedule_ticks order by id desc limit 1")[0]
    return row[0], row[1]


def _pages(session: Session) -> dict[str, dict[str, Any]]:
    tick_id, ticked_at = _newest(session)
    return {
        "ticks_of_policy": {"policy_id": 3, "tenant_id": "acme", "before_at": ticked_at, "before_id": tick_id},
        "freezes_of_policy": {"policy_id": 3, "tenant_id": "acme", "before_at": ticked_at, "before_id": TICKS},
        "decisions_of_tick": {
            "tick_id": tick_id, "ticked_at": ticked_at, "first_machine": MACHINES + 5_000,
            "last_machine": LARGEST, "action": None, "reason": None,
        },
        "list_policies": {"tenant_id": "acme", "after": 2, "include_archived": False},
    }  # fmt: skip


@pytest.mark.parametrize(
    "statement",
    ["ticks_of_policy", "freezes_of_policy", "decisions_of_tick", "list_policies"],
)
def test_a_page_reads_its_own_rows_in_the_order_of_an_index(session: Session, statement: str) -> None:
    """R8.12: nothing is read through and all of it sorted: a page costs its own rows, however many there are."""
    plan = _explained(session, statement, page_size=PAGE, **_pages(session)[statement])
    large = [
        node
        for node in nodes(plan)
        if node.get("Relation Name", "").startswith(
            ("smart_schedule_ticks", "smart_schedule_machine_decisions", "smart_schedule_freezes")
        )
    ]
    assert all(node["Node Type"] in {"Index Scan", "Index Only Scan"} for node in large), large
    assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] <= MOST_BLOCKS
    assert sum(node.get("Rows Removed by Filter", 0) * node["Actual Loops"] for node in large) <= PAGE


def test_pages_read_what_they_show(module_database: DatabaseAddress, session: Session) -> None:
    """R9.1: that there is such a policy or tick is asked as such: neither the whole policy nor a tick's inputs are read."""
    [[tick_id]] = session.run("select max(id) from smart_schedule_ticks where policy_id = 1")
    store, exchanges = counting_store(module_database)
    with closing(store):
        list_ticks(store, 1, tenant_id="acme")
        freezes(store, 1, tenant_id="acme")
        list_decisions(store, tick_id, tenant_id="acme")
        for unknown in (
            lambda: list_ticks(store, 1, tenant_id="other"),
            lambda: freezes(store, 1, tenant_id="other"),
        ):
            with pytest.raises(UnknownPolicy):
                unknown()
        with pytest.raises(UnknownTick):
            list_decisions(store, tick_id, tenant_id="other")
    del exchanges["run"]
    assert exchanges == {
        "policy_of_tenant": 4, "ticks_of_policy": 1, "freezes_of_policy": 1, "tick": 2, "decisions_of_tick": 1,
    }  # fmt: skip


def test_what_sampling_has_cost_a_policy_reads_its_own_runs(session: Session) -> None:
    """R7.4, R9.1: a status does not get slower with the runs of all policies, which are kept for good."""
    plan = _explained(session, "sampling_cost", policy_id=3, tenant_id="acme")
    runs = [node for node in nodes(plan) if node.get("Relation Name") == "smart_schedule_benchmark_runs"]
    assert [node["Node Type"] for node in runs] == ["Index Only Scan"]
    assert rows_read(runs) == RUNS / 10
    assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] <= MOST_BLOCKS


def _read_by_any_plan(
    session: Session, machine_ids: Sequence[int] = (), *, everything: bool = False, begin: str = "begin"
) -> Plan:
    """How machines of a scope are read by a plan that was made for any; of no machines: of the classes of cluster 1.

    As in a tick, classes are those that the scope covers, and those of its machines.
    """
    classes = [
        g
        for g in range(12)
        if everything or g in {m % 12 for m in machine_ids} or (not machine_ids and g % 4 == 0)
    ]
    covered = [not machine_ids] * len(classes)
    return explained(
        session,
        statements()["read_machines"],
        {
            "tenant_id": "acme",
            "cluster_ids": [1 + g % 4 for g in classes],
            "models": [f"M{1 + g % 3}" for g in classes],
            "covered": covered,
            "everything": everything,
            "override_ids": [0] * len(classes),
            "override_ranks": [2**31 - 1] * len(classes),
            "overridden_machines": [],
            "overriding_policies": [],
            "overriding_ranks": [],
            "machine_ids": list(machine_ids),
            "projects": list(range(1, 11)),
            "report_max_age_sec": 600,
            "sampled_from": 0.0,
            "sampled_until": 1e12,
        },
        settings=OF_A_TICK,
        begin=begin,
    )


def test_a_ticks_machines_are_read_once_by_a_plan_that_knows_no_values(session: Session) -> None:
    """R3.10: a plan made once for whatever fleets reads each machine's rows once, and a machine by itself reads its own."""
    of_a_class = sum(1 for m in range(1, MACHINES + 1) if m % 12 == MACHINES // 2 % 12)
    for plan, read, looked_at in (
        (_read_by_any_plan(session, everything=True), MACHINES, MACHINES),
        (_read_by_any_plan(session), MACHINES // 4, MACHINES // 4),
        (_read_by_any_plan(session, [MACHINES // 2]), 1, of_a_class),
    ):
        assert (
            rows_read([node for node in nodes(plan) if node.get("Relation Name") == "machines"]) == looked_at
        )
        for table in ("machine_mining_runtime", "metric_powers", "smart_schedule_machine_benchmark_entries"):
            scans = [node for node in nodes(plan) if node.get("Relation Name") == table]
            assert rows_read(scans) == read, table
            assert sum(node["Actual Loops"] for node in scans) <= 2 * (1 + read // 256), table


def test_a_plan_that_was_made_without_any_locks_reads_few_of_many(database: DatabaseAddress) -> None:
    """R3.10: the plan of a first tick, when there were neither locks nor states, does for those that find many."""
    with closing(Session(database)) as session:
        make_market(session)
        make_machines(session, MACHINES)
        session.run("vacuum analyze")
        plan = _read_by_any_plan(session, [])
    for table in ("smart_schedule_machine_locks", "smart_schedule_machine_states"):
        (node,) = (node for node in nodes(plan) if node.get("Relation Name") == table)
        assert "machine_id" in node.get("Index Cond", node.get("Recheck Cond", "")), node


def test_a_scope_of_many_machines_is_looked_up_in_a_hash(session: Session) -> None:
    """R3.10: whether a machine is in the scope is not asked of each machine of the scope: that would be fleet by fleet."""
    plan = _read_by_any_plan(session, list(range(1, MACHINES, 2)))
    filters = [node[key] for node in nodes(plan) for key in ("Filter", "Join Filter") if key in node]
    (of_scope,) = (each for each in filters if "covered" in each)
    assert "hashed SubPlan" in of_scope
    assert not re.search(r"\bid = ANY \(\$", of_scope), of_scope


def test_a_plan_that_was_made_without_any_machines_walks_along_their_index(database: DatabaseAddress) -> None:
    """R3.10: a policy may tick before there is a machine, and its plan is kept: no span sorts the rest of the tenant."""
    with closing(Session(database)) as session:
        make_market(session)
        plan = _read_by_any_plan(session, everything=True)
    walked, by_class = (node for node in nodes(plan) if node.get("Relation Name") == "machines")
    assert (walked["Node Type"], walked["Index Name"]) == ("Index Scan", "machines_by_tenant")
    assert (by_class["Node Type"], by_class["Index Name"]) == ("Index Scan", "machines_by_class")


def test_a_tenants_own_trial_reads_its_machines_once(session: Session) -> None:
    """R9.4: through the view that the API sees, no span begins at the tenant's first machine again."""
    plan = _read_by_any_plan(session, everything=True, begin="begin" + _AS.format(tenant="'acme'"))
    scans = [node for node in nodes(plan) if node.get("Relation Name") == "machines"]
    assert [node["Actual Loops"] for node in scans if "ROW(" in node["Index Cond"]] == [0]
    assert rows_read([node for node in scans if node["Index Name"] == "machines_by_class"]) == MACHINES


def test_readiness_takes_a_constant_number_of_statements(
    module_database: DatabaseAddress, session: Session
) -> None:
    """R9.1: whatever the fleet's size, the same few statements, under the wall of row-level security too."""
    assert session is not None
    store, exchanges = counting_store(module_database)
    gates = Gates(execute_enabled=True, executor_configured=True)
    with closing(store):
        found = readiness(store.of_tenant("acme"), 1, gates=gates, rate=7.2, tenant_id="acme")
    assert found.machines is not None
    assert found.machines.machines == MACHINES
    assert exchanges == {
        "run": 2, "policy_status": 1, "policy_view": 1, "tick_inputs": 1, "benchmark_coverage": 1, "machine_reports": 1,
    }  # fmt: skip


_SPOILT = """
update smart_schedule_machine_project_benchmarks set
    hashrate_hs = case machine_id % 7 when 0 then 0 when 1 then 'NaN' when 2 then null else hashrate_hs end,
    power_w = case machine_id % 11 when 0 then 9.9 when 1 then 'Infinity' when 2 then null when 3 then 10
              else power_w end,
    flagged = machine_id % 13 = 0,
    shared_from = case when machine_id % 3 = 0 then 1 end,
    sampled_at = now() + case machine_id % 5 when 0 then interval '-31 days' when 1 then interval '1 hour'
                         else interval '-1 hour' end
    where project_id <= 5;
delete from smart_schedule_machine_project_benchmarks where machine_id % 17 = project_id;
update project_run_configurations set runnable = false where project_id = 2 and model = 'M1';
delete from smart_schedule_resource_eligibilities where project_id = 3 and resource_id in ('1', '2');
insert into smart_schedule_resource_eligibilities
    select 'acme', p, 'machine', m::text, m % 2 = 0 from generate_series(1, 4) p, generate_series(1, 200) m
    on conflict do nothing;
"""


def test_readiness_counts_as_a_tick_decides(module_database: DatabaseAddress, session: Session) -> None:
    """R1.2, R2.3: eligibility and benchmarks are counted by the very rules that a tick applies to each machine."""
    session.run(_SPOILT)
    store, _ = counting_store(module_database)
    with closing(store), store.transaction() as tx:
        begun = tx.tick_at_rest(1, tenant_id="acme")
        assert begun is not None
        inputs = tx.tick_inputs(begun)
        coverage, reports = tx.coverage(begun, inputs)
        blocks: list[Block] = []
        policy, now = begun.policy, begun.ticked_at
        above = overriding(policy, inputs.others, inputs.classes, now=now)
        tx.read_machines(policy, inputs, above, blocks.append)
    market = value_market(inputs, policy, now=now, rate=7.2).market
    terms = [terms_of(policy, market, each) for each in inputs.classes]
    span = valid_span(now.timestamp(), policy.benchmark_ttl_sec)
    machines: list[Machine] = [machine for block in blocks for machine in machines_of(block)]

    def may_run(machine: Machine, project: int) -> bool:
        own = terms[machine.class_index]
        return bool(eligible_bits(machine, own) & own.runnable_bits & own.bits[project])

    states = {
        project: [benchmark_state(benchmark_of(m, project), span) for m in machines if may_run(m, project)]
        for project in policy.candidates
    }
    for each in coverage:
        mine = states[each.project_id]
        assert each.machines == len(machines) == reports.machines
        assert each.runnable == len(mine)
        assert (each.valid, each.missing, each.expired, each.invalid) == tuple(
            mine.count(state)
            for state in (
                BenchmarkState.VALID,
                BenchmarkState.MISSING,
                BenchmarkState.EXPIRED,
                BenchmarkState.INVALID,
            )
        )
    runnable = [
        [project for project in policy.candidates if may_run(machine, project)] for machine in machines
    ]
    assert reports.without_runnable == sum(not each for each in runnable)
    assert sum(each.expired for each in coverage) > 0
    assert sum(each.invalid for each in coverage) > 0
    assert sum(each.missing for each in coverage) > 0


def test_a_tick_decides_on_what_it_is_sent_as_on_all_of_it(
    module_database: DatabaseAddress, session: Session
) -> None:
    """R3.10: benchmarks that come as figures, and those that come whole, give the verdicts of machines read whole."""
    session.run(_SPOILT)
    store, _ = counting_store(module_database)
    with closing(store), store.transaction() as tx:
        begun = tx.tick_at_rest(1, tenant_id="acme")
        assert begun is not None
        inputs = tx.tick_inputs(begun)
        market = value_market(inputs, begun.policy, now=begun.ticked_at, rate=7.2).market
        rules = Rules(begun.policy, market)
        above = overriding(begun.policy, inputs.others, inputs.classes, now=begun.ticked_at)
        whole: list[Block] = []
        tx.read_machines(begun.policy, inputs, above, whole.append)
        sent: list[Block] = []
        tx.read_machines(begun.policy, inputs, above, sent.append, fresh=rules.fresh)
    assert all(block.figures and block.entries for block in sent)
    assert not any(block.figures or block.projects for block in whole)
    machines = [machine for block in whole for machine in machines_of(block)]
    assert len(machines) == MACHINES
    expected = {pack(machine)[:HEAD_BYTES]: rules.decide(machine) for machine in machines}
    found: dict[bytes, Verdict] = {}
    for block in sent:
        kept, decided = rules.decide_block(block)
        found |= {each.head: each.verdict for each in decided}
        for stay in kept:
            nets = zip(stay.heads, stay.from_projects, stay.current_nets, stay.best_nets, strict=True)
            found |= {
                head: Verdict(Action.KEEP, stay.reason, project, None, None, current, best)
                for head, project, current, best in nets
            }
    assert {head: repr(verdict) for head, verdict in found.items()} == {
        head: repr(verdict) for head, verdict in expected.items()
    }
    assert len({(verdict.action, verdict.reason) for verdict in expected.values()}) > 2
