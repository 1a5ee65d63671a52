"""Rules that the database states once, for all statements that apply them."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from blsflow.adapters.postgres.connection import Session, literal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from blsflow.adapters.postgres.connection import DatabaseAddress

_STATUS = """
select smart_schedule_machine_status(r.status, r.hashrate_hs, r.reported_at, s.stopped_by, s.expected, s.changed_at)
from machines m
left join machine_mining_runtime r on r.machine_id = m.id
left join smart_schedule_machine_states s on s.machine_id = m.id
"""
_BACK_OFF = "select smart_schedule_back_off(failures + 1) from smart_schedule_machine_states"

BEFORE, CHANGED, AFTER = (f"2026-01-01 12:0{minute}Z" for minute in range(3))


@pytest.fixture(scope="module")
def session(module_database: DatabaseAddress) -> Iterator[Session]:
    """A migrated database."""
    with closing(Session(module_database)) as opened:
        yield opened


@pytest.mark.parametrize("applied", [_STATUS, _BACK_OFF], ids=["status", "back-off"])
def test_a_rule_is_not_called_for_each_machine(session: Session, applied: str) -> None:
    """R2.4, R5.7: the planner puts the rule's expression in its place, so that a fleet's worth of calls costs none."""
    plan = "\n".join(line for (line,) in session.run(f"explain (verbose) {applied}"))
    assert "Output" in plan
    assert "smart_schedule_back_off" not in plan
    assert "smart_schedule_machine_status" not in plan


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
