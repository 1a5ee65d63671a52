"""What a replay came to: money on three paths over the same known hours, moves, and the hours that are not known. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from blsflow.domain.errors import BlsflowError
from blsflow.domain.reasons import Action
from blsflow.domain.verdict import MOVES

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from blsflow.domain.replay import Worth
    from blsflow.domain.verdict import Verdict

MAX_MACHINE_STEPS: Final = 1_000_000
"""Machines times instants that one replay decides unless it is allowed more: about half a minute."""

MAX_POINTS: Final = 1_000
"""Points of a time series; a longer replay keeps every second, third ... of its instants, and always the last."""

NO_TICK: Final = "no_tick"
TARIFF_CHANGE: Final = "tariff_change"
UNREADABLE: Final = "unreadable"


class TooMuchToReplay(BlsflowError):
    """More machines and instants than one replay may take; it says what to reduce."""

    def __init__(self, *, machines: int, steps: int, limit: int, advice: str) -> None:
        super().__init__(
            f"{machines:,} machines at {steps:,} instants are {machines * steps:,} decisions, and at most "
            f"{limit:,} are replayed at once: {advice}"
        )
        self.machines = machines
        self.steps = steps
        self.limit = limit


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """What had come together by ``at``: CNY on each path, and the machine hours that are not known."""

    at: datetime
    policy_cny: float
    as_is_cny: float
    always_on_cny: float
    unknown_hours: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Replayed:
    """A period as the policy would have had it, as it was, and always on; all in CNY and machine hours.

    The three sums are over the same ``known_hours``. ``switch_cost_cny`` is the revenue that changes cost on the policy's
    path in ``lost_hours``; ``policy_cny`` is what is left after it. ``moves`` are by action; ``decisions``, by
    "action/reason", count each machine at each instant. ``unknown_hours`` are by reason.
    """

    machines: int
    instants: int
    known_hours: float
    unknown_hours: Mapping[str, float]
    policy_cny: float
    as_is_cny: float
    always_on_cny: float
    switch_cost_cny: float
    lost_hours: float
    moves: Mapping[str, int]
    decisions: Mapping[str, int]
    series: tuple[Point, ...]

    @property
    def gain_cny(self) -> float | None:
        """What the policy would have gained against leaving things as they were; None if no hour is known."""
        return self.policy_cny - self.as_is_cny if self.known_hours else None

    @property
    def gain_over_always_on_cny(self) -> float | None:
        """What it would have gained against always on; None if no hour is known."""
        return self.policy_cny - self.always_on_cny if self.known_hours else None

    def document(self) -> dict[str, Any]:
        """Return it as plain JSON values, the two gains included; sums over no known hour are null."""
        unknown = {} if self.known_hours else dict.fromkeys(("policy_cny", "as_is_cny", "always_on_cny"))
        return {
            **asdict(self),
            **unknown,
            "gain_cny": self.gain_cny,
            "gain_over_always_on_cny": self.gain_over_always_on_cny,
            "series": [asdict(point) | {"at": point.at.isoformat()} for point in self.series],
        }


class Ledger:
    """Adds up a replay. ``instants`` says how many are to come, so that the series stays bounded."""

    def __init__(self, instants: int) -> None:
        self._every = max(1, -(-instants // (MAX_POINTS - 1)))
        self._expected = instants
        self._instants = 0
        self._known_hours = 0.0
        self._unknown: dict[str, float] = {}
        self._policy_cny = self._as_is_cny = self._always_on_cny = 0.0
        self._lost_cny = self._lost_hours = 0.0
        self._moves: Counter[str] = Counter()
        self._decisions: Counter[str] = Counter()
        self._series: list[Point] = []

    def count(self, verdict: Verdict, *, withheld: bool) -> None:
        """Count one decision; a move that was withheld moved nothing."""
        action = Action.SKIP if withheld else verdict.action
        self._decisions[f"{action}/{verdict.reason}"] += 1
        if action in MOVES:
            self._moves[str(action)] += 1

    def known(self, hours: float, policy: Worth, as_is: Worth, always_on: Worth) -> None:
        """Add hours that are known on all three paths."""
        self._known_hours += hours
        self._policy_cny += policy.net_cny
        self._as_is_cny += as_is.net_cny
        self._always_on_cny += always_on.net_cny
        self._lost_cny += policy.lost_cny
        self._lost_hours += policy.lost_hours

    def unknown(self, reason: str, hours: float) -> None:
        """Add machine hours that count on no path."""
        if hours > 0:
            self._unknown[str(reason)] = self._unknown.get(str(reason), 0.0) + hours

    def begin(self, at: datetime) -> None:
        """Note where the sums stand before the first instant, where hours were counted before it."""
        self._note(at)

    def end_instant(self, until: datetime) -> None:
        """Note where the sums stand once the time after an instant is over."""
        self._instants += 1
        if self._instants % self._every == 0 or self._instants == self._expected:
            self._note(until)

    def _note(self, at: datetime) -> None:
        self._series.append(
            Point(
                at=at,
                policy_cny=self._policy_cny,
                as_is_cny=self._as_is_cny,
                always_on_cny=self._always_on_cny,
                unknown_hours=sum(self._unknown.values()),
            )
        )

    def replayed(self, machines: int) -> Replayed:
        """Return what it has come to so far."""
        return Replayed(
            machines=machines,
            instants=self._instants,
            known_hours=self._known_hours,
            unknown_hours=dict(sorted(self._unknown.items())),
            policy_cny=self._policy_cny,
            as_is_cny=self._as_is_cny,
            always_on_cny=self._always_on_cny,
            switch_cost_cny=self._lost_cny,
            lost_hours=self._lost_hours,
            moves=dict(sorted(self._moves.items())),
            decisions=dict(sorted(self._decisions.items())),
            series=tuple(self._series),
        )
