"""Forward-only migrations: each file once, in order, in its own transaction with its version row.

An advisory lock lets one runner work at a time; a lock time-out makes a migration that would queue behind a long query
(and block everybody behind itself) fail instead, to be run again.
"""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from blsflow.adapters.postgres.connection import Session

_ADVISORY_LOCK = 0x626C73666C6F77  # 'blsflow'


def migration_files() -> list[tuple[str, str]]:
    """Return (version, SQL) of every migration, in order."""
    folder = files(__package__).joinpath("migrations")
    entries = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return [
        (name.removesuffix(".sql"), folder.joinpath(name).read_text(encoding="utf-8")) for name in entries
    ]


def migrate(session: Session, *, lock_timeout_sec: int = 5) -> list[str]:
    """Apply what is missing and return its versions; a failing migration leaves the ones before it applied."""
    session.run(f"select pg_advisory_lock({_ADVISORY_LOCK})")
    try:
        session.run(
            "create table if not exists smart_schedule_migrations ("
            "version text primary key, applied_at timestamptz not null default now())"
        )
        done = {str(row[0]) for row in session.run("select version from smart_schedule_migrations")}
        applied = []
        for version, sql in migration_files():
            if version in done:
                continue
            session.run(
                f"begin; set local lock_timeout = '{lock_timeout_sec}s'; set local statement_timeout = 0;\n{sql}\n;"  # noqa: S608 - the version is the name of our own file
                f"insert into smart_schedule_migrations (version) values ('{version}'); commit"
            )
            applied.append(version)
        return applied
    finally:
        session.run(f"rollback; select pg_advisory_unlock({_ADVISORY_LOCK})")
