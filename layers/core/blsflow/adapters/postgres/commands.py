"""What operators' commands read and write, in a number of round trips that does not depend on how many machines they name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from blsflow.adapters.postgres.part import Part
from blsflow.domain.commands import PassedOver
from blsflow.ports.commands import ClosedMachine, CommandGrounds, CommandProspect, LockHolder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta
    from uuid import UUID

    from blsflow.domain.commands import CommandRequest
    from blsflow.ports.decide import NewAttempt


class CommandQueries(Part):
    """The part of a transaction that operators' commands need."""

    def command_grounds(self, tenant_id: str, project_id: int | None, holder: str) -> CommandGrounds:
        """Return what the command as a whole needs of the database."""
        row = self._session.query(
            "command_grounds", tenant_id=tenant_id, project_id=project_id, holder=holder
        )[0]
        return CommandGrounds(**row)

    def command_prospects(self, tenant_id: str, request: CommandRequest) -> Sequence[CommandProspect]:
        """Return each machine's prospects, in the order of the request."""
        rows = self._session.query(
            "command_prospects",
            tenant_id=tenant_id,
            action=str(request.action),
            project_id=request.project_id,
            machine_ids=list(request.machine_ids),
        )
        return [
            CommandProspect(
                machine_id=row["machine_id"],
                run_config_id=row["run_config_id"],
                doing=row["doing"],
                passed_over=None if row["skipped"] is None else PassedOver(row["skipped"]),
            )
            for row in rows
        ]

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
        machine_ids = list(request.machine_ids)
        self._session.query(
            "insert_command",
            command_id=command_id,
            tenant_id=tenant_id,
            action=str(request.action),
            project_id=request.project_id,
            by=by,
            why=request.why,
            validity=lock_ttl,
            ids=[attempt.attempt_id for attempt in attempts],
            keys=[attempt.key for attempt in attempts],
            run_configs=[attempt.run_config_id for attempt in attempts],
            machines=len(machine_ids),
        )
        self._session.query(
            "insert_command_machines",
            command_id=command_id,
            machine_ids=machine_ids,
            attempt_ids=[placed.get(machine_id) for machine_id in machine_ids],
            skipped=[passed_over.get(machine_id) for machine_id in machine_ids],
        )
        won: dict[UUID, int] = {}
        if attempts:
            rows = self._session.query(
                "take_command_locks", command_id=command_id, tenant_id=tenant_id, lock_ttl=lock_ttl
            )
            won = {row["attempt_id"]: row["machines"] for row in rows}
        self._session.query("finish_command", command_id=command_id, taken=sum(won.values()))
        empty = [attempt.attempt_id for attempt in attempts if attempt.attempt_id not in won]
        if empty:
            self._session.query("drop_empty_attempts", ids=empty)
        if won:
            self._session.query("log_prepared", ids=list(won), machines=list(won.values()))
        return list(won)

    def passed_over(self, command_id: UUID) -> Mapping[int, str]:
        """Return the machines that a command left as they were, and why."""
        rows = self._session.query("passed_over", command_id=command_id)
        return {row["machine_id"]: row["skipped"] for row in rows}

    def leave_at_rest(self, tenant_id: str, doings: Mapping[int, str]) -> None:
        """Note that machines at rest, which nobody acts on, are so by an operator's word."""
        self._session.query(
            "leave_at_rest", tenant_id=tenant_id, machine_ids=list(doings), doings=list(doings.values())
        )

    def lock_holder(self, machine_id: int, *, tenant_id: str | None) -> LockHolder | None:
        """Return who holds a machine; None if nobody does, or it is someone else's."""
        rows = self._session.query("lock_holder", machine_id=machine_id, tenant_id=tenant_id)
        return LockHolder(**rows[0]) if rows else None

    def close_machine(self, attempt_id: UUID, machine_id: int, *, by: str, why: str) -> ClosedMachine | None:
        """End one machine of a sent attempt by an operator's word and free its lock; None if it has ended meanwhile."""
        self._session.query("lock_attempt_row", attempt_id=attempt_id)
        rows = self._session.query(
            "close_machine", attempt_id=attempt_id, machine_id=machine_id, by=by, why=why
        )
        if not rows:
            return None
        row = rows[0]
        return ClosedMachine(
            attempt_id=attempt_id,
            action=row["action"],
            job_id=row["reference"],
            attempt_ended=row["ended"],
        )

    def free_ended_lock(self, machine_id: int, owner_id: UUID, *, by: str, why: str) -> ClosedMachine | None:
        """Free a lock whose attempt or benchmark run has ended, also past its retention, by an operator's word; else None."""
        rows = self._session.query(
            "free_ended_lock", machine_id=machine_id, owner_id=owner_id, by=by, why=why
        )
        if not rows:
            return None
        row = rows[0]
        return ClosedMachine(
            attempt_id=row["attempt_id"],
            action=row["action"],
            job_id=row["reference"],
            attempt_ended=True,
        )
