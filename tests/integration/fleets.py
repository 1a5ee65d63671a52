"""Large fleets made by the server itself: 4 clusters, 3 models, 10 candidates, and a benchmark for each pair.

``python -m tests.integration.fleets`` decides one tick over the fleet of the database at the address in
``BLSFLOW_SCHEDULER_DATABASE_URL`` and prints the peak of its own memory in MB: a process of its own has a peak of its own.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from blsflow.adapters.inline import InlineQueue
from blsflow.bootstrap import Application, application_from

if TYPE_CHECKING:
    from blsflow.adapters.postgres.connection import Session
    from blsflow.flow.decide import DecideReport

_SHARED = """
insert into clusters select g, 'acme', 'c' || g, 'Asia/Shanghai' from generate_series(1, 4) g;
insert into cluster_tariffs (id, cluster_id, name) select g, g, 't' || g from generate_series(1, 4) g;
insert into cluster_tariff_periods (id, tariff_id, name, starts, ends, price_per_kwh)
    select g, g, 'flat', '00:00', '24:00', 0.4 + g * 0.01 from generate_series(1, 4) g;
insert into machine_models select 'M' || g, 'SHA-256', 1e14, 3000 from generate_series(1, 3) g;
insert into projects
    select g, 'acme', 'p' || g, 'C' || g, 'C' || g, 'SHA-256' from generate_series(1, 10) g;
insert into project_run_configurations
    select p * 10 + m, p, 'M' || m, true from generate_series(1, 10) p, generate_series(1, 3) m;
insert into smart_schedule_resource_eligibilities
    select 'acme', p, 'cluster', c::text, true from generate_series(1, 10) p, generate_series(1, 4) c;
insert into smart_schedule_profit_readings
    select 'C' || g, 'SHA-256', now(), now(), 'test', 0.08 + g * 0.0005, 'TH/s', 'USDT', '{}' from generate_series(1, 10) g;
insert into smart_schedule_executor_leases (tenant_id, holder, changed_by) values ('acme', 'blsflow', 'test');
insert into smart_schedule_policy_groups (tenant_id, name, mode, execution_mode, enabled, created_by)
    values ('acme', 'guard', 'profit_guard', 'execute', true, 'test');
insert into smart_schedule_policy_scopes values (1, 'tenant', '*');
insert into smart_schedule_policy_candidates (policy_id, project_id, position)
    select 1, g, g - 1 from generate_series(1, 10) g;
insert into smart_schedule_schedules (tenant_id, created_by, kind, policy_id, rule, next_run_at)
    values ('acme', 'test', 'policy_tick', 1, '{"kind": "interval", "every_sec": 60}', now());
"""


def make_market(session: Session) -> None:
    """Fill an empty schema with all that machines share."""
    session.run(_SHARED)


def make_machines(session: Session, count: int) -> None:
    """Put so many machines there instead of any others, most with a better project to go to, and make the policy due."""
    session.run(
        f"""
        truncate machines, machine_mining_runtime, metric_powers, smart_schedule_machine_project_benchmarks,
            smart_schedule_machine_locks, smart_schedule_attempts, smart_schedule_machine_decisions cascade;
        update smart_schedule_occurrences set state = 'succeeded', ended_at = now() where ended_at is null;
        update smart_schedule_schedules set next_run_at = now();
        insert into machines
            select g, 'acme', 1 + g % 4, 'M' || (1 + g % 3), 'm' || g, false from generate_series(1, {count}) g;
        insert into machine_mining_runtime
            select g, 'mining', 1 + g % 10, 1e14, now() - interval '5 hours', now() from generate_series(1, {count}) g;
        insert into metric_powers select g, now(), 3000 from generate_series(1, {count}) g;
        insert into smart_schedule_machine_project_benchmarks
            (machine_id, project_id, hashrate_hs, power_w, sampled_at)
            select m, p, 1e14 * (0.95 + 0.1 * ((m * 7 + p * 13) % 100) / 100.0), 3000, now()
            from generate_series(1, {count}) m, generate_series(1, 10) p
        """
    )
    session.run("vacuum analyze")


def start(database_url: str) -> Application:
    """A process of the product that may execute, and sends nothing: whatever it enqueues stays there."""
    application = application_from(
        {
            "BLSFLOW_SCHEDULER_DATABASE_URL": database_url,
            "BLSFLOW_SCHEDULER_DATABASE_TLS": "off",
            "BLSFLOW_SCHEDULER_EXECUTE_ENABLED": "true",
            "BLSFLOW_SCHEDULER_SWITCH_API_BASE_URL": "http://127.0.0.1:9",
            "USDT_TO_CNY_RATE": "7.2",
        }
    )
    application.own_decide_queue, application.own_execute_queue = InlineQueue(), InlineQueue()
    return application


def decide_waiting(application: Application) -> DecideReport:
    """Decide the one tick that waits in the queue."""
    reports: list[DecideReport] = []
    queue = application.decide_queue
    if isinstance(queue, InlineQueue):
        queue.drain(lambda message: reports.append(application.decide(int(str(message["occurrence_id"])))))
    (report,) = reports
    return report


def _peak_kb() -> int:
    """The most that this process held; the figure of `getrusage` begins with what its parent held."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


if __name__ == "__main__":
    product = start(os.environ["BLSFLOW_SCHEDULER_DATABASE_URL"])
    product.tick(budget_sec=30)
    decided = decide_waiting(product).machines
    peak_mb = _peak_kb() / 1024
    sys.stdout.write(f"{decided} {peak_mb:.1f}\n")
