"""What ordinary machines' projects would net, computed column by column: what `assess` says, at a tenth of its cost.

Ordinary is a machine that mines a project which it may also be switched to, with a benchmark to be decided on for each
such project, a price for each, no eligibilities of its own, and nothing that keeps it out of the tick: nearly all of a
fleet at rest. `Columns.value` says nothing of any other, which is then decided by itself. A property holds the two equal,
bit for bit.
"""

from __future__ import annotations

import math
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from blsflow.domain.machine import FLAGGED, Status
from blsflow.domain.prospects import TIE_RATIO, Prospects
from blsflow.domain.record import FIGURES_PER_BENCHMARK, FIRST_FIGURE, PROJECT, VERSION
from blsflow.domain.units import MIN_HASHING_POWER_W

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from blsflow.domain.prospects import Span
    from blsflow.domain.terms import Terms

_MINING: Final = int(Status.MINING)
_CLASS, _STATUS, _REPORTED_AT = 1, 2, 10
_EXCEPTIONS: Final = itemgetter(3, 4, 11, 12, 13)
"""Foreign changes, flags, overriding policy, own eligibilities: all zero for an ordinary machine."""
_NO_EXCEPTION: Final = (0, 0, 0, 0, 0)


class _Plan(NamedTuple):
    """How machines with the same open projects and benchmarks of the same ones are valued; projects in candidate order."""

    places: dict[int, int]
    figures: tuple[tuple[int, float], ...]  # of each project: where its hashrate stands in a row, its revenue
    bits: tuple[int, ...]
    open_bits: int


class Valued(NamedTuple):
    """Machines side by side: where their rows are, what each nets now, and what the best would net."""

    indexes: list[int]
    currents: list[float]
    tops: list[float]
    nets: list[tuple[float, ...]]
    plan: _Plan

    def best_place(self, number: int) -> int:
        """Where among the plan's projects the best of a machine is: of those that tie, the earliest candidate."""
        nets, top = self.nets[number], self.tops[number]
        floor = top - TIE_RATIO * abs(top)
        place = 0
        while nets[place] < floor:
            place += 1
        return place

    def prospects(self, number: int, row: tuple[Any, ...]) -> Prospects:
        """All that is known about the projects of the machine at this place."""
        plan, place = self.plan, self.best_place(number)
        at, revenue = plan.figures[place]
        best = self.nets[number][place], plan.bits[place], row[at] * revenue
        return Prospects(self.currents[number], best, plan.open_bits, plan.open_bits)


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

    def value(self, rows: list[tuple[Any, ...]]) -> Iterator[Valued]:
        """The ordinary ones of some machines' rows, all of which have as many benchmarks."""
        oldest, newest = self._reports
        open_bits = self._open_bits
        alike: dict[tuple[int | None, tuple[int, ...]], list[int]] = {}
        for index, row in enumerate(rows):
            if (
                row[_STATUS] == _MINING
                and _EXCEPTIONS(row) == _NO_EXCEPTION
                and oldest <= row[_REPORTED_AT] <= newest
            ):
                alike.setdefault(
                    (open_bits[row[_CLASS]], row[FIRST_FIGURE:VERSION:FIGURES_PER_BENCHMARK]), []
                ).append(index)
        for key, indexes in alike.items():
            if key not in self._plans:
                self._plans[key] = _plan(self._terms, *key)
            plan = self._plans[key]
            if plan is not None:
                yield from self._side_by_side(plan, indexes, rows)

    def _side_by_side(self, plan: _Plan, indexes: list[int], rows: list[tuple[Any, ...]]) -> Iterator[Valued]:
        columns = list(zip(*[rows[index] for index in indexes], strict=True))
        nets = self._nets(columns, plan)
        if nets is None:
            if len(indexes) > 1:  # one that is not ordinary spoils no other
                half = len(indexes) // 2
                yield from self._side_by_side(plan, indexes[:half], rows)
                yield from self._side_by_side(plan, indexes[half:], rows)
            return
        by_machine = list(zip(*nets, strict=True))
        places = plan.places
        currents = [
            of_machine[places[project]]
            for of_machine, project in zip(by_machine, columns[PROJECT], strict=True)
        ]
        yield Valued(indexes, currents, list(map(max, by_machine)), by_machine, plan)

    def _nets(self, columns: list[tuple[Any, ...]], plan: _Plan) -> list[list[float]] | None:
        """What each project nets on each machine; None unless all of the machines are ordinary."""
        if not plan.places.keys() >= set(columns[PROJECT]):
            return None
        nets = []
        costs = list(map(self._costs.__getitem__, columns[_CLASS]))
        for at, revenue in plan.figures:
            hashrates, powers, sampled, flags = columns[at : at + FIGURES_PER_BENCHMARK - 1]
            of_project = [
                hashrate_hs * revenue - power_w * cost
                for hashrate_hs, power_w, cost in zip(hashrates, powers, costs, strict=True)
            ]
            # A NaN hides from min and max, but not from a sum; an infinite figure makes its net, or the sum, no number.
            usable = (
                min(hashrates) > 0
                and min(powers) >= MIN_HASHING_POWER_W
                and self._oldest <= min(sampled)
                and max(sampled) <= self._newest
                and max(flags) < FLAGGED
                and sum(sampled) < math.inf
                and -math.inf < sum(of_project) < math.inf
            )
            if not usable:
                return None
            nets.append(of_project)
        return nets


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
    starts = [FIRST_FIGURE + measured.index(project) * FIGURES_PER_BENCHMARK + 1 for project in projects]
    return _Plan(
        places={project: place for place, project in enumerate(projects)},
        figures=tuple(
            (start, terms.revenues[project]) for start, project in zip(starts, projects, strict=True)
        ),
        bits=tuple(terms.bits[project] for project in projects),
        open_bits=open_bits,
    )
