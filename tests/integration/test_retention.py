"""What is past its retention goes, a page at a time; nothing that is open or young does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.integration.scene import Scene

if TYPE_CHECKING:
    from collections.abc import Iterator

    from blsflow.adapters.postgres.address import DatabaseAddress

_COUNTS = (
    "select (select count(*) from smart_schedule_ticks), (select count(*) from smart_schedule_attempts),"
    " (select count(*) from smart_schedule_attempt_machines), (select count(*) from smart_schedule_occurrences)"
)


@pytest.fixture
def scene(database: DatabaseAddress) -> Iterator[Scene]:
    """Six machines on coin A, with coin B earning more."""
    with Scene(database) as made:
        yield made


def test_ended_work_past_retention_is_dropped_and_its_history_stays(scene: Scene) -> None:
    """R11.1: ticks and ended attempts go after the retention, occurrences stay, and doctor finds nothing amiss."""
    scene.round()
    assert scene.rows(_COUNTS) == [[1, 1, 6, 1]]
    scene.forward(89 * 86_400)
    scene.reconcile()
    assert scene.rows(_COUNTS) == [[1, 1, 6, 1]]
    scene.forward(2 * 86_400)
    scene.reconcile()
    scene.reconcile()
    assert scene.rows(_COUNTS) == [[0, 0, 0, 1]]
    assert scene.findings() == {}


def test_an_attempt_that_nobody_could_confirm_is_kept_however_old(scene: Scene) -> None:
    """R5.4: what is open is not history; it stays with its machines and its locks."""
    scene.tick()
    scene.decide()
    scene.execute()
    scene.forward(200 * 86_400)
    scene.reconcile()
    assert scene.value("select count(*) from smart_schedule_attempts where ended_at is null") == 1
    assert scene.value("select count(*) from smart_schedule_machine_locks where freed_at is null") == 6
