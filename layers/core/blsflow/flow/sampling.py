"""Sampling a fleet: rescue runs whose execution died, watch for drift, and begin pending runs within the policies' caps.

A run is claimed in the database, with the name of its execution, before the state machine is told; a run that was claimed
and not handed over is handed over again under the same name, which makes a second start impossible.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from blsflow.domain.benchmarking import drifted
from blsflow.domain.errors import BlsflowError
from blsflow.domain.sampling import ASK_AGAIN_AFTER, choose
from blsflow.domain.settle import back_off
from blsflow.ports.sampling import ClaimedRun, ExecutionStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from blsflow.domain.gates import Gates
    from blsflow.ports.sampling import RunAtWork, Workflow
    from blsflow.ports.store import Store

PAGE: Final = 200
_CANDIDATES: Final = 1000
QUIET_FOR: Final = timedelta(seconds=20)
"""A run that made a step more recently is surely alive."""
ALERT_AFTER_RESCUES: Final = 3
_DRIFT_TOLERANCE: Final = 0.1
_DRIFT_READINGS: Final = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class SamplingSettings:
    """``watchdog`` is how long a run may be quiet while its execution claims to run."""

    gates: Gates
    watchdog: timedelta


@dataclass(kw_only=True, slots=True)
class SamplingReport:
    """What one pass did; ``failures`` holds each step that failed, by name."""

    begun: int = 0
    rescued: int = 0
    alerts: int = 0
    dropped: int = 0
    drifted: int = 0
    failures: dict[str, BlsflowError] = field(default_factory=dict)


def sampling(
    store: Store, *, workflow: Workflow | None, settings: SamplingSettings, time_left: Callable[[], bool]
) -> SamplingReport:
    """Rescue first, begin last; a step that fails hinders none of the others. Without a state machine nothing is begun."""
    report = SamplingReport()

    def step(name: str, work: Callable[[], None]) -> None:
        try:
            if time_left():
                work()
        except BlsflowError as error:
            report.failures[name] = error

    if workflow is not None:
        step("rescue", lambda: _rescue_all(store, workflow, settings, report, time_left))
    step("drift", lambda: _watch_drift(store, report))
    step("drop", lambda: _drop_unwanted(store, report))
    if workflow is not None and settings.gates.execute_enabled and settings.gates.executor_configured:
        step("begin", lambda: _begin(store, workflow, settings, report))
    return report


def _rescue_all(
    store: Store,
    workflow: Workflow,
    settings: SamplingSettings,
    report: SamplingReport,
    time_left: Callable[[], bool],
) -> None:
    with store.transaction() as tx:
        now, runs = tx.now, tx.benchmark_runs_at_work(QUIET_FOR, PAGE)
    for run in runs:
        if not time_left():
            return
        try:
            _look_after(store, workflow, run, quiet=now - run.progressed_at, settings=settings, report=report)
        except BlsflowError as error:  # whatever is wrong with one run stays with it
            report.failures[f"rescue {run.run_id}"] = error


def _look_after(  # noqa: PLR0913 - one run, and what it is judged by
    store: Store,
    workflow: Workflow,
    run: RunAtWork,
    *,
    quiet: timedelta,
    settings: SamplingSettings,
    report: SamplingReport,
) -> None:
    """Hand over what was never handed over; replace an execution that has ended, or was quiet for too long."""
    if not run.noted:
        claimed = ClaimedRun(run_id=run.run_id, execution=run.execution)
        _hand_over(store, workflow, claimed, puts_back=run.restoring)
        return
    status = workflow.status(run.execution)
    if status is ExecutionStatus.RUNNING:
        if quiet <= settings.watchdog:
            return
        workflow.stop(run.execution, "no step for longer than the watchdog")
    # a command's end is open: only that, or an operator, frees the machine, and reconcile follows it
    if run.commanded and status is ExecutionStatus.SUCCEEDED:
        return
    if quiet < back_off(4 * run.rescues):
        return
    with store.transaction() as tx:
        rescued = tx.rescue_benchmark(run, f"execution_{status}")
        if rescued is not None and run.rescues + 1 >= ALERT_AFTER_RESCUES and not run.alerted:
            tx.alert_benchmark(run.run_id)
            report.alerts += 1
    if rescued is not None:
        report.rescued += 1
        _hand_over(store, workflow, rescued, puts_back=True)


def _watch_drift(store: Store, report: SamplingReport) -> None:
    """Ask for new benchmarks where normal running has differed for a while (B04)."""
    with store.transaction() as tx:
        found = [
            (machine_id, project_id)
            for machine_id, project_id, stored_hs, readings in tx.watch_drift(
                _DRIFT_TOLERANCE, _DRIFT_READINGS
            )
            if drifted(stored_hs, readings, tolerance=_DRIFT_TOLERANCE, consistent=_DRIFT_READINGS)
        ]
        if found:
            report.drifted = tx.request_drifted(found, ASK_AGAIN_AFTER)


def _drop_unwanted(store: Store, report: SamplingReport) -> None:
    with store.transaction() as tx:
        report.dropped = tx.drop_unwanted_benchmarks()


def _begin(store: Store, workflow: Workflow, settings: SamplingSettings, report: SamplingReport) -> None:
    with store.transaction() as tx:
        pending = tx.startable_benchmarks(settings.gates.holder, _CANDIDATES)
        claimed: Sequence[ClaimedRun] = []
        if pending:
            rooms = tx.benchmark_rooms(sorted({run.policy_id for run in pending}))
            chosen = choose(pending, rooms, tx.machines_under_benchmark())
            claimed = tx.claim_benchmarks([run.run_id for run in chosen]) if chosen else []
    for run in claimed:
        _hand_over(store, workflow, run, puts_back=False)
        report.begun += 1


def _hand_over(store: Store, workflow: Workflow, run: ClaimedRun, *, puts_back: bool) -> None:
    """Start the execution, after the commit that named it, and note that it was taken."""
    document = {
        "run_id": str(run.run_id),
        "execution": run.execution,
        "begin_with": "restore" if puts_back else "prepare",
    }
    workflow.start(run.execution, document)
    with store.transaction() as tx:
        tx.note_execution(run)
