"""One pass over 50,000 machines in 5,000 open jobs, against one HTTP call per job with the same concurrency."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from http.client import HTTPConnection
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from bench.devices import TOKEN, device_control
from bench.fleet import fill, market, url_of
from bench.measuring import Bound, Row, interleaved, ratio_row, seconds
from blsflow.bootstrap import application_from

if TYPE_CHECKING:
    from collections.abc import Iterator

    from blsflow.adapters.postgres.connection import Session
    from blsflow.bootstrap import Application

JOBS: Final = 5_000
MACHINES_PER_JOB: Final = 10
CONCURRENCY: Final = 16
"""The product's own default."""
LATENCY_SEC: Final = 0.02
_OPEN: Final = """
truncate smart_schedule_attempts, smart_schedule_machine_locks cascade;
insert into smart_schedule_attempts (id, tenant_id, kind, idempotency_key, policy_id, action, project_id, run_config_id,
                                     state, reference, prepared_at, valid_until, dispatched_at, next_check_at)
    select gen_random_uuid(), 'acme', 'device_batch', 'bench-' || (place - 1), 1, 'switch', 1, 11, 'running', job, now(),
           now() + interval '2 minutes', now(), now()
    from unnest(array[{jobs}]) with ordinality as j (job, place);
insert into smart_schedule_attempt_machines (attempt_id, machine_id, fencing_token)
    select a.id, n * {machines} + g, 1
    from (select id, substr(idempotency_key, 7)::int as n from smart_schedule_attempts) a, generate_series(1, {machines}) g;
insert into smart_schedule_machine_locks (machine_id, tenant_id, owner_kind, owner_id, fencing_token, taken_at, expires_at)
    select machine_id, 'acme', 'attempt', attempt_id, 1, now(), 'infinity' from smart_schedule_attempt_machines;
"""
# Followed for a while already: each is looked at once a minute, and so once a pass.
_DUE_AGAIN: Final = """
update smart_schedule_attempts set next_check_at = now(), checks = 20, reason = null where ended_at is null
"""
_UNDER_WAY: Final = "select count(*) from smart_schedule_attempts where reason = 'job_end'"
"""What was answered with a job; a refusal leaves another reason, and comes without the latency."""


def run() -> Iterator[Row]:
    """Look at every job once per round; none has ended, so that each round finds the same."""
    with ExitStack() as devices, market() as session:
        fill(session, JOBS * MACHINES_PER_JOB)
        url, jobs = devices.enter_context(
            device_control(machines=JOBS * MACHINES_PER_JOB, jobs=JOBS, latency_sec=LATENCY_SEC)
        )
        session.run(_OPEN.format(jobs=",".join(f"'{job}'" for job in jobs), machines=MACHINES_PER_JOB))
        session.run("vacuum analyze")
        application = application_from(
            {
                "BLSFLOW_SCHEDULER_DATABASE_URL": url_of(session.address),
                "BLSFLOW_SCHEDULER_DATABASE_TLS": "off",
                "BLSFLOW_SCHEDULER_SWITCH_API_BASE_URL": url,
                "BLSFLOW_SCHEDULER_SWITCH_API_TOKEN": TOKEN,
                "BLSFLOW_SCHEDULER_RECONCILE_CONCURRENCY": str(CONCURRENCY),
            }
        )
        found = interleaved(
            {"product": lambda: _pass(application, session), "calls": lambda: _calls(url, jobs)}
        )
    yield ratio_row(
        "reconcile of 50,000 open machines in 5,000 jobs",
        f"one HTTP call per job, {CONCURRENCY} at a time, at the simulator's {LATENCY_SEC * 1e3:.0f} ms, connections kept",
        found["product"],
        found["calls"],
        Bound(limit=1.3),
    )


def _pass(application: Application, session: Session) -> float:
    session.run(_DUE_AGAIN)
    reports = []
    took = seconds(lambda: reports.append(application.reconcile(budget_sec=600)))
    if reports[0].looked_at != JOBS or reports[0].failures:
        raise AssertionError(f"{reports[0].looked_at} of {JOBS} looked at, failures: {reports[0].failures}")
    ((under_way,),) = session.run(_UNDER_WAY)
    if under_way != JOBS:
        raise AssertionError(f"{under_way} of {JOBS} jobs were read back")
    return took


def _calls(url: str, jobs: list[str]) -> float:
    """Ask for every job once, each thread over a connection that it keeps."""
    address = urlsplit(url)
    kept = threading.local()

    def ask(job: str) -> object:
        if not hasattr(kept, "connection"):
            kept.connection = HTTPConnection(address.hostname or "", address.port)
        kept.connection.request(
            "GET", f"/v1/jobs/{job}", headers={"Authorization": f"Bearer {TOKEN}", "X-Caller": "acme"}
        )
        return json.loads(kept.connection.getresponse().read())

    with ThreadPoolExecutor(CONCURRENCY) as pool:
        return seconds(lambda: list(pool.map(ask, jobs)))
