"""Readiness: all that would keep a policy from acting, and what lies ahead of its tariffs (R2, R4.2)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from aws_lambda_powertools.event_handler import Response

from blsflow.bootstrap import application
from blsflow.domain.tariff import TariffProblemKind
from blsflow.domain.texts import render_finding
from blsflow.flow import readiness as flow
from blsflow.web.caller import Scope

from .policies import Standing
from .routing import answer, caller, operation, store
from .shapes import Answer, Figure, PathId, Texts


class Finding(Answer):
    """One thing that is not as it should be; an `error` keeps the policy from acting, a `warning` some of its machines."""

    code: str
    severity: str
    params: dict[str, Any]
    texts: Texts


class TariffSpan(Answer):
    """A stretch without a known price, its end not included."""

    start: datetime
    end: datetime


class TariffTrouble(Answer):
    """What lies ahead of a cluster within a year: the first stretches, how many there are, and their hours."""

    cluster_id: int
    spans: list[TariffSpan]
    count: int
    hours: float
    fault: str | None


class CandidatePrice(Answer):
    """A candidate's price: `known`, `stale` or `unknown`, and then why."""

    project_id: int
    name: str
    state: str
    reason: str | None
    age_sec: Figure


class Coverage(Answer):
    """How many machines could run a candidate, and the state of their benchmarks on it."""

    project_id: int
    machines: int
    eligible: int
    runnable: int
    valid: int
    missing: int
    expired: int
    invalid: int
    shared: int


class MachineReports(Answer):
    """How many machines the policy covers, and how many of them a tick would find wanting."""

    machines: int
    reports_stale: int
    power_missing: int
    held: int
    locked: int
    without_eligible: int
    without_runnable: int
    without_benchmark: int


class Readiness(Answer):
    """`ready` is false exactly if a finding is an error. `machines` is null for a policy that cannot be meant."""

    ready: bool
    findings: list[Finding]
    status: Standing
    as_of: datetime
    execute_enabled: bool
    executor_configured: bool
    exchange_rate_known: bool
    tariff_gaps: list[TariffTrouble]
    tariff_overlaps: list[TariffTrouble]
    tariff_currencies: list[TariffTrouble]
    tariffs_not_surveyed: list[int]
    prices: list[CandidatePrice]
    benchmark_coverage: list[Coverage]
    machines: MachineReports | None


@operation("GET", "/policies/<policy_id>/readiness", scope=Scope.READ, tag="policies", problems=["not_found"])
def read_readiness(policy_id: PathId) -> Response[Readiness]:
    """Look whether a policy would act if it ticked now, and why not.

    Tariffs are surveyed for a year ahead, which has both DST days of every zone that has them.
    """
    app = application()
    found = flow.readiness(
        store(), policy_id, gates=app.gates, rate=app.settings.usdt_to_cny_rate, tenant_id=caller().tenant_id
    )
    return answer(
        Readiness(
            ready=found.ready,
            findings=[_finding(each) for each in found.findings],
            status=Standing.model_validate(found.status),
            as_of=found.as_of,
            execute_enabled=found.execute_enabled,
            executor_configured=found.executor_configured,
            exchange_rate_known=found.exchange_rate_known,
            tariff_gaps=_troubles(found, "tariff_gap"),
            tariff_overlaps=_troubles(found, "tariff_overlap"),
            tariff_currencies=_troubles(found, "tariff_currency"),
            tariffs_not_surveyed=list(found.tariffs.not_surveyed),
            prices=[CandidatePrice.model_validate(each) for each in found.prices],
            benchmark_coverage=[Coverage.model_validate(each) for each in found.coverage],
            machines=None if found.machines is None else MachineReports.model_validate(found.machines),
        )
    )


def _troubles(found: flow.Readiness, kind: TariffProblemKind) -> list[TariffTrouble]:
    return [TariffTrouble.model_validate(each) for each in found.tariffs.of_kind(kind)]


def _finding(found: flow.Finding) -> Finding:
    return Finding(
        code=found.code,
        severity=found.severity,
        params=dict(found.params),
        texts=Texts.model_validate(render_finding(found.code, found.params)),
    )
