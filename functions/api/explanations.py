"""A decision with the figures of each candidate, and a tick that is only tried (R3.2, R4.1)."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Body
from pydantic import Field

from blsflow.bootstrap import application
from blsflow.documents import Strict
from blsflow.domain.explain import explain
from blsflow.domain.explained import explained
from blsflow.flow.dry_run import dry_run
from blsflow.web.caller import Scope

from .routing import answer, caller, operation, store
from .shapes import Answer, Figure, PathId


class Price(Answer):
    """A price is `known`, `stale` or `unknown`; only a known one has a value, in CNY per H/s and day."""

    state: str
    cny_per_hashrate_day: Figure = None
    reason: str | None = None


class Figures(Answer):
    """Revenue less cost is the net; null is unknown, never zero. `source` is the benchmark or the machine's report."""

    source: str
    hashrate_hs: Figure
    power_w: Figure
    revenue_cny_per_day: Figure
    cost_cny_per_day: Figure
    net_cny_per_day: Figure


class Candidate(Answer):
    """A project on this machine: whether it may run there, and what it would bring."""

    project_id: int
    name: str
    candidate: bool
    running: bool
    eligible: bool
    run_config_id: int | None
    price: Price
    benchmark: str
    figures: Figures | None


class Electricity(Answer):
    """The tariff period in force, or the problem that leaves the price unknown."""

    tariff: str | None = None
    period: str | None = None
    price_cny_per_kwh: Figure = None
    problem: str | None = None
    names: list[str] | None = None
    next_change_at: datetime | None


class Hurdle(Answer):
    """What a move has to clear; `value` is null if it is unknown."""

    reason: str
    value: Figure
    limit: float
    unit: str
    must_exceed: bool
    cleared: bool


class Explained(Answer):
    """A verdict and all that it was derived from; money is CNY per day."""

    machine_id: int
    action: str
    reason: str
    meaning: str
    meaning_zh: str
    from_project: int | None
    to_project: int | None
    run_config_id: int | None
    current_net_cny_per_day: Figure
    best_net_cny_per_day: Figure
    benchmark_requests: list[int]
    electricity: Electricity | None
    window_id: int | None
    projects: list[Candidate]
    hurdles: list[Hurdle]
    horizon_sec: float


class FreezeCause(Answer):
    """Why the policy would freeze."""

    cause: str
    detail: dict[str, Any]


class DryRun(Answer):
    """What a tick would conclude now; `obstacles` say why none of it would be carried out."""

    policy_id: int
    machines: int
    counts: dict[str, int]
    gain_cny_per_day: Figure
    failure: str | None
    freeze: FreezeCause | None
    obstacles: list[str]
    shown: list[Explained]


class DryRunIn(Strict):
    """How many machines are shown with their figures; those that would move come first."""

    limit: Annotated[int, Field(ge=0, le=200)] = 20


@operation("POST", "/policies/<policy_id>/dry-run", scope=Scope.READ, tag="policies", problems=["not_found"])
def dry_run_policy(policy_id: PathId, asked: Annotated[DryRunIn, Body()]) -> Response[DryRun]:
    """Decide now, whatever the policy's mode, and leave no trace."""
    app = application()
    found = dry_run(
        store(),
        policy_id,
        gates=app.gates,
        rate=app.settings.usdt_to_cny_rate,
        limit=asked.limit,
        tenant_id=caller().tenant_id,
    )
    freeze = found.freeze
    return answer(
        DryRun(
            policy_id=policy_id,
            machines=found.machines,
            counts=dict(found.counts),
            gain_cny_per_day=found.gain_cny_per_day,
            failure=found.failure,
            freeze=None if freeze is None else FreezeCause(cause=freeze.cause, detail=dict(freeze.detail)),
            obstacles=list(found.obstacles),
            shown=[
                Explained.model_validate(explained(explain(found.policy, found.valuation.market, machine)))
                for machine in found.shown
            ],
        )
    )
