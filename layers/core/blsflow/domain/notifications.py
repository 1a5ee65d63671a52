"""Which of a tenant's notifications are asked for, page by page (R10.1)."""

from __future__ import annotations

from dataclasses import dataclass

from blsflow.domain.errors import InvalidExecutionRequest
from blsflow.domain.pages import LARGEST_ID, checked_limit, is_id


@dataclass(frozen=True, kw_only=True, slots=True)
class NotificationQuery:
    """The newest first; None leaves a filter out. ``before_id`` is where the page before this one ended."""

    tenant_id: str
    unread: bool | None = None
    code: str | None = None
    policy_id: int | None = None
    before_id: int = LARGEST_ID
    limit: int = 50

    def __post_init__(self) -> None:
        checked_limit(self.limit)
        if self.code is not None and not self.code.isprintable():
            raise InvalidExecutionRequest(
                field="code", value=self.code, cause="has characters that cannot be shown"
            )
        if self.policy_id is not None and not is_id(self.policy_id):
            raise InvalidExecutionRequest(field="policy_id", value=self.policy_id, cause="is no id")
