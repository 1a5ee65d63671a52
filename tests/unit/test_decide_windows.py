from __future__ import annotations

import math
from typing import Any

import pytest

from blsflow.domain.machine import (
    LOCKED,
    OPERATOR_HOLD,
    STOPPED_BY_HUMAN,
    STOPPED_BY_SCHEDULER,
    Status,
)
from blsflow.domain.policy import Policy, Window, WindowAction
from blsflow.domain.tariff import TariffProblem
from tests.scenes import (
    AT,
    A,
    B,
    a_class,
    a_machine,
    a_market,
    a_stopped_machine,
    a_window_policy,
    decide,
    outcome,
)

NOTHING_KNOWN = a_market({}, price=TariffProblem(kind="tariff_gap"))


def all_day(action: WindowAction, project: int | None = None) -> Policy:
    """A policy whose one window is always active."""
    return a_window_policy(Window(id=1, starts="00:00", ends="24:00", action=action, project_id=project))


RUN_B = all_day(WindowAction.RUN_PROJECT, B)
START_B = all_day(WindowAction.START, B)
STOP = all_day(WindowAction.STOP)
POWER_OFF = all_day(WindowAction.POWER_OFF)
MINING_A, MINING_B = a_machine(A, measured=()), a_machine(B, measured=())
STOPPED = a_stopped_machine(measured=())
OFF = STOPPED._replace(status=Status.OFF)
STATUS_UNKNOWN = MINING_A._replace(status=Status.UNKNOWN)
KEPT = ("keep", "window_satisfied", None)


@pytest.mark.parametrize(
    ("policy", "machine", "expected"),
    [
        (RUN_B, MINING_A, ("switch", "window", B)),
        (RUN_B, MINING_B, KEPT),
        (RUN_B, STOPPED, ("start", "window", B)),
        (RUN_B, OFF, ("start", "window", B)),
        (START_B, MINING_A, KEPT),
        (START_B, STOPPED, ("start", "window", B)),
        (STOP, MINING_A, ("stop", "window", None)),
        (STOP, STOPPED, KEPT),
        (STOP, OFF, KEPT),
        (POWER_OFF, MINING_A, ("power_off", "window", None)),
        (POWER_OFF, STOPPED, ("power_off", "window", None)),
        (POWER_OFF, OFF, KEPT),
    ],
)
def test_window_decides_without_prices_tariff_or_benchmarks(
    policy: Policy, machine: Any, expected: tuple[str, str, int | None]
) -> None:
    """R3.1: inside a window its action decides, whatever is known of profit."""
    assert outcome(policy, NOTHING_KNOWN, machine) == expected


def test_run_configuration_comes_along() -> None:
    """R3.2: a switch or start names the run configuration of the machine's model."""
    assert decide(RUN_B, NOTHING_KNOWN, MINING_A).run_config_id == B * 10


def test_outside_every_window_the_machine_is_left() -> None:
    """R3.1: whatever it does."""
    policy = a_window_policy(Window(id=1, starts="05:00", ends="06:00", action=WindowAction.STOP))
    for machine in (MINING_A, STOPPED, OFF, STATUS_UNKNOWN):
        assert outcome(policy, NOTHING_KNOWN, machine) == ("keep", "outside_windows", None)


@pytest.mark.parametrize("policy", [RUN_B, START_B])
def test_human_stop_is_respected(policy: Policy) -> None:
    """R3.5: a window starts no machine that a human stopped."""
    machine = STOPPED._replace(flags=STOPPED_BY_HUMAN)
    assert outcome(policy, NOTHING_KNOWN, machine) == ("keep", "stopped_by_human", None)


@pytest.mark.parametrize("policy", [RUN_B, START_B, STOP, POWER_OFF])
def test_unknown_status_holds(policy: Policy) -> None:
    """R2.1: a report that does not say whether the machine mines is no ground for an action."""
    machine = STATUS_UNKNOWN._replace(flags=STOPPED_BY_SCHEDULER)
    assert outcome(policy, NOTHING_KNOWN, machine) == ("keep", "status_unknown", None)


def test_unknown_running_project_holds_a_switch_but_no_stop() -> None:
    """R2.1: what it mines must be known to be changed, not to be stopped."""
    machine = MINING_A._replace(project_id=0)
    assert outcome(RUN_B, NOTHING_KNOWN, machine) == ("keep", "running_project_unknown", None)
    assert outcome(STOP, NOTHING_KNOWN, machine)[0] == "stop"


@pytest.mark.parametrize("machine", [MINING_A, STOPPED])
@pytest.mark.parametrize(
    ("changes", "bits", "reason"),
    [
        ({"allowed": frozenset({A})}, {}, "not_eligible"),
        ({"denied": frozenset({B})}, {"allow_bits": 1}, "not_eligible"),
        ({}, {"deny_bits": 0b10}, "not_eligible"),
        ({"run_configs": {A: 1}}, {}, "no_run_configuration"),
    ],
)
def test_only_eligible_and_runnable(
    machine: Any, changes: dict[str, Any], bits: dict[str, int], reason: str
) -> None:
    """R1.2: a window, too, runs only what is eligible and runnable."""
    market = a_market({}, machines=a_class(**changes))
    assert outcome(RUN_B, market, machine._replace(**bits)) == ("skip", reason, None)


def test_windows_project_need_not_be_a_candidate() -> None:
    """R1.2: machine-level eligibility of a window's project has its bit after those of the candidates."""
    window = Window(id=1, starts="00:00", ends="24:00", action=WindowAction.RUN_PROJECT, project_id=B)
    policy = a_window_policy(window, candidates=(A,))
    assert policy.considered_projects == (A, B)
    market = a_market({}, machines=a_class(allowed=frozenset()))
    assert outcome(policy, market, MINING_A._replace(allow_bits=0b10)) == ("switch", "window", B)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"overridden_by": 3}, "overridden"),
        ({"flags": OPERATOR_HOLD}, "operator_hold"),
        ({"flags": LOCKED}, "locked"),
        ({"reported_at": AT - 601}, "offline"),
        ({"reported_at": math.nan}, "offline"),
        ({"foreign_changes": 4}, "foreign_control"),
    ],
)
def test_guards_come_first(changes: dict[str, Any], reason: str) -> None:
    """R3.7: what keeps a machine out of a tick does so in this mode, too."""
    assert outcome(STOP, NOTHING_KNOWN, MINING_A._replace(**changes)) == ("skip", reason, None)
