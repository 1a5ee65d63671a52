"""The whole product on this machine, started once for all end-to-end tests, and ways to look at it from outside."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from local.product import LocalProduct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from blsflow.adapters.postgres.connection import Session

BLSFLOW = str(Path(sys.executable).with_name("blsflow"))
POLL_SEC = 0.3
FUNCTIONS = ("tick", "decide", "execute", "reconcile", "benchmark", "notify")


class Watched:
    """A running product: its database, logs, queues, simulators and command line."""

    def __init__(self, product: LocalProduct, session: Session) -> None:
        self.product = product
        self._session = session

    def client(self, service: str) -> Any:
        """A client of the emulator."""
        return self.product.stack.client(service)

    def output(self, name: str) -> str:
        """An output of the deployed stack."""
        return self.product.stack.outputs[name]

    def rows(self, sql: str) -> list[list[Any]]:
        """Ask the database, or change it."""
        return self._session.run(sql)

    def value(self, sql: str) -> Any:
        """Ask the database for one value."""
        return self.rows(sql)[0][0]

    def wait(self, what: str, happened: Callable[[], object], *, within_sec: float) -> None:
        """Look until it happened; fail with what was waited for, and with what stands open."""
        ends = time.monotonic() + within_sec
        while not happened():
            if time.monotonic() > ends:
                open_ = self.rows(
                    "select id, state, reason, action, detail from smart_schedule_attempts where ended_at is null"
                )
                pytest.fail(
                    f"not within {within_sec} s: {what}; open attempts: {open_}\n{self.logged_errors()}"
                )
            time.sleep(POLL_SEC)

    def lines(self, function: str) -> list[dict[str, Any]]:
        """The log lines of a function so far; metrics and the runtime's own lines are left out."""
        found: list[dict[str, Any]] = []
        for page in (
            self.client("logs")
            .get_paginator("filter_log_events")
            .paginate(logGroupName=f"/aws/lambda/blsflow-{function}")
        ):
            documents = (event["message"] for event in page["events"] if event["message"].startswith("{"))
            found += [line for line in map(json.loads, documents) if "level" in line]
        return found

    def logged_errors(self) -> str:
        """The lines of all functions that tell of an error."""
        bad = [line for name in FUNCTIONS for line in self.lines(name) if line["level"] == "ERROR"]
        return "\n".join(map(str, bad))

    def invoke(self, function: str, *, wait: bool = True) -> Any:
        """Call a deployed function as the schedule does, and fail if it raised."""
        answer = self.client("lambda").invoke(
            FunctionName=self.output(f"{function.title()}FunctionName"),
            InvocationType="RequestResponse" if wait else "Event",
            Payload=b"{}",
        )
        payload = answer["Payload"].read()
        assert "FunctionError" not in answer, payload
        return json.loads(payload) if payload else None

    def blsflow(self, *arguments: str) -> Any:
        """Run the command line beside the deployment; return its JSON, and fail if it failed."""
        result = subprocess.run(
            [BLSFLOW, *arguments, "--json"],
            env=self.product.environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert result.returncode == 0, result.stdout + result.stderr
        return json.loads(result.stdout)

    @contextlib.contextmanager
    def faults(self, url: str, **faults: object) -> Iterator[None]:
        """Switch faults of a simulator on, and back to what they were."""
        before = _exchange(f"{url}/sim/faults")
        _exchange(f"{url}/sim/faults", faults)
        try:
            yield
        finally:
            _exchange(f"{url}/sim/faults", before)

    def ledger(self) -> dict[str, dict[str, Any]]:
        """What device control took so far, by idempotency key."""
        document = _exchange(f"{self.product.device_control_url}/sim/ledger")
        return {batch["key"]: batch for batch in document["batches"]}

    def tick(self, policy_id: int) -> int:
        """Make a policy due now, and return its tick once it is decided and its attempts are sent."""
        newest = f"select coalesce(max(id), 0) from smart_schedule_ticks where policy_id = {policy_id}"
        of_it = f"schedule_id = (select id from smart_schedule_schedules where policy_id = {policy_id})"
        active = f"select count(*) from smart_schedule_occurrences where ended_at is null and {of_it}"
        self.wait("the policy is at rest", lambda: self.value(active) == 0, within_sec=60)
        before = self.value(newest)
        self.rows(f"update smart_schedule_schedules set next_run_at = now() where policy_id = {policy_id}")
        self.invoke("tick")
        self.wait("a new tick is decided", lambda: self.value(newest) > before, within_sec=60)
        tick_id = int(self.value(newest))
        unsent = (
            "select count(*) from smart_schedule_attempts"
            f" where tick_id = {tick_id} and state in ('prepared', 'dispatching')"
        )
        self.wait("its attempts are sent", lambda: self.value(unsent) == 0, within_sec=60)
        return tick_id


def _exchange(url: str, document: object = None) -> Any:
    body = None if document is None else json.dumps(document).encode()
    request = urllib.request.Request(url, data=body, method="GET" if body is None else "PUT")  # noqa: S310 - loopback
    with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310 - likewise
        return json.load(answer)


@pytest.fixture(scope="session")
def product() -> Iterator[Watched]:
    """The real template, deployed once with execution roles enforced, over a small fleet that obeys quickly."""
    with (
        LocalProduct(machines=200, ramp_sec=3, progress=print) as running,
        contextlib.closing(running.session()) as session,
    ):
        # none but those that a test asks for: they would lock machines that other tests move
        session.run("update smart_schedule_policy_groups set max_benchmarks = 0")
        yield Watched(running, session)
