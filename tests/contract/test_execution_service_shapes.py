"""The simulated execution service against the published contract."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
import requests

from local.simulators.execution_runs import ExecutionFaults
from tests.contract.execution_scenes import COMMAND, CONTRACT, RUN_SEC, TOKEN, Simulation, check_schema

if TYPE_CHECKING:
    from collections.abc import Iterator

HEADERS = {
    "Authorization": f"Bearer {TOKEN}",
    "X-Caller": "tenant-a",
    "X-On-Behalf-Of": "%E6%9D%8E",
    "Idempotency-Key": "occurrence-1",
    "X-Expires-At": COMMAND.expires_at.isoformat(),
}
BODY = {"target_id": "analyst", "conversation_id": "conv-morning", "prompt": "go"}


@pytest.fixture
def simulation() -> Iterator[Simulation]:
    """Run the simulated service."""
    running = Simulation()
    yield running
    running.served.close()


def ask(
    simulation: Simulation, method: str, path: str, document: object = None, **changes: str
) -> requests.Response:
    """Send a request as the contract has it, with some headers changed."""
    url = f"{simulation.served.url}/v1/{path}"
    return requests.request(method, url, headers=HEADERS | changes, json=document, timeout=5)


def test_simulated_answers_keep_the_published_shapes(simulation: Simulation) -> None:
    """R1.1: the simulated service and the contract cannot drift apart, in any state of a run."""
    check_schema("TargetPage", ask(simulation, "GET", "targets").json())
    taken = ask(simulation, "POST", "runs", BODY)
    assert (taken.status_code, taken.headers.get("Idempotent-Replayed")) == (202, None)
    check_schema("Started", taken.json())
    assert ask(simulation, "POST", "runs", BODY).headers["Idempotent-Replayed"] == "true"
    seen: list[str] = []

    def look(key: str) -> None:
        run = ask(simulation, "GET", f"attempts/{key}").json()
        check_schema("Run", run)
        seen.append(run["state"])

    for pause_sec in (0.1, 0.1, RUN_SEC):
        look("occurrence-1")
        simulation.later(pause_sec)
    for fault in ("failure_rate", "interrupted_rate", "endless_rate"):
        simulation.faults(**{fault: 1})
        ask(simulation, "POST", "runs", BODY, **{"Idempotency-Key": fault})
        simulation.later(RUN_SEC + 0.2)
        cancelled = ask(simulation, "POST", f"attempts/{fault}/cancel")
        assert cancelled.status_code == 202
        check_schema("Run", cancelled.json())
        simulation.later(0.5)
        look(fault)
        simulation.faults(**{fault: 0})
    look("occurrence-1")
    assert seen == ["queued", "queued", "running", "failed", "interrupted", "cancelled", "succeeded"]


def test_the_simulator_refuses_what_the_contract_does(simulation: Simulation) -> None:
    """R1.1: a request outside the contract is refused by a problem document, and counted as started never."""
    faulty: list[Any] = [{}, [], None, *(BODY | {name: ""} for name in BODY), BODY | {"prompt": "x" * 32_001}]
    for number, wrong in enumerate(faulty):
        refused = ask(simulation, "POST", "runs", wrong, **{"Idempotency-Key": f"wrong-{number}"})
        assert refused.status_code in (400, 422)
        check_schema("Problem", refused.json())
        with pytest.raises(jsonschema.ValidationError):
            check_schema("RunRequest", wrong)
    for name in ("X-Caller", "X-On-Behalf-Of", "Idempotency-Key", "X-Expires-At"):
        assert ask(simulation, "POST", "runs", BODY, **{name: ""}).status_code == 400
    assert ask(simulation, "GET", "targets", Authorization="Bearer other").status_code == 401
    assert ask(simulation, "GET", "attempts/unknown").json()["code"] == "run_not_found"
    assert ask(simulation, "GET", "nothing").json()["code"] == "no_such_path"
    assert not any(row["starts"] for row in simulation.ledger().values())


def test_every_status_of_the_simulator_is_in_the_contract() -> None:
    """R1.1: the paths that the client uses exist, and each refusal that a start can meet is described."""
    assert set(CONTRACT["paths"]) == {
        "/v1/targets",
        "/v1/runs",
        "/v1/runs/{run_id}",
        "/v1/runs/{run_id}/cancel",
        "/v1/attempts/{key}",
        "/v1/attempts/{key}/cancel",
    }
    start = CONTRACT["paths"]["/v1/runs"]["post"]["responses"]
    assert set(start) == {"202", "400", "401", "403", "404", "409", "410", "422", "423", "5XX"}
    named = set(re.findall(r"`(\w+)`", str([answer.get("description") for answer in start.values()])))
    assert {"target_not_found", "conversation_not_found", "target_gone", "conversation_gone"} <= named


def test_faults_are_read_and_changed_while_it_runs(simulation: Simulation) -> None:
    """R5.3: a fault profile is changed field by field; an unknown field is refused by name."""
    url = f"{simulation.served.url}/sim/faults"
    assert requests.get(url, timeout=5).json()["run_sec"] == RUN_SEC
    changed = requests.put(url, json={"busy_rate": 0.5}, timeout=5).json()
    assert changed == requests.get(url, timeout=5).json()
    assert changed == ExecutionFaults(run_sec=RUN_SEC, busy_rate=0.5).__dict__
    refused = requests.put(url, json={"busy": 1}, timeout=5)
    assert refused.status_code == 400
    assert "no such fault: busy" in refused.json()["detail"]
