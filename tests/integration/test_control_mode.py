"""Setting a policy's mode by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from blsflow.domain.policy import ExecutionMode
from blsflow.flow import control, schedules
from blsflow.flow.versions import VersionConflict
from tests.integration.scene import Scene

if TYPE_CHECKING:
    from blsflow.adapters.postgres.address import DatabaseAddress


def test_a_mode_is_set_on_the_record_and_stops_what_was_decided_under_another(
    database: DatabaseAddress,
) -> None:
    """R4.1, R4.2: who, why and what it was are kept; a batch decided before the change is not sent any more."""
    with Scene(database) as scene:
        scene.tick()
        scene.decide()
        changed = control.set_mode(scene.app.store, 1, ExecutionMode.SHADOW, by="kim", why="a test")
        assert (changed.name, changed.was) == ("guard", "execute")
        scene.execute()
        assert scene.posts() == []
        told = scene.rows("select params from smart_schedule_log_events where code = 'policy_mode_changed'")
        assert told == [[{"by": "kim", "why": "a test", "was": "execute", "is": "shadow"}]]
        with pytest.raises(control.UnknownPolicy):
            control.set_mode(scene.app.store, 99, ExecutionMode.SHADOW, by="kim", why="a test")


def test_a_policys_tick_is_not_paused_behind_its_back(database: DatabaseAddress) -> None:
    """R6.3, R9.1: a policy stops ticking by being disabled, with who and why; its schedule alone is not paused."""
    with (
        Scene(database) as scene,
        pytest.raises(schedules.TickOfPolicy, match="pause, run or archive the policy"),
    ):
        schedules.pause_schedule(scene.app.store, 1, paused=True, by="test")


def test_what_lets_something_act_may_name_the_version_that_was_read(database: DatabaseAddress) -> None:
    """R9.1: enabling and a mode are refused once somebody else's change came first; each makes a version of its own."""
    with Scene(database) as scene:
        store = scene.app.store
        first = scene.value("select version from smart_schedule_policy_groups where id = 1")
        changed = control.set_mode(store, 1, ExecutionMode.SHADOW, by="kim", why="a test", version=first)
        assert changed.version == first + 1
        with pytest.raises(VersionConflict) as conflict:
            control.set_mode(store, 1, ExecutionMode.EXECUTE, by="lee", why="a test", version=first)
        assert (conflict.value.version, conflict.value.current) == (first, first + 1)
        with pytest.raises(VersionConflict):
            control.enable(store, 1, by="lee", why="a test", version=first)
        assert scene.rows("select execution_mode, version from smart_schedule_policy_groups") == [
            ["shadow", first + 1]
        ]
        assert control.enable(store, 1, by="lee", why="a test", version=first + 1).version == first + 2
        with pytest.raises(control.UnknownPolicy):
            control.enable(store, 99, by="lee", why="a test", version=1)
