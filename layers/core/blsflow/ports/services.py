"""The services outside; none raises for a fault of the other side unless it says so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from blsflow.domain.conversation import (
        CancelOutcome,
        ConversationCommand,
        RunReport,
        StartOutcome,
    )
    from blsflow.domain.execution import BatchCommand, JobReport, SubmitOutcome
    from blsflow.domain.prices import ProfitSnapshot


class ProfitFeed(Protocol):
    """A source of profit snapshots (R2.1)."""

    source: str

    def fetch(self) -> ProfitSnapshot:
        """Return the newest snapshot; raise `FeedUnavailable` when there is none to be had now."""


class DeviceControl(Protocol):
    """The device-control service: takes batches, reports on jobs (R5.2, R5.3)."""

    def submit(self, command: BatchCommand) -> SubmitOutcome:
        """Send once; never again whatever the answer."""

    def read_back(self, *, caller: str, key: str, job_id: str | None) -> JobReport:
        """Ask what became of a command, with the caller and key under which it was sent."""


class Queue(Protocol):
    """Where the next step's messages go; delivery is at least once, in any order."""

    def send(self, messages: Sequence[Mapping[str, object]]) -> None:
        """Enqueue all messages; `EnqueueFailed` means that any of them may not have been."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Queues:
    """The queue of each next step."""

    decide: Queue
    execute: Queue


class ExecutionService(Protocol):
    """The execution service: runs prompts in conversations (R8.1)."""

    def start(self, command: ConversationCommand) -> StartOutcome:
        """Send once; never again whatever the answer."""

    def read_back(
        self, *, caller_tenant: str, caller_subject: str, key: str, run_id: str | None
    ) -> RunReport:
        """Ask what became of a run, in its user's name."""

    def cancel(
        self, *, caller_tenant: str, caller_subject: str, key: str, run_id: str | None
    ) -> CancelOutcome:
        """Ask a run to end; asking again does no harm."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NotificationMessage:
    """One notification as it goes out: ``text`` for who reads a mail, ``document`` for machines."""

    notification_id: int
    tenant_id: str
    code: str
    subject: str
    text: str
    document: Mapping[str, object]


class Publisher(Protocol):
    """Where notifications go."""

    def publish(self, message: NotificationMessage) -> None:
        """Publish one; `PublishFailed` means that it may not have been."""
