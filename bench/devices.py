"""A simulated device-control service in a process of its own, with jobs under way that do not end."""

from __future__ import annotations

import json
import multiprocessing
import threading
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from local.simulators.device_control import DeviceControlSimulator
from local.simulators.web import Request, Served
from local.simulators.world import SimulatedMachine, World

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.connection import Connection

TOKEN: Final = "bench"  # noqa: S105 - of a simulator that lives as long as a part


@contextmanager
def device_control(
    *, machines: int, jobs: int = 0, latency_sec: float = 0.0
) -> Iterator[tuple[str, list[str]]]:
    """Its address and the ids of so many jobs, which share the machines 1, 2, ... evenly; each answer takes the latency."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(
        target=_simulate, args=(theirs, machines, jobs, latency_sec), daemon=True
    )
    process.start()
    try:
        url, ids = ours.recv()
        yield url, ids
    finally:
        process.terminate()
        process.join()


def _simulate(parent: Connection, machines: int, jobs: int, latency_sec: float) -> None:
    fleet = [
        SimulatedMachine(
            machine_id=number,
            hashrate_hs=1e14,
            power_w=3000,
            status="mining",
            project_id=2,
            project_since=datetime.now(UTC),
        )
        for number in range(1, machines + 1)
    ]
    simulator = DeviceControlSimulator(World(fleet, ramp_sec=86_400), token=TOKEN)
    size = machines // jobs if jobs else 0
    ids = [_posted(simulator, number, size) for number in range(jobs)]
    simulator.faults.handle(_request("PUT", ("sim", "faults"), {"latency_sec": latency_sec}))
    with Served(simulator) as served:
        parent.send((served.url, ids))
        threading.Event().wait()


def _posted(simulator: DeviceControlSimulator, number: int, size: int) -> str:
    first = number * size + 1
    batch = {
        "kind": "switch",
        "project_id": 1,
        "run_config_id": 11,
        "machines": [{"machine_id": machine, "fencing_token": 1} for machine in range(first, first + size)],
    }
    answer: Any = simulator.handle(_request("POST", ("v1", "batches"), batch, key=f"bench-{number}"))
    return str(answer.document["job_id"])


def _request(method: str, path: tuple[str, ...], document: object, key: str = "") -> Request:
    expires_at = datetime.now(UTC) + timedelta(hours=1)
    headers = {
        "authorization": f"Bearer {TOKEN}",
        "x-caller": "acme",
        "idempotency-key": key,
        "x-expires-at": expires_at.isoformat(),
    }
    return Request(method=method, path=path, query={}, headers=headers, body=json.dumps(document).encode())
