"""What ordinary machines' projects would net, computed column by column: what `assess` says, at a tenth of its cost.

Ordinary is a machine that mines a project which it may also be switched to, with a benchmark to be decided on for each
such project, a price for each, no eligibilities of its own, and nothing that keeps it out of the tick: nearly all of a
fleet at rest. `Columns.value` says nothing of any other, which is then decided by itself. A property holds the two equal,
bit for bit.
"""

from __future__ import annotations

import math
from operator import getitem, itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from blsflow.domain.machine import FLAGGED, Status
from blsflow.domain.prospects import TIE_RATIO, Prospects
from blsflow.domain.record import FIGURES_PER_BENCHMARK, FIRST_FIGURE, NEWEST, OLDEST, PROJECT
from blsflow.domain.units import MIN_HASHING_POWER_W

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import TypeAlias

    from blsflow.domain.prospects import Offer, Span
    from blsflow.domain.record import Alike
    from blsflow.domain.terms import Terms

    _Fields: TypeAlias = "list[tuple[Any, ...]]"
    """Rows as columns: a tuple for each field."""
    _Groups: TypeAlias = "dict[tuple[int | None, tuple[int, ...]], list[int]]"
    """Machines by what they may be switched to and the projects measured on them."""

_MINING: Final = int(Status.MINING)
_CLASS, _REPORTED_AT = 1, 10
_PLAIN_AT: Final = (2, 3, 4, 11, 12, 13)
_PLAIN: Final = (_MINING, 0, 0, 0, 0, 0)
"""Status, foreign changes, flags, overriding policy, own eligibilities: where they stand, and an ordinary machine's."""
_plainness = itemgetter(*_PLAIN_AT)


class _Plan(NamedTuple):
    """How machines with the same open projects and benchmarks of the same ones are valued; projects in candidate order."""

    places: dict[int, int]
    figures: tuple[tuple[int, float], ...]  # of each project: where its hashrate stands in a row, its revenue
    times: tuple[int, ...]  # of each project: where its sampled_at stands among all fields of benchmarks
    bits: tuple[int, ...]
    open_bits: int


class Valued(NamedTuple):
    """Machines side by side: where their rows are, what each nets now, and from what net on a project ties with the best."""

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

    def offer(self, number: int, place: int, row: tuple[Any, ...]) -> Offer:
        """What the project at this place of the plan would net, which it is, and its revenue."""
        at, revenue = self.plan.figures[place]
        return self.nets[number][place], self.plan.bits[place], row[at] * revenue

    def prospects(self, number: int, row: tuple[Any, ...]) -> Prospects:
        """All that is known about the projects of the machine at this place."""
        best, open_bits = self.offer(number, self.best_place(number), row), self.plan.open_bits
        return Prospects(self.currents[number], best, open_bits, open_bits)


class Columns:
    """Values the ordinary machines of one tick; what machines of a class share is looked up once."""

    def __init__(self, terms: Sequence[Terms], benchmarks: Span, reports: Span) -> None:
        """Benchmarks and reports count if their times are in these spans."""
        self._terms = terms[0] if terms else None  # projects and their revenues are those of all classes
        self._open_bits = [None if each.tariff_problem else _open_bits(each) for each in terms]
        self._costs = [each.cost_cny_per_watt_day for each in terms]
        self._oldest, self._newest = benchmarks
        self._reports = reports
        self._plans: dict[tuple[int | None, tuple[int, ...]], _Plan | None] = {}

    def value(self, alike: Alike) -> Iterator[Valued]:
        """The ordinary ones of some machines.

        Benchmarks whose times are all within the span, none of them flagged, need not be looked at one by one.
        """
        rows, measured = alike.rows, alike.projects()
        columns = list(zip(*rows, strict=True))
        plain: Sequence[int] = range(len(rows))
        if not self._all_plain(columns):
            plain = [index for index in plain if self._is_plain(rows[index])]
        fresh: Sequence[int] = ()
        if measured is not None:
            fresh = (
                plain if self._all_fresh(columns) else [each for each in plain if self._is_fresh(rows[each])]
            )
            yield from self._fresh(measured, fresh, rows, columns)
        if len(fresh) < len(plain):
            left = sorted(set(plain).difference(fresh))
            yield from self._others(left, rows, alike.benchmarks(left))

    def _all_plain(self, columns: _Fields) -> bool:
        """Whether nothing keeps any of the machines out of the tick; a NaN hides from min and max, but not from a sum."""
        reported, (oldest, newest) = columns[_REPORTED_AT], self._reports
        return (
            all(set(columns[at]) == {plain} for at, plain in zip(_PLAIN_AT, _PLAIN, strict=True))
            and oldest <= min(reported)
            and max(reported) <= newest
            and sum(reported) < math.inf
        )

    def _is_plain(self, row: tuple[Any, ...]) -> bool:
        oldest, newest = self._reports
        return bool(_plainness(row) == _PLAIN and oldest <= row[_REPORTED_AT] <= newest)

    def _all_fresh(self, columns: _Fields) -> bool:
        oldest, newest = columns[OLDEST], columns[NEWEST]
        return (
            self._oldest <= min(oldest)
            and max(newest) <= self._newest
            and sum(oldest) + sum(newest) < math.inf
        )

    def _is_fresh(self, row: tuple[Any, ...]) -> bool:
        return bool(self._oldest <= row[OLDEST] and row[NEWEST] <= self._newest)

    def _fresh(
        self, measured: tuple[int, ...], indexes: Sequence[int], rows: list[tuple[Any, ...]], columns: _Fields
    ) -> Iterator[Valued]:
        """Value machines whose benchmarks may all be decided on as far as their times and flags go; all have the same."""
        bits = {self._open_bits[number] for number in set(columns[_CLASS])}
        if len(bits) == 1 and len(indexes) == len(rows):
            plan = self._plan(bits.pop(), measured)
            yield from self._side_by_side(plan, indexes, columns, rows)
            return
        alike: _Groups = {}
        for index in indexes:
            alike.setdefault((self._open_bits[rows[index][_CLASS]], measured), []).append(index)
        yield from self._group_by_group(alike, rows)

    def _others(
        self, indexes: Sequence[int], rows: list[tuple[Any, ...]], benchmarks: list[tuple[Any, ...]]
    ) -> Iterator[Valued]:
        """Value machines whose benchmarks are not of the same projects, or have to be looked at one by one."""
        alike: _Groups = {}
        for index, figures in zip(indexes, benchmarks, strict=True):
            measured = figures[::FIGURES_PER_BENCHMARK]
            plan = self._plan(self._open_bits[rows[index][_CLASS]], measured)
            if plan is not None and self._may_be_decided_on(plan, figures):
                alike.setdefault((plan.open_bits, measured), []).append(index)
        yield from self._group_by_group(alike, rows)

    def _may_be_decided_on(self, plan: _Plan, figures: tuple[Any, ...]) -> bool:
        """Whether the times and flags of the plan's benchmarks are in order."""
        return all(
            self._oldest <= figures[at] <= self._newest and not figures[at + 1] & FLAGGED for at in plan.times
        )

    def _group_by_group(self, alike: _Groups, rows: list[tuple[Any, ...]]) -> Iterator[Valued]:
        for key, indexes in alike.items():
            yield from self._side_by_side(self._plan(*key), indexes, _columns_of(rows, indexes), rows)

    def _plan(self, open_bits: int | None, measured: tuple[int, ...]) -> _Plan | None:
        key = open_bits, measured
        if key not in self._plans:
            self._plans[key] = _plan(self._terms, *key)
        return self._plans[key]

    def _side_by_side(
        self, plan: _Plan | None, indexes: Sequence[int], columns: _Fields, rows: list[tuple[Any, ...]]
    ) -> Iterator[Valued]:
        """Value machines with the same plan, whose columns these are."""
        if plan is None:
            return
        nets = self._nets(columns, plan)
        if nets is None:
            half = len(indexes) // 2
            for part in (indexes[:half], indexes[half:]) if half else ():
                # one that is not ordinary spoils no other
                yield from self._side_by_side(plan, part, _columns_of(rows, part), rows)
            return
        by_machine = list(zip(*nets, strict=True))
        places = map(plan.places.__getitem__, columns[PROJECT])
        currents = list(map(getitem, by_machine, places))
        floors = [top - TIE_RATIO * abs(top) for top in map(max, by_machine)]
        yield Valued(indexes, currents, floors, by_machine, plan)

    def _nets(self, columns: _Fields, plan: _Plan) -> list[list[float]] | None:
        """What each project nets on each machine; None unless all of the machines are ordinary."""
        if not plan.places.keys() >= set(columns[PROJECT]):
            return None
        nets = []
        costs = list(map(self._costs.__getitem__, columns[_CLASS]))
        for at, revenue in plan.figures:
            hashrates, powers = columns[at : at + 2]
            of_project = [
                hashrate_hs * revenue - power_w * cost
                for hashrate_hs, power_w, cost in zip(hashrates, powers, costs, strict=True)
            ]
            # A NaN hides from min and max, but not from a sum; an infinite figure makes its net, or the sum, no number.
            usable = (
                min(hashrates) > 0
                and min(powers) >= MIN_HASHING_POWER_W
                and -math.inf < sum(of_project) < math.inf
            )
            if not usable:
                return None
            nets.append(of_project)
        return nets


def _columns_of(rows: list[tuple[Any, ...]], indexes: Sequence[int]) -> _Fields:
    return list(zip(*[rows[index] for index in indexes], strict=True))


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
            (FIRST_FIGURE + 2 * number, terms.revenues[project])
            for number, project in zip(numbers, projects, strict=True)
        ),
        times=tuple(FIGURES_PER_BENCHMARK * number + 3 for number in numbers),
        bits=tuple(terms.bits[project] for project in projects),
        open_bits=open_bits,
    )
