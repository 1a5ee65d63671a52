"""Freeze: stop a whole policy, and tell its people exactly once (R6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from blsflow.domain.events import Level, LogEvent, Notification
from blsflow.domain.freeze import freeze_for

if TYPE_CHECKING:
    from collections.abc import Iterable

    from blsflow.domain.freeze import Freeze
    from blsflow.domain.policy import Policy
    from blsflow.ports.store import Transaction


def freeze_policy(tx: Transaction, policy: Policy, freeze: Freeze, *, by: str = "scheduler") -> bool:
    """Freeze a policy unless it is frozen already; return whether this call froze it, and told of it."""
    opened = tx.open_freeze(policy, freeze, by=by)
    if opened:
        announce_freeze(tx, policy.tenant_id, policy.id, freeze)
    return opened


def announce_freeze(tx: Transaction, tenant_id: str, policy_id: int, freeze: Freeze) -> None:
    """Tell of a freeze that this transaction opened, in the log and by a notification."""
    params = {"cause": str(freeze.cause), **freeze.detail}
    tx.write_events(
        [
            LogEvent(
                tenant_id=tenant_id,
                policy_id=policy_id,
                code="policy_frozen",
                params=params,
                level=Level.ERROR,
            )
        ],
        [Notification(tenant_id=tenant_id, policy_id=policy_id, code="policy_frozen", params=params)],
    )


def freeze_on_failures(tx: Transaction, policy_ids: Iterable[int]) -> list[int]:
    """Freeze those policies of whose latest commands an abnormal share failed; return the ones frozen here."""
    ids = sorted(set(policy_ids))
    frozen = []
    for share in tx.failed_shares(ids) if ids else ():
        freeze = freeze_for(share.policy, failed=share.failed, finished=share.finished)
        if freeze is not None and freeze_policy(tx, share.policy, freeze):
            frozen.append(share.policy.id)
    return frozen
