from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from blsflow.adapters.postgres.connection import Session
from local.schema import SCHEMA_FILE, dump_schema

if TYPE_CHECKING:
    from blsflow.adapters.postgres.address import DatabaseAddress


def test_schema_file_equals_the_sum_of_the_migrations(module_database: DatabaseAddress) -> None:
    """R11.1: docs/schema.sql is what the migrations make, word for word (run `make schema` after changing them)."""
    assert dump_schema(module_database) == SCHEMA_FILE.read_text(encoding="utf-8")


def test_schema_file_does_not_depend_on_the_day(database: DatabaseAddress) -> None:
    """R11.1: a database that has been running for a while has the schema of the file all the same."""
    with closing(Session(database)) as session:
        session.run("select smart_schedule_maintain_partitions(now() + interval '40 days', 7, 20)")
    assert dump_schema(database) == SCHEMA_FILE.read_text(encoding="utf-8")


def test_schema_file_can_be_loaded(empty_database: DatabaseAddress) -> None:
    """R11.1: the file by itself makes a database with the same schema."""
    with closing(Session(empty_database)) as session:
        session.run(SCHEMA_FILE.read_text(encoding="utf-8"))
    assert dump_schema(empty_database) == SCHEMA_FILE.read_text(encoding="utf-8")
