"""The states of occurrences and attempts in code are those that the schema allows."""

from __future__ import annotations

import re

import pytest

from blsflow.domain.occurrence import (
    ATTEMPT_STEPS,
    OCCURRENCE_STEPS,
    AttemptState,
    OccurrenceState,
    ScheduleKind,
)
from local.stack.processes import REPOSITORY

MIGRATION = (REPOSITORY / "layers/core/blsflow/adapters/postgres/migrations/0002_scheduler.sql").read_text(
    encoding="utf-8"
)


def _table(name: str) -> str:
    return MIGRATION.split(f"create table {name} (")[1].split("\n);")[0]


def _listed(sql: str, before: str) -> set[str]:
    """The quoted words of the list that follows some text."""
    return set(re.findall(r"'(\w+)'", sql.split(before)[1].split(")", maxsplit=1)[0]))


@pytest.mark.parametrize(
    ("table", "states"),
    [
        ("smart_schedule_occurrences", OccurrenceState),
        ("smart_schedule_attempts", AttemptState),
    ],
)
def test_the_schema_allows_exactly_these_states(
    table: str, states: type[OccurrenceState | AttemptState]
) -> None:
    """R8.7: the check constraints list the states of the code, and the same ones as ends."""
    columns = _table(table)
    assert _listed(columns, "check (state in (") == set(states)
    assert _listed(columns, "check ((state in (") == {state for state in states if state.is_end}


def test_the_slot_is_held_by_what_is_active() -> None:
    """R8.4: the index that allows one active occurrence per schedule counts what the code calls active."""
    index = MIGRATION.split("create unique index smart_schedule_occurrences_active")[1].split(";")[0]
    assert _listed(index, "where state in (") == {state for state in OccurrenceState if state.is_active}


def test_the_kinds_of_work_are_those_of_the_schema() -> None:
    """R8.1: a schedule's kinds are the same in code and schema."""
    assert _listed(_table("smart_schedule_schedules"), "check (kind in (") == set(ScheduleKind)


@pytest.mark.parametrize("steps", [OCCURRENCE_STEPS, ATTEMPT_STEPS], ids=["occurrence", "attempt"])
def test_every_way_leads_to_an_end(steps: dict[str, frozenset[str]]) -> None:
    """R8.7: from every state that is no end an end can be reached, directly."""
    ends = {state for state, following in steps.items() if not following}
    assert all(following & ends for state, following in steps.items() if state not in ends)
