"""The outbox on real PostgreSQL: each notification goes out once, later if it must, and none is lost."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from blsflow.domain.freeze import Freeze, FreezeCause
from blsflow.flow import control
from blsflow.flow.freeze import announce_freeze
from blsflow.flow.notify import notify
from blsflow.ports.errors import PublishFailed
from tests.integration.racing import at_once
from tests.integration.scene import CrashPlan, Killed, Scene

if TYPE_CHECKING:
    from collections.abc import Iterator

    from blsflow.adapters.postgres.address import DatabaseAddress
    from blsflow.bootstrap import Application
    from blsflow.flow.notify import NotifyReport
    from blsflow.ports.services import NotificationMessage

_STATES = "select id, published_at is not null, tries from smart_schedule_outbox order by id"


@pytest.fixture
def scene(database: DatabaseAddress) -> Iterator[Scene]:
    """One policy over one machine, and an empty outbox."""
    with Scene(database, machines=1) as made:
        yield made


class _Publisher:
    """Keeps what it was given; ``failing`` ids are refused."""

    def __init__(self) -> None:
        self.published: list[NotificationMessage] = []
        self.failing: set[int] = set()
        self._lock = threading.Lock()

    def publish(self, message: NotificationMessage) -> None:
        with self._lock:
            if message.notification_id in self.failing:
                raise PublishFailed(f"{message.notification_id} did not go out")
            self.published.append(message)

    @property
    def ids(self) -> list[int]:
        return [message.notification_id for message in self.published]


def _outbox(scene: Scene, count: int) -> None:
    scene.session.run(
        f"""insert into smart_schedule_outbox (tenant_id, policy_id, code, params, created_at, next_try_at)
            select 'acme', 1, 'policy_frozen', jsonb_build_object('n', g), now(), now()
            from generate_series(1, {count}) g"""
    )


def _notify(app: Application, publisher: _Publisher) -> NotifyReport:
    return notify(app.store, publisher=publisher, time_left=lambda: True)


def test_a_freeze_reaches_the_topic_with_what_a_reader_needs(scene: Scene) -> None:
    """R6.3, R9.4, R10.1: whose policy, what happened, in words and figures, and the id by which a duplicate is told; once."""
    control.freeze(scene.app.store, 1, by="op", why="storm")
    publisher = _Publisher()
    assert _notify(scene.app, publisher).published == 1
    assert _notify(scene.app, publisher).published == 0
    (message,) = publisher.published
    texts = {
        "en": "The policy is frozen: an operator froze it; by op; why: storm."
        " Nothing is sent until it is enabled again.",
        "zh": "策略已冻结：操作人手动冻结；操作人：op；原因：storm。重新启用之前不会发送任何指令。",
    }
    created_at = message.document["created_at"]
    assert isinstance(created_at, str)
    assert message.document == {
        "notification_id": message.notification_id,
        "tenant_id": "acme",
        "policy_id": 1,
        "code": "policy_frozen",
        "params": {"cause": "manual", "by": "op", "why": "storm"},
        "texts": texts,
        "created_at": created_at,
    }
    assert (message.tenant_id, message.code) == ("acme", "policy_frozen")
    assert message.subject == f"BLSFlow, policy 1 of acme: {texts['en']}"
    lines = message.text.splitlines()
    assert lines[:3] == [texts["en"], "", texts["zh"]]
    assert "policy 1 of acme" in lines
    assert f"policy_frozen, notification {message.notification_id}" in lines


def test_two_publishers_at_once_publish_each_once(scene: Scene) -> None:
    """R10.1: rows are taken under their locks: two runs of notify at once share them and repeat none."""
    _outbox(scene, 60)
    other, publisher = scene.process(), _Publisher()
    reports: list[NotifyReport] = []
    at_once(
        lambda: reports.append(_notify(scene.app, publisher)),
        lambda: reports.append(_notify(other, publisher)),
    )
    assert sorted(publisher.ids) == [row[0] for row in scene.rows(_STATES)]
    assert sum(report.published for report in reports) == 60
    assert scene.rows(_STATES) == [[row[0], True, 1] for row in scene.rows(_STATES)]
    other.store.close()


def test_a_row_in_somebody_elses_hands_holds_up_no_other(scene: Scene) -> None:
    """R10.1: a publisher that hangs on one notification leaves the rest to others."""
    _outbox(scene, 3)
    other, publisher = scene.process(), _Publisher()
    with other.store.transaction() as hanging:
        (held,) = hanging.claim_notifications(1)
        assert _notify(scene.app, publisher).published == 2
        assert held.notification_id not in publisher.ids
    assert _notify(scene.app, publisher).published == 1
    other.store.close()


def test_a_failure_waits_longer_each_time_and_is_tried_again(scene: Scene) -> None:
    """R10.1: what did not go out is tried after 30 s, then 60 s, then 120 s, while the others go out at once."""
    _outbox(scene, 3)
    publisher = _Publisher()
    publisher.failing = {2}
    report = _notify(scene.app, publisher)
    assert (report.published, list(report.failures)) == (2, [2])
    for tries, wait in enumerate((30, 60, 120), 1):
        assert scene.value("select tries from smart_schedule_outbox where id = 2") == tries
        scene.forward(wait - 2)
        assert _notify(scene.app, publisher).failures == {}
        scene.forward(3)
        assert list(_notify(scene.app, publisher).failures) == [2]
    publisher.failing = set()
    scene.forward(241)
    assert _notify(scene.app, publisher).published == 1
    assert sorted(publisher.ids) == [1, 2, 3]


def test_no_wait_is_longer_than_an_hour(scene: Scene) -> None:
    """R10.1: however often it failed, it is tried every hour, for ever."""
    _outbox(scene, 1)
    scene.session.run("update smart_schedule_outbox set tries = 2000")
    publisher = _Publisher()
    publisher.failing = {1}
    _notify(scene.app, publisher)
    assert scene.value("select next_try_at - now() from smart_schedule_outbox") <= timedelta(hours=1)
    scene.forward(3601)
    publisher.failing = set()
    assert _notify(scene.app, publisher).published == 1


def test_a_crash_at_any_step_loses_none(scene: Scene) -> None:
    """R10.1: killed before or after every round trip: all go out; a second time only what was published and not committed."""
    step, repeated = 1, 0
    while True:
        scene.session.run("truncate smart_schedule_outbox restart identity")
        _outbox(scene, 3)
        publisher = _Publisher()
        plan = CrashPlan((step + 1) // 2, after=step % 2 == 0)
        scene.start(plan)
        try:
            _notify(scene.app, publisher)
        except Killed:
            pass
        else:
            break
        before = set(publisher.ids)
        marked = {row[0] for row in scene.rows(_STATES) if row[1]}
        assert marked <= before, "nothing counts as published that was not"
        scene.start()
        _notify(scene.app, publisher)
        assert set(publisher.ids) == {1, 2, 3}
        twice = {each for each in publisher.ids if publisher.ids.count(each) > 1}
        assert twice == before - marked
        repeated += len(twice)
        step += 1
    assert step > 20
    assert repeated > 0


def test_an_event_that_is_rolled_back_is_not_told_of(scene: Scene) -> None:
    """R10.1: the notification is written with its event: no freeze, no notification, whatever was done before the failure."""

    def freeze_and_die() -> None:
        with scene.app.store.transaction() as tx:
            announce_freeze(tx, "acme", 1, Freeze(cause=FreezeCause.MANUAL))
            raise Killed

    with pytest.raises(Killed):
        freeze_and_die()
    publisher = _Publisher()
    assert _notify(scene.app, publisher).published == 0
    assert scene.value("select count(*) from smart_schedule_log_events") == 0


def test_a_run_stops_when_its_time_is_up(scene: Scene) -> None:
    """R10.1, R8.10: what is left goes out with the next run."""
    _outbox(scene, 5)
    publisher = _Publisher()
    left: Any = iter([True, True, False])
    assert notify(scene.app.store, publisher=publisher, time_left=lambda: next(left)).published == 2
    assert _notify(scene.app, publisher).published == 3
