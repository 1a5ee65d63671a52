"""All simulators in one process, for the fleet of a database: `python -m local.simulators --database URL`.

Prints one line of JSON with their addresses and runs until SIGTERM or SIGINT, then exits 0.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
from contextlib import closing
from urllib.parse import unquote, urlsplit

import pg8000.native

from local.fleet.projects import COINS
from local.simulators.device_control import DeviceControlSimulator
from local.simulators.execution_service import ExecutionServiceSimulator
from local.simulators.issuer import IssuerSimulator
from local.simulators.profit import PriceWalk, ProfitSimulator
from local.simulators.telemetry import TelemetryWriter, read_machines
from local.simulators.web import Served
from local.simulators.world import World
from local.stack.processes import free_port


def main(arguments: list[str] | None = None) -> int:
    """Run until told to stop."""
    options = _parse(arguments)

    def connect() -> pg8000.native.Connection:
        url = urlsplit(options.database)
        return pg8000.native.Connection(
            user=unquote(url.username or ""),
            password=unquote(url.password or ""),
            host=url.hostname or "",
            port=url.port or 5432,
            database=url.path.strip("/"),
        )

    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    with closing(connect()) as connection:
        machines = read_machines(connection)
    world = World(machines, ramp_sec=options.ramp_sec, seed=options.seed)
    telemetry = TelemetryWriter(
        world,
        connect,
        interval_sec=options.telemetry_interval_sec,
        report=lambda line: print(line, file=sys.stderr, flush=True),
    )
    devices = DeviceControlSimulator(world, token=options.token, seed=options.seed)
    profit = ProfitSimulator(PriceWalk(COINS, seed=options.seed))
    issuer_port = options.issuer_port or free_port()
    conversations = ExecutionServiceSimulator(token=options.token, run_sec=options.run_sec, seed=options.seed)
    with (
        Served(devices, options.device_control_port) as device_control,
        Served(conversations, options.execution_port) as execution,
        Served(profit, options.profit_port) as profit_feed,
        Served(IssuerSimulator(f"http://127.0.0.1:{issuer_port}"), issuer_port),
    ):
        telemetry.start()
        print(
            json.dumps(
                {
                    "device_control_url": device_control.url,
                    "profit_url": profit_feed.url,
                    "execution_url": execution.url,
                    "machines": len(machines),
                }
            ),
            flush=True,
        )
        stopping.wait()
        telemetry.stop()
    return 0


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m local.simulators", description=__doc__)
    parser.add_argument("--database", required=True, help="postgresql://user:password@host:port/name")
    parser.add_argument(
        "--token",
        default="simulated-device-control",
        help="what device control and the execution service ask for",
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--ramp-sec", type=float, default=20.0, help="how long a machine takes to obey")
    parser.add_argument("--run-sec", type=float, default=5.0, help="how long a run of a conversation takes")
    parser.add_argument("--telemetry-interval-sec", type=float, default=5.0)
    parser.add_argument("--device-control-port", type=int, default=0, help="0: a free one")
    parser.add_argument("--profit-port", type=int, default=0, help="0: a free one")
    parser.add_argument("--issuer-port", type=int, default=0, help="part of the issuer's name; 0: a free one")
    parser.add_argument("--execution-port", type=int, default=0, help="0: a free one")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
