from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from blsflow.domain.errors import InvalidDocument
from blsflow.domain.explain import explain
from blsflow.flow import policies, ticks
from blsflow.flow.control import UnknownPolicy
from blsflow.flow.policy_status import policy_status
from blsflow.flow.readiness import Severity, readiness
from blsflow.ports.ticks import DecisionFilter
from tests.integration.policy_scenes import ACME, RIVAL
from tests.integration.scene import COIN_A, COIN_B, Scene

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from blsflow.adapters.postgres.address import DatabaseAddress
    from blsflow.flow.readiness import Readiness
    from blsflow.ports.store import Store

POLICY = 1


@pytest.fixture
def scene(database: DatabaseAddress) -> Iterator[Scene]:
    """One executing policy over six machines that mine the worse of two coins."""
    with Scene(database) as opened:
        yield opened


def tenant(scene: Scene, tenant_id: str = ACME) -> Store:
    """The scene's database as a tenant sees it."""
    return scene.app.store.of_tenant(tenant_id)


def document(scene: Scene, **changes: object) -> Mapping[str, object]:
    """The policy's own document with these changes."""
    return {**policies.read_policy(scene.app.store, POLICY).document, **changes}


def change(scene: Scene, **changes: object) -> None:
    """Change the policy as it stands."""
    policies.change_policy(
        tenant(scene),
        POLICY,
        version=policies.read_policy(scene.app.store, POLICY).version,
        by="lee",
        document=document(scene, **changes),
        tick_interval_sec=60,
        tenant_id=ACME,
    )


def look(scene: Scene, **gates: Any) -> Readiness:
    """Look at the policy with all that execution needs, but for these gates."""
    found = readiness(
        tenant(scene), POLICY, gates=replace(scene.app.gates, **gates), rate=1.0, tenant_id=ACME
    )
    assert found.ready == all(each.severity is not Severity.ERROR for each in found.findings)
    return found


def codes(found: Readiness) -> set[str]:
    """The codes of all findings."""
    return {each.code for each in found.findings}


def one(found: Readiness, code: str) -> Mapping[str, Any]:
    """The parameters of the one finding of a code."""
    (finding,) = [each for each in found.findings if each.code == code]
    return finding.params


def test_what_was_prepared_before_a_change_is_not_sent(scene: Scene) -> None:
    """R3.8, R9.1: a batch of the old document ends `config_changed`, unsent, and the next tick decides by the new one."""
    scene.tick()
    scene.decide()
    change(scene, candidates=[COIN_A])
    scene.execute()
    assert scene.session.run("select state, reason from smart_schedule_attempts") == [
        ["skipped", "config_changed"]
    ]
    assert scene.session.run("select count(*) from smart_schedule_machine_locks where freed_at is null") == [
        [0]
    ]
    scene.forward(60)
    scene.report()
    scene.prices()
    scene.due()
    scene.tick()
    scene.decide()
    rows, _ = ticks.list_ticks(tenant(scene), POLICY, tenant_id=ACME)
    assert [row.policy_version for row in rows] == [2, 1]
    assert not any(counted.startswith("switch") for counted in rows[0].counts)


def test_an_archived_policy_sends_nothing_more(scene: Scene) -> None:
    """R9.1, R6.2: what was prepared ends unsent with its tick, and it ticks no more."""
    scene.tick()
    scene.decide()
    store, version = tenant(scene), policies.read_policy(scene.app.store, POLICY).version
    policies.archive_policy(store, POLICY, version=version, by="kim", why="sold", tenant_id=ACME)
    assert scene.session.run("select state, reason from smart_schedule_attempts") == [
        ["skipped", "config_changed"]
    ]
    assert scene.session.run("select state from smart_schedule_occurrences") == [["succeeded"]]
    assert scene.session.run("select count(*) from smart_schedule_machine_locks where freed_at is null") == [
        [0]
    ]
    scene.execute()
    assert scene.session.run(
        "select count(*) from smart_schedule_attempts where dispatched_at is not null"
    ) == [[0]]
    scene.due()
    scene.tick()
    assert scene.decide() == []


def test_a_job_that_was_sent_outlives_its_policy(scene: Scene) -> None:
    """R6.2: archiving frees no lock of a job under way; its confirmed end does."""
    scene.tick()
    scene.decide()
    scene.execute()
    held = policy_status(tenant(scene), POLICY, tenant_id=ACME)
    assert (held.open_attempts, held.live_locks) == (1, 6)
    policies.archive_policy(tenant(scene), POLICY, version=1, by="kim", why="sold", tenant_id=ACME)
    live = "select count(*) from smart_schedule_machine_locks where freed_at is null"
    assert scene.session.run(live) == [[6]]
    scene.forward(20)
    scene.report()
    scene.reconcile()
    scene.forward(5)
    scene.reconcile()
    assert scene.session.run(live) == [[0]]
    assert scene.session.run("select state from smart_schedule_attempts") == [["succeeded"]]


def test_status_tells_the_newest_tick_and_the_lease(scene: Scene) -> None:
    """R9.1: mode, counters, newest tick with its counts and gain, open work, and who may act for the tenant."""
    before = policy_status(tenant(scene), POLICY, tenant_id=ACME)
    assert (before.newest_tick, before.open_attempts, before.live_locks) == (None, 0, 0)
    assert (before.lease.holder, before.lease.held, before.mode) == ("blsflow", True, "profit_guard")
    scene.tick()
    scene.decide()
    after = policy_status(tenant(scene), POLICY, tenant_id=ACME)
    assert after.newest_tick is not None
    assert (after.newest_tick.machines, after.newest_tick.failure) == (6, None)
    assert sum(after.newest_tick.counts.values()) == 6
    assert after.newest_tick.gain_cny_per_day == pytest.approx(6 * 30.0)
    assert (after.open_attempts, after.live_locks, after.freeze) == (1, 6, None)


def test_decisions_of_a_tick_come_in_pages_and_by_filter(scene: Scene) -> None:
    """R3.2, R8.12: in order of machines, none repeated or lost, by action, reason and machine."""
    scene.session.run("update machines set operator_hold = id = 3")
    scene.tick()
    scene.decide()
    store = tenant(scene)
    ((tick,), following) = ticks.list_ticks(store, POLICY, tenant_id=ACME)
    assert following is None
    seen: list[int] = []
    cursor = None
    while True:
        page, cursor = ticks.list_decisions(store, tick.tick_id, tenant_id=ACME, cursor=cursor, limit=4)
        seen += [row.machine_id for row in page]
        if cursor is None:
            break
    assert seen == [1, 2, 3, 4, 5, 6]

    def machines(**only: Any) -> list[int]:
        rows, _ = ticks.list_decisions(store, tick.tick_id, only=DecisionFilter(**only), tenant_id=ACME)
        return [row.machine_id for row in rows]

    assert machines(action="skip") == machines(reason="operator_hold") == [3]
    assert machines(action="switch") == [1, 2, 4, 5, 6]
    assert machines(machine_id=5) == machines(machine_id=5, action="switch") == [5]
    assert machines(machine_id=5, action="skip") == []


def test_ticks_and_a_machines_decisions_come_newest_first(scene: Scene) -> None:
    """R8.12: pages of ticks, and of what was decided for one machine, neither repeat nor lose one."""
    scene.session.run("update smart_schedule_policy_groups set execution_mode = 'shadow'")
    for _ in range(3):
        scene.due()
        scene.tick()
        scene.decide()
        scene.forward(70)
        scene.report()
        scene.prices()
    store = tenant(scene)
    first, cursor = ticks.list_ticks(store, POLICY, tenant_id=ACME, limit=2)
    last, end = ticks.list_ticks(store, POLICY, tenant_id=ACME, limit=2, cursor=cursor)
    ids = [row.tick_id for row in (*first, *last)]
    assert (ids, len(ids), end) == (sorted(ids, reverse=True), 3, None)
    newest, cursor = ticks.machine_history(store, 4, tenant_id=ACME, limit=2)
    oldest, end = ticks.machine_history(store, 4, tenant_id=ACME, limit=2, cursor=cursor)
    assert [row.tick_id for row in (*newest, *oldest)] == ids
    assert {row.machine_id for row in (*newest, *oldest)} == {4}
    assert end is None
    with pytest.raises(InvalidDocument):
        ticks.machine_history(store, 4, tenant_id=ACME, cursor="WzFd")


def test_a_decision_is_explained_from_what_was_stored(scene: Scene) -> None:
    """R3.2: the figures of every candidate come back, and the computation agrees with what was stored."""
    scene.tick()
    scene.decide()
    ((tick,), _) = ticks.list_ticks(tenant(scene), POLICY, tenant_id=ACME)
    found = ticks.explain_decision(tenant(scene), tick.tick_id, 2, tenant_id=ACME)
    assert found.differences == ()
    assert found.explanation == explain(found.policy, found.market, found.machine)
    nets = {each.project_id: each.figures and each.figures.net for each in found.explanation.projects}
    assert nets == {COIN_A: pytest.approx(50 - 21.6), COIN_B: pytest.approx(80 - 21.6)}
    assert found.stored["action"] == "switch"
    inputs = ticks.read_tick(tenant(scene), tick.tick_id, tenant_id=ACME).inputs
    assert {each["id"] for each in inputs["projects"]} == {COIN_A, COIN_B}


def test_a_tick_of_somebody_else_is_as_unknown_as_none(scene: Scene) -> None:
    """R8.9: by either wall alone, another tenant finds no tick, no decision, no machine's history, no readiness."""
    scene.tick()
    scene.decide()
    ((tick,), _) = ticks.list_ticks(scene.app.store, POLICY)
    walls: list[tuple[Store, str | None]] = [
        (scene.app.store, RIVAL),
        (tenant(scene, RIVAL), ACME),
        (tenant(scene, RIVAL), None),
    ]
    for store, claimed in walls:
        with pytest.raises(UnknownPolicy):
            ticks.list_ticks(store, POLICY, tenant_id=claimed)
        with pytest.raises(ticks.UnknownTick):
            ticks.read_tick(store, tick.tick_id, tenant_id=claimed)
        with pytest.raises(ticks.UnknownTick):
            ticks.list_decisions(store, tick.tick_id, tenant_id=claimed)
        with pytest.raises(ticks.UnknownDecision):
            ticks.explain_decision(store, tick.tick_id, 1, tenant_id=claimed)
        with pytest.raises(ticks.UnknownMachine):
            ticks.machine_history(store, 1, tenant_id=claimed)
        with pytest.raises(UnknownPolicy):
            readiness(store, POLICY, gates=scene.app.gates, rate=1.0, tenant_id=claimed)


def test_a_policy_that_would_act_is_ready(scene: Scene) -> None:
    """R9.1: with everything in place nothing is found, and all machines are measured on both candidates."""
    found = look(scene)
    assert (found.ready, found.findings) == (True, ())
    assert [(each.project_id, each.runnable, each.valid, each.shared) for each in found.coverage] == [
        (COIN_A, 6, 6, 0), (COIN_B, 6, 6, 0),
    ]  # fmt: skip
    assert [price.state for price in found.prices] == ["known", "known"]
    assert found.machines is not None
    assert (found.machines.machines, found.machines.reports_stale) == (6, 0)


OBSTACLES = {
    "policy_disabled": "update smart_schedule_policy_groups set enabled = false",
    "mode_not_execute": "update smart_schedule_policy_groups set execution_mode = 'shadow'",
    "policy_frozen": "insert into smart_schedule_freezes (policy_id, tenant_id, cause, frozen_at, frozen_by) "
    "values (1, 'acme', 'manual', now(), 'kim')",
    "lease_not_held": "update smart_schedule_executor_leases set holder = 'legacy'",
    "schedule_broken": "update smart_schedule_schedules set broken = 'no such rule'",
    "no_next_run": "update smart_schedule_schedules set next_run_at = null",
    "policy_invalid": "update smart_schedule_policy_groups set time_zone = 'Mars/Olympus'",
    "no_machines_in_scope": "delete from smart_schedule_policy_scopes",
    "no_candidates": "delete from smart_schedule_policy_candidates",
    "no_price_known": "update smart_schedule_profit_readings set revenue = -1",
    "no_tariff_known": "delete from cluster_tariff_periods",
    "no_runnable_candidate": "update project_run_configurations set runnable = false",
}


@pytest.mark.parametrize("code", OBSTACLES)
def test_what_keeps_a_policy_from_acting_is_an_error(scene: Scene, code: str) -> None:
    """R4.2, R6.2, R9.1: each obstacle is told by a code of its own, and the policy is not ready."""
    scene.session.run(OBSTACLES[code])
    found = look(scene)
    assert not found.ready
    assert code in {each.code for each in found.findings if each.severity is Severity.ERROR}


def test_the_deployment_is_looked_at_too(scene: Scene) -> None:
    """R4.2, R4.3, R2.1: the switch, the device-control service and the exchange rate are needed."""
    assert codes(look(scene, execute_enabled=False)) == {"execute_disabled"}
    assert codes(look(scene, executor_configured=False)) == {"executor_unconfigured"}
    unrated = readiness(tenant(scene), POLICY, gates=scene.app.gates, rate=None, tenant_id=ACME)
    assert (unrated.ready, codes(unrated)) == (False, {"exchange_rate_unknown"})


def test_tariff_gaps_and_overlaps_of_the_year_ahead_are_told(scene: Scene) -> None:
    """R2.2: when they begin, how often they come and for how many hours; they are no obstacle while a price is known."""
    scene.session.run(
        """
        update cluster_tariff_periods set ends = '23:00';
        insert into cluster_tariff_periods (id, tariff_id, name, starts, ends, price_per_kwh)
            values (2, 1, 'double', '22:30', '23:00', 0.5);
        """
    )
    found = look(scene)
    (gap,), (overlap,) = found.tariffs.of_kind("tariff_gap"), found.tariffs.of_kind("tariff_overlap")
    assert gap.count in {366, 367}
    assert gap.hours == pytest.approx(366, abs=1)
    assert overlap.hours == pytest.approx(183, abs=1)
    assert len(gap.spans) == 50
    assert one(found, "tariff_gap")["cluster_id"] == 1


def test_stale_inputs_are_told_with_reason_and_age(scene: Scene) -> None:
    """R2.1, R2.3, R2.4: old prices and reports, missing power, benchmarks that do not count: how many of how many."""
    scene.forward(400)
    scene.price(COIN_A, 50.0)
    scene.session.run(
        """
        update machine_mining_runtime set reported_at = now() - interval '1 hour' where machine_id <= 2;
        delete from metric_powers where machine_id = 3;
        update smart_schedule_machine_project_benchmarks set power_w = 1 where machine_id = 1 and project_id = 2;
        update smart_schedule_machine_project_benchmarks set sampled_at = now() - interval '31 days'
            where machine_id in (2, 3) and project_id = 2;
        update smart_schedule_machine_project_benchmarks set shared_from = 1 where machine_id = 4 and project_id = 2;
        delete from smart_schedule_machine_project_benchmarks where machine_id = 5 and project_id = 2;
        """
    )
    found = look(scene)
    assert found.ready
    assert one(found, "price_stale")["project_id"] == COIN_B
    assert one(found, "price_stale")["age_sec"] == pytest.approx(400, abs=30)
    assert one(found, "reports_stale") == {"machines": 2, "of": 6}
    assert one(found, "power_missing") == {"machines": 1, "of": 6}
    wanting = one(found, "benchmarks_wanting")
    assert dict(wanting) == {"project_id": COIN_B, "missing": 1, "expired": 2, "invalid": 1, "of": 6}
    assert found.coverage[1].shared == 1


def test_eligibility_counts_by_machine(scene: Scene) -> None:
    """R1.2: a deny at machine level counts for that machine alone; one without any candidate left is told."""
    scene.session.run(
        "insert into smart_schedule_resource_eligibilities values "
        "('acme', 1, 'machine', '6', false), ('acme', 2, 'machine', '6', false), ('acme', 2, 'machine', '5', false)"
    )
    found = look(scene)
    assert [(each.machines, each.eligible) for each in found.coverage] == [(6, 5), (6, 4)]
    assert one(found, "machines_without_candidate") == {"machines": 1, "of": 6, "not_eligible": 1}


def test_readiness_waits_for_no_tick(scene: Scene) -> None:
    """R9.1: a look at a policy whose row a tick has locked is answered at once, and writes nothing."""
    scene.session.run("begin; select id from smart_schedule_policy_groups for update")
    assert look(scene).ready
    scene.session.run("rollback")
