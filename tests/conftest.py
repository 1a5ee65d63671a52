"""What several kinds of tests share: one real PostgreSQL per run, and a fresh migrated database per test."""

from __future__ import annotations

import itertools
from contextlib import closing
from typing import TYPE_CHECKING

import pg8000.native
import pytest

from local.stack.postgres import DatabaseAddress, EmbeddedPostgres

if TYPE_CHECKING:
    from collections.abc import Iterator

TEMPLATE = "blsflow_template"
_serial = itertools.count(1)


def connect(address: DatabaseAddress) -> pg8000.native.Connection:
    """Open a plain connection, outside of the product's own unit of work."""
    return pg8000.native.Connection(
        user=address.user,
        host=address.host,
        database=address.dbname,
        port=address.port,
        password=address.password,
    )


@pytest.fixture(scope="session")
def database_server() -> Iterator[DatabaseAddress]:
    """A PostgreSQL server for the whole run; its `dbname` is the maintenance database."""
    with EmbeddedPostgres() as server:
        yield server.address


@pytest.fixture(scope="session")
def database_template(database_server: DatabaseAddress) -> DatabaseAddress:
    """A database at the newest schema that nobody stays connected to, so that it can be copied."""
    from blsflow.adapters.postgres.migrate import migrate  # noqa: PLC0415 - tests without a database need no driver

    template = database_server.named(TEMPLATE)
    with closing(connect(database_server)) as maintenance:
        maintenance.run(f"create database {TEMPLATE}")
    with closing(connect(template)) as connection:
        migrate(connection)
    return template


def _copy(server: DatabaseAddress, template: str) -> Iterator[DatabaseAddress]:
    name = f"test_{next(_serial)}"
    with closing(connect(server)) as maintenance:
        maintenance.run(f"create database {name} template {template} strategy file_copy")
        yield server.named(name)
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
