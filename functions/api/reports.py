"""What a policy would have gained: over its stored ticks, or tried on recorded prices and tariffs (R4.5, R4.6)."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Any, Final

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Body, Query
from pydantic import Field

from blsflow.bootstrap import application
from blsflow.documents import Strict
from blsflow.flow.backtest import backtest
from blsflow.flow.report import report
from blsflow.web.caller import Scope

from .routing import answer, caller, operation, store
from .shapes import Answer, Decimals, Digits, Figure, Instant, PathId

TAG = "reports"
_MOST_DECISIONS: Final = 500_000
"""Within the time of one request; the command line has no such bound."""


class Point(Answer):
    """What had come together by then: CNY on each path, and machine hours that are not known."""

    at: datetime
    policy_cny: Figure
    as_is_cny: Figure
    always_on_cny: Figure
    unknown_hours: Figure


class Replayed(Answer):
    """A period as the policy would have had it, as it was, and always on; all three over the same known hours.

    Null is unknown, never zero. `switch_cost_cny` is deducted already.
    """

    policy_id: int | None
    name: str
    since: datetime
    until: datetime
    machines: int
    instants: int
    known_hours: Figure
    unknown_hours: dict[str, Figure]
    policy_cny: Figure
    as_is_cny: Figure
    always_on_cny: Figure
    gain_cny: Figure
    gain_over_always_on_cny: Figure
    switch_cost_cny: Figure
    lost_hours: Figure
    moves: dict[str, int]
    decisions: dict[str, int]
    series: list[Point]


class Report(Replayed):
    """Over the policy's own stored ticks, valued at the prices and tariffs of their time."""

    ticks_by_mode: dict[str, int]
    policy_versions: list[int]


class Backtest(Replayed):
    """The same engine over recorded prices and tariffs."""

    step_sec: float
    freeze_count: int
    freezes: list[dict[str, Any]]
    tariff_spans: list[dict[str, Any]]


class BacktestIn(Strict):
    """The period, its end not included, and how finely it is gone through."""

    since: Annotated[Instant, Field(strict=False, examples=["2026-11-01T00:00:00Z"])]
    until: Annotated[Instant, Field(strict=False, examples=["2026-11-02T00:00:00Z"])]
    step_sec: Annotated[int, Field(ge=1, le=86_400)] = 900


@operation(
    "GET", "/policies/<policy_id>/report", scope=Scope.READ, tag=TAG, problems=["not_found", "conflict"]
)
def report_policy(
    policy_id: PathId,
    days: Annotated[float, Decimals, Query(gt=0, le=366)] = 7,
    every_sec: Annotated[
        int, Digits, Query(ge=0, le=86_400, description="look at one tick per so many seconds only")
    ] = 0,
) -> Response[Report]:
    """Report what a policy would have moved and gained, had it acted on its own for the last days.

    `conflict` says that it is too much for one request, and what to reduce.
    """
    found = report(
        store(),
        policy_id,
        days=days,
        every=timedelta(seconds=every_sec),
        tenant_id=caller().tenant_id,
        limit=_MOST_DECISIONS,
    )
    return answer(Report.model_validate(found.document()))


@operation(
    "POST", "/policies/<policy_id>/backtest", scope=Scope.READ, tag=TAG, problems=["not_found", "conflict"]
)
def backtest_policy(policy_id: PathId, asked: Annotated[BacktestIn, Body()]) -> Response[Backtest]:
    """Try a policy, as it is now, on the prices and tariffs that were recorded in a period. Nothing is stored."""
    found = backtest(
        store(),
        policy_id,
        since=asked.since,
        until=asked.until,
        step=timedelta(seconds=asked.step_sec),
        tenant_id=caller().tenant_id,
        rate=application().settings.usdt_to_cny_rate,
        limit=_MOST_DECISIONS,
    )
    return answer(Backtest.model_validate(found.document()))
