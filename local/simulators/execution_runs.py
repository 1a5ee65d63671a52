"""The runs of the simulated execution service: how they go on, how they end, and what callers are told of it."""

from __future__ import annotations

import hashlib
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

QUEUED: Final = timedelta(seconds=0.2)
_ERRORS: Final = {
    "failed": {"code": "model_error", "detail": "the model refused"},
    "interrupted": {"code": "worker_lost"},
}


@dataclass(frozen=True, kw_only=True)
class ExecutionFaults:
    """Rates are shares of POSTs up to `timeout_after_effect_rate`, and of runs from `failure_rate` on.

    `hang_sec` is how long a request hangs before its connection drops, in the two time-out faults. `removed` and
    `departed` are ids, separated by commas: targets (404) and conversations (410) that are no more, and users who
    have left their tenant (403). `run_sec`, `failure_rate` and `interrupted_rate` hold for runs that start from
    now on, the rates below them at once for all. A run that is hit by `lost_completion_rate` is shown as running
    for `lost_completion_sec` after its end (`Infinity`: for ever). Which runs are hit is settled by their
    keys and the seed, so that a rate changed back and forth hits the same ones.
    """

    latency_sec: float = 0.0
    busy_rate: float = 0.0
    conflict_rate: float = 0.0
    error_rate: float = 0.0
    timeout_before_effect_rate: float = 0.0
    timeout_after_effect_rate: float = 0.0
    hang_sec: float = 30.0
    removed: str = ""
    departed: str = ""
    run_sec: float = 5.0
    failure_rate: float = 0.0
    interrupted_rate: float = 0.0
    endless_rate: float = 0.0
    lost_completion_rate: float = 0.0
    lost_completion_sec: float = 600.0
    forget_rate: float = 0.0
    cancel_sec: float = 0.5


@dataclass(kw_only=True)
class Run:
    """`end` is set once the run is over and never changes; until then the faults in force decide how it goes on."""

    run_id: str
    caller: str
    subject: str
    key: str
    target_id: str
    conversation_id: str
    fingerprint: str
    accepted_at: datetime
    due_at: datetime
    due_state: str
    cancelled_at: datetime | None = None
    end: tuple[str, datetime] | None = None


class RunBook:
    """All runs by id and by caller and key, under the faults in force. Its user takes care of locking."""

    def __init__(
        self, faults: Callable[[], ExecutionFaults], *, seed: int, now: Callable[[], datetime]
    ) -> None:
        self._faults = faults
        self._seed = seed
        self._now = now
        self._by_id: dict[str, Run] = {}
        self._by_key: dict[tuple[str, str], Run] = {}
        self._last: dict[tuple[str, str, str], Run] = {}

    def by_id(self, caller: str, run_id: str) -> Run | None:
        """Return a run of this caller."""
        run = self._by_id.get(run_id)
        return run if run is not None and run.caller == caller else None

    def by_key(self, caller: str, key: str) -> Run | None:
        """Return the run that this caller started under this key."""
        return self._by_key.get((caller, key))

    def is_at_work(self, caller: str, wanted: dict[str, str]) -> bool:
        """Whether the last run in a conversation has not ended, whatever callers are told."""
        last = self._last.get((caller, wanted["target_id"], wanted["conversation_id"]))
        return last is not None and self.end(last) is None

    def start(self, wanted: dict[str, str], *, caller: str, subject: str, key: str, fingerprint: str) -> Run:
        """Begin a run."""
        now = self._now()
        run = Run(
            run_id=f"run-{uuid.uuid4().hex[:16]}",
            caller=caller,
            subject=subject,
            key=key,
            target_id=wanted["target_id"],
            conversation_id=wanted["conversation_id"],
            fingerprint=fingerprint,
            accepted_at=now,
            due_at=now + QUEUED + timedelta(seconds=self._faults().run_sec),
            due_state=self._due_state(caller, key),
        )
        self._by_id[run.run_id] = self._by_key[caller, key] = run
        self._last[caller, run.target_id, run.conversation_id] = run
        return run

    def cancel(self, run: Run) -> None:
        """Let a run end as cancelled in `cancel_sec`, unless it ends otherwise before."""
        if run.cancelled_at is None:
            run.cancelled_at = self._now() + timedelta(seconds=self._faults().cancel_sec)

    def is_forgotten(self, run: Run) -> bool:
        """Whether the service does not know the run any more."""
        return self._hit(run.caller, run.key, "forget", self._faults().forget_rate)

    def end(self, run: Run) -> tuple[str, datetime] | None:
        """Return how and when a run ended, or None; the first look after its end settles it for good."""
        if run.end is None:
            faults = self._faults()
            ends = []
            if not self._hit(run.caller, run.key, "endless", faults.endless_rate):
                ends.append((run.due_at, run.due_state))
            if run.cancelled_at is not None:
                ends.append((run.cancelled_at, "cancelled"))
            ended_at, state = min(ends, default=(datetime.max.replace(tzinfo=UTC), ""))
            if ended_at <= self._now():
                run.end = (state, ended_at)
        return run.end

    def shown(self, run: Run) -> dict[str, Any]:
        """Return the run as callers are told of it: a lost completion withholds its end."""
        end = self.end(run)
        faults = self._faults()
        if end is not None and self._hit(run.caller, run.key, "lost", faults.lost_completion_rate):
            withheld_sec = (self._now() - end[1]).total_seconds()
            end = end if withheld_sec >= faults.lost_completion_sec else None
        started_at = run.accepted_at + QUEUED
        has_started = started_at <= (end[1] if end else self._now())
        state = end[0] if end else "running" if has_started else "queued"
        return {
            "run_id": run.run_id,
            "key": run.key,
            "target_id": run.target_id,
            "conversation_id": run.conversation_id,
            "state": state,
            "output_ref": f"message:{run.run_id}" if state == "succeeded" else None,
            "error": _ERRORS.get(state),
            "started_at": started_at.isoformat() if has_started else None,
            "ended_at": end[1].isoformat() if end else None,
        }

    def _due_state(self, caller: str, key: str) -> str:
        faults = self._faults()
        if self._hit(caller, key, "failure", faults.failure_rate):
            return "failed"
        return (
            "interrupted" if self._hit(caller, key, "interrupted", faults.interrupted_rate) else "succeeded"
        )

    def _hit(self, caller: str, key: str, fault: str, rate: float) -> bool:
        digest = hashlib.sha256(f"{self._seed}/{fault}/{caller}/{key}".encode()).digest()
        return int.from_bytes(digest[:4]) / 2**32 < rate
