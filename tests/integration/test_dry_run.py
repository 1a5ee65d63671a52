from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from blsflow.domain.explain import explain
from blsflow.domain.verdict import MOVES
from blsflow.flow.control import UnknownPolicy, disable, freeze
from blsflow.flow.dry_run import DryRun, dry_run
from tests.integration.control_scenes import (
    MACHINES,
    NO_POLICY,
    PROFIT_GUARD,
    application,
    environment,
    look,
    seeded,
    services,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from blsflow.adapters.postgres.address import DatabaseAddress
    from blsflow.bootstrap import Application

TABLES = (
    "ticks", "machine_decisions", "occurrences", "attempts", "machine_locks", "log_events", "outbox", "freezes",
    "benchmark_runs",
)  # fmt: skip


@pytest.fixture
def fleet(database: DatabaseAddress) -> DatabaseAddress:
    """A seeded database."""
    return seeded(database)


@pytest.fixture
def deployed(fleet: DatabaseAddress) -> Iterator[Application]:
    """A deployment that executes, with prices that are a moment old and nothing decided yet."""
    with services(fleet) as environ:
        deployment = application(environ)
        deployment.tick(budget_sec=10)
        yield deployment
        deployment.store.close()


def tried(deployment: Application, *, limit: int = 5, policy_id: int = PROFIT_GUARD) -> DryRun:
    """Try a policy."""
    rate = deployment.settings.usdt_to_cny_rate
    return dry_run(deployment.store, policy_id, gates=deployment.gates, rate=rate, limit=limit)


def stored(fleet: DatabaseAddress) -> dict[str, object]:
    """How many rows everything has that a tick may write, and what the policy remembers."""
    counted: dict[str, object] = {
        table: look(fleet, f"select count(*) from smart_schedule_{table}")[0][0] for table in TABLES
    }
    counted["states"] = look(fleet, "select * from smart_schedule_machine_states order by machine_id")
    counted["levels"] = look(fleet, "select * from smart_schedule_policy_candidates order by 1, 2")
    counted["failures"] = look(fleet, "select id, consecutive_failures from smart_schedule_policy_groups")
    return counted


@pytest.mark.parametrize("mode", ["dry_run", "shadow", "execute"])
def test_a_dry_run_decides_and_leaves_no_trace(
    fleet: DatabaseAddress, deployed: Application, mode: str
) -> None:
    """R4.1: whatever the policy's mode, it is decided now and nothing of it is stored, locked or sent."""
    look(fleet, "update smart_schedule_policy_groups set execution_mode = :mode", mode=mode)
    look(
        fleet,
        "insert into smart_schedule_machine_states (machine_id, tenant_id, expected, changed_at) "
        "select id, tenant_id, 'off', now() - interval '1 day' from machines on conflict do nothing",
    )
    before = stored(fleet)
    trial = tried(deployed)
    assert trial.machines > 0
    assert sum(trial.counts.values()) == trial.machines
    assert stored(fleet) == before


def test_a_dry_run_concludes_what_the_tick_then_does(fleet: DatabaseAddress, deployed: Application) -> None:
    """R3.10, R4.1: the same machines and inputs give the same decisions in a dry run as in the tick after it."""
    trial = tried(deployed)
    ((occurrence_id,),) = look(
        fleet,
        "select o.id from smart_schedule_occurrences o join smart_schedule_schedules s on s.id = o.schedule_id "
        "where s.policy_id = :id",
        id=PROFIT_GUARD,
    )
    report = deployed.decide(occurrence_id)
    assert report.machines == trial.machines
    assert dict(report.counts) == dict(trial.counts)


def test_machines_that_would_move_are_shown_first(deployed: Application) -> None:
    """R3.2: as many machines as asked for are shown with their figures, the ones that would move before the others."""
    trial = tried(deployed, limit=MACHINES)
    market = trial.valuation.market
    verdicts = [explain(trial.policy, market, machine).verdict for machine in trial.shown]
    moves = [verdict.action in MOVES for verdict in verdicts]
    assert any(moves)
    assert moves == sorted(moves, reverse=True)
    assert len(trial.shown) == trial.machines
    again = tried(deployed, limit=2).shown  # the machines have reported anew in between
    assert [machine.machine_id for machine in again] == [machine.machine_id for machine in trial.shown[:2]]
    assert tried(deployed, limit=0).shown == ()


def test_a_dry_run_names_all_that_keeps_the_policy_from_acting(
    fleet: DatabaseAddress, deployed: Application
) -> None:
    """R4.2, R6.2: nothing stands in the way of a deployment that executes; each thing that does is named."""
    assert tried(deployed).obstacles == ()
    look(fleet, "update smart_schedule_policy_groups set execution_mode = 'shadow'")
    look(fleet, "update smart_schedule_executor_leases set holder = 'legacy'")
    freeze(deployed.store, PROFIT_GUARD, by="kim", why="a test")
    disable(deployed.store, PROFIT_GUARD, by="kim", why="a test")
    assert set(tried(deployed).obstacles) == {
        "policy_disabled",
        "policy_frozen",
        "mode_shadow",
        "lease_not_held",
    }


def test_a_dry_run_without_prices_says_that_the_tick_would_fail(fleet: DatabaseAddress) -> None:
    """R2.1, R6.1: without a known price nothing moves, the failure is named, and the freeze that it would bring too."""
    look(fleet, "update smart_schedule_policy_groups set consecutive_failures = freeze_after_failures - 1")
    deployment = application(environment(fleet))
    trial = tried(deployment)
    deployment.store.close()
    assert trial.failure == "no_price_known"
    assert trial.freeze is not None
    assert trial.freeze.cause == "profit_unusable"
    assert not any(key.split("/")[0] in MOVES for key in trial.counts)
    assert "execute_disabled" in trial.obstacles


def test_a_dry_run_of_an_unknown_policy_is_refused(fleet: DatabaseAddress) -> None:
    """R8.9: there is nothing to decide for a policy that does not exist."""
    deployment = application(environment(fleet))
    with pytest.raises(UnknownPolicy):
        tried(deployment, policy_id=NO_POLICY)
    deployment.store.close()
