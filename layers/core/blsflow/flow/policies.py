"""Policies in people's hands: create, read, list, change, archive, and where they stand (R9.1).

A document is checked as a whole before anything of it is written. The functions that end in ``_in`` work in a transaction
of their caller, who may record more in it; nothing is stored unless it commits. A ``tenant_id`` of None is an operator of
the whole deployment; someone else's policy is as unknown as none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from blsflow.domain.errors import InvalidDocument
from blsflow.domain.pages import checked_limit, encode_cursor, id_of_cursor, place_of_cursor
from blsflow.domain.policy_document import parse_policy, split_first_mode
from blsflow.domain.recurrence import parse_rule, require_to_come
from blsflow.domain.wording import is_prose, says_something
from blsflow.flow.control import UnknownPolicy, unknown_policy
from blsflow.flow.tenants import require_tenant
from blsflow.flow.versions import VersionConflict
from blsflow.ports.policies import PolicyVersion

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from blsflow.domain.policy_document import PolicyDocument
    from blsflow.ports.policies import FreezeRow, PolicyView
    from blsflow.ports.store import Store, Transaction

_LONGEST_WHY: Final = 2_000
_NEVER_SENT: Final = "config_changed"


def create_policy(
    store: Store, *, tenant_id: str, by: str, document: Mapping[str, object], tick_interval_sec: int
) -> PolicyVersion:
    """Store a new policy of any tenant of the deployment: disabled, and in shadow unless ``execution_mode`` is ``dry_run``.

    Without a ``schedule`` it ticks every ``tick_interval_sec``, once it is enabled. `InvalidDocument` names what cannot be
    meant or is not there, and then nothing is stored.
    """
    with store.transaction() as tx:
        require_tenant(tx, tenant_id, InvalidDocument)
        return create_policy_in(
            tx, tenant_id=tenant_id, by=by, document=document, tick_interval_sec=tick_interval_sec
        )


def create_policy_in(
    tx: Transaction, *, tenant_id: str, by: str, document: Mapping[str, object], tick_interval_sec: int
) -> PolicyVersion:
    """Do what `create_policy` does in the caller's transaction."""
    rest, mode = split_first_mode(document)
    checked = _checked(tx, rest, tenant_id, tick_interval_sec)
    require_to_come("schedule", parse_rule(checked.schedule), tx.now)
    return tx.insert_policy(checked, tenant_id=tenant_id, execution_mode=str(mode), by=by)


def read_policy(store: Store, policy_id: int, *, tenant_id: str | None = None) -> PolicyView:
    """Return a policy, archived ones too."""
    with store.transaction() as tx:
        found = tx.policy_view(policy_id, tenant_id=tenant_id)
    if found is None:
        raise UnknownPolicy(policy_id)
    return found


def list_policies(
    store: Store,
    *,
    tenant_id: str,
    cursor: str | None = None,
    limit: int = 50,
    include_archived: bool = False,
) -> tuple[Sequence[PolicyView], str | None]:
    """Return a page of a tenant's policies by id, and the cursor of the next one, None when this is the last."""
    checked_limit(limit)
    after = id_of_cursor("policies", cursor, first=0)
    with store.transaction() as tx:
        rows = tx.list_policies(
            tenant_id=tenant_id, after=after, limit=limit, include_archived=include_archived
        )
    return rows, encode_cursor("policies", rows[-1].policy_id) if len(rows) == limit else None


def change_policy(  # noqa: PLR0913 - what to change into what, and who asks
    store: Store,
    policy_id: int,
    *,
    version: int,
    by: str,
    document: Mapping[str, object],
    tick_interval_sec: int,
    tenant_id: str | None = None,
) -> PolicyVersion:
    """Put a document in the place of that of a policy which is still at ``version``.

    What was prepared under the old document is not sent any more. A freeze stays, and so do the price levels of candidates
    that stay. A document that changes nothing leaves version and prepared work as they are.
    """
    with store.transaction() as tx:
        return change_policy_in(
            tx,
            policy_id,
            version=version,
            by=by,
            document=document,
            tick_interval_sec=tick_interval_sec,
            tenant_id=tenant_id,
        )


def change_policy_in(  # noqa: PLR0913 - as above
    tx: Transaction,
    policy_id: int,
    *,
    version: int,
    by: str,
    document: Mapping[str, object],
    tick_interval_sec: int,
    tenant_id: str | None = None,
) -> PolicyVersion:
    """Do what `change_policy` does in the caller's transaction."""
    stored = _locked(tx, policy_id, version, tenant_id)
    checked = _checked(tx, document, stored.tenant_id, tick_interval_sec)
    whole = checked.to_document()
    changed = [name for name, value in whole.items() if stored.document[name] != value]
    if not changed:
        return PolicyVersion(policy_id=policy_id, version=version)
    if "schedule" in changed:
        require_to_come("schedule", parse_rule(checked.schedule), tx.now)
    return tx.replace_policy(stored, checked, changed=changed, by=by)


def archive_policy(  # noqa: PLR0913 - what to archive, and who asks why
    store: Store, policy_id: int, *, version: int, by: str, why: str, tenant_id: str | None = None
) -> None:
    """Take a policy that is still at ``version`` out of use.

    It ticks no more, and what it prepared ends unsent; what it sent is followed to its end, and its history stays.
    """
    with store.transaction() as tx:
        archive_policy_in(tx, policy_id, version=version, by=by, why=why, tenant_id=tenant_id)


def archive_policy_in(  # noqa: PLR0913 - as above
    tx: Transaction, policy_id: int, *, version: int, by: str, why: str, tenant_id: str | None = None
) -> None:
    """Do what `archive_policy` does in the caller's transaction."""
    if not says_something(why) or len(why) > _LONGEST_WHY or not is_prose(why):
        raise InvalidDocument(
            field="why",
            value=why,
            cause=f"say why in 1 to {_LONGEST_WHY} characters, none of them a control character; it is kept on the record",
        )
    stored = _locked(tx, policy_id, version, tenant_id)
    tx.archive_policy(stored, by=by, why=why)
    for occurrence_id, attempt_ids in tx.unsent_attempts_of_policy(policy_id).items():
        tx.end_unsent(attempt_ids, _NEVER_SENT, occurrence_id=occurrence_id)


def freezes(
    store: Store, policy_id: int, *, tenant_id: str | None = None, cursor: str | None = None, limit: int = 50
) -> tuple[Sequence[FreezeRow], str | None]:
    """Return a page of a policy's freezes, newest first: for what, by whom, and who lifted them and why."""
    checked_limit(limit)
    before = place_of_cursor(f"freezes {policy_id}", cursor)
    with store.transaction() as tx:
        if not tx.knows_policy(policy_id, tenant_id=tenant_id):
            raise UnknownPolicy(policy_id)
        rows = tx.freezes(policy_id, tenant_id=tenant_id, before=before, limit=limit)
    if len(rows) < limit:
        return rows, None
    following = encode_cursor(f"freezes {policy_id}", rows[-1].frozen_at, rows[-1].freeze_id)
    return rows, following


def _locked(tx: Transaction, policy_id: int, version: int, tenant_id: str | None) -> PolicyView:
    stored = tx.lock_policy(policy_id, tenant_id=tenant_id)
    if stored is None:
        raise unknown_policy(tx, policy_id, tenant_id)
    if stored.version != version:
        raise VersionConflict("policy", policy_id, version, stored.version)
    return stored


def _checked(
    tx: Transaction, document: Mapping[str, object], tenant_id: str, tick_interval_sec: int
) -> PolicyDocument:
    """Read a document, and hold what it names against what the tenant has."""
    checked = parse_policy(document, tick_interval_sec=tick_interval_sec)
    unknown = tx.unknown_references(checked, tenant_id=tenant_id)
    missing = {"cluster": unknown.clusters, "model": unknown.models, "machine": unknown.machines}
    for kind, resource_ids in missing.items():
        for resource_id in sorted(resource_ids)[:1]:
            place = _place(document, kind, resource_id)
            raise InvalidDocument(
                field=f"scope[{place}].resource_id", value=resource_id, cause=f"there is no such {kind}"
            )
    for field, project in checked.named_projects():
        if project in unknown.projects:
            raise InvalidDocument(field=field, value=project, cause="there is no such project")
    return checked


def _place(document: Mapping[str, object], kind: str, resource_id: str) -> int:
    """Return where the document as it was written names a resource."""
    scope = document["scope"]
    assert isinstance(scope, list | tuple)  # noqa: S101 - it was read as one
    return next(
        place
        for place, each in enumerate(scope)
        if (each["resource_type"], each["resource_id"]) == (kind, resource_id)
    )
