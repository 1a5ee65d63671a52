"""Health: whether this process can do its work now, asked of the database itself and not of what was once connected."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from blsflow.ports.errors import StoreError

if TYPE_CHECKING:
    from blsflow.ports.store import Store

_ANSWERS: Final = "answers"


@dataclass(frozen=True, kw_only=True, slots=True)
class Health:
    """``database`` is ``answers``, or the type of the fault: never its text, which may name hosts and users.

    ``schema_version`` is how far it has been migrated, None if it does not answer.
    """

    database: str
    schema_version: str | None = None

    def can_serve(self, needed: str) -> bool:
        """Whether work would be done by code that needs this version of the schema."""
        return self.schema_version is not None and self.schema_version >= needed


def health(store: Store) -> Health:
    """Open and end one transaction; a database that is away is an answer here, and no error."""
    try:
        with store.transaction() as tx:
            return Health(database=_ANSWERS, schema_version=tx.schema_version())
    except StoreError as error:
        return Health(database=type(error).__name__)
