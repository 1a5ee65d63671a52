"""What ordinary machines' projects would net, computed column by column: what `assess` says, at a tenth of its cost.

Ordinary is a machine that mines a project which it may also be switched to, with a benchmark to be decided on for each
such project, a price for each, no eligibilities of its own, and nothing that keeps it out of the tick: nearly all of a
fleet at rest. `Columns.value` says nothing of any other, which is then decided by itself. A property holds the two equal,
bit for bit.
"""

from __future__ import annotations

import math
from operator import getitem
from typing import TYPE_CHECKING, Final, NamedTuple

from blsflow.domain.machine import Status
from blsflow.domain.prospects import TIE_RATIO, Prospects
from blsflow.domain.record import HEAD_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import TypeVar

    from blsflow.domain.block import Alike
    from blsflow.domain.prospects import Offer, Span
    from blsflow.domain.terms import Terms

    Value = TypeVar("Value")

# Status, foreign changes and flags, and overriding policy and own eligibilities: where they stand in a head, and how they
# are there of an ordinary machine.
_STATE: Final = slice(12, 16)
_PLAIN_STATE: Final = bytes([Status.MINING, 0, 0, 0])
_OWN: Final = slice(56, 80)
_NOTHING_OWN: Final = bytes(24)
_PLAIN: Final = (
    *zip(range(12, 16), _PLAIN_STATE, strict=True),
    *zip(range(56, 80), _NOTHING_OWN, strict=True),
)


class _Plan(NamedTuple):
    """How machines with the same open projects and benchmarks of the same ones are valued; projects in candidate order."""

    places: dict[int, int]
    figures: tuple[tuple[int, float], ...]  # of each project: where its hashrates stand, its revenue
    bits: tuple[int, ...]
    open_bits: int


class Valued(NamedTuple):
    """Some of machines that are alike: which, what each nets now, and from what net on a project ties with the best."""

    alike: Alike
    indexes: Sequence[int]
    currents: list[float]
    floors: list[float]
    nets: list[tuple[float, ...]]
    plan: _Plan

    def at_best(self) -> list[bool]:
        """Which of them lose nothing, and run what nets as much as the best."""
        return [
            current >= 0 and current >= floor
            for current, floor in zip(self.currents, self.floors, strict=True)
        ]

    def best_place(self, number: int) -> int:
        """Where among the plan's projects the best of a machine is: of those that tie, the earliest candidate."""
        nets, floor = self.nets[number], self.floors[number]
        place = 0
        while nets[place] < floor:
            place += 1
        return place

    def offer(self, number: int, place: int) -> Offer:
        """What the project at this place of the plan would net, which it is, and its revenue."""
        at, revenue = self.plan.figures[place]
        hashrate_hs = self.alike.figures[at][self.indexes[number]]
        return self.nets[number][place], self.plan.bits[place], hashrate_hs * revenue

    def prospects(self, number: int) -> Prospects:
        """All that is known about the projects of the machine at this place."""
        best, open_bits = self.offer(number, self.best_place(number)), self.plan.open_bits
        return Prospects(self.currents[number], best, open_bits, open_bits)


class Columns:
    """Values the ordinary machines of one tick; what machines of a class share is looked up once."""

    def __init__(self, terms: Sequence[Terms], reports: Span) -> None:
        """Reports count if their times are in this span."""
        self._terms = terms[0] if terms else None  # projects and their revenues are those of all classes
        self._open_bits = [None if each.tariff_problem else _open_bits(each) for each in terms]
        self._costs = [each.cost_cny_per_watt_day for each in terms]
        self._reports = reports
        self._plans: dict[tuple[int | None, tuple[int, ...]], _Plan | None] = {}

    def value(self, alike: Alike) -> Iterator[Valued]:
        """The ordinary ones of some machines."""
        plain: Sequence[int] = range(len(alike.heads))
        if not self._all_plain(alike):
            plain = [index for index in plain if self._is_plain(alike, index)]
        open_bits = {self._open_bits[number] for number in set(alike.class_indexes)}
        for bits in open_bits:
            group = plain
            if len(open_bits) > 1:
                group = [index for index in plain if self._open_bits[alike.class_indexes[index]] == bits]
            plan = self._plan(bits, alike.projects)
            if plan is not None and group:
                yield from self._side_by_side(plan, alike, group)

    def _all_plain(self, alike: Alike) -> bool:
        """Whether nothing keeps any of the machines out of the tick; a NaN hides from min and max, but not from a sum."""
        heads, machines = b"".join(alike.heads), len(alike.heads)
        reported, (oldest, newest) = alike.reported_at, self._reports
        return (
            all(heads[at::HEAD_BYTES].count(plain) == machines for at, plain in _PLAIN)
            and oldest <= min(reported)
            and max(reported) <= newest
            and sum(reported) < math.inf
        )

    def _is_plain(self, alike: Alike, index: int) -> bool:
        head, (oldest, newest) = alike.heads[index], self._reports
        return (
            head[_STATE] == _PLAIN_STATE
            and head[_OWN] == _NOTHING_OWN
            and oldest <= alike.reported_at[index] <= newest
        )

    def _plan(self, open_bits: int | None, measured: tuple[int, ...]) -> _Plan | None:
        key = open_bits, measured
        if key not in self._plans:
            self._plans[key] = _plan(self._terms, *key)
        return self._plans[key]

    def _side_by_side(self, plan: _Plan, alike: Alike, indexes: Sequence[int]) -> Iterator[Valued]:
        """Value machines with the same plan."""
        running = _of(alike.running, indexes)
        nets = self._nets(plan, alike, indexes) if plan.places.keys() >= set(running) else None
        if nets is None:
            half = len(indexes) // 2
            for part in (indexes[:half], indexes[half:]) if half else ():
                yield from self._side_by_side(plan, alike, part)  # one that is not ordinary spoils no other
            return
        by_machine = list(zip(*nets, strict=True))
        currents = list(map(getitem, by_machine, map(plan.places.__getitem__, running)))
        floors = [top - TIE_RATIO * abs(top) for top in map(max, by_machine)]
        yield Valued(alike, indexes, currents, floors, by_machine, plan)

    def _nets(self, plan: _Plan, alike: Alike, indexes: Sequence[int]) -> list[list[float]] | None:
        """What each project nets on each machine; None unless all of the machines are ordinary."""
        nets = []
        costs = list(map(self._costs.__getitem__, _of(alike.class_indexes, indexes)))
        for at, revenue in plan.figures:
            hashrates, powers = (_of(column, indexes) for column in alike.figures[at : at + 2])
            of_project = [
                hashrate_hs * revenue - power_w * cost
                for hashrate_hs, power_w, cost in zip(hashrates, powers, costs, strict=True)
            ]
            if (
                not -math.inf < sum(of_project) < math.inf
            ):  # figures may be plausible, and yet too great to be valued
                return None
            nets.append(of_project)
        return nets


def _of(column: Sequence[Value], indexes: Sequence[int]) -> Sequence[Value]:
    """What a column has of these machines, which may be all."""
    return column if len(indexes) == len(column) else [column[index] for index in indexes]


def _open_bits(terms: Terms) -> int:
    """The projects that a machine of the class may be switched to, if it has no eligibilities of its own."""
    return terms.allowed_bits & ~terms.denied_bits & terms.candidate_bits & terms.runnable_bits


def _plan(terms: Terms | None, open_bits: int | None, measured: tuple[int, ...]) -> _Plan | None:
    """How to value machines with benchmarks of these projects, in this order; None if they cannot be ordinary ones."""
    if terms is None or open_bits is None:
        return None
    projects = [project for project, bit in terms.bits.items() if bit & open_bits]
    if not projects or open_bits & ~terms.priced_bits or not set(projects) <= set(measured):
        return None
    numbers = [measured.index(project) for project in projects]
    return _Plan(
        places={project: place for place, project in enumerate(projects)},
        figures=tuple(
            (2 * number, terms.revenues[project]) for number, project in zip(numbers, projects, strict=True)
        ),
        bits=tuple(terms.bits[project] for project in projects),
        open_bits=open_bits,
    )
