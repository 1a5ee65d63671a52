"""What a better project has to clear before a machine moves to it (R3.4, R3.5).

A decision and its explanation walk the same hurdles: the first that is not cleared is the decision's reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from blsflow.domain.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Iterator

    from blsflow.domain.machine import Machine
    from blsflow.domain.policy import Policy
    from blsflow.domain.prospects import Offer
    from blsflow.domain.terms import Terms

SECONDS_PER_DAY = 86_400


class Hurdle(NamedTuple):
    """A figure that must reach its limit, or exceed it if ``strictly``; a NaN never does."""

    reason: Reason  # to hold the machine, if this is not cleared
    value: float
    limit: float
    unit: str
    strictly: bool = False

    @property
    def cleared(self) -> bool:
        """Whether it stands in the way no more."""
        return self.value > self.limit if self.strictly else self.value >= self.limit


class ProjectChange(NamedTuple):
    """A move to a project, against leaving the machine as it is; CNY per day. A machine at rest nets 0."""

    project_id: int
    current_net: float
    best_net: float
    best_revenue: float


def change_to(terms: Terms, offer: Offer, current_net: float) -> ProjectChange:
    """The move to what was offered."""
    best_net, bit, best_revenue = offer
    return ProjectChange(terms.first_project(bit), current_net, best_net, best_revenue)


def switch_hurdles(
    policy: Policy, terms: Terms, machine: Machine, change: ProjectChange, now: float
) -> Iterator[Hurdle]:
    """What stands before a switch, in the order in which it is reported."""
    gain = change.best_net - change.current_net
    yield Hurdle(Reason.MIN_DWELL, now - machine.project_since, policy.min_dwell_sec, "s")
    yield Hurdle(Reason.GAIN_BELOW_ABSOLUTE, gain, policy.min_gain_cny_per_day, "CNY/day")
    yield Hurdle(Reason.GAIN_BELOW_RATIO, gain, policy.min_gain_ratio * abs(change.current_net), "CNY/day")
    yield change_pays(Reason.SWITCH_COST_NOT_RECOVERED, policy, terms, change)


def why_not_switched(
    policy: Policy, project_since: float, current_net: float, best_net: float, now: float
) -> Reason | None:
    """The first of the switch's hurdles that is not cleared, of those that need no terms: once per machine, hence in line."""
    gain = best_net - current_net
    if not now - project_since >= policy.min_dwell_sec:
        return Reason.MIN_DWELL
    if not gain >= policy.min_gain_cny_per_day:
        return Reason.GAIN_BELOW_ABSOLUTE
    return None if gain >= policy.min_gain_ratio * abs(current_net) else Reason.GAIN_BELOW_RATIO


def start_hurdles(policy: Policy, terms: Terms, change: ProjectChange) -> Iterator[Hurdle]:
    """What stands before starting a machine that this scheduler stopped."""
    yield Hurdle(
        Reason.BELOW_RESTART_THRESHOLD, change.best_net, policy.restart_threshold_cny_per_day, "CNY/day"
    )
    too_short = (
        Reason.TARIFF_CHANGE_AHEAD if terms.horizon_ends_with_tariff else Reason.SWITCH_COST_NOT_RECOVERED
    )
    yield change_pays(too_short, policy, terms, change)


def first_not_cleared(hurdles: Iterator[Hurdle]) -> Hurdle | None:
    """The hurdle that holds the machine, if any does."""
    return next((hurdle for hurdle in hurdles if not hurdle.cleared), None)


def change_pays(reason: Reason, policy: Policy, terms: Terms, change: ProjectChange) -> Hurdle:
    """The gain over the time these terms can be counted on must exceed the revenue lost while changing.

    The machine draws power during the change and earns nothing. A change that outlasts the horizon loses no
    more than the horizon's revenue.
    """
    horizon = terms.horizon_sec
    lost = change.best_revenue * min(policy.switch_cost_sec, horizon) / SECONDS_PER_DAY
    gained = (change.best_net - change.current_net) * horizon / SECONDS_PER_DAY
    return Hurdle(reason, gained, lost, "CNY", strictly=True)
