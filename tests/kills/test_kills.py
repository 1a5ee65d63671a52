"""The kill matrix: each worker, a real process, killed before and after every commit, send and outside call.

What follows is what follows in the field: the message is delivered again, schedules go on, time passes. Then nothing is
left, doctor finds nothing, and the outside saw each command at most once.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from dataclasses import asdict
from datetime import timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from blsflow.flow import control
from blsflow.flow.benchmark import STEPS
from tests.integration.scene import TOKEN
from tests.kills.nursery import Order
from tests.kills.points import Point
from tests.storm.stage import Stage
from tests.storm.story import Story

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from blsflow.adapters.postgres.address import DatabaseAddress


class Nursery:
    """Invokes workers as processes, each a child of one warm process."""

    def __init__(self, stage: Stage, folder: Path) -> None:
        self.folder = folder
        self._stage = stage
        self._address = asdict(stage.address)
        a = stage.address
        self._settings = {
            "BLSFLOW_SCHEDULER_DATABASE_URL": f"postgresql://{a.user}:{quote(a.password)}@{a.host}:{a.port}/{a.dbname}",
            "BLSFLOW_SCHEDULER_DATABASE_TLS": "off",
            "BLSFLOW_SCHEDULER_EXECUTE_ENABLED": "true",
            "BLSFLOW_SCHEDULER_SWITCH_API_BASE_URL": stage._served.url,
            "BLSFLOW_SCHEDULER_SWITCH_API_TOKEN": TOKEN,
            "BLSFLOW_SCHEDULER_EXECUTION_API_BASE_URL": stage._served_execution.url,
            "BLSFLOW_SCHEDULER_EXECUTION_API_TOKEN": TOKEN,
            "BLSFLOW_SCHEDULER_PROFIT_API_BASE_URL": stage._served_feed.url,
            "BENCHMARK_SAMPLE_WINDOW_SEC": "60",
            "BLSFLOW_SCHEDULER_BENCHMARK_WARM_UP_SEC": "10",
            "USDT_TO_CNY_RATE": "1",
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.kills.nursery"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def invoke(self, worker: str, message: Mapping[str, Any], killed_at: Point | None = None) -> int:
        """Run a worker to its end, or to where it is killed; return its exit code, negative for a signal."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        self._stage.tell_newcomers()
        order = Order(
            worker=worker,
            message=message,
            settings=self._settings,
            address=self._address,
            folder=str(self.folder),
            killed_at=None if killed_at is None else (killed_at.name, killed_at.nth, killed_at.after),
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(order.line())
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def handed_over(self, what: str) -> list[Any]:
        """What the last process handed over."""
        path = self.folder / what
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def points(self) -> list[Point]:
        """Where the last process has been, each moment once."""
        found = [Point(name=name, nth=nth, after=after) for name, nth, after in self.handed_over("trace")]
        return list(dict.fromkeys(found))

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(10)


class Bench:
    """A stage, a story told on it, and the nursery beside it; each case begins anew."""

    def __init__(self, stage: Stage, nursery: Nursery) -> None:
        self.stage = stage
        self.nursery = nursery
        self.begin()

    def begin(self) -> None:
        """Begin anew: four machines on coin A, with coin B earning more."""
        self.stage.recover()
        self.stage.begin(1, lead=timedelta(hours=12))
        self.story = Story(self.stage, 1)
        self.stage.forward(61)
        self.stage.report()

    def scan(self) -> None:
        """A scan that nothing happens to."""
        self.stage.tick()
        self.story.collect()

    def decide(self) -> None:
        """Decide what was recorded; nothing happens to it."""
        for message in self.story.messages["decide"]:
            self.stage.app.decide(int(str(message["occurrence_id"])))
        self.story.messages["decide"] = []
        self.story.collect()

    def take_in(self) -> None:
        """Take what a process of the nursery handed over before its end: it is on its way."""
        for queue in ("decide", "execute"):
            self.story.messages[queue] += self.nursery.handed_over(queue)
        for notification in self.nursery.handed_over("published"):
            number = notification["notification_id"]
            published = self.stage.publisher.published
            published[number] = published.get(number, 0) + 1
        for execution in self.nursery.handed_over("executions"):
            self.stage.states.start(execution["name"], execution["document"])

    def go_on(self) -> None:
        """The next minutes, with every message that waits, and rest."""
        stage, story = self.stage, self.story
        for _ in range(3):
            story.deliver_all(unharmed=True)
            stage.forward(131)
            stage.report()
            stage.tick()
            story.collect()
            story.deliver_all(unharmed=True)
            stage.forward(20)
            stage.report()
            stage.reconcile()
            stage.app.sampling(budget_sec=10)
            stage.states.run_all()
        story.come_to_rest()

    def assert_sound(self, *, published_twice: bool, measured: bool = False) -> None:
        """Nothing is left, nothing was sent twice, and the machines do what the policy wants."""
        watch = self.story.watch
        watch.decisions_are_sound()
        watch.what_was_sent_was_allowed()
        watch.doctor_is_content(at_rest=True)
        watch.told_once(crashed=published_twice)
        projects = [reading.project_id for reading in self.stage.world.readings()]
        assert projects[1:] == [2, 2, 2]
        assert projects[0] in ({1, 2} if measured else {2}), (
            "a machine that was to be measured is at home or has moved on"
        )


@pytest.fixture(scope="module")
def bench(module_database: DatabaseAddress, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """One stage and one nursery for all cases."""
    with Stage(module_database) as stage:
        nursery = Nursery(stage, tmp_path_factory.mktemp("kills") / "handed-over")
        yield Bench(stage, nursery)
        nursery.close()


def _scanned(bench: Bench, queue: str) -> Mapping[str, Any]:
    bench.scan()
    return bench.story.messages[queue].pop(0)


def _decided(bench: Bench) -> Mapping[str, Any]:
    bench.scan()
    bench.decide()
    waiting = bench.story.messages["execute"]
    return waiting.pop(next(n for n, message in enumerate(waiting) if "attempt_id" in message))


def _sent(bench: Bench) -> Mapping[str, Any]:
    """Jobs and runs are under way, and a run is to be cancelled."""
    bench.scan()
    bench.story.deliver_all(unharmed=True)
    ((schedule, occurrence),) = bench.stage.rows(
        "select schedule_id, id from smart_schedule_occurrences where kind = 'conversation' and state = 'running'"
        " order by id limit 1"
    )
    bench.stage.rows(f"update smart_schedule_occurrences set state = 'cancelling' where id = {occurrence}")
    assert schedule
    bench.stage.forward(20)
    bench.stage.report()
    return {}


def _told(bench: Bench) -> Mapping[str, Any]:
    for policy in (1, 2):
        control.freeze(bench.stage.app.store, policy, by="op", why="to be told of")
    for policy in (1, 2):
        control.enable(bench.stage.app.store, policy, by="op", why="told of")
    return {}


def _lacking(bench: Bench) -> Mapping[str, Any]:
    """A tick asked for a benchmark of machine 1, and moves nothing itself."""
    bench.stage.rows(
        "delete from smart_schedule_machine_project_benchmarks where machine_id = 1 and project_id = 2;"
        "update smart_schedule_policy_groups set min_gain_cny_per_day = 1000"
    )
    bench.scan()
    bench.story.deliver_all(unharmed=True)
    bench.stage.rows("update smart_schedule_policy_groups set min_gain_cny_per_day = 1")
    return {}


WORKERS: Mapping[str, tuple[str, Callable[[Bench], Mapping[str, Any]], set[str]]] = {
    "tick": ("tick", lambda _: {}, {"commit", "send", "fetch"}),
    "decide": ("decide", lambda bench: _scanned(bench, "decide"), {"commit", "send"}),
    "execute": ("execute", _decided, {"commit", "submit"}),
    "converse": ("execute", lambda bench: _scanned(bench, "execute"), {"commit", "start"}),
    "reconcile": ("reconcile", _sent, {"commit", "read_back", "cancel"}),
    "sampling": ("sampling", _lacking, {"commit", "workflow"}),
    "notify": ("notify", _told, {"commit", "publish"}),
}


@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", WORKERS)
def test_a_worker_killed_at_any_boundary_leaves_nothing_behind(bench: Bench, name: str) -> None:
    """R5.3, R5.4, R6.4, R8.3, R8.10, R10.1: killed there, delivered again and ticked on, it is as if nothing had been."""
    worker, prepare, seams = WORKERS[name]
    bench.begin()
    assert bench.nursery.invoke(worker, prepare(bench)) == 0
    points = bench.nursery.points()
    assert {point.name for point in points} == seams
    for point in points:
        bench.begin()
        message = prepare(bench)
        assert bench.nursery.invoke(worker, message, point) == -signal.SIGKILL, f"{name} {point}"
        bench.take_in()
        if message:
            queue = "decide" if worker == "decide" else "execute"
            bench.story.messages[queue].append(message)
        bench.story.told.append(f"{name} killed {point}")
        bench.go_on()
        bench.assert_sound(
            published_twice=(point.name, point.after) in {("publish", True), ("commit", False)}
        )


class Steps:
    """The application as Step Functions sees it: steps of a run are processes of their own, and one of them is killed."""

    def __init__(self, bench: Bench, killed: tuple[int, Point] | None = None) -> None:
        self._bench = bench
        self._app = bench.stage.app
        self._killed = killed
        self.came_to: list[tuple[str, list[Point]]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._app, name)

    def benchmark(self, step: str, *, run_id: Any, execution: str) -> Any:
        """Take a step in a process of its own; once one was killed, the others are taken here."""
        killed_in, point = self._killed or (None, None)
        number = len(self.came_to)
        message = {"step": step, "run_id": str(run_id), "execution": execution}
        if self._killed is not None and number != killed_in:
            self.came_to.append((step, []))
            return self._app.benchmark(step, run_id=run_id, execution=execution)
        code = self._bench.nursery.invoke("benchmark", message, point)
        self.came_to.append((step, self._bench.nursery.points()))
        if self._killed is not None:
            assert code == -signal.SIGKILL, f"{step} {point}"
            raise ConnectionError("the function was killed")
        return SimpleNamespace(**self._bench.nursery.handed_over("came-to")[0])


def _carried_out(bench: Bench, killed: tuple[int, Point] | None = None) -> Steps:
    """Ask for a benchmark, begin its run and carry it out."""
    bench.begin()
    _lacking(bench)
    steps = Steps(bench, killed)
    assert bench.stage.app.sampling(budget_sec=10).begun == 1
    bench.stage.__dict__["app"] = steps
    try:
        bench.stage.states.run_all()
    finally:
        bench.stage.__dict__["app"] = steps._app
    return steps


@pytest.mark.timeout(0)
def test_a_benchmark_step_killed_at_any_boundary_leaves_nothing_behind(bench: Bench) -> None:
    """R7.1, R7.3, R5.3: whichever step dies wherever, the machine is put back, nothing is sent twice, and no lock stays."""
    calls = _carried_out(bench).came_to
    firsts = {step: number for number, (step, _) in reversed(list(enumerate(calls)))}
    cases = [(number, point) for number in sorted(firsts.values()) for point in calls[number][1]]
    for case in cases:
        steps = _carried_out(bench, case)
        assert len(steps.came_to) > case[0]
        bench.story.told.append(f"benchmark killed in {calls[case[0]][0]}, {case[1]}")
        bench.go_on()
        bench.assert_sound(published_twice=False, measured=True)
    assert {step for step, _ in calls} == set(STEPS)
    assert sum(point.name == "submit" for _, point in cases) == 4
    assert len(cases) > 20
