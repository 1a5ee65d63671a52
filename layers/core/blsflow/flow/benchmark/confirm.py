"""Confirm: whether the machine does what the run's newest command asked for, by what it then does (R5.6)."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from blsflow.domain.settle import settle
from blsflow.flow.benchmark.step import SUPERSEDED, StepOutcome
from blsflow.flow.freeze import freeze_on_failures
from blsflow.settings import BENCHMARK_CONFIRM_SEC

if TYPE_CHECKING:
    from datetime import datetime

    from blsflow.flow.benchmark.step import StepCall
    from blsflow.ports.benchmark import BenchmarkCommand, BenchmarkRun

FIRST_LOOK: Final = 3
_LOOK_EVERY: Final = 5
_WAIT_AT_MOST: Final = timedelta(seconds=BENCHMARK_CONFIRM_SEC)
_AFTER_FAILURE: Final = 10
_LOOK_LEASE: Final = timedelta(seconds=60)


def confirm_switch(call: StepCall) -> StepOutcome:
    """Answer `waiting`, `confirmed` (measured from now on), `failed` or `overdue`: nobody knows, and reconcile follows on."""
    return _confirm(call, "switch")


def confirm_restore(call: StepCall) -> StepOutcome:
    """Answer as `confirm_switch`; `confirmed` is the machine back on what it did before."""
    return _confirm(call, "restore")


def _confirm(call: StepCall, step: str) -> StepOutcome:
    _follow(call)
    with call.store.transaction() as tx:
        run = tx.begin_benchmark_step(call.run_id, call.execution, f"confirm_{step}")
        if run is None:
            return StepOutcome(outcome=SUPERSEDED)
        command = tx.benchmark_commands(call.run_id)[0]
        outcome = _standing(run, command, call, now=tx.now)
        if outcome.outcome == "confirmed" and step == "switch":
            tx.note_benchmark(call.run_id, measuring_from=tx.now)
        elif outcome.outcome in {"failed", "overdue"} and step == "switch":
            tx.note_benchmark(call.run_id, failed_for=outcome.detail)
        return outcome


def _standing(run: BenchmarkRun, command: BenchmarkCommand, call: StepCall, *, now: datetime) -> StepOutcome:
    machine_id = run.machine_id
    if command.machine_state == "succeeded":
        warm_up = math.ceil(call.settings.warm_up.total_seconds())
        return StepOutcome(outcome="confirmed", machine_id=machine_id, wait_sec=warm_up)
    if command.ended or command.machine_state != "pending":
        return StepOutcome(
            outcome="failed",
            machine_id=machine_id,
            wait_sec=_AFTER_FAILURE,
            detail=command.reason or command.machine_state,
        )
    sent_at = command.dispatched_at
    if sent_at is not None and now - sent_at > min(call.settings.limits.unresolved_alert, _WAIT_AT_MOST):
        return StepOutcome(outcome="overdue", machine_id=machine_id, detail="unconfirmed")
    return StepOutcome(outcome="waiting", machine_id=machine_id, wait_sec=_LOOK_EVERY)


def _follow(call: StepCall) -> None:
    """Read the command back as reconcile does; one that reconcile is looking at is left to it."""
    if call.device_control is None:
        return
    with call.store.transaction() as tx:
        asked_at, attempt = tx.now, tx.claim_benchmark_attempt(call.run_id, _LOOK_LEASE)
    if attempt is None:
        return
    answer = call.device_control.read_back(
        caller=attempt.tenant_id, key=attempt.key, job_id=attempt.reference
    )
    with call.store.transaction() as tx:
        settlement = settle(attempt, answer, now=asked_at, limits=call.settings.limits)
        tx.record_settlements([settlement])
        if settlement.outcomes and attempt.policy_id is not None:
            freeze_on_failures(tx, [attempt.policy_id])
