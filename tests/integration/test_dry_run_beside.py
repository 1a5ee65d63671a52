"""A dry run beside the work that it must not hold up, and beside what others did to the machines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from blsflow.adapters.postgres.connection import Session
from blsflow.adapters.postgres.store import PostgresStore
from blsflow.domain.record import unpack
from blsflow.flow import control
from blsflow.flow.dry_run import _decide, dry_run
from tests.integration.scene import COIN_A, Scene

if TYPE_CHECKING:
    from collections.abc import Iterator

    from blsflow.adapters.postgres.address import DatabaseAddress
    from blsflow.flow.dry_run import DryRun

LIMIT = 10


class Impatient(Session):
    """A session that waits for nobody."""

    def run(self, sql: str) -> list[list[object]]:
        """Run text; a transaction's beginning also says for how long it waits."""
        return super().run(sql.replace("begin;", "begin; set local lock_timeout = 1;"))


@pytest.fixture
def scene(database: DatabaseAddress) -> Iterator[Scene]:
    """Six machines, one of which somebody else is about to change."""
    with Scene(database) as made:
        made.round()
        made.world.command(3, "switch", COIN_A)
        made.world.command(4, "stop")
        made.forward(60)
        made.report()
        made.prices()
        made.due()
        yield made


def tried(scene: Scene) -> DryRun:
    """Try the policy as its tenant."""
    store = scene.app.store.of_tenant("acme")
    return dry_run(store, 1, gates=scene.app.gates, rate=1.0, limit=LIMIT, tenant_id="acme")


def test_nobody_waits_for_a_dry_run(scene: Scene) -> None:
    """R4.1, R6.1: a tick and an operator's freeze go ahead while a dry run is under way, however long that takes."""
    reader = PostgresStore(lambda: Session(scene.address))
    with reader.of_tenant("acme").snapshot() as tx:
        trial = tx.begin_trial(1, scene.app.gates, tenant_id="acme")
        assert trial is not None
        _decide(tx, trial, scene.app.gates, 1.0, LIMIT)
        scene.app.__dict__["store"] = PostgresStore(lambda: Impatient(scene.address))
        scene.tick()
        (decided,) = scene.decide()
        frozen = control.freeze(scene.app.store, 1, by="kim", why="smoke")
    reader.close()
    assert decided.outcome == "decided"
    assert frozen.opened


def test_a_dry_run_sees_one_moment(scene: Scene) -> None:
    """R4.1: what changes while a dry run reads does not come into it."""
    with scene.app.store.snapshot() as tx:
        trial = tx.begin_trial(1, scene.app.gates, tenant_id="acme")
        assert trial is not None
        scene.session.run("delete from machine_mining_runtime where machine_id > 1")
        found = _decide(tx, trial, scene.app.gates, 1.0, LIMIT)
    assert not any("no_report" in key or "offline" in key for key in found.counts)
    assert found.machines == 6


def test_a_dry_run_takes_foreign_changes_as_the_tick_does(scene: Scene) -> None:
    """R5.6, R3.10: machines that somebody else moved or stopped are decided on as in the tick, and adopted only by that."""
    trial = tried(scene)
    assert scene.value("select sum(foreign_changes) from smart_schedule_machine_states") == 0
    scene.tick()
    (report,) = scene.decide()
    assert dict(report.counts) == dict(trial.counts)
    assert report.counts["keep/stopped_by_human"] == 1
    assert scene.value("select sum(foreign_changes) from smart_schedule_machine_states") == 2
    shown = {machine.machine_id: machine for machine in trial.shown}
    stored = scene.rows(
        "select d.machine_id, d.figures || v.entries from smart_schedule_machine_decisions d"
        " join smart_schedule_benchmark_versions v on v.id = d.benchmarks_version"
        f" where d.tick_id = {report.tick_id} and d.machine_id in (3, 4)"
    )
    for machine_id, figures in stored:
        then, _ = unpack(figures)
        tried_on = shown[machine_id]
        assert (then.status, then.flags, then.foreign_changes) == (
            tried_on.status,
            tried_on.flags,
            tried_on.foreign_changes,
        )
