"""The state machine's own definition, carried out step by step on a scene: waiting moves the scene's clock.

It knows what the definition uses of the Amazon States Language, and refuses anything else, so that the file which is deployed
is the file which is tested.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

from blsflow.ports.errors import WorkflowUnavailable
from blsflow.ports.sampling import ExecutionStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.integration.scene import Scene

DEFINITION = Path(__file__).parents[2] / "functions" / "benchmark" / "benchmark.asl.json"


class Stopped(BaseException):
    """The execution was stopped from outside; no catch of its own sees that."""


class StateMachine:
    """A `Workflow` whose executions are carried out when the test says so.

    ``before`` is called with the name of each state that is about to be entered; it may raise `Stopped`, or any other
    exception, which the state then fails with.
    """

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.definition: dict[str, Any] = json.loads(DEFINITION.read_text())
        self.before: Callable[[str], None] = lambda _: None
        self.documents: dict[str, Mapping[str, object]] = {}
        self.ends: dict[str, ExecutionStatus] = {}
        self.visited: list[str] = []
        self.unavailable = False

    # ------------------------------------------------------------ the port

    def start(self, name: str, document: Mapping[str, object]) -> None:
        """Take an execution; the same name a second time changes nothing."""
        self._available()
        assert len(name) <= 80
        self.documents.setdefault(name, json.loads(json.dumps(document)))

    def status(self, name: str) -> ExecutionStatus:
        """Running until it was carried out to an end."""
        self._available()
        if name not in self.documents:
            return ExecutionStatus.UNKNOWN
        return self.ends.get(name, ExecutionStatus.RUNNING)

    def stop(self, name: str, cause: str) -> None:
        """End it before its next state."""
        self._available()
        assert cause
        self.ends.setdefault(name, ExecutionStatus.ABORTED)

    def _available(self) -> None:
        if self.unavailable:
            raise WorkflowUnavailable("simulated")

    # ------------------------------------------------------------ carrying out

    def waiting(self) -> list[str]:
        """The executions that were begun and not carried out."""
        return [name for name in self.documents if name not in self.ends]

    def run_all(self) -> list[str]:
        """Carry out every execution that waits; return the states that were visited."""
        self.visited = []
        for name in self.waiting():
            self.run(name)
        return self.visited

    def run(self, name: str) -> ExecutionStatus:
        """Carry one out to its end."""
        document = dict(self.documents[name])
        state = str(self.definition["StartAt"])
        try:
            while True:
                assert len(self.visited) < 2000, "it goes round and round"
                self.visited.append(state)
                following = self._enter(state, self.definition["States"][state], document)
                if following is None:
                    end = self.definition["States"][state]["Type"]
                    self.ends[name] = (
                        ExecutionStatus.SUCCEEDED if end == "Succeed" else ExecutionStatus.FAILED
                    )
                    break
                state = following
        except Stopped:
            self.ends[name] = ExecutionStatus.ABORTED
        return self.ends[name]

    def _enter(self, name: str, state: dict[str, Any], document: dict[str, Any]) -> str | None:
        match state["Type"]:
            case "Succeed" | "Fail":
                self.before(name)
                return None
            case "Wait":
                self.before(name)
                self._wait(_at(document, state["SecondsPath"]))
                return str(state["Next"])
            case "Choice":
                self.before(name)
                for rule in state["Choices"]:
                    assert set(rule) == {"Variable", "StringEquals", "Next"}
                    if _at(document, rule["Variable"]) == rule["StringEquals"]:
                        return str(rule["Next"])
                return str(state["Default"])
            case "Task":
                return self._task(name, state, document)
            case other:
                raise NotImplementedError(other)

    def _task(self, name: str, state: dict[str, Any], document: dict[str, Any]) -> str:
        tries = 1 + sum(retrier["MaxAttempts"] for retrier in state.get("Retry", ()))
        event = {
            key.removesuffix(".$"): _at(document, value) if key.endswith(".$") else value
            for key, value in state["Parameters"].items()
        }
        for attempt in range(tries):
            if attempt:
                self._wait(2**attempt)
            try:
                self.before(name)
                came_to = self.scene.app.benchmark(
                    event["step"], run_id=UUID(event["run_id"]), execution=event["execution"]
                )
            except Exception as error:  # noqa: BLE001 - as Step Functions: any error is caught by States.ALL
                document["error"] = repr(error)
                continue
            document["result"] = {"outcome": came_to.outcome, "wait_sec": came_to.wait_sec}
            return str(state["Next"])
        return str(state["Catch"][0]["Next"])

    def _wait(self, seconds: float) -> None:
        assert seconds >= 0
        self.scene.forward(seconds)
        self.scene.report()


def _at(document: Mapping[str, Any], path: str) -> Any:
    found: Any = document
    for part in path.removeprefix("$.").split("."):
        found = found[part]
    return found
