"""Readiness: what a policy has to work with, and all that would keep it from acting if it ticked now (R9.1).

It reads as a tick would, without waiting for one that is under way, and leaves no trace. The same conditions hold a tick
back by themselves (R4.2, R6.2); this tells of all of them at once, and of what lies ahead.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from blsflow.domain.errors import InvalidDocument
from blsflow.domain.policy import ExecutionMode, Mode
from blsflow.domain.prices import PriceFault
from blsflow.domain.reading import Known, Stale
from blsflow.domain.tariff import TariffPrice
from blsflow.domain.tariff_outlook import TariffOutlook, tariff_outlook
from blsflow.domain.valuation import value_market
from blsflow.flow.control import UnknownPolicy
from blsflow.flow.policy_status import Standing, standing_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from blsflow.domain.gates import Gates
    from blsflow.domain.inputs import TickInputs
    from blsflow.domain.market import Market
    from blsflow.domain.policy import Policy
    from blsflow.ports.decide import BegunTick
    from blsflow.ports.policies import CandidateCoverage, MachineReports
    from blsflow.ports.store import Store, Transaction

_NO_OUTLOOK: Final = TariffOutlook(troubles=(), not_surveyed=())


class Severity(StrEnum):
    """What a finding means: an error keeps the policy from acting, a warning some of its machines."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One thing that is not as it should be; ``code`` is stable, ``params`` are its figures."""

    code: str
    severity: Severity
    params: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class CandidatePrice:
    """A candidate's price: ``known``, ``stale`` or ``unknown`` and then why; the age in seconds of what was last sent."""

    project_id: int
    name: str
    state: str
    reason: str | None
    age_sec: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Readiness:
    """What a policy has to work with, and whether it would act if it ticked now.

    ``ready`` is False exactly if a finding is an error. ``machines`` is None for a policy that cannot be meant.
    """

    ready: bool
    findings: tuple[Finding, ...]
    status: Standing
    as_of: datetime
    execute_enabled: bool
    executor_configured: bool
    exchange_rate_known: bool
    tariffs: TariffOutlook
    prices: tuple[CandidatePrice, ...]
    coverage: tuple[CandidateCoverage, ...]
    machines: MachineReports | None


def readiness(
    store: Store, policy_id: int, *, gates: Gates, rate: float | None, tenant_id: str | None = None
) -> Readiness:
    """Look at a policy; ``rate`` is CNY per USDT (None: unknown). An archived policy is unknown."""
    with store.transaction() as tx:
        status = standing_in(tx, policy_id, tenant_id=tenant_id)
        found = list(_obstacles(status, gates))
        try:
            begun = tx.tick_at_rest(policy_id, tenant_id=tenant_id)
        except InvalidDocument as error:
            found.append(_error("policy_invalid", field=error.field, cause=error.cause))
            return _told(tx, status, gates, rate, found)
        if begun is None:
            raise UnknownPolicy(policy_id)
        return _examined(tx, begun, status, gates, rate, found)


def _examined(  # noqa: PLR0913, PLR0917 - what was found so far, and what it is completed by
    tx: Transaction,
    begun: BegunTick,
    status: Standing,
    gates: Gates,
    rate: float | None,
    found: list[Finding],
) -> Readiness:
    policy = begun.policy
    inputs = tx.tick_inputs(begun)
    market = value_market(inputs, policy, now=begun.ticked_at, rate=rate).market
    coverage, machines = tx.coverage(begun, inputs)
    outlook = tariff_outlook(inputs.clusters, begun.ticked_at, rate=rate)
    prices = tuple(_prices(policy, inputs, market))
    found += _of_machines(machines)
    if policy.mode is Mode.PROFIT_GUARD:
        found += _of_prices(policy, prices, rate)
        found += _of_tariffs(outlook, market)
        found += _of_coverage(coverage, machines)
    elif not policy.windows:
        found.append(_error("no_windows"))
    return _told(
        tx, status, gates, rate, found, outlook=outlook, prices=prices, coverage=coverage, machines=machines
    )


def _told(  # noqa: PLR0913 - the parts of the answer
    tx: Transaction,
    status: Standing,
    gates: Gates,
    rate: float | None,
    found: Sequence[Finding],
    *,
    outlook: TariffOutlook = _NO_OUTLOOK,
    prices: tuple[CandidatePrice, ...] = (),
    coverage: Sequence[CandidateCoverage] = (),
    machines: MachineReports | None = None,
) -> Readiness:
    return Readiness(
        ready=not any(finding.severity is Severity.ERROR for finding in found),
        findings=tuple(found),
        status=status,
        as_of=tx.now,
        execute_enabled=gates.execute_enabled,
        executor_configured=gates.executor_configured,
        exchange_rate_known=rate is not None,
        tariffs=outlook,
        prices=prices,
        coverage=tuple(coverage),
        machines=machines,
    )


def _obstacles(status: Standing, gates: Gates) -> Iterator[Finding]:
    """Say what keeps the policy from ticking or acting, whatever its inputs."""
    if not status.enabled:
        yield _error("policy_disabled")
    if status.freeze is not None:
        yield _error("policy_frozen", cause=status.freeze.cause)
    if status.execution_mode != ExecutionMode.EXECUTE:
        yield _error("mode_not_execute", execution_mode=status.execution_mode)
    if status.schedule_broken is not None:
        yield _error("schedule_broken", cause=status.schedule_broken)
    elif status.next_run_at is None:
        yield _error("no_next_run")
    if not gates.execute_enabled:
        yield _error("execute_disabled")
    if not gates.executor_configured:
        yield _error("executor_unconfigured")
    if not status.lease.held:
        yield _error("lease_not_held", holder=status.lease.holder)


def _of_machines(machines: MachineReports) -> Iterator[Finding]:
    if not machines.machines:
        yield _error("no_machines_in_scope")
        return
    if machines.reports_stale:
        yield _warning("reports_stale", machines=machines.reports_stale, of=machines.machines)
    if machines.power_missing:
        yield _warning("power_missing", machines=machines.power_missing, of=machines.machines)


def _prices(policy: Policy, inputs: TickInputs, market: Market) -> Iterator[CandidatePrice]:
    sent = {project.project_id: project.raw for project in inputs.projects}
    for project_id in policy.candidates:
        raw, valued = sent.get(project_id), market.projects.get(project_id)
        reading = None if valued is None else valued.revenue
        match reading:
            case Known():
                state, reason = "known", None
            case Stale():
                state, reason = "stale", str(reading.reason)
            case _:
                state = "unknown"
                reason = str(PriceFault.MISSING if reading is None else reading.reason)
        yield CandidatePrice(
            project_id=project_id,
            name=str(project_id) if valued is None else valued.name,
            state=state,
            reason=reason,
            age_sec=None if raw is None else (market.now - raw.taken_at).total_seconds(),
        )


def _of_prices(policy: Policy, prices: Sequence[CandidatePrice], rate: float | None) -> Iterator[Finding]:
    if not policy.candidates:
        yield _error("no_candidates")
        return
    if rate is None:
        yield _error("exchange_rate_unknown")
        return
    if not any(price.state == "known" for price in prices):
        yield _error("no_price_known")
    for price in prices:
        if price.state != "known":
            yield _warning(
                f"price_{price.state}",
                project_id=price.project_id,
                reason=price.reason,
                age_sec=price.age_sec,
            )


def _of_tariffs(outlook: TariffOutlook, market: Market) -> Iterator[Finding]:
    priced = {
        cluster.cluster_id: isinstance(cluster.tariff, TariffPrice) for cluster in market.clusters.values()
    }
    if priced and not any(priced.values()):
        yield _error("no_tariff_known")
    for trouble in outlook.troubles:
        yield _warning(
            trouble.kind,
            cluster_id=trouble.cluster_id,
            now=not priced.get(trouble.cluster_id, False),
            first_at=trouble.spans[0].start,
            count=trouble.count,
            hours=trouble.hours,
            **({} if trouble.fault is None else {"fault": trouble.fault}),
        )
    if outlook.not_surveyed:
        yield _warning("tariffs_not_surveyed", clusters=len(outlook.not_surveyed))


def _of_coverage(coverage: Sequence[CandidateCoverage], machines: MachineReports) -> Iterator[Finding]:
    if coverage and machines.machines and machines.without_runnable == machines.machines:
        yield _error("no_runnable_candidate", machines=machines.machines)
    elif machines.without_runnable and coverage:
        yield _warning(
            "machines_without_candidate",
            machines=machines.without_runnable,
            of=machines.machines,
            not_eligible=machines.without_eligible,
        )
    for each in coverage:
        if each.valid < each.runnable:
            yield _warning(
                "benchmarks_wanting",
                project_id=each.project_id,
                missing=each.missing,
                expired=each.expired,
                invalid=each.invalid,
                of=each.runnable,
            )


def _error(code: str, **params: object) -> Finding:
    return Finding(code=code, severity=Severity.ERROR, params=params)


def _warning(code: str, **params: object) -> Finding:
    return Finding(code=code, severity=Severity.WARNING, params=params)
