"""When a machine is left out of a tick, whatever the mode (R3.6, R3.7, R5.6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from blsflow.domain.machine import (
    LOCKED,
    OPERATOR_HOLD,
    RETRY_BACKOFF,
    STOPPED_BY_SCHEDULER,
    UNDER_BENCHMARK,
    Machine,
    Status,
)
from blsflow.domain.prices import FUTURE_TOLERANCE_SEC
from blsflow.domain.prospects import Span
from blsflow.domain.reasons import Reason

if TYPE_CHECKING:
    from blsflow.domain.policy import Policy

_HANDS_OFF: Final = (
    (OPERATOR_HOLD, Reason.OPERATOR_HOLD),
    (UNDER_BENCHMARK, Reason.UNDER_BENCHMARK),
    (LOCKED, Reason.LOCKED),
)
_ANY_HANDS_OFF: Final = OPERATOR_HOLD | UNDER_BENCHMARK | LOCKED


class Guards:
    """The checks that come before any rule of a mode; prepared once per tick."""

    __slots__ = ("_max_foreign_changes", "_reports")

    def __init__(self, policy: Policy, now: float) -> None:
        self._reports = heard_span(policy, now)
        self._max_foreign_changes = policy.max_foreign_changes

    def objection(self, machine: Machine) -> Reason | None:
        """Why the machine is to be skipped, the first reason in the order of the rules; None if it is not."""
        if machine.overridden_by:
            return Reason.OVERRIDDEN
        if machine.flags & _ANY_HANDS_OFF:
            return next(reason for flag, reason in _HANDS_OFF if machine.flags & flag)
        if self.is_offline(machine):
            return Reason.OFFLINE
        if machine.flags & RETRY_BACKOFF:
            return Reason.RETRY_BACKOFF
        if machine.foreign_changes > self._max_foreign_changes:
            return Reason.FOREIGN_CONTROL
        return None

    def is_offline(self, machine: Machine) -> bool:
        """Whether nothing is known of the machine now, for want of a report that counts."""
        heard = self._reports.oldest <= machine.reported_at <= self._reports.newest
        return not heard and not _is_off_by_us(machine)


def heard_span(policy: Policy, now: float) -> Span:
    """When a report must have been made for it to count; a lead within a clock's drift is no future."""
    return Span(now - policy.report_max_age_sec, now + FUTURE_TOLERANCE_SEC)


def _is_off_by_us(machine: Machine) -> bool:
    """Whether the scheduler powered the machine off: without power it reports nothing, which is as it should be."""
    return machine.status == Status.OFF and bool(machine.flags & STOPPED_BY_SCHEDULER)
