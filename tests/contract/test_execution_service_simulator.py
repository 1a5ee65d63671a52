"""The adapter and the simulated execution service together."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from blsflow.domain.conversation import (
    CancelAccepted,
    CancelTooLate,
    CancelUnknown,
    RunForbidden,
    RunFound,
    RunNotFound,
    RunState,
    TargetsForbidden,
    TargetsFound,
    TargetUnavailable,
    settle_run,
)
from blsflow.domain.execution import Accepted, Ambiguous, Busy, Rejected
from local.simulators.execution_service import CATALOGUE
from tests.contract.execution_scenes import BEGAN_AT, COMMAND, OTHER, RUN_SEC, Simulation

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def simulation() -> Iterator[Simulation]:
    """Run the simulated service."""
    running = Simulation()
    yield running
    running.served.close()


def test_a_run_goes_its_way_and_is_read_back_by_id_and_by_key(simulation: Simulation) -> None:
    """R8.1: a started run is queued, runs, and ends after its time, with output and times; the end is final."""
    run_id = simulation.started()
    assert simulation.state() is RunState.QUEUED
    simulation.later(0.2)
    assert simulation.state(run_id) is RunState.RUNNING
    simulation.later(RUN_SEC - 0.001)
    assert simulation.state() is RunState.RUNNING
    simulation.later(0.001)
    over = simulation.read(run_id)
    assert over == RunFound(
        run_id=run_id,
        state=RunState.SUCCEEDED,
        output_ref=f"message:{run_id}",
        error=None,
        started_at=BEGAN_AT + timedelta(seconds=0.2),
        ended_at=BEGAN_AT + timedelta(seconds=0.2 + RUN_SEC),
    )
    simulation.faults(failure_rate=1, endless_rate=1, run_sec=99)
    simulation.client.cancel(**simulation.caller(), run_id=run_id)
    simulation.later(1e6)
    assert simulation.read() == over


def test_a_repeated_key_starts_once(simulation: Simulation) -> None:
    """R5.3: tenant and key name a run: the same body gets the first answer, another body a conflict."""
    run_id = simulation.started()
    simulation.later(RUN_SEC * 2)
    assert simulation.started() == run_id
    assert isinstance(simulation.client.start(replace(COMMAND, prompt="another")), Ambiguous)
    assert simulation.started(replace(COMMAND, caller_tenant="tenant-b")) != run_id
    counted = {identity: (row["posts"], row["starts"]) for identity, row in simulation.ledger().items()}
    assert counted == {("tenant-a", "occurrence-1"): (3, 1), ("tenant-b", "occurrence-1"): (1, 1)}


def test_the_same_start_sent_at_once_starts_once(simulation: Simulation) -> None:
    """R5.3: deliveries of one key that race each other get one run between them."""
    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(simulation.client.start, [COMMAND] * 16))
    assert len({outcome.job_id for outcome in outcomes if isinstance(outcome, Accepted)}) == 1
    assert simulation.ledger()["tenant-a", "occurrence-1"]["starts"] == 1


def test_a_conversation_at_work_is_busy_until_its_run_really_ends(simulation: Simulation) -> None:
    """R5.3: busy records nothing, so the same key starts later; another conversation, or tenant, is free meanwhile."""
    simulation.started()
    second = replace(COMMAND, key="occurrence-2")
    assert simulation.client.start(second) == Busy(reason="busy")
    assert isinstance(simulation.read(key="occurrence-2"), RunNotFound)
    simulation.started(replace(second, caller_tenant="tenant-b"))
    simulation.started(replace(OTHER, key="occurrence-3"))
    simulation.later(RUN_SEC + 0.2)
    simulation.started(second)
    row = simulation.ledger()["tenant-a", "occurrence-2"]
    assert (row["posts"], row["starts"], row["answers"]) == (2, 1, {"423": 1, "202": 1})


def test_busy_and_conflict_can_be_switched_on(simulation: Simulation) -> None:
    """R5.3: a service that is busy, or holds the key for another's, starts nothing."""
    simulation.faults(busy_rate=1)
    assert isinstance(simulation.client.start(COMMAND), Busy)
    simulation.faults(busy_rate=0, conflict_rate=1)
    assert isinstance(simulation.client.start(COMMAND), Ambiguous)
    simulation.faults(conflict_rate=0, error_rate=1)
    assert isinstance(simulation.client.start(COMMAND), Ambiguous)
    row = simulation.ledger()["tenant-a", "occurrence-1"]
    assert (row["posts"], row["starts"]) == (3, 0)
    assert isinstance(simulation.read(), RunNotFound)


def test_targets_and_conversations_that_are_not_there(simulation: Simulation) -> None:
    """R8.9: unknown and removed ones start nothing, and are told apart from a refusal; what is back works again."""
    start = simulation.client.start
    assert start(replace(COMMAND, target="nobody")) == TargetUnavailable(detail="no target nobody")
    strange = start(replace(COMMAND, conversation_id="conv-daily"))
    assert strange == TargetUnavailable(detail="no conversation conv-daily with analyst")
    simulation.faults(removed="translator,conv-morning")
    removed = start(COMMAND)
    assert removed == TargetUnavailable(detail="conversation conv-morning was removed")
    assert isinstance(
        start(replace(COMMAND, target="translator", conversation_id="conv-daily")), TargetUnavailable
    )
    row = simulation.ledger()["tenant-a", "occurrence-1"]
    assert (row["starts"], row["answers"]) == (0, {"404": 3, "410": 1})
    simulation.faults(removed="")
    simulation.started()


def test_an_expired_start_is_never_begun(simulation: Simulation) -> None:
    """R5.3: not found after the expiry is conclusive: from that instant on the service refuses the start."""
    simulation.later(29.999)
    simulation.started()
    simulation.later(0.001)
    refused = simulation.client.start(OTHER)
    assert isinstance(refused, Rejected)
    assert refused.reason == "expired"
    assert isinstance(simulation.read(key="occurrence-2"), RunNotFound)


def test_time_outs_before_and_after_the_effect_look_alike(simulation: Simulation) -> None:
    """R5.3: only the read back tells a start that took effect from one that did not."""
    simulation.faults(timeout_after_effect_rate=1, hang_sec=0.7)
    assert isinstance(simulation.client.start(COMMAND), Ambiguous)
    simulation.faults(timeout_after_effect_rate=0, timeout_before_effect_rate=1)
    assert isinstance(simulation.client.start(OTHER), Ambiguous)
    simulation.faults(timeout_before_effect_rate=0)
    assert simulation.state() is RunState.QUEUED
    assert isinstance(simulation.read(key="occurrence-2"), RunNotFound)
    counted = {key: (row["posts"], row["starts"]) for (_, key), row in simulation.ledger().items()}
    assert counted == {"occurrence-1": (1, 1), "occurrence-2": (1, 0)}


def test_latency_longer_than_the_time_out_is_a_time_out_with_an_effect(simulation: Simulation) -> None:
    """R5.3: a slow service starts what the caller has already given up waiting for."""
    simulation.faults(latency_sec=0.7)
    assert isinstance(simulation.client.start(COMMAND), Ambiguous)
    simulation.faults(latency_sec=0)
    deadline = time.monotonic() + 5
    while isinstance(simulation.read(), RunNotFound) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert simulation.state() is RunState.QUEUED


@pytest.mark.parametrize(
    ("fault", "state", "error"),
    [
        ("failure_rate", RunState.FAILED, "model_error: the model refused"),
        ("interrupted_rate", RunState.INTERRUPTED, "worker_lost"),
    ],
)
def test_runs_can_fail_and_be_lost(simulation: Simulation, fault: str, state: RunState, error: str) -> None:
    """R8.7: what went wrong comes back with the end, and no output."""
    simulation.faults(**{fault: 1})
    simulation.started()
    simulation.later(RUN_SEC + 0.2)
    found = simulation.read()
    assert isinstance(found, RunFound)
    assert (found.state, found.error, found.output_ref) == (state, error, None)


def test_an_endless_run_ends_by_cancel_only(simulation: Simulation) -> None:
    """R8.8: the slot stays taken until the end is confirmed; a cancel takes its time, and may be repeated."""
    simulation.faults(endless_rate=1)
    run_id = simulation.started()
    simulation.later(1e6)
    assert simulation.state() is RunState.RUNNING
    cancel = simulation.client.cancel
    assert cancel(**simulation.caller(), run_id=run_id) == CancelAccepted()
    assert simulation.state() is RunState.RUNNING
    simulation.later(0.4)
    assert cancel(**simulation.caller(), run_id=None) == CancelAccepted()
    next_one = replace(COMMAND, key="occurrence-2", expires_at=simulation.now + timedelta(seconds=30))
    assert isinstance(simulation.client.start(next_one), Busy)
    simulation.later(0.1)
    assert simulation.state() is RunState.CANCELLED
    assert cancel(**simulation.caller(), run_id=run_id) == CancelAccepted()
    assert simulation.ledger()["tenant-a", "occurrence-1"]["cancels"] == 3


def test_a_run_may_succeed_before_its_cancel(simulation: Simulation) -> None:
    """R8.8: a cancel that loses the race against the end changes nothing, and says so when it is asked again."""
    run_id = simulation.started()
    simulation.later(RUN_SEC)
    assert simulation.client.cancel(**simulation.caller(), run_id=run_id) == CancelAccepted()
    simulation.later(0.6)
    assert simulation.state() is RunState.SUCCEEDED
    too_late = simulation.client.cancel(**simulation.caller(), run_id=run_id)
    assert too_late == CancelTooLate(state=RunState.SUCCEEDED)


def test_a_cancel_before_the_start_arrived_is_unknown(simulation: Simulation) -> None:
    """R8.8: a cancel that finds nothing does not stop a start that is still on its way."""
    assert isinstance(simulation.client.cancel(**simulation.caller(), run_id=None), CancelUnknown)
    simulation.started()
    assert simulation.state() is RunState.QUEUED


def test_a_cancel_that_times_out_may_have_worked(simulation: Simulation) -> None:
    """R8.8: only the read back tells whether a cancel without an answer took effect."""
    run_id = simulation.started()
    simulation.faults(timeout_after_effect_rate=1, hang_sec=0.7)
    assert isinstance(simulation.client.cancel(**simulation.caller(), run_id=run_id), CancelUnknown)
    simulation.later(0.5)
    assert simulation.state() is RunState.CANCELLED


@pytest.mark.parametrize("withheld_sec", [600.0, float("inf")])
def test_a_lost_completion_is_shown_late_or_never(simulation: Simulation, withheld_sec: float) -> None:
    """R5.4: the service can go on saying "running" after the end; its ledger, and a free conversation, tell the truth."""
    simulation.faults(lost_completion_rate=1, lost_completion_sec=str(withheld_sec))
    simulation.started()
    simulation.later(RUN_SEC + 0.2)
    assert simulation.state() is RunState.RUNNING
    assert simulation.ledger()["tenant-a", "occurrence-1"]["ended"] == "succeeded"
    simulation.started(replace(COMMAND, key="occurrence-2"))
    simulation.later(599.9)
    assert simulation.state() is RunState.RUNNING
    simulation.later(0.1)
    assert simulation.state() is (RunState.SUCCEEDED if withheld_sec == 600.0 else RunState.RUNNING)


def test_a_service_that_forgets_frees_nothing(simulation: Simulation) -> None:
    """R8.11: a run that was named and is not found any more is waited for, whatever the time, and may come back."""
    run_id = simulation.started()
    simulation.later(1e6)
    simulation.faults(forget_rate=1)
    for found in (simulation.read(run_id), simulation.read()):
        assert found == RunNotFound()
    settled = settle_run(
        simulation.read(run_id),
        bound=True,
        now=simulation.now,
        request_expires_at=COMMAND.expires_at,
        dispatched_at=BEGAN_AT,
        unresolved_alert=timedelta(seconds=900),
    )
    assert (settled.state, settled.waiting_for, settled.alert) == (None, "not_found", "unreachable")
    assert isinstance(simulation.client.cancel(**simulation.caller(), run_id=run_id), CancelUnknown)
    simulation.faults(forget_rate=0)
    assert simulation.state(run_id) is RunState.SUCCEEDED


def test_a_user_who_left_is_refused_everywhere(simulation: Simulation) -> None:
    """R8.11: runs of a creator who left the tenant go on unseen; another user's and another tenant's are not shown either."""
    run_id = simulation.started()
    assert simulation.read(run_id, caller_subject="韩梅梅") == RunForbidden()
    assert simulation.read(run_id, caller_tenant="tenant-b") == RunNotFound()
    assert simulation.read(caller_tenant="tenant-b") == RunNotFound()
    simulation.faults(departed="somebody,李雷")
    assert simulation.read(run_id) == simulation.read() == RunForbidden()
    refused = simulation.client.start(OTHER)
    assert isinstance(refused, Rejected)
    assert refused.reason == "forbidden"
    assert isinstance(simulation.client.cancel(**simulation.caller(), run_id=run_id), CancelUnknown)
    assert isinstance(
        simulation.client.targets(caller_tenant="tenant-a", caller_subject="李雷"), TargetsForbidden
    )
    simulation.later(RUN_SEC + 0.2)
    simulation.faults(departed="")
    assert simulation.state(run_id) is RunState.SUCCEEDED


def test_rates_of_runs_hit_a_share_of_them_and_always_the_same(simulation: Simulation) -> None:
    """R5.7: a fault that is switched off and on again hits the same runs, and spares the others."""
    simulation.faults(run_sec=0)
    keys = [f"occurrence-{number}" for number in range(40)]
    for key in keys:
        simulation.started(replace(COMMAND, key=key))
        simulation.later(0.2)

    def forgotten() -> set[str]:
        return {key for key in keys if isinstance(simulation.read(key=key), RunNotFound)}

    hit: list[set[str]] = []
    for rate in (0.0, 0.3, 0.7, 1.0):
        simulation.faults(forget_rate=rate)
        hit.append(forgotten())
    assert hit[0] == set()
    assert hit[-1] == set(keys)
    assert all(fewer < more for fewer, more in pairwise(hit))
    simulation.faults(forget_rate=0.3)
    assert forgotten() == hit[1]


def test_the_catalogue_lists_what_a_prompt_can_be_sent_to(simulation: Simulation) -> None:
    """R8.1: every listed conversation takes a prompt, and a removed one is not listed."""
    simulation.faults(removed="conv-tariff")
    found = simulation.client.targets(caller_tenant="tenant-a", caller_subject="李雷")
    assert isinstance(found, TargetsFound)
    assert found.next_cursor is None
    listed = [(each.target, talk.conversation_id) for each in found.targets for talk in each.conversations]
    assert len(listed) == sum(map(len, CATALOGUE.values())) - 1
    for number, (target, conversation) in enumerate(listed):
        simulation.started(replace(COMMAND, key=f"c-{number}", target=target, conversation_id=conversation))
