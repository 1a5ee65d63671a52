"""The published contract of the execution service, and a simulated one on a clock that only tests move."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import jsonschema
import requests
import yaml

from blsflow.adapters.execution_service import HttpExecutionService
from blsflow.domain.conversation import ConversationCommand, RunFound, RunReport, RunState
from blsflow.domain.execution import Accepted
from local.simulators.execution_service import ExecutionServiceSimulator
from local.simulators.web import Served

CONTRACT: dict[str, Any] = yaml.safe_load(
    (Path(__file__).parents[2] / "docs/contracts/execution_service.openapi.yaml").read_text("utf-8")
)
TOKEN = "execution-token"
BEGAN_AT = datetime(2026, 3, 1, 7, 0, tzinfo=UTC)
RUN_SEC = 5.0
COMMAND = ConversationCommand(
    key="occurrence-1",
    caller_tenant="tenant-a",
    caller_subject="李雷",
    target="analyst",
    conversation_id="conv-morning",
    prompt="昨天换了几台?",
    expires_at=BEGAN_AT + timedelta(seconds=30),
)
OTHER = replace(COMMAND, key="occurrence-2", conversation_id="conv-tariff")


def check_schema(name: str, document: object) -> None:
    """Hold a document against a schema of the contract."""
    schema = {"$ref": f"#/components/schemas/{name}", "components": CONTRACT["components"]}
    jsonschema.validate(document, schema, cls=jsonschema.Draft202012Validator)


class Simulation:
    """The simulated service on a clock that only tests move, and a client of it."""

    def __init__(self) -> None:
        self.now = BEGAN_AT
        self.service = ExecutionServiceSimulator(token=TOKEN, run_sec=RUN_SEC, now=lambda: self.now)
        self.served = Served(self.service)
        self.client = HttpExecutionService(self.served.url, TOKEN, 0.5)

    def later(self, seconds: float) -> None:
        """Move the service's clock on."""
        self.now += timedelta(seconds=seconds)

    def faults(self, **changes: float | str) -> None:
        """Switch faults at run time, as a test from outside would."""
        requests.put(f"{self.served.url}/sim/faults", json=changes, timeout=5).raise_for_status()

    def ledger(self) -> dict[tuple[str, str], dict[str, Any]]:
        """Return what the service counted, by caller and key."""
        answer = requests.get(f"{self.served.url}/sim/ledger", timeout=5).json()
        return {(row["caller"], row["key"]): row for row in answer["runs"]}

    def started(self, command: ConversationCommand = COMMAND) -> str:
        """Start a run that must be accepted."""
        outcome = self.client.start(command)
        assert isinstance(outcome, Accepted), outcome
        return outcome.job_id

    def read(self, run_id: str | None = None, **changes: str) -> RunReport:
        """Read the command's run back, by its key or by its id."""
        return self.client.read_back(**self.caller(**changes), run_id=run_id)

    @staticmethod
    def caller(**changes: str) -> Any:
        """Whose run is meant."""
        known = {"caller_tenant": "tenant-a", "caller_subject": "李雷", "key": "occurrence-1"}
        return known | changes

    def state(self, run_id: str | None = None, **changes: str) -> RunState:
        """The state of a run that must be found."""
        found = self.read(run_id, **changes)
        assert isinstance(found, RunFound), found
        return found.state
