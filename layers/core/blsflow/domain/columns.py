"""What an ordinary machine's projects would net, computed column by column: what `assess` says, at a fifth of its cost.

Ordinary is a machine that mines a project which it may also be switched to, with a benchmark to be decided on for each
such project, a price for each, and no eligibilities of its own: nearly all of a fleet at rest. `Columns.assess` says
nothing of any other, which is then assessed project by project. A property holds the two equal, bit for bit.
"""

from __future__ import annotations

import math
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from blsflow.domain.machine import FLAGGED, Status
from blsflow.domain.prospects import TIE_RATIO, Prospects
from blsflow.domain.record import FIGURES_PER_BENCHMARK
from blsflow.domain.units import MIN_HASHING_POWER_W

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from blsflow.domain.machine import Machine
    from blsflow.domain.prospects import Span
    from blsflow.domain.terms import Terms

_MINING: Final = int(Status.MINING)
_LEAST_PROJECTS: Final = 2
"""With one, a picker would return a figure instead of a column."""


class _Plan(NamedTuple):
    """How machines of one class with benchmarks of the same projects are valued; columns are in candidate order."""

    places: dict[int, int]
    hashrates: Callable[[tuple[Any, ...]], tuple[float, ...]]
    powers: Callable[[tuple[Any, ...]], tuple[float, ...]]
    sampled: Callable[[tuple[Any, ...]], tuple[float, ...]]
    flags: Callable[[tuple[Any, ...]], tuple[int, ...]]
    revenues: tuple[float, ...]
    cost: float
    bits: tuple[int, ...]
    open_bits: int


class Columns:
    """Assesses ordinary machines of one tick; what machines of a class share is looked up once."""

    def __init__(self, terms: Sequence[Terms], span: Span) -> None:
        self._terms = terms
        self._oldest, self._newest = span
        self._plans: dict[tuple[int, tuple[int, ...]], _Plan | None] = {}

    def assess(self, machine: Machine, figures: tuple[Any, ...]) -> Prospects | None:
        """The prospects of an ordinary machine, None of any other."""
        if machine.status != _MINING or machine.allow_bits or machine.deny_bits:
            return None
        key = machine.class_index, figures[::FIGURES_PER_BENCHMARK]
        if key not in self._plans:
            self._plans[key] = _plan(self._terms[machine.class_index], key[1])
        plan = self._plans[key]
        if plan is None or machine.project_id not in plan.places:
            return None
        hashrates, powers, sampled = plan.hashrates(figures), plan.powers(figures), plan.sampled(figures)
        cost = plan.cost
        nets = [
            hashrate_hs * revenue - power_w * cost
            for hashrate_hs, revenue, power_w in zip(hashrates, plan.revenues, powers, strict=True)
        ]
        # A NaN hides from min and max, but not from a sum; an infinite figure makes its net, or the sum, no number.
        usable = (
            min(hashrates) > 0
            and min(powers) >= MIN_HASHING_POWER_W
            and self._oldest <= min(sampled)
            and max(sampled) <= self._newest
            and max(plan.flags(figures)) < FLAGGED
            and sum(sampled) < math.inf
            and -math.inf < sum(nets) < math.inf
        )
        if not usable:
            return None
        top = max(nets)
        floor = top - TIE_RATIO * abs(top)
        place = 0
        while nets[place] < floor:
            place += 1
        best = nets[place], plan.bits[place], hashrates[place] * plan.revenues[place]
        return Prospects(nets[plan.places[machine.project_id]], best, plan.open_bits, plan.open_bits)


def _plan(terms: Terms, measured: tuple[int, ...]) -> _Plan | None:
    """How to value machines with benchmarks of these projects, in this order; None if they cannot be ordinary ones."""
    open_bits = terms.allowed_bits & ~terms.denied_bits & terms.candidate_bits & terms.runnable_bits
    projects = [project for project, bit in terms.bits.items() if bit & open_bits]
    if (
        len(projects) < _LEAST_PROJECTS
        or open_bits & ~terms.priced_bits
        or not set(projects) <= set(measured)
    ):
        return None
    starts = [measured.index(project) * FIGURES_PER_BENCHMARK for project in projects]
    hashrates, powers, sampled, flags = (
        itemgetter(*(start + column for start in starts)) for column in range(1, FIGURES_PER_BENCHMARK)
    )
    return _Plan(
        places={project: place for place, project in enumerate(projects)},
        hashrates=hashrates,
        powers=powers,
        sampled=sampled,
        flags=flags,
        revenues=tuple(terms.revenues[project] for project in projects),
        cost=terms.cost_cny_per_watt_day,
        bits=tuple(terms.bits[project] for project in projects),
        open_bits=open_bits,
    )
