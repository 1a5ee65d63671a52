"""A tick's decisions with the figures that led to them, as JSON and as tables (R3.2)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from blsflow.domain.catalogue import word
from blsflow.domain.explain import Explanation, ProjectFigures, explain
from blsflow.domain.explained import explained, price_state
from blsflow.domain.freeze import Freeze, TickFailure, freeze_for, tick_failure
from blsflow.domain.reading import Known
from blsflow.domain.tariff import TariffPrice
from blsflow.domain.verdict import MOVES
from blsflow_cli.options import figures, moment
from blsflow_cli.output import table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

    from blsflow.domain.catalogue import Language
    from blsflow.domain.market import ClusterMarket
    from blsflow_cli.decide_inputs import DecideInputs


@dataclass(frozen=True, kw_only=True, slots=True)
class DecideReport:
    """All verdicts of a document, whether the tick would count as failed, and whether it would freeze."""

    inputs: DecideInputs
    explanations: tuple[Explanation, ...]
    failure: TickFailure | None
    freeze: Freeze | None


def report_of(inputs: DecideInputs) -> DecideReport:
    """Decide every machine of the document."""
    policy, market = inputs.policy, inputs.market
    explanations = tuple(explain(policy, market, machine) for machine in inputs.machines)
    return DecideReport(
        inputs=inputs,
        explanations=explanations,
        failure=tick_failure(policy, market),
        freeze=freeze_for(
            policy,
            flagged=inputs.valuation.flagged,
            worst_jump=inputs.valuation.worst_jump,
            moves=sum(each.verdict.action in MOVES for each in explanations),
            machines=len(explanations),
        ),
    )


def as_json(report: DecideReport) -> dict[str, Any]:
    """The published shape of the answer; money is CNY per day, times are UTC."""
    counts = Counter(f"{each.verdict.action}/{each.verdict.reason}" for each in report.explanations)
    freeze = report.freeze
    return {
        "now": report.inputs.market.now.isoformat(),
        "policy": report.inputs.policy.name,
        "failure": report.failure,
        "freeze": freeze and {"cause": freeze.cause, "detail": dict(freeze.detail)},
        "counts": dict(sorted(counts.items())),
        "machines": [explained(each) for each in report.explanations],
    }


def show(report: DecideReport, console: Console, language: Language = "en") -> None:
    """Print one line per machine, then the figures of each project that a machine runs or may run."""
    verdicts = [(each, each.verdict) for each in report.explanations]
    console.print(
        table(
            f"Decisions of policy {report.inputs.policy.name!r} at {moment(report.inputs.market.now)}",
            ["machine", "action", "reason", "from", "to", "net now (CNY/day)", "best (CNY/day)", "electricity"],
            (
                (each.machine.machine_id, verdict.action, verdict.reason, verdict.from_project,
                 verdict.to_project, verdict.current_net, verdict.best_net, _electricity(each.cluster))
                for each, verdict in verdicts
            ),
        )
    )  # fmt: skip
    for reason in dict.fromkeys(verdict.reason for _, verdict in verdicts):
        console.print(f"  [bold]{reason}[/bold]: {word(reason).of(language)}")
    console.print()
    console.print(
        table(
            "What each project would bring",
            ["machine", "project", "", "price", "benchmark",
             "revenue (CNY/day)", "cost (CNY/day)", "net (CNY/day)"],
            (row for each in report.explanations for row in _rows(each)),
        )
    )  # fmt: skip
    if left_out := sum(not _may_run(project) for each in report.explanations for project in each.projects):
        console.print(
            f"  left out: {left_out} projects of these machines that may not run there", highlight=False
        )
    _show_hurdles(report, console)
    if report.failure is not None:
        console.print(f"[red]This tick counts as failed: {report.failure}[/red]")
    if report.freeze is not None:
        console.print(
            f"[red]The policy would freeze: {report.freeze.cause}: {figures(report.freeze.detail)}[/red]"
        )


def _show_hurdles(report: DecideReport, console: Console) -> None:
    rows = [
        (each.machine.machine_id, hurdle.reason, _figure(hurdle.value, hurdle.unit),
         ("> " if hurdle.strictly else ">= ") + _figure(hurdle.limit, hurdle.unit), hurdle.unit, hurdle.cleared)
        for each in report.explanations
        for hurdle in each.hurdles
    ]  # fmt: skip
    if rows:
        console.print()
        columns = ["machine", "hurdle", "is", "must be", "unit", "cleared"]
        console.print(table("What a move has to clear", columns, rows))


def _figure(value: float, unit: str) -> str:
    """Seconds to a tenth, and money to a hundredth of a cent."""
    return f"{value:.1f}" if unit == "s" else f"{value:.4f}"


def _rows(explanation: Explanation) -> Iterator[tuple[object, ...]]:
    for project in filter(_may_run, explanation.projects):
        figures = project.figures
        yield (
            explanation.machine.machine_id,
            project.name,
            ", ".join(_marks(project)),
            price_state(project.revenue)["state"]
            if isinstance(project.revenue, Known)
            else project.revenue.reason,
            project.benchmark_state if figures is None or figures.source == "benchmark" else figures.source,
            figures and figures.revenue,
            figures and figures.cost,
            figures and figures.net,
        )


def _may_run(project: ProjectFigures) -> bool:
    return project.is_running or (project.eligible and project.run_config_id is not None)


def _marks(project: ProjectFigures) -> Iterator[str]:
    if project.is_running:
        yield "running"
    if not project.is_candidate:
        yield "no candidate"
    if not project.eligible:
        yield "not eligible"
    if project.run_config_id is None:
        yield "not runnable"


def _electricity(cluster: ClusterMarket | None) -> str | None:
    if cluster is None:
        return None
    if isinstance(cluster.tariff, TariffPrice):
        return f"{cluster.tariff.period} {cluster.tariff.price_cny_per_kwh:g} CNY/kWh"
    return " ".join((cluster.tariff.kind, *cluster.tariff.names))
