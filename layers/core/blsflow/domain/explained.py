"""An explanation as a document: the published shape of a decision's figures (R3.2), in files and in the API alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from blsflow.domain.catalogue import word
from blsflow.domain.reading import Known, Reading, Stale, Unknown
from blsflow.domain.tariff import TariffPrice

if TYPE_CHECKING:
    from blsflow.domain.explain import Explanation, ProjectFigures
    from blsflow.domain.market import ClusterMarket


def explained(explanation: Explanation) -> dict[str, Any]:
    """Return an explanation as JSON holds it; money is CNY per day, an unknown figure is null."""
    verdict = explanation.verdict
    return {
        "machine_id": explanation.machine.machine_id,
        "action": verdict.action,
        "reason": verdict.reason,
        "meaning": word(verdict.reason).en,
        "meaning_zh": word(verdict.reason).zh,
        "from_project": verdict.from_project,
        "to_project": verdict.to_project,
        "run_config_id": verdict.run_config_id,
        "current_net_cny_per_day": verdict.current_net,
        "best_net_cny_per_day": verdict.best_net,
        "benchmark_requests": list(verdict.benchmark_requests),
        "electricity": _tariff(explanation.cluster),
        "window_id": explanation.window and explanation.window.id,
        "projects": [_project(project) for project in explanation.projects],
        "hurdles": [
            {"reason": hurdle.reason, "value": _finite(hurdle.value), "limit": hurdle.limit,
             "unit": hurdle.unit, "must_exceed": hurdle.strictly, "cleared": hurdle.cleared}
            for hurdle in explanation.hurdles
        ],
        "horizon_sec": explanation.horizon_sec,
    }  # fmt: skip


def _tariff(cluster: ClusterMarket | None) -> dict[str, Any] | None:
    if cluster is None:
        return None
    change = cluster.next_change_at and cluster.next_change_at.isoformat()
    if isinstance(cluster.tariff, TariffPrice):
        return {
            "tariff": cluster.tariff.tariff,
            "period": cluster.tariff.period,
            "price_cny_per_kwh": cluster.tariff.price_cny_per_kwh,
            "next_change_at": change,
        }
    return {"problem": cluster.tariff.kind, "names": list(cluster.tariff.names), "next_change_at": change}


def _project(project: ProjectFigures) -> dict[str, Any]:
    figures = project.figures
    return {
        "project_id": project.project_id,
        "name": project.name,
        "candidate": project.is_candidate,
        "running": project.is_running,
        "eligible": project.eligible,
        "run_config_id": project.run_config_id,
        "price": price_state(project.revenue),
        "benchmark": project.benchmark_state,
        "figures": figures
        and {
            "source": figures.source,
            "hashrate_hs": figures.hashrate_hs,
            "power_w": figures.power_w,
            "revenue_cny_per_day": figures.revenue,
            "cost_cny_per_day": figures.cost,
            "net_cny_per_day": figures.net,
        },
    }


def price_state(revenue: Reading) -> dict[str, Any]:
    """Return a price with its state: known, stale or unknown."""
    match revenue:
        case Known(value=value):
            return {"state": "known", "cny_per_hashrate_day": value}
        case Stale(reason=reason):
            return {"state": "stale", "reason": reason}
        case Unknown(reason=reason):
            return {"state": "unknown", "reason": reason}


def _finite(value: float) -> float | None:
    """JSON has no NaN: an unknown figure is null."""
    return value if value == value else None  # noqa: PLR0124 - NaN is what differs from itself
