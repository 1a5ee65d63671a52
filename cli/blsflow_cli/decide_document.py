"""The decide document: all inputs of one tick in one file, as the services would deliver them (R3.4).

Prices come as a feed sends them, and are judged as in a tick: by age, flags, unit and algorithm, and by the
quarantine of jumps if their history is given.
"""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any, Literal

from pydantic import AwareDatetime, Field, FiniteFloat

from blsflow.documents import Clock, Id, Strict, located
from blsflow.domain.policy import ExecutionMode, Mode, NegativeProfitAction, Policy, Window, WindowAction
from blsflow.domain.prices import RawPrice
from blsflow.domain.units import family_of
from blsflow_cli.tariff_document import TariffDocument

if TYPE_CHECKING:
    from datetime import datetime

    from blsflow.domain.units import HashFamily

_DEFAULTS: dict[str, Any] = {
    each.name: each.default for each in fields(Policy) if each.default is not MISSING
}


class HashrateDocument(Strict):
    """A hashrate with its unit."""

    value: FiniteFloat
    unit: str = Field(examples=["TH/s", "kSol/s"])


class PowerDocument(Strict):
    """A power with its unit."""

    value: FiniteFloat
    unit: str = Field(examples=["W", "kW"])


class WindowDocument(Strict):
    """A time window in the policy's zone; an end not after the start lies on the next day."""

    id: Id
    starts: Clock
    ends: Clock
    action: WindowAction
    priority: int = 0
    weekdays: tuple[int, ...] | None = Field(
        default=None, description="ISO; the day on which the window begins"
    )
    project_id: Id | None = Field(default=None, description="what to run; for run_project and start")


class PolicyDocument(Strict):
    """The policy that decides; every limit may be left out."""

    name: str = "policy"
    mode: Mode
    time_zone: str = _DEFAULTS["time_zone"]
    candidates: tuple[Id, ...] = Field(default=(), description="project ids, the preferred first")
    windows: tuple[WindowDocument, ...] = ()
    profit_max_age_sec: int = _DEFAULTS["profit_max_age_sec"]
    report_max_age_sec: int = _DEFAULTS["report_max_age_sec"]
    benchmark_ttl_sec: int = _DEFAULTS["benchmark_ttl_sec"]
    price_jump_factor: float = _DEFAULTS["price_jump_factor"]
    price_hold_sec: int = _DEFAULTS["price_hold_sec"]
    min_gain_cny_per_day: float = _DEFAULTS["min_gain_cny_per_day"]
    min_gain_ratio: float = _DEFAULTS["min_gain_ratio"]
    min_dwell_sec: int = _DEFAULTS["min_dwell_sec"]
    switch_cost_sec: int = _DEFAULTS["switch_cost_sec"]
    holding_time_sec: int = _DEFAULTS["holding_time_sec"]
    negative_profit_action: NegativeProfitAction = _DEFAULTS["negative_profit_action"]
    restart_threshold_cny_per_day: float = _DEFAULTS["restart_threshold_cny_per_day"]
    freeze_after_failures: int = _DEFAULTS["freeze_after_failures"]
    max_move_share: float | None = _DEFAULTS["max_move_share"]
    freeze_jump_factor: float | None = _DEFAULTS["freeze_jump_factor"]
    max_foreign_changes: int = _DEFAULTS["max_foreign_changes"]

    def policy(self) -> Policy:
        """The policy that is meant; `InvalidDocument` names what cannot be."""
        windows = []
        for position, window in enumerate(self.windows):
            with located(f"windows[{position}]"):
                days = None if window.weekdays is None else frozenset(window.weekdays)
                windows.append(Window(**dict(window) | {"weekdays": days}))
        return Policy(
            **dict(self) | {"windows": tuple(windows)},
            id=1,
            tenant_id="",
            execution_mode=ExecutionMode.DRY_RUN,
        )


class PastPriceDocument(Strict):
    """An earlier reading, in the price's own unit and currency."""

    revenue: float
    taken_at: AwareDatetime


class PriceDocument(Strict):
    """A price as a feed sends it: revenue per unit of hashrate and day, or its word for none."""

    revenue: float
    unit: str = Field(examples=["TH/s"])
    currency: str = "USDT"
    taken_at: AwareDatetime
    algorithm: str | None = None
    flags: tuple[str, ...] = Field(default=(), description="anomalies that the source itself reports")
    history: tuple[PastPriceDocument, ...] = Field(default=(), description="oldest first; judges jumps")

    def raw(self, revenue: float, taken_at: datetime, *, flags: tuple[str, ...] = ()) -> RawPrice:
        """One reading of this price."""
        return RawPrice(
            key="", algorithm=self.algorithm, revenue=revenue, unit=self.unit, currency=self.currency,
            taken_at=taken_at, flags=flags,
        )  # fmt: skip


class ResourcesDocument(Strict):
    """Where something holds: clusters, models or single machines."""

    clusters: tuple[Id, ...] = ()
    models: tuple[str, ...] = ()
    machines: tuple[Id, ...] = ()


class ProjectDocument(Strict):
    """What machines can mine. It is eligible where an allow names it and no deny does."""

    id: Id
    name: str
    algorithm: str = Field(examples=["SHA-256"])
    price: PriceDocument | None = Field(default=None, description="left out: the feed does not know it")
    run_configurations: dict[str, Id] = Field(description="the runnable configuration, by machine model")
    allowed: ResourcesDocument
    denied: ResourcesDocument = ResourcesDocument()

    @property
    def family(self) -> HashFamily:
        """What its hashrates count."""
        return family_of(self.algorithm)


class ClusterDocument(Strict):
    """A site and its tariffs, of which one at a time is in force."""

    id: Id
    name: str = ""
    tariffs: tuple[TariffDocument, ...]


class BenchmarkDocument(Strict):
    """What the machine was measured to do on a project; what is left out was not measured."""

    project_id: Id
    hashrate: HashrateDocument | None = None
    power: PowerDocument | None = None
    sampled_at: AwareDatetime
    flags: tuple[Literal["estimated", "shared", "flagged"], ...] = ()


MachineFlag = Literal[
    "operator_hold", "locked", "under_benchmark", "foreign", "stopped_by_scheduler", "stopped_by_human",
    "retry_backoff",
]  # fmt: skip


class MachineDocument(Strict):
    """A machine with its last report; what is left out was not reported."""

    id: Id
    cluster_id: Id
    model: str
    status: Literal["mining", "stopped", "off", "unknown"]
    project_id: Id | None = None
    hashrate: HashrateDocument | None = None
    power: PowerDocument | None = None
    project_since: AwareDatetime | None = None
    reported_at: AwareDatetime | None = None
    flags: tuple[MachineFlag, ...] = ()
    foreign_changes: int = Field(default=0, ge=0, le=255)
    benchmarks: tuple[BenchmarkDocument, ...] = ()


class WorldDocument(Strict):
    """A policy with all that it decides on, but for the time."""

    usdt_to_cny_rate: float | None = Field(description="CNY per USDT; null if unknown")
    policy: PolicyDocument
    projects: tuple[ProjectDocument, ...]
    clusters: tuple[ClusterDocument, ...]
    machines: tuple[MachineDocument, ...]


class DecideDocument(WorldDocument):
    """All inputs of one tick of one policy."""

    now: AwareDatetime
