"""What several kinds of tests share: one real PostgreSQL per run, and a fresh migrated database per test."""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from blsflow.adapters.postgres.connection import Session
from blsflow.adapters.postgres.migrate import migrate
from local.stack.postgres import EmbeddedPostgres

if TYPE_CHECKING:
    from collections.abc import Iterator

    from blsflow.adapters.postgres.address import DatabaseAddress

TEMPLATE = "blsflow_template"
MEMORY = Path("/dev/shm")  # noqa: S108 - where Linux keeps files in memory
MEMORY_NEEDED_BYTES = 4 * 1024**3
_serial = itertools.count(1)

# How long one example takes says more about the machine's other work than about the code.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")


@pytest.fixture(scope="session")
def database_server() -> Iterator[DatabaseAddress]:
    """A PostgreSQL server for the whole run; its `dbname` is the maintenance database.

    In memory if there is enough of it: a database is 700 files, and each test's own is ten times quicker there.
    """
    server = EmbeddedPostgres()
    with pytest.MonkeyPatch.context() as patch:
        if _memory_suffices():
            patch.setattr(tempfile, "tempdir", str(MEMORY))
        server.start()
    yield server.address
    server.stop()


def _memory_suffices() -> bool:
    return (
        MEMORY.is_dir()
        and os.access(MEMORY, os.W_OK | os.X_OK)
        and shutil.disk_usage(MEMORY).free >= MEMORY_NEEDED_BYTES
    )


@pytest.fixture(scope="session")
def database_template(database_server: DatabaseAddress) -> DatabaseAddress:
    """A database at the newest schema that nobody stays connected to, so that it can be copied."""
    template = replace(database_server, dbname=TEMPLATE)
    with closing(Session(database_server)) as maintenance:
        maintenance.run(f"create database {TEMPLATE}")
    with closing(Session(template)) as session:
        migrate(session)
    return template


def _copy(server: DatabaseAddress, template: str) -> Iterator[DatabaseAddress]:
    name = f"test_{next(_serial)}"
    with closing(Session(server)) as maintenance:
        maintenance.run(f"create database {name} template {template} strategy file_copy")
        yield replace(server, dbname=name)
        maintenance.run(f"drop database {name} with (force)")


@pytest.fixture
def database(
    database_server: DatabaseAddress, database_template: DatabaseAddress
) -> Iterator[DatabaseAddress]:
    """A fresh migrated database for one test."""
    yield from _copy(database_server, database_template.dbname)


@pytest.fixture(scope="module")
def module_database(
    database_server: DatabaseAddress, database_template: DatabaseAddress
) -> Iterator[DatabaseAddress]:
    """A fresh migrated database that the tests of one module share."""
    yield from _copy(database_server, database_template.dbname)


@pytest.fixture
def empty_database(database_server: DatabaseAddress) -> Iterator[DatabaseAddress]:
    """A database without any schema, for the migrations' own tests."""
    yield from _copy(database_server, "template1")
