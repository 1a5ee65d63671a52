"""Which of a tenant's notifications are asked for, page by page (R10.1)."""

from __future__ import annotations

from dataclasses import dataclass

from blsflow.domain import cursors
from blsflow.domain.errors import InvalidExecutionRequest

MOST_ROWS = 500


@dataclass(frozen=True, kw_only=True, slots=True)
class NotificationQuery:
    """The newest first; None leaves a filter out. ``before_id`` is where the page before this one ended."""

    tenant_id: str
    unread: bool | None = None
    code: str | None = None
    policy_id: int | None = None
    before_id: int = cursors.LARGEST_ID
    limit: int = 50

    def __post_init__(self) -> None:
        if not 1 <= self.limit <= MOST_ROWS:
            raise InvalidExecutionRequest(field="limit", value=self.limit, cause=f"use 1 to {MOST_ROWS}")
        if self.code is not None and not self.code.isprintable():
            raise InvalidExecutionRequest(
                field="code", value=self.code, cause="has characters that cannot be shown"
            )
        if self.policy_id is not None and not cursors.is_id(self.policy_id):
            raise InvalidExecutionRequest(field="policy_id", value=self.policy_id, cause="is no id")


def encode_cursor(last_id: int) -> str:
    """Return the cursor of the page below a notification, which no new notification can change."""
    return cursors.encode([last_id])


def decode_cursor(text: str) -> int:
    """Return the ``before_id`` of a cursor that `encode_cursor` wrote; anything else is refused."""
    match cursors.decode(text):
        case [last_id] if cursors.is_id(last_id):
            found: int = last_id
            return found
    raise cursors.not_ours(text)
