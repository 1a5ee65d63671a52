"""A device-control service by docs/contracts/device_control.openapi.yaml, commanding a simulated fleet.

Besides the contract it answers, without a token::

    GET, PUT /sim/faults   the fault profile
    GET      /sim/ledger   how often each caller and key was posted and executed, and each machine told
"""

from __future__ import annotations

import hashlib
import threading
import time
import uuid
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, cast

from local.simulators.faults import FaultSwitch
from local.simulators.web import Answer, Drop, Request, problem

if TYPE_CHECKING:
    from local.simulators.world import Command, World

PROJECT_KINDS = frozenset({"switch", "start"})
KINDS = PROJECT_KINDS | {"stop", "power_off"}
MAX_MACHINES = 10_000
QUEUED = timedelta(seconds=1)


@dataclass(frozen=True, kw_only=True)
class DeviceFaults:
    """Rates are shares of requests, or of machines for refusals, failures and machines that do nothing.

    `hang_sec` is how long a request hangs before its connection drops, in the two time-out faults.
    """

    latency_sec: float = 0.0
    busy_rate: float = 0.0
    error_rate: float = 0.0
    timeout_before_effect_rate: float = 0.0
    timeout_after_effect_rate: float = 0.0
    hang_sec: float = 30.0
    refusal_rate: float = 0.0
    failure_rate: float = 0.0
    does_nothing_rate: float = 0.0


@dataclass(frozen=True, kw_only=True)
class _Job:
    job_id: str
    caller: str
    fingerprint: str
    accepted_at: datetime
    ends_at: datetime
    refused: dict[int, str]
    failed: frozenset[int]
    machines: tuple[int, ...]


@dataclass
class _Entry:
    posts: int = 0
    executions: int = 0
    answers: Counter[str] = field(default_factory=Counter)


class DeviceControlSimulator:
    """Takes batches, runs them on the world and reports on their jobs.

    Which machines do nothing is settled by their id and the seed: the same ones each time.
    """

    def __init__(self, world: World, *, token: str, seed: int = 1) -> None:
        self.faults = FaultSwitch(DeviceFaults(), seed=seed)
        self._world = world
        self._token = token
        self._seed = seed
        self._lock = threading.Lock()
        self._jobs: dict[str, _Job] = {}
        self._by_key: dict[tuple[str, str], _Job] = {}
        self._fences: dict[int, int] = {}
        self._ledger: dict[tuple[str, str], _Entry] = {}
        self._told: Counter[int] = Counter()

    def handle(self, request: Request) -> Answer | Drop:
        """Answer by path; the simulator's own paths need no token."""
        if request.path[0] == "sim":
            return self.faults.handle(request) if request.path[1:] == ("faults",) else self._show_ledger()
        if request.headers.get("authorization") != f"Bearer {self._token}":
            return problem(401, "unauthorized", "the bearer token is missing or wrong")
        match request.method, request.path:
            case "POST", ("v1", "batches"):
                return self._post(request)
            case "GET", ("v1", "jobs", job_id):
                return self._report(self._jobs.get(job_id), request)
            case "GET", ("v1", "batches", key):
                return self._report(self._by_key.get((request.headers.get("x-caller", ""), key)), request)
            case _:
                return problem(404, "no_such_path", "/".join(request.path))

    def _post(self, request: Request) -> Answer | Drop:
        identity = (request.headers.get("x-caller", ""), request.headers.get("idempotency-key", ""))
        with self._lock:
            entry = self._ledger.setdefault(identity, _Entry())
            entry.posts += 1
        faults = self.faults.profile
        time.sleep(faults.latency_sec)
        if self.faults.strikes(faults.timeout_before_effect_rate):
            time.sleep(faults.hang_sec)
            return Drop()
        if self.faults.strikes(faults.error_rate):
            return problem(500, "internal_error", "simulated fault")
        answer = self._accept(request, identity)
        with self._lock:
            entry.answers[str(answer.status)] += 1
        if answer.status == HTTPStatus.ACCEPTED and self.faults.strikes(faults.timeout_after_effect_rate):
            time.sleep(faults.hang_sec)
            return Drop()
        return answer

    def _accept(self, request: Request, identity: tuple[str, str]) -> Answer:
        """Check, record and begin in one step, so that a request that expires meanwhile is never begun."""
        fingerprint = hashlib.sha256(request.body).hexdigest()
        with self._lock:
            known = self._by_key.get(identity)
            if known is not None:
                if known.fingerprint != fingerprint:
                    return problem(409, "conflict", "the key was used for another batch")
                return _accepted(known, replayed=True)
            refused_batch = self._invalid(request, identity)
            if refused_batch is not None:
                return refused_batch
            if self.faults.strikes(self.faults.profile.busy_rate):
                return problem(423, "busy", "another batch is being taken")
            job = self._begin(request.json(), identity[0], fingerprint)
            self._jobs[job.job_id] = self._by_key[identity] = job
            self._ledger[identity].executions += 1
            return _accepted(job, replayed=False)

    def _invalid(self, request: Request, identity: tuple[str, str]) -> Answer | None:
        if not all(identity):
            return problem(400, "invalid_request", "Idempotency-Key and X-Caller are required")
        try:
            expires_at = datetime.fromisoformat(request.headers["x-expires-at"])
            expired = expires_at <= self._world.now()
            batch = request.json()
            fault = _fault_of(batch)
        except (KeyError, TypeError, ValueError) as error:
            return problem(400, "invalid_request", f"not a batch with an X-Expires-At: {error}")
        if expired:
            return problem(422, "expired", f"the request expired at {expires_at.isoformat()}")
        return problem(422, "invalid_batch", fault) if fault else None

    def _begin(self, batch: dict[str, Any], caller: str, fingerprint: str) -> _Job:
        now = self._world.now()
        faults = self.faults.profile
        refused: dict[int, str] = {}
        failed: set[int] = set()
        for target in batch["machines"]:
            machine_id, token = target["machine_id"], target["fencing_token"]
            reason = self._refusal(machine_id, token)
            if reason is not None:
                refused[machine_id] = reason
                continue
            self._fences[machine_id] = token
            self._told[machine_id] += 1
            if self.faults.strikes(faults.failure_rate):
                failed.add(machine_id)
            elif not self._does_nothing(machine_id, faults.does_nothing_rate):
                self._world.command(machine_id, cast("Command", batch["kind"]), batch["project_id"])
        return _Job(
            job_id=f"job-{uuid.uuid4().hex[:16]}",
            caller=caller,
            fingerprint=fingerprint,
            accepted_at=now,
            ends_at=now + QUEUED + timedelta(seconds=self._world.ramp_sec),
            refused=refused,
            failed=frozenset(failed),
            machines=tuple(target["machine_id"] for target in batch["machines"]),
        )

    def _refusal(self, machine_id: int, token: int) -> str | None:
        if machine_id not in self._world:
            return "unknown_machine"
        if token < self._fences.get(machine_id, token):
            return "fenced"
        if self._world.is_silent(machine_id):
            return "offline"
        return "device_busy" if self.faults.strikes(self.faults.profile.refusal_rate) else None

    def _does_nothing(self, machine_id: int, rate: float) -> bool:
        digest = hashlib.sha256(f"{self._seed}/{machine_id}".encode()).digest()
        return int.from_bytes(digest[:4]) / 2**32 < rate

    def _report(self, job: _Job | None, request: Request) -> Answer:
        time.sleep(self.faults.profile.latency_sec)
        if job is None:
            return problem(404, "job_not_found", "no such job")
        if job.caller != request.headers.get("x-caller"):
            return problem(403, "forbidden", "the job belongs to another caller")
        now = self._world.now()
        over = now >= job.ends_at
        rows = []
        for machine_id in job.machines:
            if machine_id in job.refused:
                state, reason = "refused", job.refused[machine_id]
            elif not over:
                state, reason = "pending", None
            elif machine_id in job.failed:
                state, reason = "failed", "no_response"
            else:
                state, reason = "succeeded", None
            rows.append({"machine_id": machine_id, "state": state, "reason": reason})
        return Answer(document={"job_id": job.job_id, "state": _state(job, now), "machines": rows})

    def _show_ledger(self) -> Answer:
        with self._lock:
            batches = [
                {
                    "caller": caller,
                    "key": key,
                    "posts": entry.posts,
                    "executions": entry.executions,
                    "answers": dict(entry.answers),
                }
                for (caller, key), entry in self._ledger.items()
            ]
            machines = {str(machine_id): count for machine_id, count in sorted(self._told.items())}
        return Answer(document={"batches": batches, "commands_by_machine": machines})


def _fault_of(batch: dict[str, Any]) -> str | None:
    """Say what is wrong with a batch, or None; KeyError, TypeError or ValueError if it is not even one."""
    ids = [target["machine_id"] for target in batch["machines"]]
    numbers = ids + [target["fencing_token"] for target in batch["machines"]]
    named = [batch["project_id"], batch["run_config_id"]]
    if batch["kind"] not in KINDS:
        return f"kind: not one of {', '.join(sorted(KINDS))}"
    if not 0 < len(ids) <= MAX_MACHINES or len(set(ids)) != len(ids):
        return f"machines: 1 to {MAX_MACHINES} different ones"
    if not all(type(number) is int for number in numbers):
        return "machines: ids and fencing tokens are integers"
    if batch["kind"] in PROJECT_KINDS and not all(type(value) is int for value in named):
        return f"project_id, run_config_id: needed by {batch['kind']}"
    if batch["kind"] not in PROJECT_KINDS and named != [None, None]:
        return f"project_id, run_config_id: {batch['kind']} takes none"
    return None


def _state(job: _Job, now: datetime) -> str:
    bad = len(job.failed) + len(job.refused)
    if now < job.ends_at:
        return "running" if now >= job.accepted_at + QUEUED else "queued"
    if not bad:
        return "succeeded"
    return "failed" if bad == len(job.machines) else "partially_failed"


def _accepted(job: _Job, *, replayed: bool) -> Answer:
    refused = [{"machine_id": machine_id, "reason": reason} for machine_id, reason in job.refused.items()]
    headers = {"Idempotent-Replayed": "true"} if replayed else {}
    return Answer(document={"job_id": job.job_id, "refused": refused}, status=202, headers=headers)
