"""Rows and answers that nobody meant: each harms at most what it belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.integration.scene import Scene

if TYPE_CHECKING:
    from collections.abc import Iterator

    from blsflow.adapters.postgres.address import DatabaseAddress


@pytest.fixture
def scene(database: DatabaseAddress) -> Iterator[Scene]:
    """Six machines on coin A, with coin B earning more."""
    with Scene(database) as made:
        yield made


def _sent(scene: Scene) -> None:
    scene.tick()
    scene.decide()
    scene.execute()
    scene.forward(20)
    scene.report()


@pytest.mark.parametrize("moment", ["'infinity'", "'-infinity'", "'12000-01-01'", "'0044-03-15 BC'"])
def test_a_report_of_no_time_that_can_be_meant_holds_up_its_own_machine(scene: Scene, moment: str) -> None:
    """R5.7, R2.4: reconcile and decide go on for all the others; the machine itself is waited for, or offline."""
    _sent(scene)
    scene.session.run(f"update machine_mining_runtime set reported_at = {moment} where machine_id = 2")
    scene.reconcile()
    assert dict(scene.rows("select state, count(*) from smart_schedule_attempt_machines group by 1")) == {
        "pending": 1,
        "succeeded": 5,
    }
    scene.prices()
    scene.due()
    scene.tick()
    scene.decide()
    assert scene.decisions() == {"keep/already_best": 5, "skip/locked": 1}


@pytest.mark.parametrize("moment", ["'infinity'", "'-infinity'", "now() + interval '1 year'"])
def test_a_power_reading_from_the_future_is_none(scene: Scene, moment: str) -> None:
    """R2.4, R5.6: neither decide nor confirmation takes it for the newest."""
    scene.session.run(f"insert into metric_powers values (2, {moment}, 90000)")
    _sent(scene)
    scene.reconcile()
    assert scene.value("select state from smart_schedule_attempts") == "succeeded"


@pytest.mark.parametrize("moment", ["'infinity'", "'-infinity'", "'12000-01-01'", "'0044-03-15 BC'"])
def test_a_price_of_no_time_that_can_be_meant_is_unknown(scene: Scene, moment: str) -> None:
    """R2.1: the candidate is left out of the tick, which goes on."""
    scene.session.run(f"update smart_schedule_profit_readings set taken_at = {moment} where price_key = 'B'")
    scene.tick()
    scene.decide()
    assert scene.decisions() == {"keep/already_best": 6}


@pytest.mark.parametrize("level", ["'NaN'", "'Infinity'", "0", "-1"])
def test_a_price_level_that_cannot_be_meant_is_forgotten(scene: Scene, level: str) -> None:
    """R2.1: quarantine begins anew instead of stopping the policy for good."""
    scene.session.run(
        f"update smart_schedule_policy_candidates set price_level = {level}, price_level_at = now()"
    )
    scene.tick()
    scene.decide()
    assert scene.decisions() == {"switch/better_net": 6}


@pytest.mark.parametrize(
    ("change", "left"),
    [
        ("update machines set operator_hold = true where id = 2", 5),
        ("update machines set tenant_id = 'other' where id = 2", 5),
        ("update machines set operator_hold = true", 0),
        ("update smart_schedule_policy_groups set version = version + 1", 0),
        ("update smart_schedule_policy_groups set tenant_id = 'other'", 0),
    ],
)
def test_what_changed_since_the_decision_is_looked_at_again_before_sending(
    scene: Scene, change: str, left: int
) -> None:
    """R3.7, R4.2, R3.8: a machine held or given away, or a policy changed meanwhile, is not commanded any more."""
    scene.tick()
    scene.decide()
    scene.session.run(change)
    scene.execute()
    told = sum(scene.device_control._told.values())
    assert told == left
    assert scene.value("select count(*) from smart_schedule_machine_locks where freed_at is null") == left
    assert not {"locks_of_nobody", "attempts_without_end", "freed_too_early"} & set(scene.findings())


def test_a_policy_that_cannot_be_meant_is_told_of_once_a_day(scene: Scene) -> None:
    """R6.3, R10.1: it never ticks; the log says the field each time, its people are told once."""
    scene.session.run("update smart_schedule_policy_groups set time_zone = 'Mars/Olympus'")
    for _ in range(3):
        scene.due()
        scene.tick()
        scene.decide()
        scene.forward(61)
    assert scene.value("select count(*) from smart_schedule_occurrences where reason = 'config_changed'") == 3
    events = scene.rows(
        "select params ->> 'field', level from smart_schedule_log_events where code = 'policy_invalid'"
    )
    assert events == [["time_zone", "error"]] * 3
    assert scene.value("select count(*) from smart_schedule_outbox where code = 'policy_invalid'") == 1


def test_another_tenants_tariff_prices_nothing_here(scene: Scene) -> None:
    """R2.2, R1.2: a cluster of somebody else is no cluster of ours, and its tariff is not shown either."""
    scene.session.run("update clusters set tenant_id = 'other'")
    scene.tick()
    scene.decide()
    assert scene.decisions() == {"keep/tariff_gap": 6}
    assert scene.value("select inputs -> 'clusters' from smart_schedule_ticks") in ([], {})


def test_a_tenant_whose_name_no_header_holds_is_served_like_any_other(scene: Scene) -> None:
    """R5.2: the caller's name travels encoded, for commands and for read-backs alike."""
    tables = [
        "clusters", "machines", "projects", "smart_schedule_resource_eligibilities", "smart_schedule_policy_groups",
        "smart_schedule_schedules", "smart_schedule_executor_leases",
    ]  # fmt: skip
    for table in tables:
        scene.session.run(f"update {table} set tenant_id = '租户\n'")
    _sent(scene)
    scene.reconcile()
    assert scene.value("select state from smart_schedule_attempts") == "succeeded"


def test_a_denial_with_leading_zeros_is_refused_and_not_passed_over(scene: Scene) -> None:
    """R1.2: an id that would be compared in vain is no id."""
    from blsflow.ports.errors import InvariantBroken  # noqa: PLC0415

    with pytest.raises(InvariantBroken):
        scene.session.run(
            "insert into smart_schedule_resource_eligibilities values ('acme', 2, 'cluster', '01', false)"
        )
