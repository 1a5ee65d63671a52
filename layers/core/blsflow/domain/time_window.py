"""Only the time windows decide; prices and benchmarks play no part (R3.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from blsflow.domain.machine import NO_PROJECT, STOPPED_BY_HUMAN, Machine, Status
from blsflow.domain.policy import Window, WindowAction
from blsflow.domain.prospects import eligible_bits
from blsflow.domain.reasons import Action, Reason
from blsflow.domain.terms import Terms, terms_of
from blsflow.domain.verdict import Verdict, keep, skip
from blsflow.domain.windows import active_window

if TYPE_CHECKING:
    from blsflow.domain.market import Market
    from blsflow.domain.policy import Policy


class TimeWindow:
    """The rules of mode ``time_window`` for one tick."""

    def __init__(self, policy: Policy, market: Market) -> None:
        self._window = active_window(policy, market.now)
        self._terms = tuple(terms_of(policy, market, machines) for machines in market.classes)

    def decide(self, machine: Machine) -> Verdict:
        """The verdict for a machine that nothing keeps out of the tick."""
        window = self._window
        if window is None:
            return keep(machine, Reason.OUTSIDE_WINDOWS)
        if machine.status == Status.UNKNOWN:
            return keep(machine, Reason.STATUS_UNKNOWN)
        if window.action is WindowAction.STOP:
            return _rest(machine, Action.STOP, satisfied=machine.status != Status.MINING)
        if window.action is WindowAction.POWER_OFF:
            return _rest(machine, Action.POWER_OFF, satisfied=machine.status == Status.OFF)
        return _run(machine, self._terms[machine.class_index], window)


def _rest(machine: Machine, action: Action, *, satisfied: bool) -> Verdict:
    if satisfied:
        return keep(machine, Reason.WINDOW_SATISFIED)
    return Verdict(action, Reason.WINDOW, machine.project_id or None)


def _run(machine: Machine, terms: Terms, window: Window) -> Verdict:
    project = window.project_id
    assert project is not None  # noqa: S101 - such a window cannot be made
    if machine.status == Status.MINING:
        if window.action is WindowAction.START or machine.project_id == project:
            return keep(machine, Reason.WINDOW_SATISFIED)
        if machine.project_id == NO_PROJECT:
            return keep(machine, Reason.RUNNING_PROJECT_UNKNOWN)
    elif machine.flags & STOPPED_BY_HUMAN:
        return keep(machine, Reason.STOPPED_BY_HUMAN)
    bit = terms.bits[project]
    if not eligible_bits(machine, terms) & bit:
        return skip(machine, Reason.NOT_ELIGIBLE)
    if not terms.runnable_bits & bit:
        return skip(machine, Reason.NO_RUN_CONFIGURATION)
    action = Action.SWITCH if machine.status == Status.MINING else Action.START
    return Verdict(action, Reason.WINDOW, machine.project_id or None, project, terms.run_configs[project])
