"""An execution service by docs/contracts/execution_service.openapi.yaml, whose runs only take time.

Besides the contract it answers, without a token::

    GET, PUT /sim/faults   the fault profile
    GET      /sim/ledger   how often each caller and key was posted and started, and where its run really stands
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from local.simulators.execution_runs import ExecutionFaults, Run, RunBook
from local.simulators.faults import FaultSwitch
from local.simulators.web import Answer, Drop, Request, problem

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

CATALOGUE: Final[Mapping[str, Sequence[str]]] = {
    "analyst": ("conv-morning", "conv-tariff", "conv-incidents"),
    "translator": ("conv-daily",),
}
MAX_PROMPT_CHARS: Final = 32_000
MAX_ID_CHARS: Final = 200
_REQUIRED: Final = ("x-caller", "x-on-behalf-of", "idempotency-key", "x-expires-at")


@dataclass
class _Entry:
    posts: int = 0
    starts: int = 0
    cancels: int = 0
    answers: Counter[str] = field(default_factory=Counter)


class ExecutionServiceSimulator:
    """Starts runs in the conversations of `catalogue` (by target), ends them in time, and reports on them."""

    def __init__(
        self,
        *,
        token: str,
        run_sec: float = 5.0,
        seed: int = 1,
        catalogue: Mapping[str, Sequence[str]] = CATALOGUE,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.faults = FaultSwitch(ExecutionFaults(run_sec=run_sec), seed=seed)
        self._token = token
        self._catalogue = catalogue
        self._now = now
        self._lock = threading.Lock()
        self._runs = RunBook(lambda: self.faults.profile, seed=seed, now=now)
        self._ledger: dict[tuple[str, str], _Entry] = {}

    def handle(self, request: Request) -> Answer | Drop:
        """Answer by path, after the faults' latency; the simulator's own paths need no token and never wait."""
        if request.path[0] == "sim":
            return self.faults.handle(request) if request.path[1:] == ("faults",) else self._show_ledger()
        if request.headers.get("authorization") != f"Bearer {self._token}":
            return problem(401, "unauthorized", "the bearer token is missing or wrong")
        time.sleep(self.faults.profile.latency_sec)
        return self._by_contract(request)

    def _by_contract(self, request: Request) -> Answer | Drop:
        caller, subject = _named(request, "x-caller"), _named(request, "x-on-behalf-of")
        match request.method, request.path:
            case "POST", ("v1", "runs"):
                identity = (caller, _named(request, "idempotency-key"))
                return self._post(identity, lambda: self._start(request, identity, subject))
            case "GET", ("v1", "targets"):
                return self._refused(caller, subject) or self._show_targets()
            case "GET", ("v1", "runs" | "attempts" as kind, name):
                return self._report(self._run(kind, caller, name), caller, subject)
            case "POST", ("v1", "runs" | "attempts" as kind, name, "cancel"):
                run = self._run(kind, caller, name)
                identity = (caller, run.key if run else name)
                return self._post(identity, lambda: self._cancel(run, caller, subject), cancel=True)
            case _:
                return problem(404, "no_such_path", "/".join(request.path))

    def _run(self, kind: str, caller: str, name: str) -> Run | None:
        with self._lock:
            return self._runs.by_id(caller, name) if kind == "runs" else self._runs.by_key(caller, name)

    def _post(
        self, identity: tuple[str, str], effect: Callable[[], Answer], *, cancel: bool = False
    ) -> Answer | Drop:
        """Count a POST and carry it out, unless a fault comes before or after."""
        faults = self.faults.profile
        with self._lock:
            entry = self._ledger.setdefault(identity, _Entry())
            if cancel:
                entry.cancels += 1
            else:
                entry.posts += 1
        if self.faults.strikes(faults.timeout_before_effect_rate):
            time.sleep(faults.hang_sec)
            return Drop()
        if self.faults.strikes(faults.error_rate):
            return problem(500, "internal_error", "simulated fault")
        answer = effect()
        with self._lock:
            entry.answers[str(answer.status)] += 1
        if answer.status == HTTPStatus.ACCEPTED and self.faults.strikes(faults.timeout_after_effect_rate):
            time.sleep(faults.hang_sec)
            return Drop()
        return answer

    def _start(self, request: Request, identity: tuple[str, str], subject: str) -> Answer:
        """Check, record and start in one step, so that a request that expires meanwhile is never started."""
        fingerprint = hashlib.sha256(request.body).hexdigest()
        caller, key = identity
        with self._lock:
            refused = self._refused(caller, subject)
            if refused is not None:
                return refused
            known = self._runs.by_key(*identity)
            if known is not None and known.fingerprint == fingerprint:
                replayed = {"Idempotent-Replayed": "true"}
                return Answer(document={"run_id": known.run_id}, status=202, headers=replayed)
            if known is not None or self.faults.strikes(self.faults.profile.conflict_rate):
                return problem(409, "conflict", "the key was used for another run")
            refused = self._invalid(request)
            if refused is not None:
                return refused
            wanted = request.json()
            refused = self._unavailable(wanted) or self._busy(caller, wanted)
            if refused is not None:
                return refused
            run = self._runs.start(wanted, caller=caller, subject=subject, key=key, fingerprint=fingerprint)
            self._ledger[identity].starts += 1
            return Answer(document={"run_id": run.run_id}, status=202)

    def _refused(self, caller: str, subject: str) -> Answer | None:
        if not caller or not subject:
            return problem(400, "invalid_request", "X-Caller and X-On-Behalf-Of are required")
        if subject in _ids(self.faults.profile.departed):
            return problem(403, "forbidden", "the user is not a member of the tenant")
        return None

    def _invalid(self, request: Request) -> Answer | None:
        missing = [name for name in _REQUIRED if not request.headers.get(name)]
        if missing:
            return problem(400, "invalid_request", f"{', '.join(missing)}: required")
        try:
            expires_at = datetime.fromisoformat(request.headers["x-expires-at"])
            expired = expires_at <= self._now()
            fault = _fault_of(request.json())
        except (KeyError, TypeError, ValueError) as error:
            return problem(400, "invalid_request", f"not a run with an X-Expires-At: {error!r}")
        if expired:
            return problem(422, "expired", f"the request expired at {expires_at.isoformat()}")
        return problem(422, "invalid_run", fault) if fault else None

    def _unavailable(self, wanted: dict[str, str]) -> Answer | None:
        target, conversation = wanted["target_id"], wanted["conversation_id"]
        removed = _ids(self.faults.profile.removed)
        if target not in self._catalogue or target in removed:
            return problem(404, "target_not_found", f"no target {target}")
        if conversation not in self._catalogue[target]:
            return problem(404, "conversation_not_found", f"no conversation {conversation} with {target}")
        if conversation in removed:
            return problem(410, "conversation_gone", f"conversation {conversation} was removed")
        return None

    def _busy(self, caller: str, wanted: dict[str, str]) -> Answer | None:
        if self._runs.is_at_work(caller, wanted):
            return problem(423, "busy", "a run is at work in this conversation")
        if self.faults.strikes(self.faults.profile.busy_rate):
            return problem(423, "busy", "the service is busy")
        return None

    def _lookup(self, run: Run | None, caller: str, subject: str) -> Run | Answer:
        """Return the run if this user is shown it, else why not."""
        refused = self._refused(caller, subject)
        if refused is not None:
            return refused
        if run is None or self._runs.is_forgotten(run):
            return problem(404, "run_not_found", "no such run")
        return run if run.subject == subject else problem(403, "forbidden", "another user's run")

    def _report(self, run: Run | None, caller: str, subject: str) -> Answer:
        with self._lock:
            found = self._lookup(run, caller, subject)
            return found if isinstance(found, Answer) else Answer(document=self._runs.shown(found))

    def _cancel(self, run: Run | None, caller: str, subject: str) -> Answer:
        with self._lock:
            found = self._lookup(run, caller, subject)
            if isinstance(found, Answer):
                return found
            self._runs.cancel(found)
            return Answer(document=self._runs.shown(found), status=202)

    def _show_targets(self) -> Answer:
        removed = _ids(self.faults.profile.removed)
        targets = [
            {
                "target_id": target,
                "name": target.title(),
                "unavailable_reason": None,
                "conversations": [
                    {"conversation_id": conversation, "title": conversation}
                    for conversation in conversations
                    if conversation not in removed
                ],
            }
            for target, conversations in sorted(self._catalogue.items())
            if target not in removed
        ]
        return Answer(document={"targets": targets, "next_cursor": None})

    def _show_ledger(self) -> Answer:
        with self._lock:
            runs = [
                {
                    "caller": caller,
                    "key": key,
                    "posts": entry.posts,
                    "starts": entry.starts,
                    "cancels": entry.cancels,
                    "answers": dict(entry.answers),
                    "ended": self._ended((caller, key)),
                }
                for (caller, key), entry in self._ledger.items()
            ]
        return Answer(document={"runs": runs})

    def _ended(self, identity: tuple[str, str]) -> str | None:
        """Return the state in which a run has really ended, whatever callers are told."""
        run = self._runs.by_key(*identity)
        end = self._runs.end(run) if run else None
        return end[0] if end else None


def _named(request: Request, header: str) -> str:
    return unquote(request.headers.get(header, ""))


def _ids(listed: str) -> frozenset[str]:
    return frozenset(filter(None, listed.split(",")))


def _fault_of(wanted: dict[str, Any]) -> str | None:
    """Say what is wrong with a run, or None; KeyError or TypeError if it is not even one."""
    limits = {"target_id": MAX_ID_CHARS, "conversation_id": MAX_ID_CHARS, "prompt": MAX_PROMPT_CHARS}
    for name, limit in limits.items():
        if not isinstance(wanted[name], str) or not 0 < len(wanted[name]) <= limit:
            return f"{name}: 1 to {limit} characters"
    return None
