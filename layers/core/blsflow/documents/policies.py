"""The policy document: what a policy group is to do (R9.1). The domain checks what its shape cannot."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from blsflow.documents import Clock, Id, Strict
from blsflow.domain.policy import Mode, NegativeProfitAction, WindowAction
from blsflow.domain.policy_document import LIMITS, LONGEST_NAME, MOST_CANDIDATES, MOST_SCOPES, MOST_WINDOWS
from blsflow.domain.wording import NAME_PATTERN

_DEFAULTS: dict[str, Any] = dict(LIMITS)
_MOST = 2**31 - 1
_ABOVE_ONE: dict[str, Any] = {"exclusiveMinimum": 1}
_NOT_NEGATIVE: dict[str, Any] = {"minimum": 0}
_SHARE: dict[str, Any] = {"exclusiveMinimum": 0, "maximum": 1}


def _least(least: int) -> dict[str, Any]:
    return {"minimum": least, "maximum": _MOST}


class ScopeDocument(Strict):
    """A resource whose machines the policy covers."""

    resource_type: Literal["tenant", "cluster", "model", "machine"] = Field(examples=["tenant"])
    resource_id: str = Field(description="* for the tenant", examples=["*", "17"])


class PolicyWindowDocument(Strict):
    """A time window in the policy's zone; an end not after the start lies on the next day."""

    starts: Clock
    ends: Clock
    action: Annotated[WindowAction, Field(strict=False)]
    priority: int = Field(default=0, description="the higher counts, then the earlier in the list")
    weekdays: list[int] | None = Field(
        default=None, description="ISO; the day on which the window begins; left out: every day"
    )
    project_id: Id | None = Field(
        default=None, description="what to run; for run_project and start", examples=[101]
    )


class PolicyDocument(Strict):
    """What a policy group is to do; every limit may be left out."""

    name: str = Field(min_length=1, max_length=LONGEST_NAME, json_schema_extra={"pattern": NAME_PATTERN})
    mode: Annotated[Mode, Field(strict=False)]
    time_zone: str = Field(default="UTC", description="IANA name, for windows and the schedule")
    priority: int = Field(default=0, json_schema_extra={"minimum": -_MOST, "maximum": _MOST})
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
    profit_max_age_sec: int = Field(default=_DEFAULTS["profit_max_age_sec"], json_schema_extra=_least(1))
    report_max_age_sec: int = Field(default=_DEFAULTS["report_max_age_sec"], json_schema_extra=_least(1))
    benchmark_ttl_sec: int = Field(default=_DEFAULTS["benchmark_ttl_sec"], json_schema_extra=_least(1))
    price_jump_factor: float = Field(default=_DEFAULTS["price_jump_factor"], json_schema_extra=_ABOVE_ONE)
    price_hold_sec: int = Field(default=_DEFAULTS["price_hold_sec"], json_schema_extra=_least(0))
    min_gain_cny_per_day: float = Field(
        default=_DEFAULTS["min_gain_cny_per_day"], json_schema_extra=_NOT_NEGATIVE
    )
    min_gain_ratio: float = Field(default=_DEFAULTS["min_gain_ratio"], json_schema_extra=_NOT_NEGATIVE)
    min_dwell_sec: int = Field(default=_DEFAULTS["min_dwell_sec"], json_schema_extra=_least(0))
    switch_cost_sec: int = Field(default=_DEFAULTS["switch_cost_sec"], json_schema_extra=_least(0))
    holding_time_sec: int = Field(
        default=_DEFAULTS["holding_time_sec"], json_schema_extra={"minimum": 1, "maximum": 2_592_000}
    )
    negative_profit_action: Annotated[NegativeProfitAction, Field(strict=False)] = NegativeProfitAction(
        _DEFAULTS["negative_profit_action"]
    )
    restart_threshold_cny_per_day: float = _DEFAULTS["restart_threshold_cny_per_day"]
    decision_validity_sec: int = Field(
        default=_DEFAULTS["decision_validity_sec"], json_schema_extra=_least(1)
    )
    freeze_after_failures: int = Field(
        default=_DEFAULTS["freeze_after_failures"], json_schema_extra=_least(1)
    )
    max_move_share: float | None = Field(
        default=_DEFAULTS["max_move_share"], description="left out: no limit", json_schema_extra=_SHARE
    )
    freeze_jump_factor: float | None = Field(
        default=_DEFAULTS["freeze_jump_factor"],
        description="left out: no limit",
        json_schema_extra=_ABOVE_ONE,
    )
    max_failed_share: float = Field(default=_DEFAULTS["max_failed_share"], json_schema_extra=_SHARE)
    failed_share_window_sec: int = Field(
        default=_DEFAULTS["failed_share_window_sec"], json_schema_extra=_least(1)
    )
    max_foreign_changes: int = Field(default=_DEFAULTS["max_foreign_changes"], json_schema_extra=_least(0))
    max_benchmarks: int = Field(default=_DEFAULTS["max_benchmarks"], json_schema_extra=_least(0))
    max_benchmark_share: float = Field(default=_DEFAULTS["max_benchmark_share"], json_schema_extra=_SHARE)
    benchmark_share_after: int = Field(
        default=_DEFAULTS["benchmark_share_after"], json_schema_extra=_least(1)
    )

    def policy(self) -> dict[str, Any]:
        """Return the document as the use cases take it: what was left out stays out."""
        return self.model_dump(mode="json", exclude_unset=True, exclude={"tenant"})


class NewPolicyDocument(PolicyDocument):
    """What a new policy group is to do, and how far it goes at first."""

    execution_mode: Literal["dry_run", "shadow"] = Field(
        default="shadow", description="how far a new policy goes"
    )
