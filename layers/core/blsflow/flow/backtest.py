"""Backtest: try a policy on the prices that were received and the tariffs that were in force (R4.6).

The machines are those of the policy's scope, as they are now; `domain.backtest` says what is assumed of them. Prices
are read page by page while the steps go by.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, timedelta
from typing import TYPE_CHECKING, Any, Final

from blsflow.domain.backtest import (
    Backtested,
    BacktestRun,
    Scenario,
    check_period,
    check_size,
    steps_of,
)
from blsflow.domain.block import machines_of
from blsflow.domain.gates import Gates
from blsflow.domain.replay_ledger import MAX_MACHINE_STEPS
from blsflow.domain.tariff import TariffPrice
from blsflow.domain.valuation import overriding
from blsflow.flow.control import UnknownPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

    from blsflow.domain.block import Block
    from blsflow.domain.machine import Machine
    from blsflow.domain.prices import PriceReading
    from blsflow.domain.tariff_survey import TariffSegment
    from blsflow.ports.store import Store

_PAGE_STEPS: Final = 500
_NO_GATES: Final = Gates(execute_enabled=False, executor_configured=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class Backtest:
    """A policy that was tried on the past."""

    policy_id: int | None
    name: str
    backtested: Backtested

    def document(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        found = self.backtested
        return {
            "policy_id": self.policy_id,
            "name": self.name,
            "since": found.since.isoformat(),
            "until": found.until.isoformat(),
            "step_sec": found.step_sec,
            **found.replayed.document(),
            "freeze_count": found.freeze_count,
            "freezes": [{"at": each.at.isoformat(), "cause": str(each.cause)} for each in found.freezes],
            "tariff_spans": [
                {"cluster_id": cluster, "spans": [_span(segment) for segment in segments]}
                for cluster, segments in found.tariff_spans.items()
            ],
        }


def backtest(  # noqa: PLR0913 - which policy, which past, whose, and how finely
    store: Store,
    policy_id: int,
    *,
    since: datetime,
    until: datetime,
    step: timedelta,
    tenant_id: str | None = None,
    rate: float | None,
    limit: int = MAX_MACHINE_STEPS,
    progress: Callable[[float], None] | None = None,
) -> Backtest:
    """Try the policy, as it is now, from ``since`` to ``until``; ``rate`` is CNY per USDT (None: unknown).

    ``progress`` is told the share that is done.

    Raises:
        UnknownPolicy: the tenant has no such policy.
        InvalidDocument: the period or the step are none that can be meant.
        TooMuchToReplay: more than ``limit`` decisions; it says what to reduce.
    """
    check_period(since, until, step)
    since, until = since.astimezone(UTC), until.astimezone(UTC)
    steps = steps_of(since, until, step)
    machines: list[Machine] = []
    found = 0

    def take(block: Block) -> None:
        nonlocal found
        for machine in machines_of(block):
            found += 1
            if found * steps <= limit:
                machines.append(machine)

    with store.transaction() as tx:
        trial = tx.begin_trial(policy_id, _NO_GATES, tenant_id=tenant_id)
        if trial is None:
            raise UnknownPolicy(policy_id)
        policy = trial.tick.policy
        inputs = tx.tick_inputs(trial.tick, tariffs_from=since)
        nobody_above = overriding(policy, (), inputs.classes, now=tx.now)
        tx.read_machines(policy, inputs, nobody_above, take)
        read_at = tx.now
    check_size(found, steps, limit)
    scenario = Scenario(
        policy=policy,
        since=since,
        until=until,
        step=step,
        rate=rate,
        projects=inputs.projects,
        clusters=inputs.clusters,
        classes=inputs.classes,
        machines=tuple(machines),
        read_at=read_at,
        limit=limit,
    )
    wanted = {*policy.considered_projects, *(machine.project_id for machine in machines)}
    run = BacktestRun(scenario, _readings(store, scenario, sorted(wanted)))
    for end in run.advance(until):
        if progress is not None:
            progress((end - since) / (until - since))
    return Backtest(policy_id=policy_id, name=policy.name, backtested=run.backtested())


def _readings(store: Store, scenario: Scenario, projects: Sequence[int]) -> Iterator[PriceReading]:
    """Read the prices of a period page by page, and those from before it that still count at its beginning."""
    after = scenario.since - timedelta(seconds=scenario.policy.profit_max_age_sec) - scenario.step
    while after < scenario.until:
        page_end = min(after + _PAGE_STEPS * scenario.step, scenario.until)
        with store.transaction() as tx:
            page = tx.price_history(
                projects,
                tenant_id=scenario.policy.tenant_id,
                start=scenario.since,
                after=after,
                until=page_end,
                step=scenario.step,
            )
        yield from page
        after = page_end


def _span(segment: TariffSegment) -> dict[str, Any]:
    status = segment.status
    price: dict[str, Any] = {"price_cny_per_kwh": None, "period": None, "problem": None}
    if isinstance(status, TariffPrice):
        price |= {"price_cny_per_kwh": status.price_cny_per_kwh, "period": status.period}
    else:
        price["problem"] = status.kind
    return {"start": segment.start.isoformat(), "end": segment.end.isoformat(), **price}
