"""Schedules in people's hands: create, list, change, pause, archive (R8).

A ``tenant_id`` of None is an operator of the whole deployment; someone else's schedule is as unknown as none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from blsflow.domain.errors import BlsflowError, InvalidDocument, InvalidExecutionRequest
from blsflow.domain.recurrence import parse_rule, require_to_come, to_document
from blsflow.domain.wording import is_name, is_prose, says_something
from blsflow.flow.tenants import require_tenant
from blsflow.flow.versions import VersionConflict

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from blsflow.domain.recurrence import Rule
    from blsflow.ports.people import ScheduleVersion
    from blsflow.ports.store import Store, Transaction

_LONGEST: Final = {"target": 200, "conversation_id": 200, "prompt": 100_000}
_LONGEST_NAME: Final = 200


class UnknownSchedule(BlsflowError):
    """There is no such schedule, it is archived, or it is someone else's."""

    def __init__(self, schedule_id: int) -> None:
        super().__init__(
            f"there is no schedule {schedule_id}: `blsflow schedules` lists those that there are"
        )
        self.schedule_id = schedule_id


class ArchivedSchedule(UnknownSchedule):
    """The schedule is archived: its history is read, and nothing else."""

    def __init__(self, schedule_id: int) -> None:
        BlsflowError.__init__(
            self,
            f"schedule {schedule_id} is archived: `blsflow occurrences --schedule {schedule_id}` shows its history",
        )
        self.schedule_id = schedule_id


class TickOfPolicy(BlsflowError):
    """The schedule is a policy's tick, which is changed, paused, run and taken out of use with its policy."""

    def __init__(self, schedule_id: int, policy_id: int) -> None:
        super().__init__(
            f"schedule {schedule_id} is the tick of policy {policy_id}: change, pause, run or archive the policy"
        )
        self.schedule_id = schedule_id
        self.policy_id = policy_id


def create_schedule(  # noqa: PLR0913 - the whole of what a schedule says
    store: Store,
    *,
    tenant_id: str,
    created_by: str,
    by: str,
    name: str,
    work: Mapping[str, object],
    rule: Mapping[str, object],
) -> ScheduleVersion:
    """Store a conversation's schedule of any tenant of the deployment.

    `InvalidExecutionRequest` names what cannot be meant, and nothing is recorded.
    """
    with store.transaction() as tx:
        require_tenant(tx, tenant_id, InvalidExecutionRequest)
        return create_schedule_in(
            tx, tenant_id=tenant_id, created_by=created_by, by=by, name=name, work=work, rule=rule
        )


def create_schedule_in(  # noqa: PLR0913 - the whole of what a schedule says
    tx: Transaction,
    *,
    tenant_id: str,
    created_by: str,
    by: str,
    name: str,
    work: Mapping[str, object],
    rule: Mapping[str, object],
) -> ScheduleVersion:
    """Do as `create_schedule` in a transaction that has more to write."""
    asked = parse_rule(rule)
    require_to_come("rule", asked, tx.now)
    checked = _checked_work(work)
    _checked_name(name)
    return tx.create_schedule(
        tenant_id=tenant_id, created_by=created_by, by=by, name=name, work=checked, rule=to_document(asked)
    )


def list_schedules(
    store: Store, *, tenant_id: str | None, after_id: int = 0, limit: int | None = None
) -> Sequence[Mapping[str, Any]]:
    """Return the schedules in use in the order of their ids, those after an id; no limit gives all."""
    with store.transaction() as tx:
        return tx.list_schedules(tenant_id=tenant_id, schedule_id=None, after_id=after_id, limit=limit)


def read_schedule(store: Store, schedule_id: int, *, tenant_id: str | None) -> Mapping[str, Any]:
    """Return one schedule, also an archived one: its history can still be read."""
    with store.transaction() as tx:
        rows = tx.list_schedules(tenant_id=tenant_id, schedule_id=schedule_id, after_id=0, limit=1)
    if not rows:
        raise UnknownSchedule(schedule_id)
    return rows[0]


def change_schedule(  # noqa: PLR0913 - the whole of what a schedule says
    store: Store,
    schedule_id: int,
    *,
    version: int,
    name: str,
    work: Mapping[str, object],
    rule: Mapping[str, object],
    by: str,
    runs_as: str,
    tenant_id: str | None = None,
) -> ScheduleVersion:
    """Change a schedule that is still at ``version``; what was recorded before and not begun is then not run.

    If what is sent changes, it is sent in the name of ``runs_as`` from then on.
    """
    asked = parse_rule(rule)
    checked = _checked_work(work)
    _checked_name(name)
    with store.transaction() as tx:
        stored = conversation_of(tx, schedule_id, tenant_id)
        if asked != _stored_rule(stored):  # one whose runs are over can keep its rule
            require_to_come("rule", asked, tx.now)
        changed = tx.change_schedule(
            schedule_id,
            version=version,
            name=name,
            work=checked,
            rule=to_document(asked),
            by=by,
            runs_as=runs_as,
        )
    if changed is None:
        raise VersionConflict("schedule", schedule_id, version, stored["version"])
    return changed


def pause_schedule(
    store: Store, schedule_id: int, *, paused: bool, by: str, tenant_id: str | None = None
) -> None:
    """Pause or resume; neither moves the rule's anchor. A policy's tick is paused with its policy, on the record."""
    with store.transaction() as tx:
        conversation_of(tx, schedule_id, tenant_id)
        tx.pause_schedule(schedule_id, paused=paused, by=by)


def archive_schedule(store: Store, schedule_id: int, *, by: str, tenant_id: str | None = None) -> None:
    """Take a schedule out of use; its history stays, and what is under way is followed to its end."""
    with store.transaction() as tx:
        conversation_of(tx, schedule_id, tenant_id)
        tx.archive_schedule(schedule_id, by=by)


def schedule_of(
    tx: Transaction, schedule_id: int, tenant_id: str | None, *, archived: bool = False
) -> Mapping[str, Any]:
    """Return the schedule if it is the tenant's, an archived one only if asked for; raise `UnknownSchedule` otherwise."""
    row = tx.schedule_row(schedule_id, tenant_id=tenant_id)
    if row is None:
        raise UnknownSchedule(schedule_id)
    if row["archived"] and not archived:
        raise ArchivedSchedule(schedule_id)
    return row


def conversation_of(tx: Transaction, schedule_id: int, tenant_id: str | None) -> Mapping[str, Any]:
    """Return a conversation's schedule; raise `TickOfPolicy` for that of a policy."""
    row = schedule_of(tx, schedule_id, tenant_id)
    if row["kind"] != "conversation":
        raise TickOfPolicy(schedule_id, row["policy_id"])
    return row


def _stored_rule(row: Mapping[str, Any]) -> Rule | None:
    try:
        return parse_rule({**row["rule"], "time_zone": row["time_zone"]})
    except InvalidDocument:
        return None


def _checked_work(work: Mapping[str, object]) -> dict[str, str]:
    unknown = sorted(set(work) - set(_LONGEST))
    if unknown:
        raise InvalidExecutionRequest(
            field=f"work.{unknown[0]}", value=work[unknown[0]], cause="no such field"
        )
    return {
        name: _require_text(f"work.{name}", work.get(name), most=most, is_fit=is_prose)
        if name == "prompt"
        else require_name(f"work.{name}", work.get(name), most=most)
        for name, most in _LONGEST.items()
    }


def _checked_name(name: str) -> str:
    return name and require_name("name", name, most=_LONGEST_NAME)


def require_name(field: str, value: object, *, most: int) -> str:
    """Return a name of at most so many characters; raise `InvalidExecutionRequest` naming the field for any other value."""
    return _require_text(field, value, most=most, is_fit=is_name)


def _require_text(field: str, value: object, *, most: int, is_fit: Callable[[str], bool]) -> str:
    if not isinstance(value, str) or not 1 <= len(value) <= most:
        cause = f"a text of 1 to {most} characters is needed"
    elif not is_fit(value):
        cause = "has control characters, or others that do not belong in it"
    elif not says_something(value):
        cause = "says nothing"
    else:
        return value
    raise InvalidExecutionRequest(field=field, value=value, cause=cause)
