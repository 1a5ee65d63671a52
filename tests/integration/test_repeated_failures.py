"""A machine that fails three times in a row is told of once, however each of its commands failed (R5.7, R10.1)."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest

from local.simulators.device_control import DeviceFaults
from tests.integration.scene import CrashPlan, Killed, Scene

if TYPE_CHECKING:
    from collections.abc import Iterator

    from blsflow.adapters.postgres.address import DatabaseAddress

_TOLD = "select params from smart_schedule_outbox where code = 'repeated_job_failure' order by id"


@pytest.fixture
def scene(database: DatabaseAddress) -> Iterator[Scene]:
    """One machine on coin A, with coin B earning more: too few commands to freeze a policy by."""
    with Scene(database, machines=1) as made:
        yield made


def _break(scene: Scene, how: str) -> None:
    if how == "refused":
        scene.device_control._fences[1] = 10_000
    elif how == "rejected":
        scene.start(None, BLSFLOW_SCHEDULER_SWITCH_API_TOKEN="wrong")
    else:
        scene.device_control.faults.profile = DeviceFaults(failure_rate=1.0)


def _try_again(scene: Scene) -> None:
    """One more round, after the machine's back-off."""
    scene.forward(3700)
    scene.report()
    scene.prices()
    scene.due()
    scene.round()
    scene.forward(30)
    scene.reconcile()


@pytest.mark.parametrize("how", ["refused", "rejected", "failed"])
def test_the_third_failure_in_a_row_is_told_of_once(scene: Scene, how: str) -> None:
    """R5.7, R10.1: refused alone, rejected with its batch, or failed as a job: the third time people hear of it."""
    _break(scene, how)
    counts = []
    for _ in range(4):
        _try_again(scene)
        counts.append(len(scene.rows(_TOLD)))
    assert scene.value("select failures from smart_schedule_machine_states") == 4
    assert counts == [0, 0, 1, 1]
    assert scene.value(_TOLD) == {"action": "switch", "project_id": 2, "machines": [1], "failures": 3}


@pytest.mark.parametrize("how", ["refused", "rejected", "failed"])
def test_each_failure_in_a_row_waits_twice_as_long_up_to_an_hour(scene: Scene, how: str) -> None:
    """R5.7: a minute after the first failure, then twice as long each time and never more than an hour, however it failed."""
    _break(scene, how)
    waits_min = []
    for _ in range(9):
        _try_again(scene)  # which looks half a minute after it tried
        waits_min.append(
            scene.value(
                "select ceil(extract(epoch from retry_at - now()) / 60)::int from smart_schedule_machine_states"
            )
        )
    assert waits_min == [1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_failures_of_different_kinds_count_together(scene: Scene) -> None:
    """R5.7, R10.1: a job that failed, a refusal, and another refusal are three failures in a row."""
    _break(scene, "failed")
    _try_again(scene)
    _break(scene, "refused")
    _try_again(scene)
    assert scene.rows(_TOLD) == []
    _try_again(scene)
    assert len(scene.rows(_TOLD)) == 1


def test_a_crash_loses_neither_the_failure_nor_its_notification(scene: Scene) -> None:
    """R10.1: killed at any step of the third failure, both are written or neither, and following on writes both once."""
    _break(scene, "failed")
    _try_again(scene)
    _try_again(scene)
    for at in range(1, 60):
        plan = CrashPlan(at)
        scene.start(plan)
        with contextlib.suppress(Killed):
            _try_again(scene)
        failures = scene.value("select failures from smart_schedule_machine_states")
        assert len(scene.rows(_TOLD)) == (1 if failures >= 3 else 0)
        if failures >= 3:
            break
    assert failures == 3
