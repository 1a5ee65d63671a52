"""The next runs of a schedule's rule, with those that a zone's clock changes touch marked (R8.2)."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from blsflow.domain.errors import InvalidDocument
from blsflow.domain.local_time import load_zone
from blsflow.domain.recurrence import PlannedRun, Rule, parse_rule
from blsflow_cli.output import table

if TYPE_CHECKING:
    from rich.console import Console

    from blsflow.documents import Strict

_MARKS = {
    "exact": "",
    "moved": "DST skips the planned time: runs right after the gap",
    "repeated": "DST repeats this time",
}


def rule_of(document: Strict) -> Rule:
    """The rule that a document means; `InvalidExecutionRequest` names the field that cannot be meant."""
    return parse_rule(document.model_dump(exclude_unset=True))


def instant(text: str, *, field: str) -> datetime:
    """An instant with its offset, as it was given to an option."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        at = None
    if at is None or at.utcoffset() is None:
        raise InvalidDocument(
            field=field, value=text, cause="is no instant such as 2025-08-01T10:00:00+08:00"
        )
    return at


def as_json(rule: Rule, runs: list[PlannedRun]) -> dict[str, Any]:
    """The published shape of the answer; `at` is UTC, `planned_for` the local time that the rule names."""
    return {
        "time_zone": rule.time_zone,
        "runs": [
            {"at": run.at.isoformat(), "planned_for": run.wall.isoformat(), "clock": run.mark} for run in runs
        ],
    }


def show(rule: Rule, runs: list[PlannedRun], console: Console) -> None:
    """Print one line per run."""
    zone = load_zone(rule.time_zone)
    rows = [
        (run.at.isoformat(), run.at.astimezone(zone).isoformat(), run.wall.isoformat(), _MARKS[run.mark])
        for run in runs
    ]
    console.print(table(f"Next runs in {rule.time_zone}", ["UTC", "local", "planned for", ""], rows))
    if not runs:
        console.print("The rule has no further run.")
