"""Restarting as often as one likes: the same starts as without, for the same schedules over the same time."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from blsflow.flow import schedules
from blsflow_cli.work import unsent_messages
from tests.integration.conversing import RUN_SEC, ConversationScene

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from datetime import datetime

    from blsflow.adapters.postgres.address import DatabaseAddress

_MINUTES = 12
_SLOW_SEC = 80.0
_RULES: dict[tuple[str, str], Mapping[str, object]] = {
    ("acme", "c1"): {"kind": "interval", "every_sec": 60, "time_zone": "UTC"},
    ("acme", "c2"): {"kind": "cron", "expression": "*/5 * * * *", "time_zone": "Asia/Kathmandu"},
    ("umbra", "c1"): {"kind": "interval", "every_sec": 120, "time_zone": "UTC"},
    ("umbra", "c3"): {"kind": "interval", "every_sec": 60, "time_zone": "Australia/Lord_Howe"},
}


def _steps(
    scene: ConversationScene, made: dict[tuple[str, str], int], begin: datetime
) -> Iterator[Callable[[], object]]:
    """What happens in each minute, a step at a time; runs are slow for a while, and people come in between."""

    def at(minute: float) -> None:
        scene.forward((begin + timedelta(minutes=minute) - scene.now()).total_seconds())

    for minute in range(_MINUTES):
        slow = 4 <= minute < 8

        def scan(minute: int = minute, *, slow: bool = slow) -> None:
            at(minute + 0.1)
            scene.faults(run_sec=_SLOW_SEC if slow else RUN_SEC)
            scene.tick()

        def follow(minute: int = minute) -> None:
            at(minute + 0.6)
            scene.reconcile()

        yield scan
        yield scene.execute
        if minute == 2:
            yield lambda: scene.run_now(made["acme", "c2"], "by hand")
        yield follow
        if minute == 3:
            yield lambda: schedules.pause_schedule(
                scene.app.store, made["umbra", "c1"], paused=True, by="test"
            )
        if minute == 7:
            yield lambda: schedules.pause_schedule(
                scene.app.store, made["umbra", "c1"], paused=False, by="test"
            )


def _starts(
    scene: ConversationScene, *, restart_every: int | None
) -> dict[tuple[str, str], list[tuple[float, str, int]]]:
    """Go through all steps with schedules of their own; return each schedule's starts by minute, origin and posts."""
    scene.start()
    begin = (scene.now() + timedelta(hours=2)).replace(minute=0, second=0, microsecond=0)
    scene.forward((begin - scene.now()).total_seconds() - 5)
    made = {
        (tenant, conversation): scene.schedule(conversation, tenant=tenant, rule=rule)
        for (tenant, conversation), rule in _RULES.items()
    }
    for number, step in enumerate(_steps(scene, made, begin), start=1):
        step()
        if restart_every is not None and number % restart_every == 0:
            scene.app.store.close()
            scene.start()
            scene.app.execute_queue.send(unsent_messages(scene.app))
    posts = {entry["key"]: entry["posts"] for entry in scene.ledger()}
    found = {}
    for key, schedule in made.items():
        rows = scene.rows(
            "select o.planned_at, o.origin, a.idempotency_key from smart_schedule_occurrences o"
            " join smart_schedule_attempts a on a.occurrence_id = o.id"
            f" where o.schedule_id = {schedule} order by o.id"
        )
        found[key] = [
            ((planned - begin) // timedelta(minutes=1), origin, posts[sent]) for planned, origin, sent in rows
        ]
        schedules.archive_schedule(scene.app.store, schedule, by="test")
    for _ in range(4):
        scene.later(_SLOW_SEC)
    assert scene.findings() == {}
    return found


@pytest.mark.timeout(300)
def test_restarting_at_every_kth_step_gives_the_same_starts(database: DatabaseAddress) -> None:
    """R8.3, R8.4: a new process with empty queues after every k-th step starts what an unbroken one starts, each once."""
    with ConversationScene(database) as scene:
        unbroken = _starts(scene, restart_every=None)
        assert [minute for minute, _, _ in unbroken["acme", "c1"]] == [0, 1, 2, 3, 4, 6, 8, 9, 10, 11]
        assert unbroken["acme", "c2"] == [
            (0, "planned", 1),
            (2, "manual", 1),
            (5, "planned", 1),
            (10, "planned", 1),
        ]
        assert [minute for minute, _, _ in unbroken["umbra", "c1"]] == [0, 2, 8, 10]
        for k in (1, 2, 3, 5, 7, 11):
            assert _starts(scene, restart_every=k) == unbroken, f"restarted at every {k}. step"
        assert set(scene.starts()) == {1}
