"""How long what a stored tick knew may be counted on, for the report on what a policy would have done (R4.5). Pure."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from blsflow.domain.replay import Stretch
from blsflow.domain.replay_ledger import NO_TICK, TARIFF_CHANGE
from blsflow.domain.tariff import TariffProblem, energy_cost_cny

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from blsflow.domain.market import ClusterMarket, Market

_HOUR: Final = timedelta(hours=1)
_LONE_TICK: Final = timedelta(minutes=5)


def speaks_for(ticked_at: Sequence[datetime]) -> timedelta:
    """How long a tick's figures hold where the next one is missing: twice the usual distance of ticks, their median.

    Prices and states between two ticks are those of the first: that is what the policy itself acts on. After a tick that
    no other followed in time (frozen, paused, down) they are not known. A single tick speaks for five minutes.
    """
    if len(ticked_at) < 2:  # noqa: PLR2004 - a distance takes two
        return _LONE_TICK
    distances = sorted(later - earlier for earlier, later in pairwise(ticked_at))
    return 2 * distances[len(distances) // 2]


def stretches_of(market: Market, until: datetime, longest: timedelta) -> Mapping[int, Stretch]:
    """Return, for each cluster with machines, what a tick knew of the time from it ``until`` the next.

    A price of electricity is known until the tariff's next change, which the tick knew, but not the price after it.
    """
    known_until = min(until, market.now + longest)
    silent = {NO_TICK: (until - known_until) / _HOUR}
    return {
        machines.cluster_id: _stretch(
            market.clusters.get(machines.cluster_id), market.now, known_until, silent
        )
        for machines in market.classes
    }


def _stretch(
    cluster: ClusterMarket | None, start: datetime, end: datetime, silent: Mapping[str, float]
) -> Stretch:
    tariff = TariffProblem(kind="tariff_gap") if cluster is None else cluster.tariff
    if isinstance(tariff, TariffProblem):
        return Stretch(0.0, 0.0, {**silent, tariff.kind: (end - start) / _HOUR})
    change = None if cluster is None else cluster.next_change_at
    same_until = end if change is None else max(start, min(end, change))
    hours = (same_until - start) / _HOUR
    cost = energy_cost_cny(1.0, hours, tariff.price_cny_per_kwh)
    return Stretch(hours, cost, {**silent, TARIFF_CHANGE: (end - same_until) / _HOUR})
