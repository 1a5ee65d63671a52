"""What machines would have done under a policy, instant after instant, and what that came to (R4.5, R4.6). Pure.

Each machine is followed on three paths through the same hours:

- *as it was*: what its records say that it did.
- *policy*: as it was until the policy's first own move; from then on a virtual machine that follows the decisions,
  each made by the rules of a tick on that virtual state. A gain that was taken is thus not there to be taken again.
- *always on*: mining what it mined first, without a pause.

A machine that really rests by another hand than the scheduler's rests on all three: nobody could count on its mining.
A move to a project, and a change of project by whoever it was, costs ``switch_cost_sec`` in which the machine draws
power and earns nothing (the formula of `hurdles`). An hour counts for a machine only if its net is known on all three
paths; else it is an unknown hour with its reason and counts on none, so that the three can always be compared.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

from blsflow.domain.decide import Rules
from blsflow.domain.guards import Guards
from blsflow.domain.machine import (
    NO_PROJECT,
    STOPPED_BY_HUMAN,
    STOPPED_BY_SCHEDULER,
    UNKNOWN,
    Machine,
    Status,
)
from blsflow.domain.prospects import draw_of, valid_span
from blsflow.domain.reasons import Action, Reason
from blsflow.domain.terms import terms_of
from blsflow.domain.verdict import MOVES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from blsflow.domain.market import Market
    from blsflow.domain.policy import Policy
    from blsflow.domain.prospects import Span
    from blsflow.domain.replay_ledger import Ledger
    from blsflow.domain.terms import Terms
    from blsflow.domain.verdict import Verdict

_MINING: Final = int(Status.MINING)
_STOP_FLAGS: Final = STOPPED_BY_SCHEDULER | STOPPED_BY_HUMAN
_HOUR_SEC: Final = 3600.0
_HOURS_PER_DAY: Final = 24.0


class Stretch(NamedTuple):
    """What of the time until the next decision is known of one cluster.

    ``hours`` are those whose price of electricity is known, a watt over which costs ``cost_cny_per_watt`` in all;
    ``unknown`` are the other hours, by their reason.
    """

    hours: float
    cost_cny_per_watt: float
    unknown: Mapping[str, float]


class State(NamedTuple):
    """What a machine does on one path. Until ``lost_until`` (seconds since 1970) a change costs it its revenue."""

    status: int
    project_id: int = NO_PROJECT
    since: float = UNKNOWN
    stop_flags: int = 0
    lost_until: float = -math.inf


class Worth(NamedTuple):
    """What a stretch nets on a path in CNY, and what of its revenue and hours a change cost."""

    net_cny: float
    lost_cny: float = 0.0
    lost_hours: float = 0.0


class Followed:
    """One machine on its three paths."""

    __slots__ = ("always_on_project", "before_rest", "moved", "real", "virtual")

    def __init__(self) -> None:
        self.real: State | None = None
        self.virtual: State | None = None
        self.moved = False  # whether the policy has made a move of its own
        self.before_rest: State | None = (
            None  # the virtual state to go back to when the real machine rests no more
        )
        self.always_on_project = NO_PROJECT

    def see(self, record: Machine, now: float, switch_cost_sec: float) -> None:
        """Take in what the machine really does now."""
        was, self.real = self.real, _real_state(record, self.real, now, switch_cost_sec)
        self.always_on_project = self.always_on_project or record.project_id
        if not self.moved or self.virtual is None:
            self.virtual = self.real
            return
        rested, rests = was is not None and _rests_by_another(was), _rests_by_another(self.real)
        if rests and not rested:
            self.before_rest = self.virtual
            self.virtual = self.virtual._replace(status=self.real.status, stop_flags=self.real.stop_flags)
        elif not rests and self.before_rest is not None:
            self.virtual, self.before_rest = self.before_rest, None

    def as_record(self, record: Machine, now: float) -> Machine:
        """Return the machine as the policy would have found it."""
        if not self.moved or self.virtual is None:
            return record
        state = self.virtual
        as_reported = (
            state.status == _MINING and record.status == _MINING and state.project_id == record.project_id
        )
        return record._replace(
            status=state.status,
            project_id=state.project_id,
            project_since=state.since,
            # what it hashed on another project says nothing of this one
            hashrate_hs=record.hashrate_hs if as_reported else UNKNOWN,
            power_w=record.power_w if as_reported else UNKNOWN,
            reported_at=now,
            flags=record.flags & ~_STOP_FLAGS | state.stop_flags,
        )

    def move(self, verdict: Verdict, now: float, switch_cost_sec: float) -> None:
        """Follow a decision."""
        assert self.virtual is not None  # noqa: S101 - it was decided on
        self.moved, self.before_rest = True, None
        if verdict.to_project is not None:
            self.virtual = State(_MINING, verdict.to_project, now, 0, now + switch_cost_sec)
            return
        status = Status.OFF if verdict.action is Action.POWER_OFF else Status.STOPPED
        self.virtual = State(int(status), self.virtual.project_id, now, STOPPED_BY_SCHEDULER)


class Decided(NamedTuple):
    """A machine at one instant: what the policy would do with it, or why nothing is known of it (``unseen``)."""

    record: Machine
    followed: Followed
    verdict: Verdict | None
    unseen: Reason | None


class Instant:
    """One instant at which a policy decides, with the time until the next; the states of machines live in ``fleet``.

    ``stretches`` are by cluster; a cluster that is not among them is not expected to have machines here.
    """

    def __init__(
        self,
        policy: Policy,
        market: Market,
        stretches: Mapping[int, Stretch],
        fleet: dict[int, Followed],
        ledger: Ledger,
    ) -> None:
        self._now = market.now.timestamp()
        self._switch_cost_sec = policy.switch_cost_sec
        self._rules = Rules(policy, market)
        self._guards = Guards(policy, self._now)
        self._span = valid_span(self._now, policy.benchmark_ttl_sec)
        self._terms = tuple(terms_of(policy, market, machines) for machines in market.classes)
        self._stretches = tuple(stretches[machines.cluster_id] for machines in market.classes)
        self._fleet = fleet
        self._ledger = ledger

    def decide(self, records: Iterable[Machine]) -> list[Decided]:
        """Decide for machines as the policy would have found them."""
        return [self._decide(record) for record in records]

    def settle(self, decided: Iterable[Decided], *, withheld: bool) -> None:
        """Let machines follow their decisions, unless those are ``withheld``, and count what the time until next brings."""
        for each in decided:
            verdict = each.verdict
            if verdict is not None:
                is_move = verdict.action in MOVES
                if is_move and not withheld:
                    each.followed.move(verdict, self._now, self._switch_cost_sec)
                self._ledger.count(verdict, withheld=is_move and withheld)
            self._value(each)

    def _decide(self, record: Machine) -> Decided:
        followed = self._fleet.get(record.machine_id)
        if followed is None:
            followed = self._fleet[record.machine_id] = Followed()
        if self._guards.is_offline(record):
            return Decided(record, followed, None, Reason.OFFLINE)
        if record.status == Status.UNKNOWN:
            return Decided(record, followed, None, Reason.STATUS_UNKNOWN)
        followed.see(record, self._now, self._switch_cost_sec)
        return Decided(record, followed, self._rules.decide(followed.as_record(record, self._now)), None)

    def _value(self, decided: Decided) -> None:
        record, followed, _, unseen = decided
        stretch, terms = self._stretches[record.class_index], self._terms[record.class_index]
        for reason, hours in stretch.unknown.items():
            self._ledger.unknown(unseen or reason, hours)
        if not stretch.hours:
            return
        if unseen is not None:
            self._ledger.unknown(unseen, stretch.hours)
            return
        assert followed.real is not None and followed.virtual is not None  # noqa: S101, PT018 - it was seen
        always_on = followed.real
        if not _rests_by_another(followed.real):
            always_on = State(_MINING, followed.always_on_project)
        paths = [
            _worth(state, record, terms, stretch, self._span, self._now)
            for state in (followed.virtual, followed.real, always_on)
        ]
        policy, as_is, on = paths
        if isinstance(policy, Worth) and isinstance(as_is, Worth) and isinstance(on, Worth):
            self._ledger.known(stretch.hours, policy, as_is, on)
        else:
            reason = next(path for path in paths if isinstance(path, Reason))
            self._ledger.unknown(reason, stretch.hours)


def _real_state(record: Machine, was: State | None, now: float, switch_cost_sec: float) -> State:
    """Return what the record says; whoever moved the machine to a project, the change cost it its minutes."""
    mines = record.status == _MINING
    lost_until = -math.inf
    if was is not None and mines:
        same = was.status == _MINING and was.project_id == record.project_id
        lost_until = was.lost_until if same else now + switch_cost_sec
    return State(
        record.status, record.project_id, record.project_since, record.flags & _STOP_FLAGS, lost_until
    )


def _rests_by_another(state: State) -> bool:
    return state.status != _MINING and not state.stop_flags & STOPPED_BY_SCHEDULER


def _worth(  # noqa: PLR0913, PLR0917 - once per machine and path, without an object for what goes together
    state: State, record: Machine, terms: Terms, stretch: Stretch, span: Span, now: float
) -> Worth | Reason:
    """Return what the known hours of a stretch bring in a state, or why that is not known."""
    if state.status != _MINING:
        return Worth(0.0)
    project = state.project_id
    if project == NO_PROJECT:
        return Reason.RUNNING_PROJECT_UNKNOWN
    problem = terms.price_problem(project)
    if problem is not None:
        return problem
    runs = record.status == _MINING and record.project_id == project
    draw = draw_of(record, project, span, runs=runs)
    if draw is None:
        return Reason.CURRENT_NET_UNKNOWN
    per_hour = draw.hashrate_hs * terms.revenues[project] / _HOURS_PER_DAY
    lost_hours = min(stretch.hours, max(0.0, (state.lost_until - now) / _HOUR_SEC))
    net = per_hour * (stretch.hours - lost_hours) - draw.power_w * stretch.cost_cny_per_watt
    if not math.isfinite(net):
        return Reason.CURRENT_NET_UNKNOWN
    return Worth(net, per_hour * lost_hours, lost_hours)
