"""What goes on while migrations run."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from blsflow.adapters.postgres.connection import Session
from blsflow.adapters.postgres.migrate import migration_files

if TYPE_CHECKING:
    from blsflow.adapters.postgres.connection import DatabaseAddress


def test_the_log_is_read_while_its_order_is_indexed(empty_database: DatabaseAddress) -> None:
    """R11.1: until the migration commits, readers of the log wait for nothing."""
    with closing(Session(empty_database)) as session, closing(Session(empty_database)) as reader:
        for version, sql in migration_files():
            session.run(f"begin; {sql}")
            if version.startswith("0007"):
                break
            session.run("commit")
        reader.run("set lock_timeout = '1s'")
        assert reader.run("select id from smart_schedule_log_events") == []
        session.run("rollback")
