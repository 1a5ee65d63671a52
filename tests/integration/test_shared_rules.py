"""Rules that the database states once, for all statements that apply them."""

from __future__ import annotations

import re
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from blsflow.adapters.postgres.connection import Session
from blsflow.adapters.postgres.statements import literal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from blsflow.adapters.postgres.address import DatabaseAddress

_STATUS = """
select smart_schedule_machine_status(r.status, r.hashrate_hs, r.reported_at, s.stopped_by, s.expected, s.changed_at)
from machines m
left join machine_mining_runtime r on r.machine_id = m.id
left join smart_schedule_machine_states s on s.machine_id = m.id
"""
_BACK_OFF = "select smart_schedule_back_off(failures + 1) from smart_schedule_machine_states"
_COVERS = """
select exists (select from smart_schedule_policy_scopes c where c.policy_id = p.id
               and smart_schedule_covers(c.resource_type, c.resource_id, m.id, m.cluster_id, m.model))
from smart_schedule_policy_groups p join machines m on m.tenant_id = p.tenant_id
"""
_SAMPLES = """
select smart_schedule_acts(p.enabled, p.archived_at, p.execution_mode),
       smart_schedule_samples(p.enabled, p.archived_at, p.execution_mode, p.max_benchmarks)
from smart_schedule_policy_groups p
"""

BEFORE, CHANGED, AFTER = (f"2026-01-01 12:0{minute}Z" for minute in range(3))


@pytest.fixture(scope="module")
def session(module_database: DatabaseAddress) -> Iterator[Session]:
    """A migrated database."""
    with closing(Session(module_database)) as opened:
        yield opened


@pytest.mark.parametrize(
    "applied",
    [_STATUS, _BACK_OFF, _COVERS, _SAMPLES],
    ids=["status", "back-off", "scope", "policy"],
)
def test_a_rule_is_not_called_for_each_machine(session: Session, applied: str) -> None:
    """R2.4, R5.7: the planner puts the rule's expression in its place, so that a fleet's worth of calls costs none."""
    plan = "\n".join(line for (line,) in session.run(f"explain (verbose) {applied}"))
    assert "Output" in plan
    assert re.findall(r"smart_schedule_(?:back_off|machine_status|covers|acts|samples)", plan) == []


@pytest.mark.parametrize(
    ("report", "brought_about", "status"),
    [
        (("mining", 1e14, AFTER), (None, "mining", BEFORE), "mining"),
        (("mining", 1e14, AFTER), None, "mining"),
        (("idle", 0, AFTER), (None, "unset", BEFORE), "idle"),
        (("idle", 0, AFTER), ("scheduler", "stopped", CHANGED), "stopped"),
        (("mining", 0, AFTER), ("human", "stopped", CHANGED), "stopped"),
        (("mining", 1e14, AFTER), ("scheduler", "stopped", CHANGED), "mining"),
        (("mining", None, AFTER), ("scheduler", "stopped", CHANGED), "mining"),
        (("mining", 1e14, BEFORE), ("scheduler", "off", CHANGED), "off"),
        (("mining", 1e14, BEFORE), ("scheduler", "stopped", CHANGED), "mining"),
        (("mining", 1e14, AFTER), ("scheduler", "off", CHANGED), "mining"),
        (("stopped", 0, AFTER), ("scheduler", "off", CHANGED), "off"),
        (("mining", 1e14, BEFORE), (None, "off", CHANGED), "mining"),
        (None, ("human", "off", CHANGED), "off"),
        (None, ("human", "stopped", CHANGED), None),
        (None, None, None),
    ],
)
def test_what_was_put_to_rest_is_at_rest_whatever_its_firmware_says(
    session: Session,
    report: tuple[str, float | None, str] | None,
    brought_about: tuple[str | None, str, str] | None,
    status: str | None,
) -> None:
    """R2.4: no hashrate confirms a stop, and no report since confirms a power-off; all else is as it is reported."""
    arguments = ", ".join(map(literal, (*(report or (None,) * 3), *(brought_about or (None,) * 3))))
    assert session.run(f"select smart_schedule_machine_status({arguments})") == [[status]]


@pytest.mark.parametrize(
    ("entry", "covered"),
    [
        (("tenant", "*"), True),
        (("cluster", "4"), True),
        (("cluster", "7"), False),
        (("model", "S21"), True),
        (("model", "7"), False),
        (("machine", "7"), True),
        (("machine", "4"), False),
    ],
)
def test_an_entry_of_a_scope_has_machines_by_its_kind(
    session: Session, entry: tuple[str, str], *, covered: bool
) -> None:
    """R7.4: machine 7 of model S21 in cluster 4: an id counts for its own kind of resource."""
    arguments = ", ".join(map(literal, (*entry, 7, 4, "S21")))
    assert session.run(f"select smart_schedule_covers({arguments})") == [[covered]]


@pytest.mark.parametrize(
    ("policy", "acts", "samples"),
    [
        ("true, null, 'execute', 1", True, True),
        ("true, null, 'execute', 0", True, False),
        ("false, null, 'execute', 1", False, False),
        ("true, now(), 'execute', 1", False, False),
        ("true, null, 'shadow', 1", False, False),
    ],
)
def test_a_policy_that_acts_samples_unless_it_is_told_not_to(
    session: Session, policy: str, *, acts: bool, samples: bool
) -> None:
    """R4.1, R7.4: enabled, in use and in `execute`; for benchmark runs, with room for one."""
    assert session.run(
        f"select smart_schedule_acts({policy.rpartition(',')[0]}), smart_schedule_samples({policy})"
    ) == [[acts, samples]]
