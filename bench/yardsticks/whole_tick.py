"""The same work as the product's tick, in the style of the bare ones: psycopg 3, decoded rows, a loop, COPY.

It reads all that a decision rests on, judges whether that can be believed, values every candidate, keeps with each decision
what it was made on, takes the locks of the machines that are to move, and writes their batches and one log event. Prices and
tariffs are known beforehand, its tables have no index but their keys, and there is nobody else: no other policy, no foreign
change, no jump of prices, no freeze.
"""

from __future__ import annotations

import struct
import time
import uuid
from functools import cache
from itertools import count, groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from psycopg.types.json import Json

from bench.measuring import seconds
from bench.yardsticks.tick import COSTS, REVENUES, by_psycopg

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from blsflow.adapters.postgres.connection import Session

_MIN_GAIN, _MIN_RATIO = 1.0, 0.05
_DWELL_SEC, _REPORT_SEC, _BENCHMARK_SEC = 3600.0, 86_400.0, 30 * 86_400.0
_BATCH: Final = 500
_NO_MORE: Final = float("inf"), ()
_TICKS: Final = count(1)
_TABLES = """
drop table if exists whole_decisions, whole_locks, whole_attempts, whole_attempt_machines, whole_log;
create table whole_decisions (
    tick_id bigint, machine_id bigint, action text not null, reason text not null, from_project bigint, to_project bigint,
    current_net double precision, best_net double precision, attempt_id uuid, made_on bytea not null,
    primary key (tick_id, machine_id));
create table whole_locks (
    machine_id bigint primary key, owner_id uuid not null, token bigint not null, taken_at timestamptz not null,
    expires_at timestamptz not null, freed_at timestamptz);
create table whole_attempts (
    id uuid primary key, tick_id bigint not null, project_id bigint not null, state text not null,
    prepared_at timestamptz not null);
create table whole_attempt_machines (attempt_id uuid, machine_id bigint, token bigint, primary key (attempt_id, machine_id));
create table whole_log (
    id bigint generated always as identity primary key, at timestamptz not null, code text not null, params jsonb not null);
"""
_NEXT_TICK: Final = "update whole_locks set freed_at = now() where freed_at is null"
_ELIGIBLE: Final = """
select c.cluster_id, c.model, array_agg(distinct e.project_id) filter (where e.allowed),
       array_agg(distinct e.project_id) filter (where not e.allowed)
from (select distinct cluster_id, model from machines where tenant_id = 'acme') c
join smart_schedule_resource_eligibilities e
     on e.tenant_id = 'acme' and (e.resource_type = 'cluster' and e.resource_id = c.cluster_id::text
                                  or e.resource_type = 'model' and e.resource_id = c.model)
group by c.cluster_id, c.model
"""
_MACHINES: Final = """
select m.id, m.cluster_id, m.model, m.operator_hold, r.status, r.project_id, r.hashrate_hs,
       date_part('epoch', r.project_since), date_part('epoch', r.reported_at), s.stopped_by,
       l.machine_id is not null, p.power_w
from machines m
left join machine_mining_runtime r on r.machine_id = m.id
left join smart_schedule_machine_states s on s.machine_id = m.id
left join whole_locks l on l.machine_id = m.id and l.freed_at is null and l.expires_at > now()
left join (
    select distinct on (machine_id) machine_id, power_w from metric_powers
    where measured_at > now() - interval '1 day' order by machine_id, measured_at desc
) p on p.machine_id = m.id
where m.tenant_id = 'acme'
order by m.id
"""
_BENCHMARKS: Final = """
select machine_id, project_id, hashrate_hs, power_w, date_part('epoch', sampled_at)
from bare_benchmarks order by machine_id, project_id
"""
_LOCKS: Final = """
insert into whole_locks (machine_id, owner_id, token, taken_at, expires_at)
select w.machine_id, w.owner_id, %s, now(), now() + interval '5 minutes'
from unnest(%s::bigint[], %s::uuid[]) as w (machine_id, owner_id) order by w.machine_id
on conflict (machine_id) do update
set owner_id = excluded.owner_id, token = excluded.token, taken_at = excluded.taken_at, expires_at = excluded.expires_at,
    freed_at = null
where whole_locks.freed_at is not null or whole_locks.expires_at <= now()
returning machine_id
"""
_ATTEMPTS: Final = """
with attempts as (
    insert into whole_attempts select a.id, %s, a.project_id, 'prepared', now()
    from unnest(%s::uuid[], %s::bigint[]) as a (id, project_id)
)
insert into whole_attempt_machines select w.attempt_id, w.machine_id, %s
from unnest(%s::uuid[], %s::bigint[]) as w (attempt_id, machine_id)
"""


def make_tables(session: Session) -> None:
    """Make empty tables for what it writes; benchmarks are read from those of the bare decision."""
    session.run(_TABLES)


def by_copy(session: Session) -> float:
    """Seconds that one tick takes, committed."""
    session.run(_NEXT_TICK)
    tick_id = next(_TICKS)
    with by_psycopg(session.address) as connection:

        def work() -> None:
            cursor = connection.cursor(binary=True)
            eligible = {
                (cluster_id, model): frozenset(allowed or ()) - frozenset(denied or ())
                for cluster_id, model, allowed, denied in cursor.execute(_ELIGIBLE).fetchall()
            }
            machines = cursor.execute(_MACHINES).fetchall()
            benchmarks = cursor.execute(_BENCHMARKS).fetchall()
            batches = _Batches()
            with cursor.copy("copy whole_decisions from stdin (format binary)") as copy:
                copy.set_types(
                    ["int8", "int8", "text", "text", "int8", "int8", "float8", "float8", "uuid", "bytea"]
                )
                for decision in _decided(tick_id, machines, benchmarks, eligible, batches):
                    copy.write_row(decision)
            moved = batches.machines
            won = cursor.execute(_LOCKS, (tick_id, list(moved), list(moved.values()))).fetchall()
            if len(won) != len(moved):
                raise AssertionError(f"{len(won)} of {len(moved)} locks: nobody else takes any here")
            cursor.execute(
                _ATTEMPTS,
                (
                    tick_id,
                    list(batches.projects),
                    list(batches.projects.values()),
                    tick_id,
                    list(moved.values()),
                    list(moved),
                ),
            )
            cursor.execute(
                "insert into whole_log (at, code, params) values (now(), 'tick_decided', %s)",
                (Json({"machines": len(machines), "moved": len(moved)}),),
            )
            connection.commit()

        return seconds(work)


class _Batches:
    """Machines that are to move, in batches of one project."""

    def __init__(self) -> None:
        self.machines: dict[int, uuid.UUID] = {}
        self.projects: dict[uuid.UUID, int] = {}
        self._open: dict[int, tuple[uuid.UUID, int]] = {}

    def place(self, machine_id: int, project_id: int) -> uuid.UUID:
        batch, size = self._open.get(project_id, (None, _BATCH))
        if batch is None or size >= _BATCH:
            batch, size = uuid.uuid4(), 0
            self.projects[batch] = project_id
        self._open[project_id] = batch, size + 1
        self.machines[machine_id] = batch
        return batch


def _decided(  # noqa: C901, PLR0912 - a loop without calls is the quickest
    tick_id: int,
    machines: Iterable[Any],
    benchmarks: Iterable[Any],
    eligible: Mapping[tuple[int, str], frozenset[int]],
    batches: _Batches,
) -> Iterator[tuple[Any, ...]]:
    """The decisions, from machines and benchmarks that come in the same order."""
    marks: Iterable[Any]
    of_machines = groupby(benchmarks, itemgetter(0))
    measured, marks = next(of_machines, _NO_MORE)
    now = time.time()
    reported_after, sampled_after, since_before = now - _REPORT_SEC, now - _BENCHMARK_SEC, now - _DWELL_SEC
    nobody: frozenset[int] = frozenset()
    for (
        machine_id, cluster_id, model, held, status, running, hashrate_hs, since, reported_at, stopped_by, locked, power_w,
    ) in machines:  # fmt: skip
        while measured < machine_id:
            measured, marks = next(of_machines, _NO_MORE)
        allowed, cost = eligible.get((cluster_id, model), nobody), COSTS[cluster_id - 1]
        best, best_net, current = None, float("-inf"), None
        made_on = [hashrate_hs or 0.0, power_w or 0.0, since or 0.0, reported_at or 0.0]
        for _, project, project_hs, project_w, sampled_at in marks if measured == machine_id else ():
            net = project_hs * REVENUES[project - 1] - project_w * cost
            made_on += (project, project_hs, project_w, sampled_at, net)
            if sampled_at > sampled_after:
                if project == running:
                    current = net
                if net > best_net and project in allowed:
                    best, best_net = project, net
        figures = _floats(len(made_on))(*made_on)
        if locked or held or stopped_by == "human":
            reason = "locked" if locked else "held"
        elif status != "mining" or reported_at is None or reported_at <= reported_after or not hashrate_hs:
            reason = "status_unknown"
        elif power_w is None:
            reason = "power_unknown"
        elif current is None or best is None:
            reason = "benchmark_missing"
        else:
            gain, attempt_id, action, reason = best_net - current, None, "keep", "already_best"
            if gain > 0:
                if gain < _MIN_GAIN or gain < _MIN_RATIO * abs(current):
                    reason = "gain_below"
                elif since is None or since > since_before:
                    reason = "dwell"
                else:
                    action, reason, attempt_id = "switch", "better_net", batches.place(machine_id, best)
            to_project = best if attempt_id is not None else None
            yield (
                tick_id,
                machine_id,
                action,
                reason,
                running,
                to_project,
                current,
                best_net,
                attempt_id,
                figures,
            )
            continue
        yield tick_id, machine_id, "skip", reason, running, None, current, None, None, figures


@cache
def _floats(how_many: int) -> Any:  # noqa: ANN401 - a method of C's
    return struct.Struct(f">{how_many}d").pack
