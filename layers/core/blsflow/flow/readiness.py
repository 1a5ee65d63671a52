"""Readiness: whether this process can do its work now, asked of the database itself and not of what was once connected."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from blsflow.ports import StoreError

if TYPE_CHECKING:
    from datetime import datetime

    from blsflow.ports import Store

_ANSWERS: Final = "answers"


@dataclass(frozen=True, kw_only=True, slots=True)
class Readiness:
    """``database`` is ``answers``, or the type of the fault: never its text, which may name hosts and users."""

    database: str
    now: datetime | None = None

    @property
    def ready(self) -> bool:
        """Whether work would be done."""
        return self.database == _ANSWERS


def readiness(store: Store) -> Readiness:
    """Open and end one transaction; a database that is away is an answer here, and no error."""
    try:
        with store.transaction() as tx:
            return Readiness(database=_ANSWERS, now=tx.now)
    except StoreError as error:
        return Readiness(database=type(error).__name__)
