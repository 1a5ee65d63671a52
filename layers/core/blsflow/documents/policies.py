"""The policy document: what a policy group is to do (R9.1). The domain checks what its shape cannot."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from blsflow.documents import Clock, Id, Strict
from blsflow.domain.policy import Mode, NegativeProfitAction, WindowAction
from blsflow.domain.policy_document import LIMITS, LONGEST_NAME, MOST_CANDIDATES, MOST_SCOPES, MOST_WINDOWS

_DEFAULTS: dict[str, Any] = dict(LIMITS)


class ScopeDocument(Strict):
    """A resource whose machines the policy covers."""

    resource_type: Literal["tenant", "cluster", "model", "machine"]
    resource_id: str = Field(description="* for the tenant", examples=["17"])


class PolicyWindowDocument(Strict):
    """A time window in the policy's zone; an end not after the start lies on the next day."""

    starts: Clock
    ends: Clock
    action: WindowAction
    priority: int = Field(default=0, description="the higher counts, then the earlier in the list")
    weekdays: list[int] | None = Field(
        default=None, description="ISO; the day on which the window begins; left out: every day"
    )
    project_id: Id | None = Field(default=None, description="what to run; for run_project and start")


class PolicyDocument(Strict):
    """What a policy group is to do; every limit may be left out."""

    name: str = Field(min_length=1, max_length=LONGEST_NAME)
    mode: Mode
    execution_mode: Literal["dry_run", "shadow"] | None = Field(
        default=None, description="how far a new policy goes (shadow); only for creating one"
    )
    time_zone: str = Field(default="UTC", description="IANA name, for windows and the schedule")
    priority: int = 0
    scope: list[ScopeDocument] = Field(min_length=1, max_length=MOST_SCOPES)
    candidates: list[Id] = Field(
        default=[], max_length=MOST_CANDIDATES, description="project ids, the preferred first"
    )
    windows: list[PolicyWindowDocument] = Field(default=[], max_length=MOST_WINDOWS)
    schedule: dict[str, Any] | None = Field(
        default=None,
        description="the rule of its ticks, in the policy's zone unless it names one; left out: the deployment's interval",
        examples=[{"kind": "interval", "every_sec": 60}],
    )
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
    negative_profit_action: NegativeProfitAction = NegativeProfitAction(_DEFAULTS["negative_profit_action"])
    restart_threshold_cny_per_day: float = _DEFAULTS["restart_threshold_cny_per_day"]
    decision_validity_sec: int = _DEFAULTS["decision_validity_sec"]
    freeze_after_failures: int = _DEFAULTS["freeze_after_failures"]
    max_move_share: float | None = Field(
        default=_DEFAULTS["max_move_share"], description="left out: no limit"
    )
    freeze_jump_factor: float | None = Field(
        default=_DEFAULTS["freeze_jump_factor"], description="left out: no limit"
    )
    max_failed_share: float = _DEFAULTS["max_failed_share"]
    failed_share_window_sec: int = _DEFAULTS["failed_share_window_sec"]
    max_foreign_changes: int = _DEFAULTS["max_foreign_changes"]
    max_benchmarks: int = _DEFAULTS["max_benchmarks"]
    max_benchmark_share: float = _DEFAULTS["max_benchmark_share"]
    benchmark_share_after: int = _DEFAULTS["benchmark_share_after"]

    def policy(self) -> dict[str, Any]:
        """Return the document as the use cases take it: what was left out stays out."""
        return self.model_dump(mode="json", exclude_unset=True, exclude={"tenant"})
