"""What a sender takes from the database, or why it may not send."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from blsflow.domain.execution import CommandKind, MachineTarget


@dataclass(frozen=True, kw_only=True, slots=True)
class NotBegun:
    """Why a tick did not begin; ``closed`` tells whether this call closed the occurrence as skipped."""

    reason: str
    closed: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Dispatch:
    """An attempt that this call moved to dispatching: it is ours to send, exactly once."""

    attempt_id: UUID
    tenant_id: str
    policy_id: int | None
    tick_id: int | None
    occurrence_id: int | None
    ticked_at: datetime
    key: str
    action: CommandKind
    project_id: int | None
    run_config_id: int | None
    request_expires_at: datetime
    targets: tuple[MachineTarget, ...]
