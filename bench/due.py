"""From due time to sent command: 1,000 policies of 50 tenants, due in one tick of the deployed local template."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING, Final

from bench.devices import TOKEN, device_control
from bench.measuring import Bound, Row, percentile, plain_row, readable
from blsflow.adapters.postgres.connection import Session
from local.plots import Plot
from local.stack.stack import LocalStack

if TYPE_CHECKING:
    from collections.abc import Iterator

TENANTS: Final = 50
POLICIES: Final = 1_000
ROUNDS: Final = 5
PERIOD_SEC: Final = 60
_PATIENCE_SEC: Final = 240
# Each tenant has one site and three projects; each policy has one machine, which mines the worst of them.
_FILL: Final = f"""
insert into machine_models values ('M1', 'SHA-256', 1e14, 3000);
insert into clusters select t, 't' || t, 'c' || t, 'Asia/Shanghai' from generate_series(1, {TENANTS}) t;
insert into cluster_tariffs (id, cluster_id, name) select t, t, 'flat' from generate_series(1, {TENANTS}) t;
insert into cluster_tariff_periods (id, tariff_id, name, starts, ends, price_per_kwh)
    select t, t, 'flat', '00:00', '24:00', 0.4 from generate_series(1, {TENANTS}) t;
insert into projects select t * 10 + p, 't' || t, 'p' || p, 'C' || p, 'C' || p, 'SHA-256'
    from generate_series(1, {TENANTS}) t, generate_series(1, 3) p;
insert into project_run_configurations select id, id, 'M1', true from projects;
insert into smart_schedule_resource_eligibilities
    select tenant_id, id, 'model', 'M1', true from projects;
insert into smart_schedule_executor_leases (tenant_id, holder, changed_by)
    select 't' || t, 'blsflow', 'bench' from generate_series(1, {TENANTS}) t;
insert into smart_schedule_policy_groups (tenant_id, name, mode, execution_mode, enabled, created_by, min_dwell_sec)
    select 't' || (1 + g % {TENANTS}), 'p' || g, 'profit_guard', 'execute', true, 'bench', 0
    from generate_series(1, {POLICIES}) g;
insert into smart_schedule_policy_scopes select id, 'machine', id::text from smart_schedule_policy_groups;
insert into smart_schedule_policy_candidates (policy_id, project_id, position)
    select g.id, p.id, p.id % 10 from smart_schedule_policy_groups g join projects p using (tenant_id);
insert into machines
    select id, tenant_id, substr(tenant_id, 2)::bigint, 'M1', 'm' || id, false from smart_schedule_policy_groups;
insert into smart_schedule_machine_project_benchmarks (machine_id, project_id, hashrate_hs, power_w, sampled_at)
    select m.id, p.id, 1e14, 3000, now() from machines m join projects p using (tenant_id);
insert into smart_schedule_schedules (tenant_id, created_by, kind, policy_id, rule)
    select tenant_id, 'bench', 'policy_tick', id, '{{"kind": "interval", "every_sec": 86400}}'
    from smart_schedule_policy_groups;
"""
_DUE: Final = """
update smart_schedule_occurrences set state = 'succeeded', ended_at = now() where ended_at is null;
truncate smart_schedule_machine_locks, smart_schedule_attempts cascade;
truncate machine_mining_runtime, metric_powers, smart_schedule_profit_readings, smart_schedule_machine_states;
insert into machine_mining_runtime
    select id, 'mining', substr(tenant_id, 2)::bigint * 10 + 1, 1e14, now() - interval '5 hours', now() from machines;
insert into metric_powers select id, now(), 3000 from machines;
insert into smart_schedule_profit_readings
    select 'C' || p, 'SHA-256', now(), now(), 'bench', 0.08 + p * 0.02, 'TH/s', 'USDT', '{}' from generate_series(1, 3) p;
update smart_schedule_schedules set next_run_at = now();
"""
_SENT: Final = f"""
select extract(epoch from a.dispatched_at - o.planned_at)::float8
from smart_schedule_attempts a join smart_schedule_occurrences o on o.id = a.occurrence_id
where a.dispatched_at is not null limit {POLICIES}
"""


def run() -> Iterator[Row]:
    """Make all policies due at once, round after round, and let the deployed clock find them."""
    with device_control(machines=POLICIES) as (url, _):
        stack = LocalStack(
            {"ExecuteEnabled": "true", "SwitchApiBaseUrl": url, "UsdtToCnyRate": "7.2"},
            secrets={"SwitchApiTokenSecretArn": TOKEN},
            progress=lambda text: print(f"    {text}", flush=True),
        )
        with stack, closing(Session(stack.database)) as session:
            session.run(_FILL)
            _round(session, 0)  # thrown away: the deployed clock and every container start in it
            waits = [_round(session, number) for number in range(1, ROUNDS + 1)]
    everything = [wait for each in waits for wait in each]
    yield plain_row(
        f"from due time to sent command, {POLICIES:,} policies due in one tick, deployed local template: p99",
        [percentile(each, 0.99) for each in waits],
        "s",
        Bound(limit=PERIOD_SEC + 2),
        yardstick=f"the tick's period, {PERIOD_SEC} s",
        figures={f"p{share}": readable(percentile(everything, share / 100)) for share in (50, 95, 99)},
        plot=Plot(
            name="due",
            x="seconds from due time to sent command",
            y="% of commands sent",
            label=f"{ROUNDS} rounds together",
            points=[(percentile(everything, share / 100), share) for share in range(101)],
            against_label="p99 at most",
            against=[(PERIOD_SEC + 2, 0), (PERIOD_SEC + 2, 100)],
            dots=False,
        ),
    )


def _round(session: Session, number: int) -> list[float]:
    session.run(_DUE)
    ends = time.monotonic() + _PATIENCE_SEC
    while True:
        waits = [float(wait) for (wait,) in session.run(_SENT)]
        if len(waits) == POLICIES:
            print(f"    round {number}/{ROUNDS}: p99 {readable(percentile(waits, 0.99))}", flush=True)
            return waits
        if time.monotonic() > ends:
            states = session.run(
                "select state, reason, count(*) from smart_schedule_occurrences group by 1, 2"
            )
            raise TimeoutError(f"{len(waits)} of {POLICIES} sent within {_PATIENCE_SEC} s: {states}")
        time.sleep(1)
