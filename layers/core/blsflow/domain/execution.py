"""What is sent to the device-control service, and every answer that it can give (R5.2, R5.3).

The answers are closed sets of types: a caller decides by type, never by a status code or a message.

    SubmitOutcome  Accepted | Busy | Rejected | Ambiguous
    JobReport      JobFound | JobNotFound | JobForbidden | JobUnreadable

Only `Ambiguous` leaves open whether the command took effect: it is resolved by reading back, never by sending
again.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class CommandKind(StrEnum):
    """What a machine can be told to do."""

    SWITCH = "switch"
    START = "start"
    STOP = "stop"
    POWER_OFF = "power_off"


@dataclass(frozen=True, kw_only=True, slots=True)
class MachineTarget:
    """One machine of a batch, with the fencing token of the lock under which it is commanded."""

    machine_id: int
    fencing_token: int


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchCommand:
    """One command to many machines, sent at most once.

    `key` is our idempotency key, unique for each `caller` (the tenant's id). The service must not accept the
    request after `expires_at`; that is what makes a "not found" read back later than it conclusive. A switch
    or a start names its project and run configuration, the other kinds name neither.
    """

    key: str
    caller: str
    kind: CommandKind
    project_id: int | None
    run_config_id: int | None
    targets: tuple[MachineTarget, ...]
    expires_at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class Refusal:
    """One machine of an accepted batch that the service will not command, with the service's reason."""

    machine_id: int
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Accepted:
    """The service runs the batch as this job, without the refused machines."""

    job_id: str
    refused: tuple[Refusal, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Busy:
    """The service took nothing because it is busy; nothing will happen."""

    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Rejected:
    """The service refused the whole batch; nothing will happen.

    `reason` is the service's stable code, `detail` its words for a person.
    """

    reason: str
    detail: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Ambiguous:
    """Nobody knows yet whether the batch was taken: only a read back can tell."""

    cause: str


SubmitOutcome = Accepted | Busy | Rejected | Ambiguous


class JobState(StrEnum):
    """Where a job of the device-control service stands, in that service's own terms."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    PARTIALLY_FAILED = "partially_failed"
    CANCELLED = "cancelled"

    @property
    def is_end(self) -> bool:
        """Whether the job will never change again."""
        return self not in (JobState.QUEUED, JobState.RUNNING)


class MachineResultState(StrEnum):
    """What became of one machine of a job."""

    PENDING = "pending"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    REFUSED = "refused"


@dataclass(frozen=True, kw_only=True, slots=True)
class MachineResult:
    """The service's word on one machine: `succeeded` is a claim until the machine confirms it (R5.6)."""

    machine_id: int
    state: MachineResultState
    reason: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class JobFound:
    """The job as the service reports it now."""

    job_id: str
    state: JobState
    machines: tuple[MachineResult, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class JobNotFound:
    """The service itself says that it knows no such job; conclusive once the command has expired."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JobForbidden:
    """The service will not tell this caller. Says nothing about whether the job exists."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JobUnreadable:
    """No usable answer this time (network, time-out, fault of the service, answer outside the contract)."""

    cause: str


JobReport = JobFound | JobNotFound | JobForbidden | JobUnreadable
