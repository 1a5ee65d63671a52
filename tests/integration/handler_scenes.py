"""The functions' handlers in this process, as Lambda calls them: real PostgreSQL, simulated services, imitated AWS."""

from __future__ import annotations

import importlib
import json
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from moto import mock_aws

from blsflow import bootstrap, observability
from blsflow.adapters import aws
from tests.integration.control_scenes import look, seeded, services

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from blsflow.adapters.postgres.address import DatabaseAddress

EVENTS = Path(__file__).parents[2] / "events"
REQUEST_ID = "8f507cfc-55b1-4f0e-9d24-7a9f6d1d2c33"
SAMPLE_ATTEMPT = "7b1e2f30-4a5b-4c6d-8e7f-90a1b2c3d4e5"
"""The attempt that the sample events speak of."""
TOKEN_CANARY = "canary-token-5f1d"
KEY_CANARY = "canary-key-93ab"
NOBODY_LISTENS = "http://127.0.0.1:9"


def sample(name: str) -> dict[str, Any]:
    """A sample event, by its path under `events/` without the ending."""
    event: dict[str, Any] = json.loads((EVENTS / f"{name}.json").read_text(encoding="utf-8"))
    return event


class Deployment:
    """What the functions stand on, and their handlers, called one at a time."""

    def __init__(
        self, address: DatabaseAddress, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self.address = address
        self._monkeypatch = monkeypatch
        self._capsys = capsys
        self.printed: list[dict[str, Any]] = []
        self.output = ""

    def set(self, **variables: str) -> None:
        """Change the functions' environment; their containers are started anew."""
        for name, value in variables.items():
            self._monkeypatch.setenv(name if name.isupper() else name.upper(), value)
        self.cold()

    def cold(self) -> None:
        """Start with new containers."""
        if bootstrap.application.cache_info().currsize:
            bootstrap.application().store.close()
        bootstrap.application.cache_clear()

    def invoke(self, function: str, event: Mapping[str, Any]) -> Any:
        """Call a handler; what it printed is in `printed` and `output` afterwards, also if it raises."""
        self._monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", function)
        observability.logger.cache_clear()
        logging.Logger.manager.loggerDict.pop(function, None)
        self._capsys.readouterr()
        try:
            handler = importlib.import_module(f"functions.{function}.app").handler
            return handler(event, SimpleNamespace(aws_request_id=REQUEST_ID))
        finally:
            self.output = self._capsys.readouterr().out
            self.printed = [json.loads(line) for line in self.output.splitlines()]

    def summary(self, function: str) -> dict[str, Any]:
        """The last invocation's summary line, of which there is exactly one."""
        found = [line for line in self.printed if line.get("message") == function]
        assert len(found) == 1, self.output
        (line,) = found
        assert (line["service"], line["request_id"]) == (function, REQUEST_ID)
        return line

    def metrics(self) -> dict[str, float]:
        """The last invocation's metrics, summed by name."""
        sums: dict[str, float] = {}
        for line in self.printed:
            for described in line.get("_aws", {}).get("CloudWatchMetrics", ()):
                for metric in described["Metrics"]:
                    sums[metric["Name"]] = sums.get(metric["Name"], 0) + sum(line[metric["Name"]])
        return sums

    def look(self, sql: str) -> list[list[Any]]:
        """Ask the database."""
        return look(self.address, sql)

    def value(self, sql: str) -> Any:
        """Ask the database for one value."""
        return self.look(sql)[0][0]


def client(service: str) -> Any:
    """A client of the imitated AWS."""
    return boto3.client(service)  # type: ignore[call-overload]


def received(queue_url: str) -> list[Any]:
    """The bodies of all messages in a queue, which are then gone."""
    found: list[Any] = []
    while (
        messages := client("sqs").receive_message(QueueUrl=queue_url, MaxNumberOfMessages=10).get("Messages")
    ):
        found += [json.loads(message["Body"]) for message in messages]
    return found


@pytest.fixture
def deployment(
    database: DatabaseAddress, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Deployment]:
    """A seeded database with everything around it, and nothing decided yet."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    monkeypatch.setenv("POWERTOOLS_METRICS_NAMESPACE", "BLSFlowScheduler")
    monkeypatch.setattr("tests.integration.control_scenes.TOKEN", TOKEN_CANARY)
    monkeypatch.setattr("functions.reconcile.app._SETTLING_IN_SEC", 0)
    monkeypatch.setattr("functions.reconcile.app._PAUSE_SEC", 0.2)
    with mock_aws(), services(seeded(database)) as environ:
        aws._client.cache_clear()
        queues = {
            name: client("sqs").create_queue(QueueName=name)["QueueUrl"] for name in ("decide", "execute")
        }
        topic = client("sns").create_topic(Name="notifications")["TopicArn"]
        scene = Deployment(database, monkeypatch, capsys)
        scene.set(
            **environ,
            BLSFLOW_SCHEDULER_DECIDE_QUEUE_URL=queues["decide"],
            BLSFLOW_SCHEDULER_EXECUTE_QUEUE_URL=queues["execute"],
            BLSFLOW_SCHEDULER_NOTIFICATION_TOPIC_ARN=topic,
            BLSFLOW_SCHEDULER_PROFIT_API_KEY=KEY_CANARY,
        )
        yield scene
        scene.cold()
    aws._client.cache_clear()
