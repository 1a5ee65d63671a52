"""The role of tenants: made by the migration, or by an administrator where the deployment's user may not."""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from blsflow.adapters.postgres.connection import Session
from blsflow.adapters.postgres.migrate import migrate, migration_files
from blsflow.adapters.postgres.store import PostgresStore
from blsflow.ports.errors import StoreError
from local.stack.postgres import EmbeddedPostgres

if TYPE_CHECKING:
    from collections.abc import Iterator

    from blsflow.adapters.postgres.address import DatabaseAddress

VERSIONS = [version for version, _ in migration_files()]


@pytest.fixture
def server() -> Iterator[DatabaseAddress]:
    """A server of its own, on which nobody made the role yet."""
    with EmbeddedPostgres() as running:
        yield running.address


def _owner(server: DatabaseAddress, name: str, rights: str = "") -> DatabaseAddress:
    """A database of the same name as the user who owns it."""
    with closing(Session(server)) as administrator:
        administrator.run(f"create role {name} login {rights} password 'p'")
        administrator.run(f"create database {name} owner {name}")
    return replace(server, dbname=name, user=name, password="p")


def _serves(address: DatabaseAddress) -> bool:
    """Whether everything is migrated, and a tenant is then somebody who sees nothing of others."""
    with closing(Session(address)) as session:
        migrate(session)
        done = [row[0] for row in session.run("select version from smart_schedule_migrations order by 1")]
    store = PostgresStore(lambda: Session(address))
    with ExitStack() as stack:
        stack.callback(store.close)
        with store.of_tenant("acme").transaction() as tx:
            user = tx._session.run("select current_user, (select count(*) from machines)")
    return (done, user) == (VERSIONS, [["blsflow_tenant", 0]])


def _refusal(address: DatabaseAddress) -> str:
    with closing(Session(address)) as session, pytest.raises(StoreError) as refused:
        migrate(session)
    return str(refused.value)


def _administer(server: DatabaseAddress, commands: str) -> None:
    with closing(Session(server)) as administrator:
        administrator.run(commands)


def test_a_user_that_may_not_create_roles_is_told_what_to_have_run(server: DatabaseAddress) -> None:
    """R11.1: the error has the administrator's commands word for word; run once, the migrations go on."""
    plain = _owner(server, "plain")
    refusal = _refusal(plain)
    commands = "create role blsflow_tenant nologin; grant blsflow_tenant to plain;"
    assert commands in refusal
    _administer(server, commands)
    assert _serves(plain)
    second = _owner(server, "second")
    refusal = _refusal(second)
    assert "create role" not in refusal
    assert "grant blsflow_tenant to second;" in refusal
    _administer(server, "grant blsflow_tenant to second;")
    assert _serves(second)


def test_two_deployments_share_a_server(server: DatabaseAddress) -> None:
    """R11.1: the first makes the role itself; the second, whose user may not grant it, is told what to have run."""
    first, second = _owner(server, "one", "createrole"), _owner(server, "two", "createrole")
    assert _serves(first)
    assert "grant blsflow_tenant to two;" in _refusal(second)
    _administer(server, "grant blsflow_tenant to two;")
    assert _serves(second)
    assert _serves(first)
