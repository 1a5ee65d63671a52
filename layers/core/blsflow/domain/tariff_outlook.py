"""A year ahead of each cluster's tariffs: where a price will be missing, doubled or in no known currency (R2.2).

A year has both DST days of every zone that has them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from blsflow.domain.tariff import TariffProblem
from blsflow.domain.tariff_survey import survey
from blsflow.domain.valuation import convertible

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from blsflow.domain.inputs import ClusterInput
    from blsflow.domain.tariff import Tariff, TariffProblemKind

AHEAD: Final = timedelta(days=366)
MOST_SURVEYS: Final = 200
"""Of tariffs that differ: each costs some 30 ms."""
MOST_SPANS: Final = 50
"""Listed per cluster and kind; all are counted."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TariffSpan:
    """A half-open stretch of UTC without a known price."""

    start: datetime
    end: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class TariffTrouble:
    """All stretches of one kind ahead of a cluster: the first of them, how many there are, and their hours.

    ``fault`` says why a cluster's tariffs cannot be read at all, which leaves no price at any time.
    """

    cluster_id: int
    kind: TariffProblemKind
    spans: tuple[TariffSpan, ...]
    count: int
    hours: float
    fault: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class TariffOutlook:
    """What lies ahead of the clusters; those of ``not_surveyed`` were too many to look at."""

    troubles: tuple[TariffTrouble, ...]
    not_surveyed: tuple[int, ...]

    def of_kind(self, kind: TariffProblemKind) -> tuple[TariffTrouble, ...]:
        """Return the troubles of one kind, by cluster."""
        return tuple(each for each in self.troubles if each.kind == kind)


def tariff_outlook(clusters: Sequence[ClusterInput], now: datetime, *, rate: float | None) -> TariffOutlook:
    """Survey every cluster's tariffs; clusters whose tariffs say the same share a survey. ``rate`` is CNY per USDT."""
    surveyed: dict[tuple[Tariff, ...], tuple[TariffTrouble, ...]] = {}
    troubles: list[TariffTrouble] = []
    not_surveyed: list[int] = []
    for cluster in clusters:
        if cluster.fault is not None:
            troubles.append(_unreadable(cluster, now))
            continue
        # names tell tariffs apart for people only
        key = tuple(replace(each, name="tariff") for each in convertible(cluster.tariffs, rate))
        if key not in surveyed:
            if len(surveyed) == MOST_SURVEYS:
                not_surveyed.append(cluster.cluster_id)
                continue
            surveyed[key] = _troubles(cluster.cluster_id, key, now)
        troubles += (replace(each, cluster_id=cluster.cluster_id) for each in surveyed[key])
    return TariffOutlook(troubles=tuple(troubles), not_surveyed=tuple(not_surveyed))


def _troubles(cluster_id: int, tariffs: tuple[Tariff, ...], now: datetime) -> tuple[TariffTrouble, ...]:
    spans: dict[TariffProblemKind, list[TariffSpan]] = {}
    for segment in survey(tariffs, now, now + AHEAD):
        if isinstance(segment.status, TariffProblem):
            span = TariffSpan(start=segment.start, end=segment.end)
            spans.setdefault(segment.status.kind, []).append(span)
    return tuple(
        TariffTrouble(
            cluster_id=cluster_id,
            kind=kind,
            spans=tuple(found[:MOST_SPANS]),
            count=len(found),
            hours=sum((span.end - span.start) / timedelta(hours=1) for span in found),
        )
        for kind, found in sorted(spans.items())
    )


def _unreadable(cluster: ClusterInput, now: datetime) -> TariffTrouble:
    return TariffTrouble(
        cluster_id=cluster.cluster_id,
        kind="tariff_gap",
        spans=(TariffSpan(start=now, end=now + AHEAD),),
        count=1,
        hours=AHEAD / timedelta(hours=1),
        fault=cluster.fault,
    )
