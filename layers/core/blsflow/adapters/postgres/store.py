"""The store: one session, one transaction at a time, each under one reading of the database's clock."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from blsflow.adapters.postgres.benchmark import BenchmarkQueries
from blsflow.adapters.postgres.control import ControlQueries
from blsflow.adapters.postgres.converse import ConverseQueries
from blsflow.adapters.postgres.decide import DecideQueries
from blsflow.adapters.postgres.execute import ExecuteQueries
from blsflow.adapters.postgres.notify import NotifyQueries
from blsflow.adapters.postgres.reconcile import ReconcileQueries
from blsflow.adapters.postgres.sampling import SamplingQueries
from blsflow.adapters.postgres.schedules import ScheduleQueries
from blsflow.adapters.postgres.tick import TickQueries
from blsflow.ports import StoreError, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from blsflow.adapters.postgres.connection import Session

_BEGIN = "begin; select now()"


class PostgresTransaction(
    TickQueries,
    DecideQueries,
    ExecuteQueries,
    ConverseQueries,
    ReconcileQueries,
    BenchmarkQueries,
    SamplingQueries,
    ScheduleQueries,
    NotifyQueries,
    ControlQueries,
):
    """One open transaction; ``now`` is the time at which it began, by the database's clock."""

    def __init__(self, session: Session, now: datetime) -> None:
        self._session = session
        self.now = now


class PostgresStore:
    """Opens transactions on one session, and a new session when the old one is gone; not for two threads at once."""

    def __init__(self, connect: Callable[[], Session]) -> None:
        self._connect = connect
        self._session: Session | None = None

    @contextmanager
    def transaction(self) -> Iterator[PostgresTransaction]:
        """Open a transaction that commits when its block ends and rolls back when it raises."""
        session, now = self._begin()
        try:
            yield PostgresTransaction(session, now)
            session.run("commit")
        except BaseException:
            self._roll_back(session)
            raise

    def close(self) -> None:
        """Close the session, if there is one."""
        if self._session is not None:
            self._session.close()
            self._session = None

    def _begin(self) -> tuple[Session, datetime]:
        """Begin; a session that the server closed while nobody used it is renewed once, since nothing was asked of it yet."""
        renewed = self._session is None
        session = self._session = self._session or self._connect()
        try:
            return session, session.run(_BEGIN)[-1][0]
        except StoreUnavailable:
            self.close()
            if renewed:
                raise
        session = self._session = self._connect()
        return session, session.run(_BEGIN)[-1][0]

    def _roll_back(self, session: Session) -> None:
        """Roll back; a session that cannot is given up, and the server rolls back by itself."""
        try:
            session.run("rollback")
        except StoreError:
            self.close()
