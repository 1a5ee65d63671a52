"""Control: what operators do by hand. Each verb is one transaction, on the record with who and why.

A ``tenant_id`` of None is an operator of the whole deployment; someone else's policy is as unknown as none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from blsflow.domain.errors import BlsflowError
from blsflow.domain.freeze import Freeze, FreezeCause
from blsflow.flow.freeze import announce_freeze
from blsflow.flow.requests import KeyConflict, fingerprint
from blsflow.flow.versions import VersionConflict
from blsflow.ports.people import ClosedAttempt

if TYPE_CHECKING:
    from uuid import UUID

    from blsflow.domain.policy import ExecutionMode
    from blsflow.ports.people import Lease, LeaseChange, ManualFreeze, ModeChange, RequestedRun, SetEnabled
    from blsflow.ports.services import Queue
    from blsflow.ports.store import Store, Transaction

T = TypeVar("T")


class UnknownPolicy(BlsflowError):
    """There is no such policy, or it is archived."""

    def __init__(self, policy_id: int) -> None:
        super().__init__(f"there is no policy {policy_id}: `blsflow status` lists those that there are")
        self.policy_id = policy_id


class ArchivedPolicy(UnknownPolicy):
    """The policy is archived: it is read, and nothing else."""

    def __init__(self, policy_id: int) -> None:
        BlsflowError.__init__(
            self, f"policy {policy_id} is archived: `blsflow policy show {policy_id}` shows it"
        )
        self.policy_id = policy_id


class NeverTicks(BlsflowError):
    """The policy has no schedule, or one whose rule has no next run."""

    def __init__(self, policy_id: int, cause: str) -> None:
        super().__init__(f"policy {policy_id} {cause}")
        self.policy_id = policy_id
        self.cause = cause


class UnknownTenant(BlsflowError):
    """A tenant of whom there is no machine, cluster, policy or schedule."""

    def __init__(self, tenant_id: str) -> None:
        super().__init__(
            f"tenant {tenant_id!r} has no machine, cluster, policy or schedule: `blsflow fleet clusters` and "
            "`blsflow status` show the tenants' names"
        )
        self.tenant_id = tenant_id


class UnknownAttempt(BlsflowError):
    """There is no such attempt."""

    def __init__(self, attempt_id: UUID) -> None:
        super().__init__(f"there is no attempt {attempt_id}: `blsflow attempts` lists those under way")
        self.attempt_id = attempt_id


class NothingToRelease(BlsflowError):
    """An attempt that holds nothing which an operator could release."""

    def __init__(self, attempt_id: UUID, state: str, *, ended: bool) -> None:
        waits = {
            "prepared": "was not sent yet, and is closed by itself when its decision expires",
            "dispatching": "is being sent at this moment; try again in two minutes",
        }
        why = "has ended" if ended else waits.get(state, "holds nothing")
        super().__init__(f"attempt {attempt_id} is {state}: it {why}; there is nothing to release")
        self.attempt_id = attempt_id
        self.state = state


def enable(  # noqa: PLR0913 - what to enable, for whom, and who asks
    store: Store,
    policy_id: int,
    *,
    by: str,
    why: str,
    version: int | None = None,
    tenant_id: str | None = None,
) -> SetEnabled:
    """Let a policy tick; this alone lifts a freeze, and it starts all counts towards the next one anew (R6.3).

    With a ``version`` only a policy that is still at it is enabled; `VersionConflict` says that it is not, and `NeverTicks`
    that its schedule has no next run.
    """
    with store.transaction() as tx:
        done = tx.set_enabled(policy_id, enabled=True, by=by, why=why, version=version, tenant_id=tenant_id)
        enabled = _changed(tx, done, policy_id, version, tenant_id)
        if enabled.next_run_at is None:
            raise NeverTicks(policy_id, "would never tick: change its schedule to one that has a next run")
        return enabled


def disable(store: Store, policy_id: int, *, by: str, why: str, tenant_id: str | None = None) -> SetEnabled:
    """Let a policy tick no more, whatever its version; what it sent is followed to its end."""
    with store.transaction() as tx:
        done = tx.set_enabled(policy_id, enabled=False, by=by, why=why, version=None, tenant_id=tenant_id)
        return _known(tx, done, policy_id, tenant_id)


def set_mode(  # noqa: PLR0913 - what to set, for whom, and who asks
    store: Store,
    policy_id: int,
    mode: ExecutionMode,
    *,
    by: str,
    why: str,
    version: int | None = None,
    tenant_id: str | None = None,
) -> ModeChange:
    """Say how far a policy goes (R4.1); what was decided before is not sent any more. ``version`` as in `enable`."""
    with store.transaction() as tx:
        done = tx.set_mode(policy_id, mode=str(mode), by=by, why=why, version=version, tenant_id=tenant_id)
        return _changed(tx, done, policy_id, version, tenant_id)


def freeze(store: Store, policy_id: int, *, by: str, why: str, tenant_id: str | None = None) -> ManualFreeze:
    """Freeze by hand, and tell of it once; one that is frozen already stays as it is (R6.1, R6.3)."""
    with store.transaction() as tx:
        made = tx.freeze_by_hand(policy_id, by=by, why=why, tenant_id=tenant_id)
        frozen = _known(tx, made, policy_id, tenant_id)
        cause = Freeze(cause=FreezeCause.MANUAL, detail={"by": by, "why": why})
        if frozen.opened:
            announce_freeze(tx, frozen.tenant_id, policy_id, cause)
    return frozen


def run(  # noqa: PLR0913 - what to run, for whom, and who asks
    store: Store,
    policy_id: int,
    *,
    request_id: str,
    decide_queue: Queue,
    by: str,
    tenant_id: str | None = None,
) -> RequestedRun:
    """Tick a policy now; the same request id gives the same occurrence, and begins it if nobody did yet (R8.8)."""
    asked = fingerprint("policy_tick", {"policy_id": policy_id})
    with store.transaction() as tx:
        made = tx.request_run(policy_id, request_id=request_id, fingerprint=asked, by=by, tenant_id=tenant_id)
        if made is None:
            view = tx.policy_view(policy_id, tenant_id=tenant_id)
            if view is not None and view.archived_at is None:
                raise NeverTicks(policy_id, "has no schedule to run by: enable it, which brings it back")
        requested = _known(tx, made, policy_id, tenant_id)
    if requested.fingerprint != asked:
        raise KeyConflict(request_id)
    if requested.state == "recorded":
        decide_queue.send([{"occurrence_id": requested.occurrence_id}])
        with store.transaction() as tx:
            tx.mark_occurrences_enqueued([requested.occurrence_id])
    return requested


def release(
    store: Store, attempt_id: UUID, *, by: str, why: str, tenant_id: str | None = None
) -> ClosedAttempt:
    """Close an attempt whose end nobody can confirm, and free its locks; its job may still act on the machines (R5.4)."""
    with store.transaction() as tx:
        closed = tx.close_attempt(attempt_id, by=by, why=why, tenant_id=tenant_id)
    if closed is None:
        raise UnknownAttempt(attempt_id)
    if not isinstance(closed, ClosedAttempt):
        raise NothingToRelease(attempt_id, closed.state, ended=closed.ended_at is not None)
    return closed


def lease(store: Store, tenant_id: str, *, holder: str, by: str, why: str) -> LeaseChange:
    """Say which system may act for a tenant from now on (R4.2)."""
    with store.transaction() as tx:
        change = tx.change_lease(tenant_id, holder=holder, by=by, why=why)
    if change is None:
        raise UnknownTenant(tenant_id)
    return change


def read_lease(store: Store, tenant_id: str) -> Lease:
    """Return which system may act for a tenant; one that has expired is held by nobody."""
    with store.transaction() as tx:
        return tx.lease_of(tenant_id)


def _changed(
    tx: Transaction, done: T | None, policy_id: int, version: int | None, tenant_id: str | None
) -> T:
    """Return what was done; if nothing was, tell whether that is for the version or because there is no such policy."""
    if done is None and version is not None:
        view = tx.policy_view(policy_id, tenant_id=tenant_id)
        if view is not None and view.archived_at is None:
            raise VersionConflict("policy", policy_id, version, view.version)
    return _known(tx, done, policy_id, tenant_id)


def _known(tx: Transaction, found: T | None, policy_id: int, tenant_id: str | None) -> T:
    if found is None:
        raise unknown_policy(tx, policy_id, tenant_id)
    return found


def unknown_policy(tx: Transaction, policy_id: int, tenant_id: str | None) -> UnknownPolicy:
    """Return the error for a policy that is not in use: there is none, or it is archived."""
    view = tx.policy_view(policy_id, tenant_id=tenant_id)
    return UnknownPolicy(policy_id) if view is None else ArchivedPolicy(policy_id)
