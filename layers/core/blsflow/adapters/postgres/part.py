"""What all parts of a transaction have: the session that they ask, and the time of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

    from blsflow.adapters.postgres.connection import Session


class Part:
    """The statements of one use of the database; it keeps nothing of its own."""

    def __init__(self, session: Session, now: datetime) -> None:
        self._session = session
        self.now = now
