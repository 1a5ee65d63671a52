"""Fault points: where a worker's process may be killed, at the seams between the use cases and the outside.

The points are put around the adapters when an application is put together for a test. The product itself knows nothing of
them, so that they cost nothing where there are none.

==========  =================================================================
commit      a transaction of the store, at its commit
send        messages handed to a queue
submit      a batch posted to device control
start       a prompt posted to the execution service
cancel      a run asked to end
read_back   a job or run read back
fetch       the price feed asked
publish     a notification handed to SNS
workflow    an execution of a benchmark run handed to Step Functions
==========  =================================================================
"""

from __future__ import annotations

import json
import os
import signal
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from blsflow.adapters.postgres.connection import Session
from blsflow.adapters.postgres.store import PostgresStore
from blsflow.ports.sampling import ExecutionStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from blsflow.adapters.postgres.address import DatabaseAddress
    from blsflow.bootstrap import Application
    from blsflow.ports.services import NotificationMessage


@dataclass(frozen=True, kw_only=True)
class Point:
    """The n-th time (from 1) that a worker comes to a seam, before or after what is done there."""

    name: str
    nth: int
    after: bool

    def __str__(self) -> str:
        """Name it as a test's id."""
        return f"{'after' if self.after else 'before'}-{self.name}-{self.nth}"


class Points:
    """Counts what a process comes to, writes it down, and kills the process at one of them; None kills at none."""

    def __init__(self, trace: Path, killed_at: Point | None) -> None:
        self._trace = trace
        self._killed_at = killed_at
        self._counts: dict[str, int] = {}
        self._lock = threading.Lock()

    def at(self, name: str, work: Callable[[], Any]) -> Any:
        """Do the work of a seam, unless this is where the process ends."""
        with self._lock:
            nth = self._counts[name] = self._counts.get(name, 0) + 1
        self._come_to(Point(name=name, nth=nth, after=False))
        result = work()
        self._come_to(Point(name=name, nth=nth, after=True))
        return result

    def _come_to(self, point: Point) -> None:
        with self._trace.open("a") as file:
            file.write(json.dumps([point.name, point.nth, point.after]) + "\n")
        if point == self._killed_at:
            os.kill(os.getpid(), signal.SIGKILL)


class Pointed:
    """An adapter some of whose methods are fault points; the rest is its own."""

    def __init__(self, adapter: Any, points: Points, **names: str) -> None:
        self._adapter = adapter
        self._points = points
        self._names = names

    def __getattr__(self, method: str) -> Any:
        found = getattr(self._adapter, method)
        name = self._names.get(method)
        if name is None:
            return found
        return lambda *args, **kwargs: self._points.at(name, lambda: found(*args, **kwargs))


class PointedSession(Session):
    """A session whose commits are fault points."""

    def __init__(self, address: DatabaseAddress, points: Points) -> None:
        super().__init__(address)
        self._points = points

    def run(self, sql: str) -> list[list[Any]]:
        """Run text; a commit is a point."""
        if sql != "commit":
            return super().run(sql)
        result: list[list[Any]] = self._points.at("commit", lambda: super(PointedSession, self).run(sql))
        return result


class Outbound:
    """Queue, publisher and workflow of a process that may be killed: what it handed over is in a file, as it is in AWS."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def send(self, messages: Sequence[Mapping[str, object]]) -> None:
        """Hand over messages."""
        self._write(*messages)

    def publish(self, message: NotificationMessage) -> None:
        """Hand over a notification."""
        self._write(
            {
                "notification_id": message.notification_id,
                "subject": message.subject,
                "body": dict(message.document),
            }
        )

    def start(self, name: str, document: Mapping[str, object]) -> None:
        """Hand over an execution."""
        self._write({"name": name, "document": document})

    def status(self, _name: str) -> ExecutionStatus:
        """Say that it goes on."""
        return ExecutionStatus.RUNNING

    def _write(self, *documents: Mapping[str, object]) -> None:
        with self._path.open("a") as file:
            file.write("".join(json.dumps(document, default=str) + "\n" for document in documents))


def put_points(app: Application, address: DatabaseAddress, folder: Path, points: Points) -> None:
    """Put fault points around every adapter of an application."""
    parts = app.__dict__
    parts["store"] = PostgresStore(lambda: PointedSession(address, points))
    app.own_decide_queue = Pointed(Outbound(folder / "decide"), points, send="send")
    app.own_execute_queue = Pointed(Outbound(folder / "execute"), points, send="send")
    parts["publisher"] = Pointed(Outbound(folder / "published"), points, publish="publish")
    parts["workflow"] = Pointed(Outbound(folder / "executions"), points, start="workflow")
    parts["feed"] = Pointed(app.feed, points, fetch="fetch")
    parts["device_control"] = Pointed(app.device_control, points, submit="submit", read_back="read_back")
    parts["execution_service"] = Pointed(
        app.execution_service, points, start="start", cancel="cancel", read_back="read_back"
    )
