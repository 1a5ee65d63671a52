"""What is told to people: log events of the console and notifications behind it.

Both carry a stable code and parameters, never a finished sentence; texts come from one catalogue.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID


class Level(StrEnum):
    """How much a log event matters to its reader."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, kw_only=True, slots=True)
class LogEvent:
    """One line of the console's log, written in the transaction of the state it tells of."""

    tenant_id: str
    code: str
    policy_id: int | None = None
    params: Mapping[str, object] = field(default_factory=dict)
    level: Level = Level.INFO
    kind: str = "log"
    tick_id: int | None = None
    attempt_id: UUID | None = None
    machine_id: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Notification:
    """One message to the tenant's people; its outbox row is written with the state it tells of."""

    tenant_id: str
    code: str
    policy_id: int | None = None
    params: Mapping[str, object] = field(default_factory=dict)
