"""Backtest: a policy over recorded prices and tariffs, step after step, by the rules of a tick (R4.6). Pure.

It assumes what a record of prices alone cannot say:

- each machine is in the state in which it was read when the period begins, and nobody else touches it; one of which nothing
  was known then stays unknown. It has been on its project for the minimum dwell time unless its record says since when.
- each machine does on each project what was last measured there, throughout the period, however old the measurement.
- eligibility, run configurations, the exchange rate and the policy are the same throughout; other policies play no part.
- a step's prices hold until the next step; electricity is paid by the tariff to the second.
- a policy that would have frozen moves nothing at that step, and somebody enables it again before the next.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from blsflow.domain.errors import InvalidDocument
from blsflow.domain.freeze import freeze_for, tick_failure
from blsflow.domain.guards import Guards
from blsflow.domain.machine import NOBODY, OPERATOR_HOLD, STOPPED_BY_HUMAN, STOPPED_BY_SCHEDULER
from blsflow.domain.market import ClusterMarket, Market
from blsflow.domain.replay import Followed, Instant, Stretch
from blsflow.domain.replay_ledger import MAX_MACHINE_STEPS, Ledger, Replayed, TooMuchToReplay
from blsflow.domain.tariff import TariffPrice, TariffProblem
from blsflow.domain.tariff_survey import TariffSegment, span_cost_cny, survey
from blsflow.domain.valuation import convertible, value_projects
from blsflow.domain.verdict import MOVES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from blsflow.domain.freeze import FreezeCause
    from blsflow.domain.inputs import ClusterInput, ProjectInput
    from blsflow.domain.machine import Machine
    from blsflow.domain.market import MachineClass
    from blsflow.domain.policy import Policy
    from blsflow.domain.price_level import PriceLevel
    from blsflow.domain.prices import PriceReading, RawPrice

_EARLIEST: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST: Final = datetime(9900, 1, 1, tzinfo=UTC)
"""Of a period: prices before it and tariffs after it are looked at too."""
_LASTING_FLAGS: Final = OPERATOR_HOLD | STOPPED_BY_SCHEDULER | STOPPED_BY_HUMAN
"""What is true of a machine for longer than the moment at which it was read."""
_FREEZES_KEPT: Final = 100


@dataclass(frozen=True, kw_only=True, slots=True)
class Scenario:
    """What is tried, on what. ``machines`` are as read at ``read_at``; ``rate`` is CNY per USDT, None if unknown.

    ``projects`` need no price: prices come as readings. Raises `InvalidDocument` for a period that is none, and
    `TooMuchToReplay` for more than ``limit`` decisions.
    """

    policy: Policy
    since: datetime
    until: datetime
    step: timedelta
    rate: float | None
    projects: tuple[ProjectInput, ...]
    clusters: tuple[ClusterInput, ...]
    classes: tuple[MachineClass, ...]
    machines: tuple[Machine, ...]
    read_at: datetime
    limit: int = MAX_MACHINE_STEPS

    def __post_init__(self) -> None:
        check_period(self.since, self.until, self.step)
        check_size(len(self.machines), self.steps, self.limit)

    @property
    def steps(self) -> int:
        """How often the policy decides; the last step may be shorter."""
        return steps_of(self.since, self.until, self.step)


@dataclass(frozen=True, kw_only=True, slots=True)
class WouldFreeze:
    """When the policy would have frozen, and why."""

    at: datetime
    cause: FreezeCause


@dataclass(frozen=True, kw_only=True, slots=True)
class Backtested:
    """What came of it; ``freezes`` are the first hundred of ``freeze_count``, ``tariff_spans`` are by cluster."""

    since: datetime
    until: datetime
    step_sec: float
    replayed: Replayed
    freeze_count: int
    freezes: tuple[WouldFreeze, ...]
    tariff_spans: Mapping[int, tuple[TariffSegment, ...]]


def check_period(since: datetime, until: datetime, step: timedelta) -> None:
    """Refuse what cannot be stepped through."""
    for field_name, bound in (("since", since), ("until", until)):
        if bound.utcoffset() is None:
            raise InvalidDocument(field=field_name, value=bound.isoformat(), cause="needs a UTC offset")
        if not _EARLIEST <= bound <= _LATEST:
            raise InvalidDocument(
                field=field_name,
                value=bound.isoformat(),
                cause=f"not in the years {_EARLIEST.year} to {_LATEST.year - 1}",
            )
    if until <= since:
        raise InvalidDocument(
            field="until", value=until.isoformat(), cause=f"not after since, {since.isoformat()}"
        )
    if step < timedelta(seconds=1):
        raise InvalidDocument(
            field="step_sec", value=step.total_seconds(), cause="a step takes at least a second"
        )


def check_size(machines: int, steps: int, limit: int) -> None:
    """Refuse more decisions than ``limit``, and say what would do."""
    if max(machines, 1) * steps > limit:
        times = math.ceil(max(machines, 1) * steps / limit)
        advice = f"take steps {times} times as long, or a period {times} times as short, or fewer machines"
        raise TooMuchToReplay(machines=machines, steps=steps, limit=limit, advice=advice)


def steps_of(since: datetime, until: datetime, step: timedelta) -> int:
    """How many steps a period takes."""
    return -(-(until - since) // step)


class BacktestRun:
    """A backtest under way: `advance` may be called for one part of the period after the other."""

    def __init__(self, scenario: Scenario, readings: Iterable[PriceReading]) -> None:
        """``readings`` come in the order in which they were received; what was received before the period counts too."""
        self._scenario = scenario
        self._policy = _lasting(scenario)
        self._machines = [_at_start(machine, scenario) for machine in scenario.machines]
        self._readings = iter(readings)
        self._next_reading = next(self._readings, None)
        self._prices: dict[int, RawPrice] = {}
        self._levels: Mapping[int, PriceLevel] = {}
        self._failures = 0
        self._freezes: list[WouldFreeze] = []
        self._freeze_count = 0
        self._fleet: dict[int, Followed] = {}
        self._ledger = Ledger(scenario.steps)
        self._at = scenario.since
        horizon = timedelta(seconds=scenario.policy.holding_time_sec)
        self._tariffs = {
            cluster.cluster_id: _TariffLine(cluster, scenario, horizon) for cluster in scenario.clusters
        }

    def advance(self, until: datetime) -> Iterator[datetime]:
        """Decide every step that begins before ``until``, and yield the end of each."""
        last = min(until, self._scenario.until)
        while self._at < last:
            end = min(self._at + self._scenario.step, self._scenario.until)
            self._step(self._at, end)
            self._ledger.end_instant(end)
            self._at = end
            yield end

    def backtested(self) -> Backtested:
        """Return what has come of it so far."""
        scenario = self._scenario
        return Backtested(
            since=scenario.since,
            until=self._at,
            step_sec=scenario.step.total_seconds(),
            replayed=self._ledger.replayed(len(scenario.machines)),
            freeze_count=self._freeze_count,
            freezes=tuple(self._freezes),
            tariff_spans={
                cluster: tuple(line.segments(scenario.since, self._at))
                for cluster, line in self._tariffs.items()
            },
        )

    def _step(self, now: datetime, end: datetime) -> None:
        self._take_prices(now)
        scenario, policy = self._scenario, self._policy
        values = value_projects(
            [replace(project, raw=self._prices.get(project.project_id)) for project in scenario.projects],
            self._levels,
            policy,
            now=now,
            rate=scenario.rate,
        )
        self._levels = values.levels
        market = Market(
            now=now,
            projects=values.projects,
            clusters={cluster: line.market(now) for cluster, line in self._tariffs.items()},
            classes=scenario.classes,
        )
        stretches = {cluster: line.stretch(now, end) for cluster, line in self._tariffs.items()}
        instant = Instant(policy, market, stretches, self._fleet, self._ledger)
        at = now.timestamp()
        decided = instant.decide(
            machine if math.isnan(machine.reported_at) else machine._replace(reported_at=at)
            for machine in self._machines
        )
        self._failures = self._failures + 1 if tick_failure(policy, market) is not None else 0
        freeze = freeze_for(
            policy,
            consecutive_failures=self._failures,
            flagged=values.flagged,
            worst_jump=values.worst_jump,
            moves=sum(each.verdict is not None and each.verdict.action in MOVES for each in decided),
            machines=len(decided),
        )
        if freeze is not None:
            self._failures = 0
            self._freeze_count += 1
            if len(self._freezes) < _FREEZES_KEPT:
                self._freezes.append(WouldFreeze(at=now, cause=freeze.cause))
        instant.settle(decided, withheld=freeze is not None)

    def _take_prices(self, now: datetime) -> None:
        while self._next_reading is not None and self._next_reading.received_at <= now:
            self._prices[self._next_reading.project_id] = self._next_reading.raw
            self._next_reading = next(self._readings, None)


@dataclass(slots=True)
class _TariffLine:
    """A cluster's prices over the period, surveyed once."""

    cluster: ClusterInput
    scenario: Scenario
    horizon: timedelta
    _segments: list[TariffSegment] = field(init=False)
    _starts: list[datetime] = field(init=False)

    def __post_init__(self) -> None:
        since, end = self.scenario.since, self.scenario.until + self.horizon
        if self.cluster.fault is not None:
            problem = TariffProblem(kind="tariff_gap", names=(self.cluster.fault,))
            self._segments = [TariffSegment(start=since, end=end, status=problem)]
        else:
            self._segments = survey(convertible(self.cluster.tariffs, self.scenario.rate), since, end)
        self._starts = [segment.start for segment in self._segments]

    def market(self, now: datetime) -> ClusterMarket:
        """Return the price at an instant, and its next change within the policy's horizon."""
        segment = self._segments[bisect_right(self._starts, now) - 1]
        changes = segment is not self._segments[-1] and segment.end <= now + self.horizon
        return ClusterMarket(
            cluster_id=self.cluster.cluster_id,
            tariff=segment.status,
            next_change_at=segment.end if changes else None,
        )

    def stretch(self, start: datetime, end: datetime) -> Stretch:
        """Return what a watt costs from one instant to another, and which hours have no known price."""
        found = self.segments(start, end)
        known = [segment for segment in found if isinstance(segment.status, TariffPrice)]
        unknown: dict[str, float] = {}
        for segment in found:
            if isinstance(segment.status, TariffProblem):
                unknown[segment.status.kind] = unknown.get(segment.status.kind, 0.0) + segment.hours
        cost = span_cost_cny(1.0, known)
        assert isinstance(cost, float)  # noqa: S101 - of known prices only
        return Stretch(sum(segment.hours for segment in known), cost, unknown)

    def segments(self, start: datetime, end: datetime) -> list[TariffSegment]:
        """Return the stretches of one price between two instants, cut to them."""
        first, last = bisect_right(self._starts, start) - 1, bisect_left(self._starts, end)
        return [
            replace(segment, start=max(segment.start, start), end=min(segment.end, end))
            for segment in self._segments[first:last]
        ]


def _lasting(scenario: Scenario) -> Policy:
    """Return the policy with measurements that last: those of the machines are taken as of the period's beginning."""
    length = math.ceil((scenario.until - scenario.since).total_seconds())
    return replace(scenario.policy, benchmark_ttl_sec=length + 1)


def _at_start(machine: Machine, scenario: Scenario) -> Machine:
    """Return the machine as the period finds it; NaN as the time of its report if nothing was known of it."""
    policy, since = scenario.policy, scenario.since.timestamp()
    known = not Guards(policy, scenario.read_at.timestamp()).is_offline(machine)
    settled = since - policy.min_dwell_sec
    return machine._replace(
        flags=machine.flags & _LASTING_FLAGS,
        foreign_changes=0,
        overridden_by=NOBODY,
        project_since=machine.project_since if machine.project_since <= since else settled,
        reported_at=since if known else math.nan,
        benchmarks=tuple(benchmark._replace(sampled_at=since) for benchmark in machine.benchmarks),
    )
