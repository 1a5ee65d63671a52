"""The migrate function as CloudFormation's custom resource: answered once, where CloudFormation asked for it."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from blsflow.adapters.postgres.migrate import migration_files
from blsflow.ports.errors import StoreUnavailable
from tests.integration.control_scenes import environment, look
from tests.integration.handler_scenes import Deployment, sample

if TYPE_CHECKING:
    from collections.abc import Iterator

    from blsflow.adapters.postgres.address import DatabaseAddress

VERSIONS = [version for version, _ in migration_files()]
ANSWER_FIELDS = {"Status", "Reason", "PhysicalResourceId", "StackId", "RequestId", "LogicalResourceId"}


class _CloudFormation:
    """Takes answers at a pre-signed address, and keeps them."""

    def __init__(self, url: str, answers: list[tuple[str, str, dict[str, Any]]]) -> None:
        self.url = url
        self.answers = answers

    def event(self, kind: str) -> dict[str, Any]:
        """A sample event that asks for its answer here."""
        return {**sample(f"migrate/{kind}"), "ResponseURL": f"{self.url}/response?Signature=a%2Bb"}

    def only_answer(self, event: dict[str, Any]) -> dict[str, Any]:
        """The one answer there is, held to the event that it answers."""
        ((path, content_type, answer),) = self.answers
        assert path == "/response?Signature=a%2Bb"
        assert content_type == ""  # part of the signature
        assert set(answer) == ANSWER_FIELDS
        assert [answer[name] for name in ("StackId", "RequestId", "LogicalResourceId")] == [
            event[name] for name in ("StackId", "RequestId", "LogicalResourceId")
        ]
        return answer


@contextmanager
def cloudformation(status: int = 200) -> Iterator[_CloudFormation]:
    """The other end of a `ResponseURL`, on this machine."""
    answers: list[tuple[str, str, dict[str, Any]]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            """Keep the answer."""
            body = self.rfile.read(int(self.headers["Content-Length"]))
            answers.append((self.path, self.headers["Content-Type"], json.loads(body)))
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Keep quiet: standard output is the function's."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield _CloudFormation(f"http://127.0.0.1:{server.server_port}", answers)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def fresh(
    empty_database: DatabaseAddress, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Deployment]:
    """A deployment whose database has no schema yet."""
    scene = Deployment(empty_database, monkeypatch, capsys)
    scene.set(**environment(empty_database))
    yield scene
    scene.cold()


def applied(scene: Deployment) -> list[str]:
    """The migrations that the database has seen."""
    return [row[0] for row in look(scene.address, "select version from smart_schedule_migrations order by 1")]


def test_creating_the_stack_brings_the_schema(fresh: Deployment) -> None:
    """R11.1: the first deployment applies every migration and answers with success."""
    with cloudformation() as service:
        event = service.event("create")
        assert fresh.invoke("migrate", event) == {"applied": VERSIONS}
        answer = service.only_answer(event)
    assert (answer["Status"], answer["PhysicalResourceId"]) == ("SUCCESS", "database-schema")
    assert fresh.summary("migrate")["applied"] == VERSIONS == applied(fresh)


def test_updating_the_stack_applies_what_is_missing(fresh: Deployment) -> None:
    """R11.1: a new version of the code on a schema that is up to date changes nothing, and keeps the resource's id."""
    fresh.invoke("migrate", {})
    with cloudformation() as service:
        event = service.event("update")
        assert fresh.invoke("migrate", event) == {"applied": []}
        answer = service.only_answer(event)
    assert (answer["Status"], answer["PhysicalResourceId"]) == ("SUCCESS", event["PhysicalResourceId"])


def test_deleting_the_stack_leaves_the_data(fresh: Deployment) -> None:
    """R11.1: migrations go forward only; a stack that goes takes no table along, and need not reach the database."""
    fresh.invoke("migrate", {})
    fresh.set(BLSFLOW_SCHEDULER_DATABASE_URL="postgresql://nobody:nothing@127.0.0.1:9/none")
    with cloudformation() as service:
        event = service.event("delete")
        assert fresh.invoke("migrate", event) == {"applied": []}
        assert service.only_answer(event)["Status"] == "SUCCESS"
    assert applied(fresh) == VERSIONS


@pytest.mark.parametrize("kind", ["create", "update"])
def test_a_migration_that_fails_fails_the_deployment(fresh: Deployment, kind: str) -> None:
    """R11.1: CloudFormation hears the reason at once instead of waiting for its time-out, and rolls back."""
    fresh.set(BLSFLOW_SCHEDULER_DATABASE_URL="postgresql://nobody:canary@127.0.0.1:9/none")
    with cloudformation() as service:
        event = service.event(kind)
        with pytest.raises(StoreUnavailable):
            fresh.invoke("migrate", event)
        answer = service.only_answer(event)
    assert answer["Status"] == "FAILED"
    assert answer["Reason"].startswith("StoreUnavailable")
    assert "canary" not in fresh.output + json.dumps(answer)
    assert fresh.summary("migrate")["error"] == "StoreUnavailable"


def test_settings_that_cannot_be_meant_are_answered_too(fresh: Deployment) -> None:
    """R11.7, R11.1: a parameter with a wrong value fails the deployment by the variable's name."""
    fresh.set(BLSFLOW_SCHEDULER_DATABASE_TLS="maybe")
    with cloudformation() as service:
        event = service.event("create")
        with pytest.raises(Exception, match="BLSFLOW_SCHEDULER_DATABASE_TLS"):
            fresh.invoke("migrate", event)
        assert "BLSFLOW_SCHEDULER_DATABASE_TLS" in service.only_answer(event)["Reason"]


def test_an_answer_that_is_refused_is_not_given_again(fresh: Deployment) -> None:
    """R11.1: a success that could not be told is no failure: nothing contradicts it, and the function's line says why."""
    with cloudformation(status=403) as service:
        event = service.event("create")
        with pytest.raises(OSError, match="403"):
            fresh.invoke("migrate", event)
        assert service.only_answer(event)["Status"] == "SUCCESS"
    assert fresh.summary("migrate")["error"] == "HTTPError"
    assert applied(fresh) == VERSIONS


def test_a_direct_call_has_nobody_to_answer(fresh: Deployment) -> None:
    """R11.5: operators may call the function by hand; it migrates and returns what it applied."""
    assert fresh.invoke("migrate", {}) == {"applied": VERSIONS}
    assert fresh.invoke("migrate", {}) == {"applied": []}
