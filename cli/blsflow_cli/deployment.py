"""The deployment that a command works on: its settings from the environment, its database checked before anything else."""

from __future__ import annotations

import os
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Final

from blsflow.adapters.inline import InlineQueue
from blsflow.adapters.postgres.migrate import migration_files
from blsflow.bootstrap import Application
from blsflow.domain.errors import BlsflowError, InvalidDocument
from blsflow.ports.errors import StoreError, StoreUnavailable
from blsflow.settings import read_settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from blsflow.adapters.postgres.connection import Session


_ADVICE: Final = {
    "none": "that the server is up, and that it speaks TLS as BLSFLOW_SCHEDULER_DATABASE_TLS asks for"
    " (if it speaks none: off, or ?tls=off behind the URL)",
    "28": "user and password above all: the server refuses them",
    "3D": "the database's name above all: the server has none of that name",
    "42": "and that its user may use the tables: `blsflow migrate` as their owner makes them",
}
"""What to check, by the class of the database's own code; its classes are PostgreSQL's."""


class DatabaseUnreachable(BlsflowError):
    """There is no session to be had, or it was lost on the way."""

    def __init__(self, cause: StoreError) -> None:
        advice = _ADVICE.get(cause.sqlstate[:2] or "none", _ADVICE["none"])
        super().__init__(
            f"the database cannot be used: {cause}. Check BLSFLOW_SCHEDULER_DATABASE_URL (or …_DATABASE_SECRET_ARN), {advice}"
        )


class NotMigrated(BlsflowError):
    """The database lacks migrations that this version needs."""

    def __init__(self, missing: list[str]) -> None:
        which = f"{missing[0]} to {missing[-1]}" if len(missing) > 1 else missing[0]
        super().__init__(f"the database lacks {len(missing)} migrations, {which}: run `blsflow migrate`")
        self.missing = missing


@contextmanager
def deployment(
    *, migrated: bool = True, own_queues: tuple[InlineQueue, InlineQueue] | None = None
) -> Iterator[Application]:
    """Build the application of the environment, close its database at the end.

    ``own_queues``, for deciding and for executing, stand in for those of the environment; queues that it does not
    name are within this process anyway.

    Raises:
        InvalidSetting: a setting that cannot be meant, or no database is configured.
        DatabaseUnreachable: the database does not answer, or stops to.
        NotMigrated: it lacks migrations, and ``migrated`` asks for them all.
    """
    settings = read_settings(os.environ)
    decide_queue, execute_queue = own_queues or (
        InlineQueue() if settings.decide_queue_url is None else None,
        InlineQueue() if settings.execute_queue_url is None else None,
    )
    application = Application(settings, own_decide_queue=decide_queue, own_execute_queue=execute_queue)
    try:
        with closing(application.connect()) as session:
            missing = _missing(session)
    except StoreError as error:
        raise DatabaseUnreachable(error) from error
    if missing and migrated:
        raise NotMigrated(missing)
    try:
        yield application
    except StoreUnavailable as error:
        raise DatabaseUnreachable(error) from error
    finally:
        application.store.close()


def require_tenant(application: Application, tenant: str | None, rows: Sequence[object]) -> None:
    """Refuse a tenant to list by of whom there is nothing: an empty list would hide that it is misspelt."""
    if tenant is None or rows:
        return
    with application.store.transaction() as tx:
        if not tx.knows_tenant(tenant):
            raise InvalidDocument(
                field="--tenant",
                value=tenant,
                cause="there is no such tenant: `blsflow fleet clusters` shows their names",
            )


def _missing(session: Session) -> list[str]:
    """Return the migrations of this version that the database has not seen; a newer database is fine."""
    ((known,),) = session.run("select to_regclass('smart_schedule_migrations') is not null")
    done = {row[0] for row in session.run("select version from smart_schedule_migrations")} if known else ()
    return [version for version, _ in migration_files() if version not in done]
