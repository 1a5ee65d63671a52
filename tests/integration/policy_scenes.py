"""Two tenants with a site, machines and projects each, and documents of policies over them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from blsflow.flow import policies

if TYPE_CHECKING:
    from blsflow.adapters.postgres.connection import Session
    from blsflow.ports.store import Store

ACME, RIVAL = "acme", "rival"
EVERY_MINUTE = {"kind": "interval", "every_sec": 60}
WORLD = """
insert into clusters values
    (1, 'acme', 'north', 'Asia/Shanghai'), (2, 'acme', 'south', 'Europe/Berlin'), (9, 'rival', 'away', 'UTC');
insert into machine_models values ('S21', 'SHA-256', 1e14, 3000);
insert into machines values
    (101, 'acme', 1, 'S21', 'a', false), (102, 'acme', 2, 'S21', 'b', false), (103, 'acme', 1, 'S21', 'c', false),
    (901, 'rival', 9, 'X9', 'r', false);
insert into projects values
    (1, 'acme', 'coin A', 'A', 'A', 'SHA-256'), (2, 'acme', 'coin B', 'B', 'B', 'SHA-256'),
    (3, 'acme', 'coin C', 'C', 'C', 'SHA-256'), (9, 'rival', 'coin R', 'R', 'R', 'SHA-256');
"""


def document(**changes: Any) -> dict[str, Any]:
    """A profit guard over cluster 1 with two candidates, with these changes; None leaves a field out."""
    whole: dict[str, Any] = {
        "name": "guard",
        "mode": "profit_guard",
        "scope": [{"resource_type": "cluster", "resource_id": "1"}],
        "candidates": [1, 2],
    }
    return {name: value for name, value in (whole | changes).items() if value is not None}


def make_world(session: Session) -> None:
    """Fill a migrated, empty database with both tenants."""
    session.run(WORLD)


def create(store: Store, *, tenant_id: str = ACME, **changes: Any) -> int:
    """Store a policy; return its id."""
    made = policies.create_policy(
        store, tenant_id=tenant_id, by="kim", document=document(**changes), tick_interval_sec=60
    )
    return made.policy_id


def change(
    store: Store, policy_id: int, version: int, *, tenant_id: str | None = ACME, **changes: Any
) -> int:
    """Change a policy into this document; return its version afterwards."""
    changed = policies.change_policy(
        store,
        policy_id,
        version=version,
        by="lee",
        document=document(**changes),
        tick_interval_sec=60,
        tenant_id=tenant_id,
    )
    return changed.version
