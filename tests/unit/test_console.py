"""What a console shows and lets people do is all in the API's document, computed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest
import typer.main
from typer.core import TyperGroup

from blsflow_cli.main import app
from tests.api_operations import document, resolved

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SHOWN: Final[Mapping[str, str]] = {
    "list_policies": "items.document items.version items.enabled items.execution_mode",
    "read_policy_status": "freeze.cause freeze.detail newest_tick lease.held open_attempts live_locks next_run_at"
    " sampling.lost_cny sampling.lost_minutes",
    "read_readiness": "ready findings.texts.zh tariff_gaps tariff_overlaps prices.age_sec machines.reports_stale",
    "dry_run_policy": "counts gain_cny_per_day obstacles shown.meaning shown.meaning_zh shown.hurdles.cleared",
    "list_ticks": "items.counts items.gain_cny_per_day items.failure",
    "list_decisions": "items.action items.reason items.current_net_cny_per_day items.best_net_cny_per_day",
    "explain_decision": "explanation.electricity.price_cny_per_kwh explanation.projects.figures.net_cny_per_day differences",
    "report_policy": "gain_cny gain_over_always_on_cny unknown_hours moves series.policy_cny",
    "backtest_policy": "gain_cny unknown_hours series.as_is_cny freeze_count tariff_spans",
    "list_freezes": "items.cause items.lifted_by items.lift_reason",
    "list_log_events": "items.texts.en items.texts.zh items.params stream_after",
    "list_notifications": "items.texts.en items.texts.zh items.read_by",
    "list_locks": "items.age_sec items.owner_state",
    "list_jobs": "items.state items.machines items.succeeded items.failed items.pending",
    "list_command_machines": "items.state items.reason",
    "list_benchmarks": "items.hashrate_hs items.power_w",
    "list_benchmark_runs": "items.state items.reason items.lost_cny items.lost_minutes",
    "list_schedules": "items.rule items.next_run_at",
    "list_occurrences": "items.state items.reason items.missed_count items.output_ref",
    "preview_schedule": "runs.at runs.clock",
    "list_clusters": "items.time_zone items.machines",
    "list_projects": "items.name items.price_key",
    "list_machines": "items.model items.status items.reported_at",
}
"""By operation, figures and words that a console would otherwise have to make itself."""

BY_COMMAND: Final[Mapping[str, str]] = {
    "status": "read_policy_status",
    "readiness": "read_readiness",
    "enable": "enable_policy",
    "disable": "disable_policy",
    "mode": "set_policy_mode",
    "freeze": "freeze_policy",
    "lease": "change_lease",
    "run": "run_policy",
    "dry-run": "dry_run_policy",
    "attempts": "list_jobs",
    "release": "close_job",
    "locks": "list_locks",
    "unlock": "release_lock",
    "schedules": "list_schedules",
    "occurrences": "list_occurrences",
    "report": "report_policy",
    "backtest": "backtest_policy",
    "logs": "follow_log",
    "fleet clusters": "list_clusters",
    "fleet projects": "list_projects",
    "fleet machines": "list_machines",
    "decisions": "list_decisions_of_machine",
    "freezes": "list_freezes",
    "notifications": "list_notifications",
    "explain": "explain_decision",
    "benchmark list": "list_benchmark_runs",
    "benchmark run": "request_benchmark_run",
    "schedule preview": "preview_rule",
    "schedule create": "create_schedule",
    "schedule change": "change_schedule",
    "schedule pause": "pause_schedule",
    "schedule resume": "resume_schedule",
    "schedule archive": "archive_schedule",
    "schedule run": "run_schedule",
    "schedule cancel": "cancel_occurrence",
    "policy create": "create_policy",
    "policy show": "read_policy",
    "policy change": "change_policy",
    "policy archive": "archive_policy",
    "command switch": "send_command",
    "command start": "send_command",
    "command stop": "send_command",
    "command power-off": "send_command",
    "command list": "list_commands",
    "command show": "list_command_machines",
}
OF_THE_DEPLOYMENT: Final = {
    *("migrate", "doctor", "tick", "execute", "serve"),  # the functions' own work, for all tenants
    *("decide", "tariff check", "benchmark judge", "schema"),  # documents, without a deployment
    "token",  # the local issuer's
}


def _commands(group: Any = None, before: str = "") -> Iterator[str]:
    group = group or typer.main.get_command(app)
    for name, command in group.commands.items():
        if isinstance(command, TyperGroup):
            yield from _commands(command, f"{before}{name} ")
        else:
            yield before + name


def _operations() -> dict[str, Mapping[str, Any]]:
    return {
        described["operationId"]: described
        for methods in document()["paths"].values()
        for described in methods.values()
    }


def _answer_of(operation: str) -> Mapping[str, Any]:
    told = next(
        each for status, each in _operations()[operation]["responses"].items() if status.startswith("2")
    )
    schema: Mapping[str, Any] = told["content"]["application/json"]["schema"]
    return schema


@pytest.mark.parametrize("operation", SHOWN)
def test_what_a_console_shows_comes_from_the_api(operation: str) -> None:
    """R1.4: figures, states, reasons and texts stand in the answers; whoever shows them computes and decides nothing."""
    for path in SHOWN[operation].split():
        schema = resolved(_answer_of(operation))
        for name in path.split("."):
            schema = resolved(schema["items"]) if schema.get("type") == "array" else schema
            assert name in schema["properties"], path
            schema = resolved(schema["properties"][name])


def test_whatever_the_command_line_shows_or_does_the_api_does_too() -> None:
    """R1.4, R11.5: a console needs no second way in; a command for a tenant's people has an operation beside it."""
    assert set(BY_COMMAND) | OF_THE_DEPLOYMENT == set(_commands())
    assert set(BY_COMMAND.values()) <= set(_operations())
