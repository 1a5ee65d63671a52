"""Runs of one model that store and share at the same moment."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from uuid import UUID

from blsflow.adapters.postgres.connection import Session
from blsflow.adapters.postgres.store import PostgresStore
from tests.integration.racing import at_once
from tests.integration.scene import Scene

if TYPE_CHECKING:
    from blsflow.adapters.postgres.address import DatabaseAddress

RUNS = {1: UUID(int=1), 2: UUID(int=2)}
"""A measured run per machine, of the project of the same number."""


class _Meeting(Session):
    """A session that has stored its own figures and waits a moment for another one that has."""

    met: threading.Barrier

    def query(self, name: str, /, **params: object) -> list[dict[str, Any]]:
        """Run a statement, and wait after the one that stores."""
        rows = super().query(name, **params)
        if name == "store_benchmark":
            with suppress(threading.BrokenBarrierError):
                self.met.wait(1)
        return rows


def test_runs_of_one_model_share_in_turns(database: DatabaseAddress) -> None:
    """R7.4: each gives its figures to the other's machine, which has written its own; neither fails, and nothing is lost."""
    with Scene(database, machines=3) as scene:
        scene.rows(
            "delete from smart_schedule_machine_project_benchmarks;"
            "update smart_schedule_policy_groups set benchmark_share_after = 1;"
            + "".join(
                "insert into smart_schedule_benchmark_runs (id, tenant_id, policy_id, machine_id, project_id, state, "
                " not_before, requested_at, asked_at, started_at, execution_name, execution_no, outcome, result,"
                " fencing_token) values"
                f" ('{run_id}', 'acme', 1, {place}, {place}, 'running', now(), now(), now(), now(), 'e', 1, 'measured',"
                ' \'{"hashrate_hs": 1e14, "power_w": 3000, "power_estimated": false}\', 1);'
                for place, run_id in RUNS.items()
            )
        )
        _Meeting.met = threading.Barrier(2)
        stores = {place: PostgresStore(lambda: _Meeting(database)) for place in RUNS}
        outcomes: list[str | None] = []

        def run(place: int) -> None:
            process = scene.process()
            vars(process)["store"] = stores[place]
            outcomes.append(process.benchmark("store", run_id=RUNS[place], execution="e").detail)

        at_once(lambda: run(1), lambda: run(2))
        for each in stores.values():
            each.close()
        assert outcomes == ["shared with 2", "shared with 2"]
        known = scene.rows(
            "select machine_id, project_id, shared_from from smart_schedule_machine_project_benchmarks order by 1, 2"
        )
        assert known == [[1, 1, None], [1, 2, 2], [2, 1, 1], [2, 2, None], [3, 1, 1], [3, 2, 2]]
