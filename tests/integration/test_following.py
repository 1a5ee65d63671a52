"""Following attempts to their confirmed end, whatever the service and the machines do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from local.simulators.device_control import DeviceFaults
from tests.integration.scene import COIN_A, COIN_B, Scene

if TYPE_CHECKING:
    from collections.abc import Iterator

    from blsflow.adapters.postgres.address import DatabaseAddress

_LIVE_LOCKS = "select count(*) from smart_schedule_machine_locks where freed_at is null"


@pytest.fixture
def scene(database: DatabaseAddress) -> Iterator[Scene]:
    """Six machines on coin A, with coin B earning more."""
    with Scene(database) as made:
        yield made


def _send(scene: Scene, **faults: Any) -> None:
    scene.device_control.faults.profile = DeviceFaults(**faults)
    scene.tick()
    scene.decide()
    scene.execute()


def _later(scene: Scene, seconds: float) -> None:
    scene.forward(seconds)
    scene.report()
    scene.reconcile()


def test_busy_is_skipped_without_a_retry(scene: Scene) -> None:
    """R5.3: busy -> skipped, nothing waits, nothing is sent again, and the machines count as untried."""
    _send(scene, busy_rate=1.0)
    assert scene.rows("select state, reason from smart_schedule_attempts") == [["skipped", "busy"]]
    assert scene.value(_LIVE_LOCKS) == 0
    assert scene.posts() == [1]
    assert scene.value("select count(*) from smart_schedule_machine_states") == 0
    assert scene.rows("select distinct state from smart_schedule_attempt_machines") == [["dropped"]]


def test_a_rejected_batch_fails_with_the_services_reason(scene: Scene) -> None:
    """R5.3: rejected -> failed with the service's reason, everything free at once."""
    scene.start(None, BLSFLOW_SCHEDULER_SWITCH_API_TOKEN="wrong")
    _send(scene)
    assert scene.rows("select state, reason from smart_schedule_attempts") == [["failed", "unauthorized"]]
    assert scene.value(_LIVE_LOCKS) == 0


@pytest.mark.parametrize(
    "fault",
    [
        {"timeout_after_effect_rate": 1.0, "hang_sec": 1.5},
        {"timeout_after_effect_rate": 1.0, "hang_sec": 0.0},
    ],
    ids=["time-out", "dropped connection"],
)
def test_an_unclear_answer_is_read_back_and_never_sent_again(scene: Scene, fault: dict[str, float]) -> None:
    """R5.3: ambiguous -> reconciling; the read-back finds the job under our key, and its machines confirm it."""
    _send(scene, **fault)
    assert scene.value("select state from smart_schedule_attempts") == "reconciling"
    assert scene.value(_LIVE_LOCKS) == 6
    _later(scene, 30)
    _later(scene, 30)
    assert scene.value("select state from smart_schedule_attempts") == "succeeded"
    assert scene.value("select count(*) from smart_schedule_machine_decisions where job_id is not null") == 6
    assert scene.posts() == [1]
    assert scene.value(_LIVE_LOCKS) == 0


def test_not_found_is_conclusive_only_after_the_request_expired(scene: Scene) -> None:
    """R5.3: the service never took it; that is known once it may take it no more, and only then is anything freed."""
    _send(scene, timeout_before_effect_rate=1.0, hang_sec=1.5)
    _later(scene, 10)
    assert scene.rows("select state, reason from smart_schedule_attempts") == [["reconciling", "not_found"]]
    assert scene.value(_LIVE_LOCKS) == 6
    _later(scene, 60)
    assert scene.rows("select state, reason from smart_schedule_attempts") == [["failed", "not_received"]]
    assert scene.value(_LIVE_LOCKS) == 0
    assert scene.posts() == [1]


def test_machines_refused_alone_fail_alone(scene: Scene) -> None:
    """R5.3, R5.7: some machines of a batch are refused: they are freed and backed off, the others go on."""
    scene.device_control._fences[2] = 10_000
    _send(scene)
    assert scene.rows(
        "select machine_id, reason from smart_schedule_attempt_machines where state = 'refused'"
    ) == [[2, "fenced"]]
    assert scene.value(_LIVE_LOCKS) == 5
    _later(scene, 30)
    assert scene.rows("select state, reason from smart_schedule_attempts") == [["succeeded", "partly_failed"]]
    scene.prices()
    scene.due()
    scene.tick()
    scene.decide()
    assert scene.decisions() == {"keep/already_best": 5, "skip/retry_backoff": 1}
    scene.forward(90)
    scene.report()
    scene.prices()
    scene.due()
    scene.tick()
    scene.decide()
    assert scene.decisions() == {"keep/already_best": 5, "switch/better_net": 1}


def test_one_failed_machine_holds_up_nobody_else(scene: Scene) -> None:
    """R5.7 (C03): each machine of a batch has its own outcome; only the failed one is tried again, by a new decision."""
    _send(scene, failure_rate=0.5)
    _later(scene, 30)
    outcomes = dict(scene.rows("select state, count(*) from smart_schedule_attempt_machines group by 1"))
    assert set(outcomes) == {"succeeded", "failed"}
    assert scene.value(_LIVE_LOCKS) == 0
    assert scene.findings() == {}


def test_a_service_that_says_yes_while_nothing_happens_is_not_believed(scene: Scene) -> None:
    """R5.6 (C02): success without an effect stays unconfirmed, fails after the grace, and never counts as done."""
    _send(scene, does_nothing_rate=1.0)
    _later(scene, 30)
    assert scene.value(_LIVE_LOCKS) == 6
    _later(scene, 100)
    assert scene.value(_LIVE_LOCKS) == 6
    _later(scene, 120)
    assert scene.rows("select state, reason from smart_schedule_attempts") == [["failed", "unconfirmed"]]
    assert scene.value(_LIVE_LOCKS) == 0
    assert scene.posts() == [1]


def test_a_machine_that_is_not_heard_stays_locked_and_is_told_of_once(scene: Scene) -> None:
    """R5.4: an end that cannot be confirmed frees nothing; past the alert time it is told of exactly once."""
    _send(scene)
    for _ in range(5):
        scene.forward(400)
        scene.reconcile()
    assert scene.value(_LIVE_LOCKS) == 6
    assert scene.rows("select state, reason from smart_schedule_attempts") == [["running", "confirmation"]]
    assert scene.value("select count(*) from smart_schedule_outbox where code = 'attempt_unresolved'") == 1
    assert (
        scene.value("select count(*) from smart_schedule_log_events where code = 'attempt_unresolved'") == 1
    )
    assert set(scene.findings()) == {"unresolved_attempts"}
    scene.report()
    scene.forward(61)
    scene.reconcile()
    assert scene.value("select state from smart_schedule_attempts") == "succeeded"
    assert scene.value(_LIVE_LOCKS) == 0


def test_every_status_change_of_a_job_is_in_the_log(scene: Scene) -> None:
    """R5.5: prepared, accepted, settled and ended, each one event with the attempt's id."""
    _send(scene)
    _later(scene, 30)
    codes = scene.rows("select code from smart_schedule_log_events where attempt_id is not null order by id")
    assert [code for (code,) in codes] == [
        "batch_prepared",
        "job_accepted",
        "machines_settled",
        "job_ended",
        "job_status",
    ]


def test_a_stop_is_confirmed_by_power_and_hashrate(scene: Scene) -> None:
    """R3.5, R5.6: losing money with every coin, machines are stopped; the scheduler starts them again when profit is back."""
    scene.prices(a=1.0, b=2.0)
    scene.round()
    assert scene.decisions() == {"stop/negative_profit": 6}
    assert scene.rows("select distinct status from machine_mining_runtime") == [["stopped"]]
    assert scene.rows("select distinct expected, stopped_by from smart_schedule_machine_states") == [
        ["stopped", "scheduler"]
    ]
    scene.forward(3600)
    scene.report()
    scene.session.run("update smart_schedule_policy_candidates set price_level = null")
    scene.prices()
    scene.due()
    scene.round()
    assert scene.decisions() == {"start/restart_threshold_cleared": 6}
    assert scene.rows("select distinct status, project_id from machine_mining_runtime") == [
        ["mining", COIN_B]
    ]


def test_a_machine_that_a_human_stopped_stays_stopped(scene: Scene) -> None:
    """R3.5, R5.6: found stopped although it was told to mine: somebody else did that; it is reported, and left alone."""
    scene.round()
    scene.world.command(3, "stop")
    scene.forward(30)
    scene.report()
    scene.prices()
    scene.due()
    scene.round()
    assert scene.decisions() == {"keep/already_best": 5, "keep/stopped_by_human": 1}
    assert scene.value("select count(*) from smart_schedule_log_events where code = 'foreign_change'") == 1
    scene.due()
    scene.prices()
    scene.round()
    assert scene.value("select count(*) from smart_schedule_log_events where code = 'foreign_change'") == 1


def test_a_foreign_switch_is_reported_and_fought_over_only_so_often(scene: Scene) -> None:
    """R5.6 (C07): put back by a new decision up to the policy's limit, then left to whoever else controls it."""
    scene.session.run("update smart_schedule_policy_groups set max_foreign_changes = 2")
    scene.round()
    decided = []
    for _ in range(4):
        scene.world.command(3, "switch", COIN_A)
        scene.forward(60)
        scene.report()
        scene.prices()
        scene.due()
        scene.round()
        decided.append(scene.decisions())
    assert decided[:2] == [{"keep/already_best": 5, "switch/better_net": 1}] * 2
    assert decided[2] == {"keep/already_best": 5, "skip/foreign_control": 1}
    assert decided[3] == decided[2]
    assert scene.value("select count(*) from smart_schedule_log_events where code = 'foreign_change'") == 3


def test_a_machine_that_was_powered_off_here_is_started_again(scene: Scene) -> None:
    """R3.5: without power a machine reports nothing, and that does not count as offline: its meter confirmed why."""
    scene.session.run("update smart_schedule_policy_groups set negative_profit_action = 'power_off'")
    scene.prices(a=1.0, b=2.0)
    scene.round()
    assert scene.decisions() == {"power_off/negative_profit": 6}
    assert scene.rows("select distinct expected, stopped_by from smart_schedule_machine_states") == [
        ["off", "scheduler"]
    ]
    scene.forward(7200)
    scene.report()
    assert (
        scene.value(
            "select count(*) from machine_mining_runtime where reported_at > now() - interval '1 hour'"
        )
        == 0
    )
    scene.session.run("update smart_schedule_policy_candidates set price_level = null")
    scene.prices()
    scene.due()
    scene.round()
    assert scene.decisions() == {"start/restart_threshold_cleared": 6}
    assert scene.rows("select distinct status, project_id from machine_mining_runtime") == [
        ["mining", COIN_B]
    ]


def test_a_machine_that_falls_silent_by_itself_is_offline(scene: Scene) -> None:
    """R3.7: only the scheduler's own power-off explains a silence."""
    scene.round()
    scene.session.run(
        "update machine_mining_runtime set reported_at = reported_at - interval '1 hour' where machine_id = 2"
    )
    scene.prices()
    scene.due()
    scene.tick()
    scene.decide()
    assert scene.decisions() == {"keep/already_best": 5, "skip/offline": 1}


@pytest.mark.parametrize(
    "glitch",
    [
        "project_id = null",
        "hashrate_hs = null",
        "hashrate_hs = 0",
        "status = 'rebooting'",
        "status = 'stopped'",
    ],
)
def test_a_report_that_does_not_say_enough_is_nobodys_change(scene: Scene, glitch: str) -> None:
    """R5.6: a change is foreign only if word and hashrate agree on it; what is unknown adopts nothing."""
    scene.round()
    scene.forward(30)
    scene.report()
    scene.session.run(f"update machine_mining_runtime set {glitch} where machine_id = 3")
    scene.prices()
    scene.due()
    scene.tick()
    scene.decide()
    assert scene.value("select sum(foreign_changes) from smart_schedule_machine_states") == 0
    assert scene.value("select count(*) from smart_schedule_log_events where code = 'foreign_change'") == 0
    scene.forward(120)
    scene.report()
    scene.prices()
    scene.due()
    scene.tick()
    scene.decide()
    assert scene.decisions() == {"keep/already_best": 6}


def test_a_stopped_machine_whose_firmware_still_says_mining_is_ours_to_start(scene: Scene) -> None:
    """R5.6 (C01), R3.5: the stop was confirmed by power and hashrate; the word changes neither that nor who stopped it."""
    scene.prices(a=1.0, b=2.0)
    scene.round()
    scene.forward(60)
    scene.report()
    scene.session.run("update machine_mining_runtime set status = 'mining', project_id = 1")
    scene.prices(a=1.0, b=2.0)
    scene.due()
    scene.tick()
    scene.decide()
    assert scene.decisions() == {"keep/below_restart_threshold": 6}
    assert scene.value("select count(*) from smart_schedule_log_events where code = 'foreign_change'") == 0


def test_an_answer_with_characters_that_no_database_keeps_is_settled_like_any_other(scene: Scene) -> None:
    """R5.7: what a service says is bounded and cleaned; one bad text holds up neither its machine nor the page."""
    scene.device_control._fences[2] = 10_000
    original = scene.device_control._refusal
    scene.device_control._refusal = lambda *a: "bad\x00 \ud800 words" if original(*a) else None  # type: ignore[method-assign]
    _send(scene)
    _later(scene, 30)
    assert scene.value("select state from smart_schedule_attempts") == "succeeded"
    assert scene.value("select reason from smart_schedule_attempt_machines where machine_id = 2").startswith(
        "bad"
    )
