"""`python -m local.soak`: the product at full rate for a long time, to see that nothing grows which should not.

`blsflow serve` carries the functions' use cases in one process that lives on, so that what leaks shows; the emulator of AWS
would start a process per invocation and show its own memory. PostgreSQL and the simulators' HTTP are real. Twelve scans a
minute instead of one, and a tariff that turns every half minute, so that the whole fleet is stopped and started again.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import pg8000.native

from blsflow.adapters.postgres.connection import Session
from blsflow.adapters.postgres.doctor import examine
from blsflow.adapters.postgres.migrate import migrate
from local.fleet.seed import seed
from local.plots import draw_over_time
from local.stack.postgres import EmbeddedPostgres

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from blsflow.adapters.postgres.address import DatabaseAddress

TOKEN: Final = "simulated"  # noqa: S105 - the simulators' own
SCAN_EVERY_SEC: Final = 5
TURN_EVERY_SEC: Final = 30
SAMPLE_EVERY_SEC: Final = 10
WARM_UP_SHARE: Final = 0.25
"""Of the whole time, in which caches and pools fill; growth is judged after it."""
GROWTH_ALLOWED: Final = 0.05

_HASTEN: Final = f"""
update smart_schedule_schedules set rule = rule || '{{"every_sec": {SCAN_EVERY_SEC}}}'
    where rule ->> 'kind' = 'interval';
update smart_schedule_policy_groups
    set min_dwell_sec = 0, negative_profit_action = 'stop', execution_mode = 'execute', max_failed_share = 1
    where mode = 'profit_guard';
"""  # noqa: S608 - of figures of this module
_TURN: Final = "update cluster_tariff_periods set price_per_kwh = :price::float8::numeric"
_MEASURE: Final = """
select (select count(*) from pg_stat_activity where application_name = 'blsflow-scheduler') as connections,
       (select count(*) from smart_schedule_occurrences where state = 'recorded') as waiting_occurrences,
       (select count(*) from smart_schedule_attempts where state = 'prepared') as waiting_attempts,
       (select count(*) from smart_schedule_attempts where ended_at is null) as open_attempts,
       (select count(*) from smart_schedule_machine_locks where freed_at is null) as live_locks,
       (select count(*) from smart_schedule_outbox where published_at is null) as unpublished,
       (select count(*) from smart_schedule_ticks) as ticks,
       (select count(*) from smart_schedule_attempts) as attempts,
       (select coalesce(sum(n_live_tup), 0)::bigint from pg_stat_user_tables where relname like 'smart_schedule%') as rows,
       pg_database_size(current_database()) as database_bytes
"""
_FLAT: Final = ("memory_bytes", "files", "threads", "connections")
_BOUNDED: Final = ("waiting_occurrences", "waiting_attempts", "open_attempts", "live_locks", "unpublished")


@dataclass(frozen=True, kw_only=True)
class Sample:
    """What was there at one moment; the first four are the product's process's own."""

    at_sec: float
    memory_bytes: int
    files: int
    threads: int
    connections: int
    waiting_occurrences: int
    waiting_attempts: int
    open_attempts: int
    live_locks: int
    unpublished: int
    ticks: int
    attempts: int
    rows: int
    database_bytes: int


def main() -> int:
    """Soak, write what was seen, and return 1 if something grew that should not."""
    parser = argparse.ArgumentParser(prog="python -m local.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--machines", type=int, default=1000)
    parser.add_argument("--results", type=Path, default=Path("bench/results/soak.json"))
    arguments = parser.parse_args()
    with _running(arguments.machines) as (address, process):
        samples = list(_sample(address, process, arguments.minutes * 60))
        process.send_signal(signal.SIGTERM)
        code = process.wait(60)
        findings = _findings(address)
    result = {
        "at": datetime.now(UTC).date().isoformat(),
        "minutes": arguments.minutes,
        "machines": arguments.machines,
        "scan_every_sec": SCAN_EVERY_SEC,
        "cores": len(os.sched_getaffinity(0)),
        "exit_code": code,
        "doctor": findings,
        **judged(samples),
    }
    arguments.results.parent.mkdir(parents=True, exist_ok=True)
    arguments.results.write_text(_document(result, samples))
    plot(samples, arguments.results.with_suffix(".svg"))
    print(json.dumps(result, indent=1))
    return bool(result["grown"] or code or findings)


def _document(result: dict[str, Any], samples: Sequence[Sample]) -> str:
    """The result with its samples, one a line."""
    head = json.dumps(result, indent=1).removesuffix("\n}")
    lines = ",\n".join(f"  {json.dumps(asdict(sample))}" for sample in samples)
    return f'{head},\n "samples": [\n{lines}\n ]\n}}\n'


def judged(samples: Sequence[Sample]) -> dict[str, Any]:
    """Compare parts of what followed the warming up.

    Memory may not be more by a twentieth in its last third than in its second; nor may files, threads and connections at
    their least, since they come and go with the work, and a leak is what stays. What waits may at its most not be more by
    half in the last third than in the first.
    """
    steady = samples[int(len(samples) * WARM_UP_SHARE) :]
    third = max(1, len(steady) // 3)
    grown, seen = [], {}
    for name in _FLAT:
        of_part = fmean if name == "memory_bytes" else min
        before, after = (
            of_part([getattr(s, name) for s in part]) for part in (steady[third : 2 * third], steady[-third:])
        )
        seen[name] = {"before": round(before), "after": round(after)}
        if after > before * (1 + GROWTH_ALLOWED):
            grown.append(name)
    for name in _BOUNDED:
        most, after = (max(getattr(s, name) for s in part) for part in (steady[:third], steady[-third:]))
        seen[name] = {"before": most, "after": after}
        if after > 1.5 * most + 10:
            grown.append(name)
    ticks = samples[-1].ticks - samples[0].ticks
    return {
        "grown": grown,
        "seen": seen,
        "ticks": ticks,
        "attempts": samples[-1].attempts - samples[0].attempts,
        "rows_per_tick": round(
            (samples[-1].rows - steady[0].rows) / max(1, samples[-1].ticks - steady[0].ticks)
        ),
    }


def plot(samples: Sequence[Sample], path: Path) -> None:
    """Draw memory, open attempts and connections over time."""
    draw_over_time(
        [sample.at_sec / 60 for sample in samples],
        [
            ("memory, MiB", [sample.memory_bytes / 2**20 for sample in samples]),
            ("open attempts", [sample.open_attempts for sample in samples]),
            ("connections", [sample.connections for sample in samples]),
        ],
        path,
    )


@contextlib.contextmanager
def _running(machines: int) -> Iterator[tuple[DatabaseAddress, subprocess.Popen[bytes]]]:
    """A seeded database, the simulators and the product, each in a process of its own."""
    with ExitStack() as undo:
        address = undo.enter_context(EmbeddedPostgres()).address
        with closing(Session(address)) as session:
            migrate(session)
        with closing(_driver(address)) as connection:
            seed(connection, machines=machines)
        with closing(Session(address)) as session:
            session.run(_HASTEN)
        url = f"postgresql://{address.user}:{quote(address.password)}@{address.host}:{address.port}/{address.dbname}"
        simulators = undo.enter_context(
            subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "local.simulators",
                    "--database",
                    url,
                    "--token",
                    TOKEN,
                    "--ramp-sec",
                    "4",
                    "--telemetry-interval-sec",
                    "2",
                ],
                stdout=subprocess.PIPE,
            )
        )
        undo.callback(simulators.kill)
        places = json.loads(simulators.stdout.readline() if simulators.stdout else b"")
        output = undo.enter_context(tempfile.TemporaryFile())
        process = undo.enter_context(
            subprocess.Popen(
                [sys.executable, "-c", "from blsflow_cli.main import run; run()", "serve", "--json"],
                env=os.environ | _environment(url, places),
                stdout=output,
                stderr=output,
            )
        )
        undo.callback(process.kill)
        yield address, process


def _environment(url: str, places: dict[str, str]) -> dict[str, str]:
    return {
        "BLSFLOW_SCHEDULER_DATABASE_URL": url,
        "BLSFLOW_SCHEDULER_DATABASE_TLS": "off",
        "BLSFLOW_SCHEDULER_EXECUTE_ENABLED": "true",
        "BLSFLOW_SCHEDULER_SWITCH_API_BASE_URL": places["device_control_url"],
        "BLSFLOW_SCHEDULER_SWITCH_API_TOKEN": TOKEN,
        "BLSFLOW_SCHEDULER_EXECUTION_API_BASE_URL": places["execution_url"],
        "BLSFLOW_SCHEDULER_EXECUTION_API_TOKEN": TOKEN,
        "BLSFLOW_SCHEDULER_PROFIT_API_BASE_URL": places["profit_url"],
        "USDT_TO_CNY_RATE": "7.2",
        "TICK_INTERVAL_SEC": str(SCAN_EVERY_SEC),
    }


def _sample(address: DatabaseAddress, process: subprocess.Popen[bytes], seconds: float) -> Iterator[Sample]:
    """Measure every few seconds, and turn the tariff in between; `RuntimeError` if the product ends by itself."""
    began = time.monotonic()
    turned = 0
    with closing(Session(address)) as session:
        ((own,),) = session.run("select count(*) from pg_stat_activity where pid = pg_backend_pid()")
        while (at_sec := time.monotonic() - began) < seconds:
            if process.poll() is not None:
                raise RuntimeError(f"the product ended with exit code {process.returncode}")
            if int(at_sec / TURN_EVERY_SEC) > turned:
                turned = int(at_sec / TURN_EVERY_SEC)
                session.query_text(_TURN, price=9.0 if turned % 2 else 0.2)
            (row,) = session.query_text(_MEASURE)
            row["connections"] -= own
            yield Sample(at_sec=round(at_sec, 1), **_of_process(process.pid), **row)
            time.sleep(SAMPLE_EVERY_SEC)


def _of_process(pid: int) -> dict[str, int]:
    status = dict(
        line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line
    )
    return {
        "memory_bytes": int(status["VmRSS"].split()[0]) * 1024,
        "threads": int(status["Threads"]),
        "files": len(list(Path(f"/proc/{pid}/fd").iterdir())),
    }


def _findings(address: DatabaseAddress) -> list[str]:
    with closing(Session(address)) as session:
        found = examine(session, patience=timedelta(minutes=15))
    return [finding.name for finding in found if finding.violations]


def _driver(address: DatabaseAddress) -> pg8000.native.Connection:
    return pg8000.native.Connection(
        user=address.user,
        host=address.host,
        port=address.port,
        database=address.dbname,
        password=address.password,
    )


if __name__ == "__main__":
    sys.exit(main())
