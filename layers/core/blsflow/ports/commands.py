"""Operators' batch commands, machines' locks in their hands, and pages of what there is: rows and part of a transaction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta
    from uuid import UUID

    from blsflow.domain.commands import CommandRequest, PassedOver
    from blsflow.domain.pages import Listing
    from blsflow.ports.decide import NewAttempt


@dataclass(frozen=True, kw_only=True, slots=True)
class CommandGrounds:
    """What a command as a whole needs: the tenant's executor lease, and its project if it names one."""

    lease_held: bool
    project_known: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class CommandProspect:
    """One machine of a command: why it is passed over, or with which run configuration it is taken.

    ``doing`` is mining, stopped, off, or unknown where report, meter and memory do not agree.
    """

    machine_id: int
    run_config_id: int | None
    doing: str
    passed_over: PassedOver | None


@dataclass(frozen=True, kw_only=True, slots=True)
class LockHolder:
    """Who holds a machine: an attempt with its state, or a benchmark run with the command of it whose end is open."""

    owner_kind: str
    owner_id: UUID
    state: str | None
    open_attempt_id: UUID | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ClosedMachine:
    """A machine that an operator freed, and the job that may still act on it.

    ``attempt_id`` is None for an ended benchmark run that sent nothing, and with ``action`` for what is past its retention;
    ``attempt_ended``: nothing of the attempt is open.
    """

    attempt_id: UUID | None
    action: str | None
    job_id: str | None
    attempt_ended: bool


class CommandTransaction(Protocol):
    """The part of a transaction that operators' commands need."""

    def command_grounds(self, tenant_id: str, project_id: int | None, holder: str) -> CommandGrounds:
        """Return what the command as a whole needs of the database."""

    def command_prospects(self, tenant_id: str, request: CommandRequest) -> Sequence[CommandProspect]:
        """Return each machine's prospects, in the order of the request."""

    def prepare_command(  # noqa: PLR0913 - a command, and what is to become of its machines
        self,
        command_id: UUID,
        tenant_id: str,
        request: CommandRequest,
        *,
        by: str,
        attempts: Sequence[NewAttempt],
        placed: Mapping[int, UUID],
        passed_over: Mapping[int, str],
        lock_ttl: timedelta,
    ) -> Sequence[UUID]:
        """Record the command, take the locks of all its machines, and return the attempts that won any."""

    def passed_over(self, command_id: UUID) -> Mapping[int, str]:
        """Return the machines that a command left as they were, and why."""

    def leave_at_rest(self, tenant_id: str, doings: Mapping[int, str]) -> None:
        """Note that machines at rest, which nobody acts on, are so by an operator's word."""

    def lock_holder(self, machine_id: int, *, tenant_id: str | None) -> LockHolder | None:
        """Return who holds a machine; None if nobody does, or it is someone else's."""

    def close_machine(self, attempt_id: UUID, machine_id: int, *, by: str, why: str) -> ClosedMachine | None:
        """End one machine of a sent attempt by an operator's word and free its lock; None if it has ended meanwhile."""

    def free_ended_lock(self, machine_id: int, owner_id: UUID, *, by: str, why: str) -> ClosedMachine | None:
        """Free a lock whose attempt or benchmark run has ended, also past its retention, by an operator's word; else None."""

    def read_page(
        self,
        listing: Listing,
        *,
        filters: Mapping[str, object],
        after: Mapping[str, object] | None,
        limit: int,
    ) -> Sequence[Mapping[str, Any]]:
        """Return the rows of a listing after a place, at most ``limit``; a filter that is None is left out."""
