"""The adapter and the simulated service keep the contract, both judged by the published document."""

from __future__ import annotations

import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
import requests
import yaml

from blsflow.adapters.device_control import HttpDeviceControl
from blsflow.domain.execution import (
    Accepted,
    Ambiguous,
    BatchCommand,
    Busy,
    CommandKind,
    JobForbidden,
    JobFound,
    JobNotFound,
    JobState,
    JobUnreadable,
    MachineResult,
    MachineResultState,
    MachineTarget,
    Refusal,
    Rejected,
)
from local.simulators.device_control import DeviceControlSimulator
from local.simulators.web import Answer, Drop, Request, Served, problem
from local.simulators.world import SimulatedMachine, World

if TYPE_CHECKING:
    from collections.abc import Iterator

CONTRACT = yaml.safe_load(
    (Path(__file__).parents[2] / "docs/contracts/device_control.openapi.yaml").read_text("utf-8")
)
TOKEN = "device-token"
COMMAND = BatchCommand(
    key="batch-1",
    caller="tenant-a",
    kind=CommandKind.SWITCH,
    project_id=12,
    run_config_id=340,
    targets=(
        MachineTarget(machine_id=1, fencing_token=5),
        MachineTarget(machine_id=2, fencing_token=6),
    ),
    expires_at=datetime.now(UTC) + timedelta(hours=6),  # read at import; a whole run is shorter
)


def check_schema(name: str, document: Any) -> None:
    """Hold a document against a schema of the contract."""
    schema = {"$ref": f"#/components/schemas/{name}", "components": CONTRACT["components"]}
    jsonschema.validate(document, schema, cls=jsonschema.Draft202012Validator)


class Scripted:
    """A service that gives one prepared answer and keeps what it was asked."""

    def __init__(self, answer: Answer | Drop) -> None:
        self.answer = answer
        self.requests: list[Request] = []

    def handle(self, request: Request) -> Answer | Drop:
        """Give the prepared answer."""
        self.requests.append(request)
        return self.answer


@contextmanager
def scripted(answer: Answer | Drop) -> Iterator[tuple[HttpDeviceControl, Scripted]]:
    """Serve one prepared answer to a client."""
    service = Scripted(answer)
    with Served(service) as served:
        yield HttpDeviceControl(served.url, TOKEN, 2.0), service


class Simulation:
    """The simulated service with a small fleet, and a client of it."""

    def __init__(self) -> None:
        self.world = World(
            [
                SimulatedMachine(machine_id=machine_id, hashrate_hs=1e14, power_w=3000.0, project_id=11)
                for machine_id in range(1, 41)
            ],
            ramp_sec=0.0,
        )
        self.service = DeviceControlSimulator(self.world, token=TOKEN)
        self.served = Served(self.service)
        self.client = HttpDeviceControl(self.served.url, TOKEN, 0.5)

    def faults(self, **changes: float) -> None:
        """Switch faults at run time, as a test from outside would."""
        requests.put(f"{self.served.url}/sim/faults", json=changes, timeout=5).raise_for_status()

    def ledger(self) -> dict[str, dict[str, Any]]:
        """Return what the service counted, by key."""
        answer = requests.get(f"{self.served.url}/sim/ledger", timeout=5).json()
        return {row["key"]: row for row in answer["batches"]}


@pytest.fixture
def simulation() -> Iterator[Simulation]:
    """Run the simulated service."""
    running = Simulation()
    yield running
    running.served.close()


# ---------------------------------------------------------------- the adapter against prepared answers


def test_the_request_is_the_contract_s() -> None:
    """R5.2: one POST carries kind, project, machines with fencing tokens, key, caller and expiry."""
    with scripted(Answer(document={"job_id": "j", "refused": []}, status=202)) as (client, service):
        client.submit(COMMAND)
    (request,) = service.requests
    assert (request.method, request.path) == ("POST", ("v1", "batches"))
    check_schema("Batch", request.json())
    assert request.json()["machines"][1] == {"machine_id": 2, "fencing_token": 6}
    assert request.headers["idempotency-key"] == "batch-1"
    assert request.headers["x-caller"] == "tenant-a"
    assert request.headers["authorization"] == f"Bearer {TOKEN}"
    assert datetime.fromisoformat(request.headers["x-expires-at"]) == COMMAND.expires_at


ACCEPTED = {"job_id": "job-1", "refused": [{"machine_id": 2, "reason": "offline"}]}


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (
            Answer(document=ACCEPTED, status=202),
            Accepted(job_id="job-1", refused=(Refusal(machine_id=2, reason="offline"),)),
        ),
        (problem(423, "busy", "later"), Busy(reason="busy")),
        (problem(429, "rate_limited", "later"), Busy(reason="rate_limited")),
        (Answer(document="<html>", status=423), Busy(reason="http_423")),
        (problem(400, "invalid_request", "why"), Rejected(reason="invalid_request", detail="why")),
        (problem(401, "unauthorized", "why"), Rejected(reason="unauthorized", detail="why")),
        (problem(403, "forbidden", "why"), Rejected(reason="forbidden", detail="why")),
        (problem(404, "no_such_path", "why"), Rejected(reason="no_such_path", detail="why")),
        (problem(422, "expired", "why"), Rejected(reason="expired", detail="why")),
        (Answer(document=["not", "a", "problem"], status=422), Rejected(reason="http_422", detail="")),
    ],
)
def test_definite_answers_are_definite(answer: Answer, expected: object) -> None:
    """R5.3: accepted, busy and rejected are told apart, the latter two with the service's reason."""
    with scripted(answer) as (client, service):
        assert client.submit(COMMAND) == expected
    assert len(service.requests) == 1


@pytest.mark.parametrize(
    "answer",
    [
        problem(500, "internal_error", ""),
        problem(502, "bad_gateway", ""),
        problem(503, "busy", "a proxy may say so after it passed the request on"),
        problem(504, "time_out", ""),
        problem(408, "request_time_out", ""),
        problem(409, "conflict", ""),
        Answer(document={}, status=307, headers={"Location": "/v1/elsewhere"}),
        Drop(),
        Answer(document={}, status=202),
        Answer(document={"job_id": None, "refused": []}, status=202),
        Answer(document={"job_id": "", "refused": []}, status=202),
        Answer(document={"job_id": 17, "refused": []}, status=202),
        Answer(document={"job_id": "x" * 201, "refused": []}, status=202),
        Answer(document={"job_id": "job-1"}, status=202),
        Answer(document={"job_id": "job-1", "refused": [{"reason": "offline"}]}, status=202),
        Answer(document={"job_id": "job-1", "refused": [{"machine_id": "2"}]}, status=202),
        Answer(document={"job_id": "job-1", "refused": [{"machine_id": 99}]}, status=202),
        Answer(document=["job-1"], status=202),
        Answer(document=None, status=202),
    ],
)
def test_everything_else_is_ambiguous_and_sent_once(answer: Answer | Drop) -> None:
    """R5.3: faults, conflicts, dropped connections, unreadable acceptances are ambiguous, never repeated."""
    with scripted(answer) as (client, service):
        outcome = client.submit(COMMAND)
    assert isinstance(outcome, Ambiguous)
    assert outcome.cause
    assert len(service.requests) == 1


@contextmanager
def raw_service(*chunks: bytes, pause_sec: float = 0.0) -> Iterator[str]:
    """A TCP server that answers anything with these bytes, then waits, then hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.recv(65536)
                for chunk in chunks:
                    try:
                        connection.sendall(chunk)
                    except OSError:
                        return
                    time.sleep(pause_sec)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.parametrize(
    ("chunks", "pause_sec"),
    [
        ((b"",), 1.0),
        ((b"HTTP/1.1 202 Accepted\r\nContent-Length: 99\r\n\r\n{",), 0.0),
        ((b"HTTP/1.1 202 Accepted\r\nContent-Length: 99\r\n\r\n{",), 1.0),
        ((b"HTTP/1.1 202 Accepted\r\nContent-Length: 60\r\n\r\n", *[b" "] * 60), 0.1),
        ((b"not http at all\r\n\r\n",), 0.0),
        ((b"HTTP/1.1 202 Accepted\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}",), 0.0),
        ((b"HTTP/1.1 202 Accepted\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",), 0.0),
        ((b"HTTP/1.1 202 Accepted\r\nContent-Length: 20000000\r\n\r\n", b" " * 20_000_000), 0.0),
    ],
    ids=["silent", "cut", "stalled", "dripping", "not-http", "not-gzip", "bad-chunk", "endless"],
)
def test_broken_transfers_are_ambiguous_within_the_time_out(
    chunks: tuple[bytes, ...], pause_sec: float
) -> None:
    """R5.3: however a transfer breaks or drags on, the outcome is a value and comes in bounded time."""
    with raw_service(*chunks, pause_sec=pause_sec) as url:
        client = HttpDeviceControl(url, TOKEN, 0.4)
        began = time.monotonic()
        assert isinstance(client.submit(COMMAND), Ambiguous)
        assert time.monotonic() - began < 3


def test_an_unreachable_service_is_a_value() -> None:
    """R5.3: with nobody listening, submit and read-back still answer."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    client = HttpDeviceControl(f"http://127.0.0.1:{port}", TOKEN, 0.5)
    assert isinstance(client.submit(COMMAND), Ambiguous)
    assert isinstance(client.read_back(caller="a", key="k", job_id=None), JobUnreadable)


JOB = {
    "job_id": "job-1",
    "state": "partially_failed",
    "machines": [
        {"machine_id": 1, "state": "succeeded", "reason": None},
        {"machine_id": 2, "state": "refused", "reason": "offline"},
    ],
}


def test_a_job_is_read_by_id_or_by_key() -> None:
    """R5.3: a read back uses the job's id, or the key it was sent under, and always the same caller."""
    expected = JobFound(
        job_id="job-1",
        state=JobState.PARTIALLY_FAILED,
        machines=(
            MachineResult(machine_id=1, state=MachineResultState.SUCCEEDED, reason=None),
            MachineResult(machine_id=2, state=MachineResultState.REFUSED, reason="offline"),
        ),
    )
    with scripted(Answer(document=JOB)) as (client, service):
        assert client.read_back(caller="tenant-a", key="k/1", job_id="job-1") == expected
        assert client.read_back(caller="tenant-a", key="k/1", job_id=None) == expected
    assert [(r.method, r.path) for r in service.requests] == [
        ("GET", ("v1", "jobs", "job-1")),
        ("GET", ("v1", "batches", "k/1")),
    ]
    assert {r.headers["x-caller"] for r in service.requests} == {"tenant-a"}


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (problem(404, "job_not_found", ""), JobNotFound),
        (problem(404, "no_such_path", ""), JobUnreadable),
        (Answer(document={}, status=404), JobUnreadable),
        (Answer(document="not found", status=404), JobUnreadable),
        (problem(410, "job_not_found", ""), JobUnreadable),
        (problem(401, "unauthorized", ""), JobForbidden),
        (problem(403, "forbidden", ""), JobForbidden),
        (problem(500, "job_not_found", ""), JobUnreadable),
        (problem(429, "rate_limited", ""), JobUnreadable),
        (Answer(document={}, status=302, headers={"Location": "/"}), JobUnreadable),
        (Drop(), JobUnreadable),
        (Answer(document=JOB | {"job_id": "job-2"}), JobUnreadable),
        (Answer(document=JOB | {"state": "done"}), JobUnreadable),
        (Answer(document=JOB | {"state": None}), JobUnreadable),
        (Answer(document=JOB | {"machines": None}), JobUnreadable),
        (Answer(document=JOB | {"machines": [{"machine_id": 1, "state": "fine"}]}), JobUnreadable),
        (Answer(document=JOB | {"machines": [{"machine_id": True, "state": "failed"}]}), JobUnreadable),
        (Answer(document=[JOB]), JobUnreadable),
    ],
)
def test_only_the_service_itself_can_say_not_found(answer: Answer | Drop, expected: type) -> None:
    """R8.11: not found and forbidden are told apart from an answer that proves nothing."""
    with scripted(answer) as (client, _):
        assert isinstance(client.read_back(caller="tenant-a", key="k", job_id="job-1"), expected)


# ---------------------------------------------------------------- adapter and simulated service together


def test_a_batch_runs_and_is_read_back(simulation: Simulation) -> None:
    """R5.2: a submitted batch has a job whose end can be read back by id and by key."""
    outcome = simulation.client.submit(COMMAND)
    assert isinstance(outcome, Accepted)
    assert outcome.refused == ()
    time.sleep(1.05)
    by_id = simulation.client.read_back(caller="tenant-a", key="batch-1", job_id=outcome.job_id)
    by_key = simulation.client.read_back(caller="tenant-a", key="batch-1", job_id=None)
    assert isinstance(by_id, JobFound)
    assert by_id == by_key
    assert by_id.state is JobState.SUCCEEDED
    assert {m.state for m in by_id.machines} == {MachineResultState.SUCCEEDED}
    assert simulation.world.reading(1).project_id == 12


def test_a_lower_fencing_token_is_refused(simulation: Simulation) -> None:
    """R5.1: an order under an older lock is refused, for that machine alone; an equal token is taken."""
    simulation.client.submit(COMMAND)
    older = replace(
        COMMAND,
        key="batch-2",
        targets=(
            MachineTarget(machine_id=1, fencing_token=4),
            MachineTarget(machine_id=2, fencing_token=6),
            MachineTarget(machine_id=99, fencing_token=1),
        ),
    )
    outcome = simulation.client.submit(older)
    assert isinstance(outcome, Accepted)
    assert set(outcome.refused) == {
        Refusal(machine_id=1, reason="fenced"),
        Refusal(machine_id=99, reason="unknown_machine"),
    }


def test_a_repeated_key_executes_once(simulation: Simulation) -> None:
    """R5.3: caller and key name a batch: the same body gets the first answer, another body a conflict."""
    first = simulation.client.submit(COMMAND)
    assert simulation.client.submit(COMMAND) == first
    assert isinstance(simulation.client.submit(replace(COMMAND, project_id=13)), Ambiguous)
    other_caller = simulation.client.submit(replace(COMMAND, caller="tenant-b"))
    assert isinstance(other_caller, Accepted)
    assert other_caller != first
    ledger = requests.get(f"{simulation.served.url}/sim/ledger", timeout=5).json()
    assert [(row["caller"], row["posts"], row["executions"]) for row in ledger["batches"]] == [
        ("tenant-a", 3, 1),
        ("tenant-b", 1, 1),
    ]


def test_another_caller_s_job_is_forbidden(simulation: Simulation) -> None:
    """R8.11: a job is shown to its caller only, and a key is looked up among the caller's own."""
    outcome = simulation.client.submit(COMMAND)
    assert isinstance(outcome, Accepted)
    read = simulation.client.read_back
    assert isinstance(read(caller="tenant-b", key="batch-1", job_id=outcome.job_id), JobForbidden)
    assert isinstance(read(caller="tenant-b", key="batch-1", job_id=None), JobNotFound)


def test_an_expired_request_is_never_begun(simulation: Simulation) -> None:
    """R5.3: not found after the expiry is conclusive, also for a request that was held up on its way."""
    expired = replace(COMMAND, expires_at=datetime.now(UTC) - timedelta(seconds=1))
    assert simulation.client.submit(expired) == Rejected(
        reason="expired", detail=f"the request expired at {expired.expires_at.isoformat()}"
    )
    simulation.faults(latency_sec=0.8)
    held_up = replace(COMMAND, key="batch-2", expires_at=datetime.now(UTC) + timedelta(seconds=0.6))
    assert isinstance(simulation.client.submit(held_up), Ambiguous)
    time.sleep(0.6)
    simulation.faults(latency_sec=0.0)
    assert isinstance(simulation.client.read_back(caller="tenant-a", key="batch-2", job_id=None), JobNotFound)
    assert simulation.world.reading(1).project_id == 11


def test_time_outs_before_and_after_the_effect_look_alike(simulation: Simulation) -> None:
    """R5.3: only the read back tells a command that took effect from one that did not."""
    simulation.faults(timeout_after_effect_rate=1, hang_sec=0.7)
    assert isinstance(simulation.client.submit(COMMAND), Ambiguous)
    simulation.faults(timeout_after_effect_rate=0, timeout_before_effect_rate=1)
    assert isinstance(simulation.client.submit(replace(COMMAND, key="batch-2")), Ambiguous)
    simulation.faults(timeout_before_effect_rate=0)
    read = simulation.client.read_back
    assert isinstance(read(caller="tenant-a", key="batch-1", job_id=None), JobFound)
    assert isinstance(read(caller="tenant-a", key="batch-2", job_id=None), JobNotFound)
    counts = {key: (row["posts"], row["executions"]) for key, row in simulation.ledger().items()}
    assert counts == {"batch-1": (1, 1), "batch-2": (1, 0)}


def test_simulated_answers_keep_the_published_shapes(simulation: Simulation) -> None:
    """R5.2: the simulated service and the contract cannot drift apart."""
    simulation.faults(failure_rate=0.3, refusal_rate=0.3)
    headers = {
        "Authorization": f"Bearer {TOKEN}",
        "X-Caller": "tenant-a",
        "Idempotency-Key": "batch-1",
        "X-Expires-At": COMMAND.expires_at.isoformat(),
    }
    body = {
        "kind": "stop",
        "project_id": None,
        "run_config_id": None,
        "machines": [{"machine_id": n, "fencing_token": 1} for n in range(1, 41)],
    }
    url = f"{simulation.served.url}/v1"
    taken = requests.post(f"{url}/batches", headers=headers, json=body, timeout=5)
    assert taken.status_code == 202
    check_schema("Acceptance", taken.json())
    assert 0 < len(taken.json()["refused"]) < 40
    check_schema("Job", requests.get(f"{url}/batches/batch-1", headers=headers, timeout=5).json())
    time.sleep(1.05)
    job = requests.get(f"{url}/batches/batch-1", headers=headers, timeout=5).json()
    check_schema("Job", job)
    assert job["state"] == "partially_failed"
    assert {row["state"] for row in job["machines"]} == {"succeeded", "failed", "refused"}
    faulty: list[dict[str, Any]] = [{}, body | {"machines": []}, body | {"kind": "dance"}]
    for wrong in [*faulty, body | {"project_id": 3}]:
        refused = requests.post(
            f"{url}/batches", headers=headers | {"Idempotency-Key": json.dumps(wrong)}, json=wrong, timeout=5
        )
        assert refused.status_code in (400, 422)
        check_schema("Problem", refused.json())


def test_the_same_batch_sent_at_once_executes_once(simulation: Simulation) -> None:
    """R5.3: deliveries of one key that race each other get one job between them."""
    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(simulation.client.submit, [COMMAND] * 16))
    jobs = {outcome.job_id for outcome in outcomes if isinstance(outcome, Accepted)}
    assert len(jobs) == 1
    assert simulation.ledger()["batch-1"]["executions"] == 1


def test_machines_that_do_nothing_say_that_they_did(simulation: Simulation) -> None:
    """R5.6: a job can succeed in the service's words while some of its machines go on as before (C02)."""
    simulation.faults(does_nothing_rate=0.5)
    targets = tuple(MachineTarget(machine_id=n, fencing_token=1) for n in range(1, 41))
    simulation.client.submit(replace(COMMAND, targets=targets))
    time.sleep(1.05)
    job = simulation.client.read_back(caller="tenant-a", key="batch-1", job_id=None)
    assert isinstance(job, JobFound)
    assert job.state is JobState.SUCCEEDED
    switched = [n for n in range(1, 41) if simulation.world.reading(n).project_id == 12]
    assert 5 < len(switched) < 35
