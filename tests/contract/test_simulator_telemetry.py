"""The sample fleet in a real database, and the simulators that run on it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pg8000.native
import pytest
import requests

from local.fleet.policies import POLICIES
from local.fleet.seed import seed
from local.simulators.telemetry import read_machines, write_telemetry
from local.simulators.world import World

if TYPE_CHECKING:
    from collections.abc import Iterator

    from blsflow.adapters.postgres.address import DatabaseAddress

MACHINES = 400


@pytest.fixture
def connection(database: DatabaseAddress) -> Iterator[pg8000.native.Connection]:
    """A connection to a database that holds the sample fleet."""
    with closing(
        pg8000.native.Connection(
            user=database.user,
            password=database.password,
            host=database.host,
            port=database.port,
            database=database.dbname,
        )
    ) as connected:
        seed(connected, machines=MACHINES)
        yield connected


def scalar(connection: pg8000.native.Connection, query: str) -> int:
    """Return the one number that a query gives."""
    return int(connection.run(query)[0][0])


def test_the_seed_fills_every_table_that_a_tick_reads(connection: pg8000.native.Connection) -> None:
    """R11.4: two tenants with policies in both modes, due at once, allowed to act, over machines of all kinds."""
    assert scalar(connection, "select count(*) from machines") == MACHINES
    assert scalar(connection, "select count(*) from machine_mining_runtime") == MACHINES
    assert scalar(connection, "select count(distinct machine_id) from metric_powers") == MACHINES
    assert (
        scalar(connection, "select count(*) from smart_schedule_executor_leases where holder = 'blsflow'")
        == 2
    )
    due = "select count(*) from smart_schedule_schedules where next_run_at <= now() and kind = 'policy_tick'"
    assert scalar(connection, due) == len(POLICIES)
    empty_scope = """
        select count(*) from smart_schedule_policy_groups p where p.enabled and not exists
        (select from smart_schedule_policy_scopes s where s.policy_id = p.id)
    """
    assert scalar(connection, empty_scope) == 0
    runnable = """
        select count(*) from machines m join machine_mining_runtime r on r.machine_id = m.id
        where r.project_id is not null and not exists
        (select from project_run_configurations c join projects p on p.id = c.project_id
         where c.project_id = r.project_id and c.model = m.model and p.tenant_id = m.tenant_id)
    """
    assert scalar(connection, runnable) == 0


def test_who_stopped_a_machine_is_known(connection: pg8000.native.Connection) -> None:
    """R3.5: of the machines at rest some were stopped by the scheduler and some by a human, all on record."""
    rows = connection.run(
        "select r.status, s.stopped_by, count(*) from machine_mining_runtime r "
        "left join smart_schedule_machine_states s using (machine_id) where r.status <> 'mining' group by 1, 2"
    )
    kinds = {(status, stopped_by) for status, stopped_by, _ in rows}
    assert kinds == {("stopped", "scheduler"), ("stopped", "human"), ("off", "scheduler")}


def test_a_failed_seed_leaves_nothing_behind(connection: pg8000.native.Connection) -> None:
    """R11.4: seeding a database twice fails as a whole and leaves the first fleet as it was."""
    with pytest.raises(Exception, match="duplicate key"):
        seed(connection, machines=MACHINES)
    assert scalar(connection, "select count(*) from machines") == MACHINES
    assert scalar(connection, "select count(*) from smart_schedule_policy_groups") == len(POLICIES)


def test_telemetry_is_the_world_s_state(connection: pg8000.native.Connection) -> None:
    """R2.4: each write renews every heard machine's report and power; silent ones grow stale."""
    world = World(read_machines(connection), ramp_sec=0.0)
    silent = scalar(
        connection,
        "select count(*) from machine_mining_runtime where reported_at < now() - interval '1 hour'",
    )
    assert 0 < silent < MACHINES / 10
    mining = connection.run(
        "select machine_id, project_id from machine_mining_runtime "
        "where status = 'mining' and reported_at > now() - interval '1 hour' order by 1 limit 2"
    )
    (switched, old_project), (stopped, _) = mining
    world.command(switched, "switch", old_project + 1)
    world.command(stopped, "stop")
    assert write_telemetry(connection, world) == MACHINES - silent
    assert write_telemetry(connection, world) == MACHINES - silent
    reports = connection.run(
        "select r.machine_id, r.status, r.project_id, r.hashrate_hs > 0, r.reported_at > now() - interval '1 minute', "
        "(select p.power_w > 1000 from metric_powers p where p.machine_id = r.machine_id "
        " order by p.measured_at desc limit 1) "
        "from machine_mining_runtime r where r.machine_id = any (:ids) order by 1",
        ids=[switched, stopped],
    )
    assert reports == [
        [switched, "mining", old_project + 1, True, True, True],
        [stopped, "stopped", None, False, True, False],
    ]
    off = "select count(*) from machine_mining_runtime where status = 'off' and hashrate_hs is not null"
    assert scalar(connection, off) == 0


def test_power_readings_do_not_pile_up(connection: pg8000.native.Connection) -> None:
    """R11.4: a simulation that runs for days keeps an hour of power readings."""
    connection.run("update metric_powers set measured_at = now() - interval '61 minutes'")
    world = World(read_machines(connection), ramp_sec=0.0)
    heard = write_telemetry(connection, world)
    assert scalar(connection, "select count(*) from metric_powers") == heard


def test_all_simulators_run_in_one_process_until_told_to_stop(
    connection: pg8000.native.Connection, database: DatabaseAddress
) -> None:
    """R11.4: one command serves device control, prices and telemetry, and SIGTERM ends it with exit code 0."""
    url = (
        f"postgresql://{database.user}:{database.password}@{database.host}:{database.port}/{database.dbname}"
    )
    connection.run("update machine_mining_runtime set reported_at = reported_at - interval '1 minute'")
    with subprocess.Popen(
        [sys.executable, "-m", "local.simulators", "--database", url, "--telemetry-interval-sec", "0.2"],
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        addresses = json.loads(process.stdout.readline())
        assert addresses["machines"] == MACHINES
        prices = requests.get(f"{addresses['profit_url']}/v1/profit-snapshot", timeout=5).json()
        assert prices["prices"]
        ledger = requests.get(f"{addresses['device_control_url']}/sim/ledger", timeout=5).json()
        assert ledger == {"batches": [], "commands_by_machine": {}}
        fresh = (
            "select count(*) from machine_mining_runtime where reported_at > now() - interval '30 seconds'"
        )
        deadline = time.monotonic() + 10
        while not scalar(connection, fresh) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert scalar(connection, fresh) > MACHINES * 0.9
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=10)
        assert (process.returncode, errors) == (0, "")
