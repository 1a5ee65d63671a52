"""Fills a migrated, empty database with the sample fleet."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

from local.fleet.machines import HOUR_SEC, TENANTS, Machine, build, project_id
from local.fleet.policies import POLICIES, PolicyGroup
from local.fleet.rows import Row, machine_tables, shared_tables

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pg8000.native

SEEDED_BY = "sample-fleet"
TICK_RULE = {"kind": "interval", "every_sec": 60}
# A firmware restarts: about a minute without shares.
SWITCH_COST_SEC = 60


@dataclass(frozen=True, kw_only=True, slots=True)
class Seeded:
    """What was inserted."""

    machines: int
    benchmarks: int
    policy_ids: tuple[int, ...]
    tenants: tuple[str, ...]


def seed(
    connection: pg8000.native.Connection,
    *,
    machines: int = 2000,
    seed: int = 1,
    execution_mode: str = "execute",
) -> Seeded:
    """Insert the fleet in one transaction; the same arguments give the same fleet, as of the database's now.

    A constant number of statements whatever the fleet's size. The tables must be empty.
    """
    fleet = build(machines, seed)
    connection.run("begin")
    try:
        now = connection.run("select now()")[0][0]
        for table, rows in (*shared_tables(), *machine_tables(fleet, now)):
            _insert(connection, table, rows)
        connection.run(
            "insert into smart_schedule_executor_leases (tenant_id, holder, changed_by) "
            "select unnest(cast(:tenants as text[])), 'blsflow', :seeded_by",
            tenants=list(TENANTS),
            seeded_by=SEEDED_BY,
        )
        policy_ids = tuple(
            _insert_policy(connection, policy, fleet, now, execution_mode) for policy in POLICIES
        )
    except BaseException:
        connection.run("rollback")
        raise
    connection.run("commit")
    return Seeded(
        machines=len(fleet),
        benchmarks=sum(len(machine.benchmarks) for machine in fleet),
        policy_ids=policy_ids,
        tenants=TENANTS,
    )


def _insert(connection: pg8000.native.Connection, table: str, rows: list[Row]) -> None:
    """Insert rows that all have the same columns, in one statement; the database reads their types itself."""
    if not rows:
        return
    columns = ", ".join(rows[0])
    connection.run(
        f"insert into {table} ({columns}) select {columns} "  # noqa: S608 - names of our own
        f"from jsonb_populate_recordset(null::{table}, cast(:rows as jsonb))",
        rows=json.dumps(rows, default=_as_text, allow_nan=False),
    )


def _as_text(value: object) -> str:
    if isinstance(value, date | datetime):
        return value.isoformat()
    raise TypeError(f"no JSON for {value!r}")


def _insert_policy(
    connection: pg8000.native.Connection,
    policy: PolicyGroup,
    fleet: list[Machine],
    now: datetime,
    execution_mode: str,
) -> int:
    columns: Mapping[str, Any] = {
        "tenant_id": policy.tenant_id,
        "name": policy.name,
        "mode": policy.mode,
        "execution_mode": execution_mode,
        "enabled": True,
        "time_zone": policy.time_zone,
        "switch_cost_sec": SWITCH_COST_SEC,
        "min_dwell_sec": HOUR_SEC // 2,
        "created_by": SEEDED_BY,
        **policy.settings,
    }
    names = ", ".join(columns)
    values = ", ".join(f":{name}" for name in columns)
    policy_id = int(
        connection.run(
            f"insert into smart_schedule_policy_groups ({names}) values ({values}) returning id",  # noqa: S608
            **columns,
        )[0][0]
    )
    _insert(connection, "smart_schedule_policy_scopes", _scopes(policy, policy_id, fleet))
    _insert(
        connection,
        "smart_schedule_policy_candidates",
        [
            {
                "policy_id": policy_id,
                "project_id": project_id(policy.tenant_id, number),
                "position": position,
            }
            for position, number in enumerate(policy.candidates)
        ],
    )
    _insert(
        connection,
        "smart_schedule_policy_windows",
        [
            {
                "policy_id": policy_id,
                "priority": 0,
                "starts": window.starts,
                "ends": window.ends,
                "action": window.action,
                "project_id": window.project and project_id(policy.tenant_id, window.project),
            }
            for window in policy.windows
        ],
    )
    schedule = {
        "tenant_id": policy.tenant_id,
        "created_by": SEEDED_BY,
        "kind": "policy_tick",
        "policy_id": policy_id,
        "work": {},
        "rule": TICK_RULE,
        "time_zone": policy.time_zone,
        "next_run_at": now,
    }
    _insert(connection, "smart_schedule_schedules", [schedule])
    return policy_id


def _scopes(policy: PolicyGroup, policy_id: int, fleet: list[Machine]) -> list[Row]:
    covered = [("cluster", cluster) for cluster in policy.clusters]
    if policy.model_in_cluster is not None:
        covered += [
            ("machine", m.id) for m in fleet if (m.model.name, m.cluster.id) == policy.model_in_cluster
        ]
    return [
        {"policy_id": policy_id, "resource_type": kind, "resource_id": str(resource)}
        for kind, resource in covered
    ]
