from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from blsflow.domain.confirmation import Confirmed, Contradicted, Observed, Waiting, confirm
from blsflow.domain.execution import CommandKind

SENT_AT = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
NOW = SENT_AT + timedelta(seconds=120)
SEEN_AT = SENT_AT + timedelta(seconds=90)
LAST_WORDS = {"hashrate_hs": 1e14, "reported_at": NOW - timedelta(seconds=60)}
TARGET, OTHER = 7, 8

MINING = Observed(
    project_id=TARGET,
    status="mining",
    hashrate_hs=1e14,
    reported_at=SEEN_AT,
    power_w=3050.0,
    power_at=SEEN_AT,
    nameplate_power_w=3050.0,
)
STOPPED = replace(MINING, status="stopped", hashrate_hs=0.0, power_w=45.0)
OFF = replace(MINING, status="off", hashrate_hs=None, reported_at=None, power_w=3.0)


def judge(kind: CommandKind, observed: Observed | None, **changes: Any) -> str:
    """Reduce the confirmation to "confirmed", or to the name and reason of what it is instead."""
    judged = confirm(
        kind,
        TARGET if kind in (CommandKind.SWITCH, CommandKind.START) else None,
        replace(observed, **changes) if observed else None,
        not_before=SENT_AT,
        now=NOW,
        report_max_age_sec=60,
    )
    match judged:
        case Confirmed():
            return "confirmed"
        case Contradicted():
            return f"contradicted {judged.reason}"
        case Waiting():
            return f"waiting {judged.reason}"


@pytest.mark.parametrize("kind", [CommandKind.SWITCH, CommandKind.START])
@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "confirmed"),
        ({"status": "stopped"}, "confirmed"),
        ({"power_w": 10.0}, "confirmed"),
        ({"power_w": 9.99}, "waiting no_power"),
        ({"power_w": 3.05}, "waiting no_power"),
        ({"power_w": None}, "waiting no_power"),
        ({"power_w": float("nan")}, "waiting no_power"),
        ({"power_w": float("inf")}, "waiting no_power"),
        ({"hashrate_hs": 1.0}, "confirmed"),
        ({"hashrate_hs": 0.0}, "contradicted not_hashing"),
        ({"hashrate_hs": 0}, "contradicted not_hashing"),
        ({"hashrate_hs": None}, "waiting no_hashrate"),
        ({"hashrate_hs": float("nan")}, "waiting no_hashrate"),
        ({"hashrate_hs": -1.0}, "waiting no_hashrate"),
        ({"project_id": OTHER}, "contradicted another_project"),
        ({"project_id": None}, "waiting no_project"),
        ({"nameplate_power_w": None}, "confirmed"),
    ],
)
def test_mining_is_confirmed_by_project_hashrate_and_power(
    kind: CommandKind, changes: dict[str, Any], expected: str
) -> None:
    """R5.6: hashing on the target with power confirms a switch or start, whatever flags say (C02, U02)."""
    assert judge(kind, MINING, **changes) == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "confirmed"),
        ({"status": "mining"}, "confirmed"),
        ({"power_w": 0.0}, "confirmed"),
        ({"power_w": 914.9}, "confirmed"),
        ({"power_w": 915.0}, "contradicted still_drawing_power"),
        ({"power_w": 99.9, "nameplate_power_w": None}, "confirmed"),
        ({"power_w": 100.0, "nameplate_power_w": None}, "contradicted still_drawing_power"),
        ({"power_w": 99.9, "nameplate_power_w": float("nan")}, "confirmed"),
        ({"power_w": 100.0, "nameplate_power_w": 0.0}, "contradicted still_drawing_power"),
        ({"power_w": None}, "waiting no_power"),
        ({"power_w": float("nan")}, "waiting no_power"),
        ({"power_w": -45.0}, "waiting no_power"),
        ({"hashrate_hs": 1.0}, "contradicted still_hashing"),
        ({"hashrate_hs": 1.0, "status": "stopped"}, "contradicted still_hashing"),
        ({"hashrate_hs": None}, "waiting no_hashrate"),
        ({"hashrate_hs": float("nan")}, "waiting no_hashrate"),
    ],
)
def test_a_stop_is_confirmed_by_hashrate_and_power(changes: dict[str, Any], expected: str) -> None:
    """R5.6: no hashrate and little power confirm a stop, also while the flag still says mining (C01)."""
    assert judge(CommandKind.STOP, STOPPED, **changes) == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "confirmed"),
        ({"power_w": 19.9}, "confirmed"),
        ({"power_w": 20.0}, "contradicted still_drawing_power"),
        ({"power_w": None}, "waiting no_power"),
        ({"power_w": float("nan")}, "waiting no_power"),
        ({"power_at": SENT_AT}, "waiting no_power"),
        ({"hashrate_hs": 0.0, "reported_at": SEEN_AT}, "confirmed"),
        # kW read as W: 3.05 "W" beside a hashrate is no proof of being off
        ({"hashrate_hs": 1e14, "reported_at": SEEN_AT, "power_w": 3.05}, "contradicted still_hashing"),
        # its last words, and a meter that has shown no draw for a minute more; one second less may be a mix-up
        (LAST_WORDS | {"power_at": NOW}, "confirmed"),
        (LAST_WORDS | {"power_at": NOW - timedelta(seconds=1)}, "contradicted still_hashing"),
        (LAST_WORDS | {"power_at": NOW, "power_w": None}, "contradicted still_hashing"),
        # the last report of a machine that has lost its power since
        ({"hashrate_hs": 1e14, "reported_at": SENT_AT - timedelta(seconds=1)}, "confirmed"),
    ],
)
def test_a_power_off_is_confirmed_by_the_meter(changes: dict[str, Any], expected: str) -> None:
    """R5.6: a machine without power reports nothing, so a fresh meter reading confirms that it is off."""
    assert judge(CommandKind.POWER_OFF, OFF, **changes) == expected


@pytest.mark.parametrize(
    ("at", "counts"),
    [
        (None, False),
        (SENT_AT - timedelta(seconds=1), False),
        (SENT_AT, False),
        (NOW - timedelta(seconds=61), False),
        (NOW - timedelta(seconds=60), True),
        (NOW, True),
        (NOW + timedelta(seconds=30), True),
        (NOW + timedelta(seconds=31), False),
    ],
)
@pytest.mark.parametrize(
    ("kind", "observed"),
    [(CommandKind.SWITCH, MINING), (CommandKind.START, MINING), (CommandKind.STOP, STOPPED)],
)
@pytest.mark.parametrize("which", ["reported_at", "power_at"])
def test_only_fresh_readings_after_the_command_count(
    kind: CommandKind, observed: Observed, which: str, at: datetime | None, *, counts: bool
) -> None:
    """R5.6: a reading from before the command, a stale one and one from the future confirm nothing."""
    judged = judge(kind, observed, **{which: at})
    assert judged == "confirmed" if counts else judged.startswith("waiting")


def test_a_stale_report_contradicts_nothing() -> None:
    """R5.6: what a machine did before it was told otherwise says nothing about whether it obeyed."""
    assert judge(CommandKind.STOP, MINING, reported_at=SENT_AT).startswith("waiting")
    assert judge(CommandKind.SWITCH, MINING, project_id=OTHER, reported_at=SENT_AT).startswith("waiting")


def test_no_report_at_all_is_waited_for() -> None:
    """R5.6: a machine that was never heard of is neither confirmed nor contradicted."""
    for kind in CommandKind:
        assert judge(kind, None) == "waiting no_report"


def test_a_switch_is_open_while_the_old_project_still_runs() -> None:
    """R5.6: until the machine hashes on the new project the switch is open, so nothing follows it (C06)."""
    assert judge(CommandKind.SWITCH, MINING, project_id=OTHER) == "contradicted another_project"
    assert judge(CommandKind.SWITCH, MINING, project_id=OTHER, hashrate_hs=0.0) == "contradicted not_hashing"


def test_a_contradiction_tells_when_it_was_seen() -> None:
    """R5.6: a grace period can be counted from the contradicting reading, which may be the meter's alone."""
    later = SEEN_AT + timedelta(seconds=10)
    judged = confirm(
        CommandKind.POWER_OFF,
        None,
        replace(OFF, power_w=900.0, power_at=later),
        not_before=SENT_AT,
        now=NOW,
        report_max_age_sec=60,
    )
    assert judged == Contradicted(reason="still_drawing_power", seen_at=later)
