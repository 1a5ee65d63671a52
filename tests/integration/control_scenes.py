"""A small fleet in a fresh database, with the simulated services around it, for the tests of operators' work."""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, TypedDict

import pg8000.native

from blsflow.adapters.inline import InlineQueue
from blsflow.bootstrap import Application
from blsflow.settings import read_settings
from local.fleet.projects import COINS
from local.fleet.seed import seed
from local.simulators.device_control import DeviceControlSimulator
from local.simulators.profit import PriceWalk, ProfitSimulator
from local.simulators.telemetry import TelemetryWriter, read_machines
from local.simulators.web import Served
from local.simulators.world import World

if TYPE_CHECKING:
    from collections.abc import Iterator

    from blsflow.adapters.postgres.address import DatabaseAddress

TOKEN = "simulated"
MACHINES = 50
PROFIT_GUARD = 1
NO_POLICY = 99
NORTH = "north-mining"


class Who(TypedDict):
    """Who asks, and why."""

    by: str
    why: str


def connect(address: DatabaseAddress) -> pg8000.native.Connection:
    """A session of its own, behind the product's back."""
    return pg8000.native.Connection(
        user=address.user,
        password=address.password,
        host=address.host,
        port=address.port,
        database=address.dbname,
    )


def look(address: DatabaseAddress, sql: str, **params: Any) -> list[list[Any]]:
    """Run one statement in a session of its own."""
    with closing(connect(address)) as connection:
        rows: list[list[Any]] = connection.run(sql, **params)
        return rows


def seeded(address: DatabaseAddress) -> DatabaseAddress:
    """Put the small fleet into a migrated database."""
    with closing(connect(address)) as connection:
        seed(connection, machines=MACHINES)
    return address


def environment(address: DatabaseAddress) -> dict[str, str]:
    """What a deployment on this database is told, without any outside service."""
    password, place = address.password, f"{address.host}:{address.port}/{address.dbname}"
    return {
        "BLSFLOW_SCHEDULER_DATABASE_URL": f"postgresql://{address.user}:{password}@{place}",
        "BLSFLOW_SCHEDULER_DATABASE_TLS": address.tls,
        "USDT_TO_CNY_RATE": "7.2",
    }


def application(environ: dict[str, str]) -> Application:
    """An application whose queues are within this process."""
    return Application(
        read_settings(environ), own_decide_queue=InlineQueue(), own_execute_queue=InlineQueue()
    )


@contextmanager
def services(address: DatabaseAddress) -> Iterator[dict[str, str]]:
    """The outside services of a seeded database, and the environment of a deployment that executes with them."""
    with closing(connect(address)) as connection:
        machines = read_machines(connection)
    world = World(machines, ramp_sec=0.2)
    telemetry = TelemetryWriter(world, lambda: connect(address), interval_sec=0.3, report=lambda _line: None)
    devices = DeviceControlSimulator(world, token=TOKEN)
    with Served(devices) as device_control, Served(ProfitSimulator(PriceWalk(COINS))) as profit:
        telemetry.start()
        try:
            yield environment(address) | {
                "BLSFLOW_SCHEDULER_EXECUTE_ENABLED": "true",
                "BLSFLOW_SCHEDULER_SWITCH_API_BASE_URL": device_control.url,
                "BLSFLOW_SCHEDULER_SWITCH_API_TOKEN": TOKEN,
                "BLSFLOW_SCHEDULER_PROFIT_API_BASE_URL": profit.url,
            }
        finally:
            telemetry.stop()
