"""What a tick reads before it values anything: prices as sent, tariffs, classes, scopes, and rival policies (R2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from blsflow.domain.market import MachineClass
    from blsflow.domain.policy import Policy
    from blsflow.domain.price_level import PriceLevel
    from blsflow.domain.prices import RawPrice
    from blsflow.domain.tariff import Tariff


@dataclass(frozen=True, kw_only=True, slots=True)
class ProjectInput:
    """A project with the newest price that the feed sent for it, None if it sent none."""

    project_id: int
    name: str
    algorithm: str
    raw: RawPrice | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterInput:
    """A cluster's tariffs; ``fault`` says why they cannot be read, and then its price is unknown."""

    cluster_id: int
    tariffs: tuple[Tariff, ...]
    fault: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Scope:
    """The machines of a policy: all of the tenant, those of clusters or models, or single ones."""

    everything: bool = False
    cluster_ids: frozenset[int] = frozenset()
    models: frozenset[str] = frozenset()
    machine_ids: frozenset[int] = frozenset()

    def covers(self, cluster_id: int, model: str) -> bool:
        """Whether it covers all machines of a class; single machines are named besides."""
        return self.everything or cluster_id in self.cluster_ids or model in self.models


@dataclass(frozen=True, kw_only=True, slots=True)
class OtherPolicy:
    """Another policy of the tenant, as far as ranking needs it."""

    policy: Policy
    scope: Scope


@dataclass(frozen=True, kw_only=True, slots=True)
class Overriding:
    """Who outranks the deciding policy: (policy id, rank) per class, by index, and per single machine."""

    of_classes: tuple[tuple[int, int], ...]
    of_machines: Mapping[int, tuple[int, int]]


@dataclass(frozen=True, kw_only=True, slots=True)
class TickInputs:
    """All that the machines of a tick share, as read; ``levels`` are the price levels accepted per candidate."""

    projects: tuple[ProjectInput, ...]
    clusters: tuple[ClusterInput, ...]
    classes: tuple[MachineClass, ...]
    scope: Scope
    others: tuple[OtherPolicy, ...]
    levels: Mapping[int, PriceLevel]
