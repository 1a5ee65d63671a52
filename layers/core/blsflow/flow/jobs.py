"""Jobs and locks in operators' hands: what is under way, who holds which machine, and freeing one on the record (R5.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from blsflow.domain.errors import BlsflowError
from blsflow.domain.pages import JOB_MACHINES, JOBS, LOCKS
from blsflow.flow.pages import read

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from blsflow.domain.pages import Page
    from blsflow.ports.commands import ClosedMachine, LockHolder
    from blsflow.ports.store import Store

_UNSENT = {
    "prepared": "was not sent yet, and frees it by itself when it expires",
    "dispatching": "is being sent at this moment; try again in two minutes",
}


class UnknownJob(BlsflowError):
    """There is no such job, or it is someone else's."""

    def __init__(self, job_id: UUID) -> None:
        super().__init__(f"there is no job {job_id}: `blsflow attempts` lists those under way")
        self.job_id = job_id


class NotLocked(BlsflowError):
    """Nobody holds the machine, or it is someone else's."""

    def __init__(self, machine_id: int) -> None:
        super().__init__(f"machine {machine_id} is not locked: `blsflow locks` lists those that are")
        self.machine_id = machine_id


class LockNotReleasable(BlsflowError):
    """A lock that frees itself, or whose owner has to free it; ``holder`` says who that is."""

    def __init__(self, machine_id: int, holder: LockHolder) -> None:
        if holder.owner_kind == "attempt":
            why = f"attempt {holder.owner_id} {_UNSENT.get(holder.state or '', 'has just ended')}"
        elif holder.open_attempt_id is not None:
            why = (
                f"benchmark run {holder.owner_id} waits for the end of its command: close that one "
                f"(`blsflow release {holder.open_attempt_id}`), and the run puts the machine back and frees it"
            )
        else:
            why = f"benchmark run {holder.owner_id} puts it back and frees it by itself"
        super().__init__(f"machine {machine_id} cannot be released: {why}")
        self.machine_id = machine_id
        self.holder = holder


def jobs(  # noqa: PLR0913 - the filters of a page
    store: Store,
    *,
    tenant_id: str | None,
    state: str | None = None,
    policy_id: int | None = None,
    command_id: UUID | None = None,
    benchmark_run_id: UUID | None = None,
    is_open: bool | None = None,
    cursor: str | None = None,
    limit: int = 50,
) -> Page:
    """Return a page of batches that were or will be sent, of policies, benchmark runs and commands, the newest first."""
    filters = {
        "tenant_id": tenant_id,
        "state": state,
        "policy_id": policy_id,
        "command_id": command_id,
        "benchmark_run_id": benchmark_run_id,
        "open": is_open,
    }
    with store.transaction() as tx:
        return read(tx, JOBS, filters=filters, cursor=cursor, limit=limit)


def job_with_machines(  # noqa: PLR0913 - which job, for whom, and which page of its machines
    store: Store,
    job_id: UUID,
    *,
    tenant_id: str | None,
    state: str | None = None,
    cursor: str | None = None,
    limit: int = 50,
) -> tuple[Mapping[str, Any], Page]:
    """Return a job and a page of its machines, by id, each with its own outcome."""
    with store.transaction() as tx:
        found = tx.read_page(JOBS, filters={"tenant_id": tenant_id, "id": job_id}, after=None, limit=1)
        if not found:
            raise UnknownJob(job_id)
        filters = {"attempt_id": job_id, "state": state}
        return found[0], read(tx, JOB_MACHINES, filters=filters, cursor=cursor, limit=limit)


def locks(  # noqa: PLR0913 - the filters of a page
    store: Store,
    *,
    tenant_id: str | None,
    machine_id: int | None = None,
    policy_id: int | None = None,
    cursor: str | None = None,
    limit: int = 50,
) -> Page:
    """Return a page of live locks by machine, each with its owner and its age in seconds."""
    with store.transaction() as tx:
        filters = {"tenant_id": tenant_id, "machine_id": machine_id, "policy_id": policy_id}
        return read(tx, LOCKS, filters=filters, cursor=cursor, limit=limit)


def release_machine(
    store: Store, machine_id: int, *, by: str, why: str, tenant_id: str | None = None
) -> ClosedMachine:
    """Close one machine of a sent batch whose end nobody can confirm, and free it alone; its job may still act on it.

    A lock that outlived its attempt or benchmark run is freed too, whoever owns the machine now, and if there is none.
    Raises `NotLocked`, and `LockNotReleasable` for what was not sent yet or belongs to a benchmark run at work.
    """
    with store.transaction() as tx:
        holder = tx.lock_holder(machine_id, tenant_id=tenant_id)
        if holder is None:
            raise NotLocked(machine_id)
        closed = None
        if holder.owner_kind == "attempt":
            closed = tx.close_machine(holder.owner_id, machine_id, by=by, why=why)
        closed = closed or tx.free_ended_lock(machine_id, holder.owner_id, by=by, why=why)
    if closed is None:
        raise LockNotReleasable(machine_id, holder)
    return closed
