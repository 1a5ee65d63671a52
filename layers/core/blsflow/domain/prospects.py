"""What a machine would net per day on each project, and what is missing to know it (R2.2, R2.3, R3.9)."""

from __future__ import annotations

import math
from enum import StrEnum
from operator import itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from blsflow.domain.machine import FLAGGED, NO_PROJECT, Benchmark, Machine, Status
from blsflow.domain.prices import FUTURE_TOLERANCE_SEC
from blsflow.domain.units import MIN_HASHING_POWER_W, plausible_power_w

if TYPE_CHECKING:
    from blsflow.domain.terms import Terms

_MINING: Final = int(Status.MINING)  # comparing with the enum itself costs more
# Nets this close are a tie: rounding makes equal figures differ by less, real differences are far larger.
TIE_RATIO: Final = 1e-9
# A usable candidate: its net in CNY per day, its bit, and its revenue, likewise. Ten per machine, hence no named tuple.
Offer: TypeAlias = tuple[float, int, float]
# An expired benchmark asks for a new one unless even this much more hashrate would not make its project win.
EXPIRED_HASHRATE_HEADROOM: Final = 1.25


class BenchmarkState(StrEnum):
    """Whether a benchmark may be decided on."""

    VALID = "valid"
    MISSING = "missing"
    EXPIRED = "expired"
    INVALID = "invalid"


class Span(NamedTuple):
    """From when to when a benchmark must have been sampled, both included; seconds since 1970 UTC."""

    oldest: float
    newest: float


NO_TIME: Final = Span(math.inf, -math.inf)


class Prospects(NamedTuple):
    """What is known about a machine's projects.

    ``current_net`` is None if it is unknown, or if the machine does not run; ``best`` if there is no offer. The masks are
    of candidates only: eligible and runnable ones (``open``), and those of them with a valid benchmark (``measured``).
    """

    current_net: float | None
    best: Offer | None
    open_bits: int
    measured_bits: int


class Draw(NamedTuple):
    """A hashrate and a power, and where they are from: the ``benchmark``, or the machine's own ``report``."""

    source: str
    hashrate_hs: float
    power_w: float


def valid_span(now: float, benchmark_ttl_sec: float) -> Span:
    """The span of a benchmark's valid sampling times; a lead within a clock's drift is no future."""
    return Span(now - benchmark_ttl_sec, now + FUTURE_TOLERANCE_SEC)


def plausible(hashrate_hs: float, power_w: float) -> bool:
    """Whether the two can be a mining machine's: finite, hashing, and drawing at least 10 W. NaN is not."""
    return 0 < hashrate_hs < math.inf and plausible_power_w(power_w, hashing=True)


def is_valid(benchmark: Benchmark, span: Span) -> bool:
    """Whether the benchmark may be decided on."""
    _, hashrate_hs, power_w, sampled_at, flags = benchmark
    return (
        span[0] <= sampled_at <= span[1]
        and 0 < hashrate_hs < math.inf
        and MIN_HASHING_POWER_W <= power_w < math.inf  # in line: once per benchmark of the fleet
        and not flags & FLAGGED
    )


def benchmark_state(benchmark: Benchmark | None, span: Span) -> BenchmarkState:
    """Why a benchmark may be decided on or not; implausible figures are invalid, whatever their age."""
    if benchmark is None:
        return BenchmarkState.MISSING
    if is_valid(benchmark, span):
        return BenchmarkState.VALID
    if is_valid(benchmark._replace(sampled_at=span.oldest), span) and benchmark.sampled_at < span.oldest:
        return BenchmarkState.EXPIRED
    return BenchmarkState.INVALID


def benchmark_of(machine: Machine, project_id: int) -> Benchmark | None:
    """The machine's benchmark on a project, if there is one."""
    return next((found for found in machine.benchmarks if found.project_id == project_id), None)


def eligible_bits(machine: Machine, terms: Terms) -> int:
    """Projects that an allow at some level names and no deny at any level."""
    allowed = terms.allowed_bits | machine.allow_bits
    return allowed & ~(terms.denied_bits | machine.deny_bits)


def assess(machine: Machine, terms: Terms, span: Span) -> Prospects:
    """Value every project that the machine runs or may run. The tariff's price must be known."""
    open_bits = eligible_bits(machine, terms) & terms.candidate_bits & terms.runnable_bits
    usable_bits = open_bits & terms.priced_bits
    bits, revenues, cost = terms.bits, terms.revenues, terms.cost_cny_per_watt_day
    running = machine.project_id if machine.status == _MINING else NO_PROJECT
    current_net = None
    measured_bits = 0
    offers = []
    for benchmark in machine.benchmarks:
        if not is_valid(benchmark, span):
            continue
        project_id, hashrate_hs, power_w, _, _ = benchmark
        bit = bits.get(project_id, 0)
        measured_bits |= bit
        if bit & usable_bits or (project_id == running and project_id in revenues):
            revenue = hashrate_hs * revenues[project_id]
            net = revenue - power_w * cost
            if not -math.inf < net < math.inf:
                continue  # absurd figures: nothing is known by them, and nothing may be compared with them
            if bit & usable_bits:
                offers.append((net, bit, revenue))
            if project_id == running:
                current_net = net
    if current_net is None and running in revenues and plausible(machine.hashrate_hs, machine.power_w):
        net = machine.hashrate_hs * revenues[running] - machine.power_w * cost
        current_net = net if -math.inf < net < math.inf else None
    return Prospects(current_net, best_offer(offers), open_bits, measured_bits & open_bits)


def draw_of(machine: Machine, project_id: int, span: Span, *, runs: bool) -> Draw | None:
    """What the machine does on a project: as measured, or else as it reports, if it ``runs`` it; None if unknown."""
    benchmark = benchmark_of(machine, project_id)
    if benchmark is not None and is_valid(benchmark, span):
        return Draw("benchmark", benchmark.hashrate_hs, benchmark.power_w)
    if runs and plausible(machine.hashrate_hs, machine.power_w):
        return Draw("report", machine.hashrate_hs, machine.power_w)
    return None


def best_offer(offers: list[Offer]) -> Offer | None:
    """The offer with the greatest net; among those that tie with it, the earliest candidate. None of none."""
    if not offers:
        return None
    top = max(offers)[0]
    floor = top - TIE_RATIO * abs(top)
    return min((offer for offer in offers if offer[0] >= floor), key=itemgetter(1))


def ties(current_net: float, best_net: float) -> bool:
    """Whether the running project nets as much as the best offer, so that a change gains nothing."""
    return current_net >= best_net - TIE_RATIO * abs(best_net)


def could_win(benchmark: Benchmark | None, best_net: float | None, terms: Terms, span: Span) -> bool:
    """Whether measuring a project anew could make it the best; what was never measured could."""
    if (
        benchmark is None
        or best_net is None
        or benchmark_state(benchmark, span) is not BenchmarkState.EXPIRED
    ):
        return True
    revenue = benchmark.hashrate_hs * EXPIRED_HASHRATE_HEADROOM * terms.revenues[benchmark.project_id]
    return revenue - benchmark.power_w * terms.cost_cny_per_watt_day >= best_net


def worth_measuring(
    machine: Machine, prospects: Prospects, best_net: float | None, terms: Terms, span: Span
) -> tuple[int, ...]:
    """Projects, in candidate order, that the machine may run, are priced, and could win if measured."""
    wanted = prospects.open_bits & terms.priced_bits & ~prospects.measured_bits
    found = []
    while wanted:
        project = terms.first_project(wanted)
        wanted &= wanted - 1
        if could_win(benchmark_of(machine, project), best_net, terms, span):
            found.append(project)
    return tuple(found)
