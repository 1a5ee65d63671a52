"""Writes what the simulated machines report into the tables that the product reads."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from local.simulators.world import SimulatedMachine

if TYPE_CHECKING:
    from collections.abc import Callable

    import pg8000.native

    from local.simulators.world import World

KEEP_POWERS = "1 hour"
SILENT_AFTER = "1 hour"

_READ_MACHINES = """
select m.id, mm.nameplate_hashrate_hs, mm.nameplate_power_w, b.hashrate_hs, b.power_w,
       r.status, r.project_id, r.project_since,
       coalesce(r.reported_at < now() - cast(:silent_after as interval), true) as silent
from machines m
join machine_models mm on mm.model = m.model
left join machine_mining_runtime r on r.machine_id = m.id
left join lateral (
    select b.hashrate_hs, b.power_w from smart_schedule_machine_project_benchmarks b
    where b.machine_id = m.id and not b.flagged and b.hashrate_hs > 0 and b.power_w > 100
    order by b.sampled_at desc limit 1
) b on true
order by m.id
"""

_WRITE_RUNTIME = """
insert into machine_mining_runtime (machine_id, status, project_id, hashrate_hs, project_since, reported_at)
select machine_id, status, nullif(project_id, 0), hashrate_hs, project_since, cast(:at as timestamptz)
from unnest(
    cast(:machine_ids as bigint[]), cast(:statuses as text[]), cast(:project_ids as bigint[]),
    cast(:hashrates as double precision[]), cast(:since as timestamptz[])
) as reported (machine_id, status, project_id, hashrate_hs, project_since)
on conflict (machine_id) do update
set status = excluded.status, project_id = excluded.project_id, hashrate_hs = excluded.hashrate_hs,
    project_since = excluded.project_since, reported_at = excluded.reported_at
"""

_WRITE_POWERS = """
insert into metric_powers (machine_id, measured_at, power_w)
select machine_id, cast(:at as timestamptz), power_w
from unnest(cast(:machine_ids as bigint[]), cast(:powers as double precision[]))
     as metered (machine_id, power_w)
on conflict (machine_id, measured_at) do update set power_w = excluded.power_w
"""

_FORGET_POWERS = (
    "delete from metric_powers where measured_at < cast(:at as timestamptz) - cast(:keep as interval)"
)


def read_machines(connection: pg8000.native.Connection) -> list[SimulatedMachine]:
    """Make the simulated fleet from the stored one; machines without a recent report stay silent for good.

    A machine performs as its newest sound benchmark says, or else as its nameplate does.
    """
    return [
        SimulatedMachine(
            machine_id=machine_id,
            hashrate_hs=measured_hs or nameplate_hs,
            power_w=measured_w or nameplate_w,
            status=status or "mining",
            project_id=project_id,
            project_since=since,
            silent=silent,
        )
        for (
            machine_id, nameplate_hs, nameplate_w, measured_hs, measured_w, status, project_id, since, silent,
        ) in connection.run(_READ_MACHINES, silent_after=SILENT_AFTER)
    ]  # fmt: skip


def write_telemetry(connection: pg8000.native.Connection, world: World) -> int:
    """Write one report of every machine that is heard and one power reading of each; return how many readings.

    A machine without power reports nothing: only its meter shows it. Three statements whatever the fleet's size.
    Power readings are kept for an hour.
    """
    readings = world.readings()
    heard = [reading for reading in readings if reading.hashrate_hs is not None]
    at = world.now()
    connection.run("begin")
    connection.run(
        _WRITE_RUNTIME,
        at=at,
        machine_ids=[reading.machine_id for reading in heard],
        statuses=[reading.status for reading in heard],
        project_ids=[reading.project_id or 0 for reading in heard],
        hashrates=[reading.hashrate_hs for reading in heard],
        since=[reading.project_since for reading in heard],
    )
    connection.run(
        _WRITE_POWERS,
        at=at,
        machine_ids=[reading.machine_id for reading in readings],
        powers=[reading.power_w for reading in readings],
    )
    connection.run(_FORGET_POWERS, at=at, keep=KEEP_POWERS)
    connection.run("commit")
    return len(readings)


class TelemetryWriter:
    """Writes telemetry every `interval_sec` in a thread of its own until it is stopped.

    A database that is away for a while is tried again at the next turn, with a new connection.
    """

    def __init__(
        self,
        world: World,
        connect: Callable[[], pg8000.native.Connection],
        *,
        interval_sec: float,
        report: Callable[[str], None],
    ) -> None:
        self._world = world
        self._connect = connect
        self._interval_sec = interval_sec
        self._report = report
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="telemetry", daemon=True)

    def start(self) -> None:
        """Begin writing."""
        self._thread.start()

    def stop(self) -> None:
        """Finish the write that is under way, and end."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        connection: pg8000.native.Connection | None = None
        while True:
            try:
                connection = connection or self._connect()
                write_telemetry(connection, self._world)
            except Exception as fault:  # noqa: BLE001 - whatever it was, the fleet must be heard again
                self._report(f"telemetry not written: {fault}")
                _close(connection)
                connection = None
            if self._stopping.wait(self._interval_sec):
                break
        _close(connection)


def _close(connection: pg8000.native.Connection | None) -> None:
    # One that is broken cannot even be closed properly.
    with suppress(Exception):
        if connection is not None:
            connection.close()
