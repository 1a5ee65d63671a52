"""A session that counts its exchanges with the server, to hold statements per page and round trips per tick constant."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from blsflow.adapters.postgres.connection import Session
from blsflow.adapters.postgres.store import PostgresStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from io import RawIOBase

    from blsflow.adapters.postgres.address import DatabaseAddress


class CountingSession(Session):
    """Counts queries and streams by name, COPYs as ``copy``, and other text (begin, commit) as ``run``."""

    def __init__(self, address: DatabaseAddress, exchanges: Counter[str]) -> None:
        super().__init__(address)
        self._exchanges = exchanges

    def query(self, statement: str, /, **params: object) -> list[dict[str, Any]]:
        """Run a named statement and count it."""
        self._exchanges[statement] += 1
        return super().query(statement, **params)

    def run(self, sql: str) -> list[list[Any]]:
        """Run text and count it."""
        self._exchanges["run"] += 1
        return super().run(sql)

    def stream(self, statement: str, sink: Callable[[list[bytes]], None], /, **params: object) -> None:
        """Stream a named statement and count it."""
        self._exchanges[statement] += 1
        super().stream(statement, sink, **params)

    def copy(self, sql: str, stream: RawIOBase | Iterable[bytes]) -> None:
        """Copy and count it."""
        self._exchanges["copy"] += 1
        super().copy(sql, stream)


def counting_store(address: DatabaseAddress) -> tuple[PostgresStore, Counter[str]]:
    """A store of its own, with the counts of its exchanges so far."""
    exchanges: Counter[str] = Counter()
    return PostgresStore(lambda: CountingSession(address, exchanges)), exchanges
