"""What all machines of a tick share: prices, tariffs, and what each class of machines may run (R2)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from blsflow.domain.reading import Reading
    from blsflow.domain.tariff import TariffPrice, TariffProblem


@dataclass(frozen=True, kw_only=True, slots=True)
class ProjectMarket:
    """A project's revenue in CNY per H/s and day, or why it is not to be relied on."""

    project_id: int
    name: str
    revenue: Reading


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterMarket:
    """A cluster's electricity price now, or why it is unknown; the change is None if none is in sight."""

    cluster_id: int
    tariff: TariffPrice | TariffProblem
    next_change_at: datetime | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class MachineClass:
    """All machines of one model in one cluster; ``index`` is its place in `Market.classes`.

    ``run_configs`` holds, per project, the run configuration that is runnable on this model. ``allowed`` and
    ``denied`` are the projects that the configuration service allows or denies for the cluster or the model.
    """

    index: int
    cluster_id: int
    model: str
    nameplate_hashrate_hs: float | None = None
    nameplate_power_w: float | None = None
    run_configs: Mapping[int, int] = field(default_factory=dict)
    allowed: frozenset[int] = frozenset()
    denied: frozenset[int] = frozenset()


@dataclass(frozen=True, kw_only=True, slots=True)
class Market:
    """The shared inputs of one tick of one policy, all as of ``now`` (aware, UTC).

    A project or cluster that is not in its mapping is unknown; it is never worth, and never costs, 0.
    """

    now: datetime
    projects: Mapping[int, ProjectMarket]
    clusters: Mapping[int, ClusterMarket]
    classes: tuple[MachineClass, ...]
