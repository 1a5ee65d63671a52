"""Which benchmark runs are begun, when failed ones are tried again, and what sampling costs (R7.2 to R7.4). Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from blsflow.domain.prospects import EXPIRED_HASHRATE_HEADROOM, benchmark_of
from blsflow.domain.reading import Known
from blsflow.domain.tariff import TariffPrice, daily_cost_cny

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from uuid import UUID

    from blsflow.domain.machine import Machine
    from blsflow.domain.market import Market
    from blsflow.domain.verdict import Verdict

MAX_ATTEMPTS: Final = 3
"""Runs of one request, the first included; after the last one people are told."""
_FIRST_RETRY: Final = timedelta(minutes=10)
_RETRY_FACTOR: Final = 4
ASK_AGAIN_AFTER: Final = timedelta(days=1)
"""A pair whose last run failed for good is not asked for again before this."""
SHARED_LIFE_SPREAD: Final = 0.1
"""Shared figures begin life up to this share of the benchmark's time to live old."""
_GOLDEN: Final = 0x9E3779B97F4A7C15


class BenchmarkRequest(NamedTuple):
    """A machine and project to be measured; what that could win and what the machine nets now, in CNY per day, if known."""

    machine_id: int
    project_id: int
    value_cny_per_day: float | None
    current_net_cny_per_day: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class PendingRun:
    """A run that nothing keeps from beginning but the policy's caps and its machine's other runs."""

    run_id: UUID
    policy_id: int
    machine_id: int
    value_cny_per_day: float | None
    by_operator: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Room:
    """A policy's caps, its number of machines, and how many of them are under benchmark now."""

    machines: int
    under_benchmark: int
    max_benchmarks: int
    max_benchmark_share: float

    @property
    def free(self) -> int:
        """How many more may begin: within the count and the share, though never none of a small policy's."""
        by_share = max(1, math.floor(self.machines * self.max_benchmark_share))
        return max(0, min(self.max_benchmarks, by_share) - self.under_benchmark)


def choose(
    pending: Iterable[PendingRun], rooms: Mapping[int, Room], busy: Collection[int]
) -> list[PendingRun]:
    """Choose the runs to begin: an operator's first, then the most valuable, one per machine, within each policy's room.

    ``busy`` are machines that are under benchmark already. What a run could win and is not known comes last.
    """
    free = {policy_id: room.free for policy_id, room in rooms.items()}
    taken = set(busy)
    chosen = []
    for run in sorted(pending, key=_rank):
        if run.machine_id in taken or free.get(run.policy_id, 0) <= 0:
            continue
        taken.add(run.machine_id)
        free[run.policy_id] -= 1
        chosen.append(run)
    return chosen


def possible_gain(machine: Machine, project_id: int, verdict: Verdict, market: Market) -> float | None:
    """Return what measuring a project could win, in CNY per day against the best that is known; None if nobody can say.

    Guessed at the model's nameplate, or at an old benchmark with the headroom that makes it worth renewing.
    """
    machines = market.classes[machine.class_index]
    project, cluster = market.projects.get(project_id), market.clusters.get(machines.cluster_id)
    if project is None or cluster is None:
        return None
    if not isinstance(project.revenue, Known) or not isinstance(cluster.tariff, TariffPrice):
        return None
    known = benchmark_of(machine, project_id)
    hashrate_hs, power_w = machines.nameplate_hashrate_hs, machines.nameplate_power_w
    if known is not None and 0 < known.hashrate_hs < math.inf and 0 < known.power_w < math.inf:
        hashrate_hs, power_w = known.hashrate_hs * EXPIRED_HASHRATE_HEADROOM, known.power_w
    if hashrate_hs is None or power_w is None:
        return None
    guess = hashrate_hs * project.revenue.value - daily_cost_cny(power_w, cluster.tariff.price_cny_per_kwh)
    known_best = verdict.best_net if verdict.best_net is not None else verdict.current_net
    gain = guess - (known_best or 0.0)
    return gain if math.isfinite(gain) else None


def retry_after(attempt_no: int) -> timedelta | None:
    """Return how long a failed run is left alone before the next try, or None after the last."""
    if attempt_no >= MAX_ATTEMPTS:
        return None
    factor: int = _RETRY_FACTOR ** (attempt_no - 1)
    return _FIRST_RETRY * factor


def lost_cny(minutes: float, current_net_cny_per_day: float | None) -> float | None:
    """Return what a machine would have netted in the minutes that sampling took it away; None if its net is not known.

    What it earned on the sampled project is not deducted: the figure is an upper bound, and never negative.
    """
    if current_net_cny_per_day is None:
        return None
    return max(0.0, current_net_cny_per_day) * minutes / (24 * 60)


def shared_age(machine_id: int, project_id: int, ttl_sec: int) -> timedelta:
    """Return how old figures count that a machine is given from others, so that a fleet's do not expire at once.

    The same for the same machine and project each time; spread evenly over `SHARED_LIFE_SPREAD` of the time to live.
    """
    mixed = ((machine_id * 1_000_003 + project_id) * _GOLDEN) % 2**64
    return timedelta(seconds=ttl_sec * SHARED_LIFE_SPREAD * (mixed / 2**64))


def _rank(run: PendingRun) -> tuple[bool, bool, float, int, str]:
    value = run.value_cny_per_day
    unknown = value is None or math.isnan(value)
    return not run.by_operator, unknown, 0.0 if unknown else -(value or 0.0), run.machine_id, str(run.run_id)
