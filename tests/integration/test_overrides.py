"""Several policies over the same machines on real PostgreSQL: who decides, and what the others record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.scene import Scene

if TYPE_CHECKING:
    from collections.abc import Iterator

    from blsflow.adapters.postgres.address import DatabaseAddress

_BY_MACHINE = """
    select d.machine_id, d.action, d.reason, d.overridden_by
    from smart_schedule_machine_decisions d join smart_schedule_ticks t on t.id = d.tick_id
    where t.policy_id = 1 and t.id = (select max(id) from smart_schedule_ticks where policy_id = 1) order by 1
"""
SWITCH = ("switch", "better_net", None)


@pytest.fixture
def scene(database: DatabaseAddress) -> Iterator[Scene]:
    """Four machines of policy 1, which would switch them all."""
    with Scene(database, machines=4) as made:
        yield made


def _rival(
    scene: Scene,
    *scopes: tuple[str, str],
    window: tuple[str, str] | None = None,
    priority: int = 0,
) -> int:
    """Another policy: a guard of higher priority, or one that keeps machines on coin A within a window."""
    mode = "profit_guard" if window is None else "time_window"
    policy_id: int = scene.value(
        f"""insert into smart_schedule_policy_groups (tenant_id, name, mode, execution_mode, enabled, created_by, priority)
            values ('acme', 'rival', '{mode}', 'execute', true, 'test', {priority}) returning id"""
    )
    for resource_type, resource_id in scopes:
        scene.session.run(
            f"insert into smart_schedule_policy_scopes values ({policy_id}, '{resource_type}', '{resource_id}')"
        )
    if window is not None:
        scene.session.run(
            f"""insert into smart_schedule_policy_windows (policy_id, starts, ends, action, project_id)
                values ({policy_id}, '{window[0]}', '{window[1]}', 'run_project', 1)"""
        )
    return policy_id


def _decided(scene: Scene) -> dict[int, tuple[Any, ...]]:
    """What policy 1 decided for each machine."""
    scene.due()
    scene.tick()
    scene.decide()
    return {machine_id: tuple(rest) for machine_id, *rest in scene.rows(_BY_MACHINE)}


ALL_DAY = ("00:00", "24:00")


@pytest.mark.parametrize(
    ("scope", "overridden"),
    [
        (("tenant", "*"), {1, 2, 3, 4}),
        (("cluster", "1"), {1, 2, 3, 4}),
        (("model", "S21"), {1, 2, 3, 4}),
        (("machine", "2"), {2}),
        (("cluster", "2"), set()),
        (("model", "S19"), set()),
        (("machine", "99"), set()),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, tuple) else None,
)
def test_an_active_window_decides_for_its_scope(
    scene: Scene, scope: tuple[str, str], overridden: set[int]
) -> None:
    """R3.6: for machines that an active window covers, profit records skip/overridden with that policy; else it decides."""
    rival = _rival(scene, scope, window=ALL_DAY)
    skipped = ("skip", "overridden", rival)
    assert _decided(scene) == {
        machine: skipped if machine in overridden else SWITCH for machine in range(1, 5)
    }
    assert scene.value("select count(*) from smart_schedule_machine_locks") == 4 - len(overridden)


def test_profit_decides_again_when_the_window_is_over(scene: Scene) -> None:
    """R3.6: a window policy outside its windows outranks nobody."""
    now = scene.now()
    rival = _rival(scene, ("cluster", "1"), window=(f"{now:%H:%M}", f"{(now.hour + 1) % 24:02}:{now:%M}"))
    assert {outcome[2] for outcome in _decided(scene).values()} == {rival}
    scene.forward(3700)
    scene.report()
    scene.prices()
    assert set(_decided(scene).values()) == {SWITCH}


@pytest.mark.parametrize(
    ("change", "overrides"),
    [
        ("priority = 9", True),
        ("execution_mode = 'shadow'", False),
        ("execution_mode = 'dry_run'", False),
        ("enabled = false", False),
        ("archived_at = now()", False),
        ("tenant_id = 'other'", False),
    ],
)
def test_only_an_acting_policy_of_the_tenant_overrides(scene: Scene, change: str, *, overrides: bool) -> None:
    """R3.6: what merely watches, is switched off, or belongs to others takes no machine from one that executes."""
    rival = _rival(scene, ("tenant", "*"), priority=9)
    scene.session.run(f"update smart_schedule_policy_groups set {change} where id = {rival}")
    expected = ("skip", "overridden", rival) if overrides else SWITCH
    assert set(_decided(scene).values()) == {expected}


def test_the_highest_of_several_is_recorded_for_each_machine(scene: Scene) -> None:
    """R3.6: class and single machine compared by rank: a window over one machine beats a guard over the site, and so on."""
    guard = _rival(scene, ("cluster", "1"), priority=5)
    guard_of_two = _rival(scene, ("machine", "2"), priority=7)
    _rival(scene, ("machine", "3"), priority=3)
    window_of_four = _rival(scene, ("machine", "4"), window=ALL_DAY)
    by = {machine: outcome[2] for machine, outcome in _decided(scene).items()}
    assert by == {1: guard, 2: guard_of_two, 3: guard, 4: window_of_four}


def test_a_policy_that_cannot_be_read_overrides_nobody(scene: Scene) -> None:
    """R3.6, R8.2: its own ticks say what is wrong with it; it stops nothing but itself."""
    rival = _rival(scene, ("tenant", "*"), window=ALL_DAY)
    scene.session.run(f"update smart_schedule_policy_groups set time_zone = 'Europe' where id = {rival}")
    assert set(_decided(scene).values()) == {SWITCH}
