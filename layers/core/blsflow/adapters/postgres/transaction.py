"""A transaction: one list of what it can do, in parts that are imported when one of their methods is first asked for.

Each function uses a few of the parts, and each part brings the domain that its rows are made of: importing them all would
cost every function most of its cold start. A type checker sees the parts as base classes.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from blsflow.adapters.postgres.part import Part

if TYPE_CHECKING:
    from collections.abc import Callable

    from blsflow.adapters.postgres.benchmark import BenchmarkQueries
    from blsflow.adapters.postgres.commands import CommandQueries
    from blsflow.adapters.postgres.control import ControlQueries
    from blsflow.adapters.postgres.converse import ConverseQueries
    from blsflow.adapters.postgres.decide import DecideQueries
    from blsflow.adapters.postgres.events import EventQueries
    from blsflow.adapters.postgres.execute import ExecuteQueries
    from blsflow.adapters.postgres.logs import LogQueries
    from blsflow.adapters.postgres.notifications import NotificationQueries
    from blsflow.adapters.postgres.notify import NotifyQueries
    from blsflow.adapters.postgres.pages import PageQueries
    from blsflow.adapters.postgres.policies import PolicyQueries
    from blsflow.adapters.postgres.reconcile import ReconcileQueries
    from blsflow.adapters.postgres.replay import ReplayQueries
    from blsflow.adapters.postgres.requests import RequestQueries
    from blsflow.adapters.postgres.sampling import SamplingQueries
    from blsflow.adapters.postgres.schedules import ScheduleQueries
    from blsflow.adapters.postgres.tick import TickQueries
    from blsflow.adapters.postgres.ticks import TickRecordQueries

    class _Parts(
        TickQueries,
        DecideQueries,
        ExecuteQueries,
        ConverseQueries,
        ReconcileQueries,
        BenchmarkQueries,
        SamplingQueries,
        ScheduleQueries,
        EventQueries,
        NotifyQueries,
        NotificationQueries,
        LogQueries,
        ControlQueries,
        ReplayQueries,
        RequestQueries,
        PolicyQueries,
        TickRecordQueries,
        CommandQueries,
        PageQueries,
    ):
        """All parts in one."""

else:
    _Parts = Part

PARTS: Final = {
    "tick.TickQueries": (
        "newest_fetch store_snapshot store_fetch_failure due_schedules record_scan "
        "mark_broken close_unbegun close_finished_ticks unqueued_occurrences "
        "mark_occurrences_enqueued unqueued_attempts mark_attempts_enqueued"
    ),
    "decide.DecideQueries": (
        "begin_tick tick_inputs adopt_foreign_changes foreign_changes read_machines decisions "
        "prepare_attempts request_benchmarks withhold_moves open_freeze finish_dry_run "
        "finish_tick"
    ),
    "execute.ExecuteQueries": "begin_dispatch record_outcome expire_prepared end_unsent",
    "converse.ConverseQueries": "begin_conversation record_start open_runs record_runs",
    "reconcile.ReconcileQueries": "overdue_dispatching open_attempts record_settlements failed_shares open_ages maintain",
    "benchmark.BenchmarkQueries": (
        "begin_benchmark_step benchmark_prospect take_benchmark_lock postpone_benchmark "
        "prepare_benchmark_command benchmark_commands claim_benchmark_attempt note_benchmark "
        "add_benchmark_reading benchmark_sample record_judgement take_turn_to_share "
        "store_benchmark model_figures machines_without_own share_benchmark whereabouts "
        "end_benchmark"
    ),
    "sampling.SamplingQueries": (
        "startable_benchmarks benchmark_rooms machines_under_benchmark claim_benchmarks "
        "note_execution drop_unwanted_benchmarks benchmark_runs_at_work rescue_benchmark "
        "alert_benchmark watch_drift request_drifted covers_machine request_benchmark_by_hand "
        "list_benchmark_runs benchmark_costs sampling_cost"
    ),
    "schedules.ScheduleQueries": (
        "create_schedule change_schedule schedule_row pause_schedule archive_schedule "
        "list_schedules request_schedule_run cancel_occurrence unsent_attempts_of "
        "cancelling_run_of history occurrence_row"
    ),
    "events.EventQueries": "write_events",
    "notify.NotifyQueries": "claim_notifications mark_published mark_unpublished",
    "notifications.NotificationQueries": "list_notifications mark_notification",
    "logs.LogQueries": (
        "knows_policy newest_place has_place place_of is_settled newest_frames next_frames "
        "log_page log_tail log_position follow_log take_stream free_stream"
    ),
    "control.ControlQueries": (
        "set_enabled set_mode freeze_by_hand begin_trial request_run close_attempt change_lease knows_tenant "
        "lease_of policy_status open_work schema_version"
    ),
    "replay.ReplayQueries": "policy_name stored_ticks stored_tick_inputs read_stored_records price_history",
    "requests.RequestQueries": "claim_request answer_request",
    "policies.PolicyQueries": (
        "unknown_references insert_policy lock_policy replace_policy archive_policy "
        "unsent_attempts_of_policy policy_view list_policies freezes tick_at_rest coverage"
    ),
    "ticks.TickRecordQueries": (
        "ticks tick stored_tick decisions_of_tick tenant_of_machine decisions_of_machine stored_decision"
    ),
    "commands.CommandQueries": (
        "command_grounds command_prospects prepare_command passed_over leave_at_rest "
        "lock_holder close_machine free_ended_lock"
    ),
    "pages.PageQueries": "read_page",
}
"""The methods of every part, by its module and class."""

_PART_OF: Final = {method: part for part, methods in PARTS.items() for method in methods.split()}


class PostgresTransaction(_Parts):
    """One open transaction; ``now`` is the time at which it began, by the database's clock."""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Callable[..., object]:
            """Return a method of a part, and keep it for the next call in this transaction."""
            if name not in _PART_OF:
                message = f"a transaction has no {name}"
                raise AttributeError(message, name=name, obj=self)
            module, part = _PART_OF[name].split(".")
            made = getattr(import_module(f"{__package__}.{module}"), part)(self._session, self.now)
            method = self.__dict__[name] = getattr(made, name)
            return method
