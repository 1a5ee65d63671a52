"""The store: one session, one transaction at a time, each under one reading of the database's clock."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

from blsflow.adapters.postgres.connection import CONNECT_TIMEOUT_SEC
from blsflow.adapters.postgres.statements import literal
from blsflow.adapters.postgres.transaction import PostgresTransaction
from blsflow.ports.errors import StoreError, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from datetime import datetime
    from uuid import UUID

    from blsflow.adapters.postgres.connection import Session

LeftSec: TypeAlias = "Callable[[], float]"

_BEGIN = "begin"
_SNAPSHOT = "begin isolation level repeatable read"
_NOW = "; select now()"
_AS = (
    "; select set_config('search_path', 'smart_schedule_tenant, ' || current_setting('search_path'), true);"
    " set local role blsflow_tenant; set local blsflow.tenant = {tenant}"
)
"""As one tenant: row-level security and the tenant's views apply until the transaction ends."""


class PostgresStore:
    """Opens transactions on one session, and a new session when the old one is gone; not for two threads at once."""

    def __init__(self, connect: Callable[[], Session]) -> None:
        self._connect = connect
        self._session: Session | None = None

    @contextmanager
    def transaction(self, whose: str = "", left_sec: LeftSec | None = None) -> Iterator[PostgresTransaction]:
        """Open a transaction that commits when its block ends and rolls back when it raises.

        The session of one that did not get its answers in time is given up; all that it held is free once the server has
        ended what it was asked, for which it takes no longer than a statement may.
        """
        session, now = self._begin(_BEGIN, whose, left_sec)
        try:
            yield PostgresTransaction(session, now)
            session.run("commit")
        except StoreUnavailable:
            self.close()
            raise
        except BaseException:
            self._roll_back(session)
            raise

    @contextmanager
    def snapshot(self, whose: str = "", left_sec: LeftSec | None = None) -> Iterator[PostgresTransaction]:
        """Open a transaction that sees one moment throughout, and leaves nothing behind."""
        session, now = self._begin(_SNAPSHOT, whose, left_sec)
        try:
            yield PostgresTransaction(session, now)
        finally:
            self._roll_back(session)

    def mark_attempts_enqueued(self, ids: Sequence[UUID]) -> None:
        """Note that messages for these went out: one statement, which commits by itself in one round trip."""
        session = self._session = self._session or self._connect()
        session.left_sec = None
        try:
            session.query("mark_attempts_enqueued", ids=list(ids))
        except StoreError:
            self.close()
            raise

    def of_tenant(self, tenant_id: str, *, left_sec: LeftSec | None = None) -> TenantStore:
        """Return the same database as one tenant sees it, for the time that is left; an empty name is nobody's."""
        return TenantStore(self, tenant_id, left_sec)

    def close(self) -> None:
        """Close the session, if there is one."""
        if self._session is not None:
            self._session.close()
            self._session = None

    def _begin(self, begin: str, whose: str, left_sec: LeftSec | None) -> tuple[Session, datetime]:
        """Begin; a session that the server closed while nobody used it is renewed once, since nothing was asked of it yet.

        It is not renewed if the new one might come too late; a first one is opened however little time is left.
        """
        is_first = self._session is None
        session = self._session = self._session or self._connect()
        try:
            return session, self._run_begin(session, begin, whose, left_sec)
        except StoreUnavailable:
            if is_first or (left_sec is not None and left_sec() < CONNECT_TIMEOUT_SEC):
                raise
        session = self._session = self._connect()
        return session, self._run_begin(session, begin, whose, left_sec)

    def _run_begin(self, session: Session, begin: str, whose: str, left_sec: LeftSec | None) -> datetime:
        """Begin; a session on which that failed may stand in a failed transaction, and is given up."""
        session.left_sec = left_sec
        if left_sec is not None:
            begin += f"; set local statement_timeout = {session.bound_sec() * 1000:.0f}"
        try:
            now: datetime = session.run(begin + whose + _NOW)[-1][0]
        except StoreError:
            self.close()
            raise
        return now

    def _roll_back(self, session: Session) -> None:
        """Roll back; a session that cannot is given up, and the server rolls back by itself."""
        try:
            session.run("rollback")
        except StoreError:
            self.close()


class TenantStore:
    """The database as one tenant sees it: the second wall behind the tenant that every statement names."""

    def __init__(self, store: PostgresStore, tenant_id: str, left_sec: LeftSec | None = None) -> None:
        self._store = store
        self._left_sec = left_sec
        self._as = _AS.format(tenant=literal(tenant_id))

    def transaction(self) -> AbstractContextManager[PostgresTransaction]:
        """Open a transaction in which there is nobody else."""
        return self._store.transaction(self._as, self._left_sec)

    def snapshot(self) -> AbstractContextManager[PostgresTransaction]:
        """Open a transaction that sees one moment throughout, in which there is nobody else."""
        return self._store.snapshot(self._as, self._left_sec)

    def mark_attempts_enqueued(self, ids: Sequence[UUID]) -> None:
        """Note that messages for these went out, as one tenant."""
        with self.transaction() as tx:
            tx.mark_attempts_enqueued(ids)
