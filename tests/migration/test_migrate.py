from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from blsflow.adapters.postgres import migrate as migrations
from blsflow.adapters.postgres.connection import Session
from blsflow.adapters.postgres.migrate import migrate, migration_files
from blsflow.ports.errors import StoreConflict, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from blsflow.adapters.postgres.address import DatabaseAddress

    Use = Callable[..., None]

VERSIONS = [version for version, _ in migration_files()]


@pytest.fixture
def session(empty_database: DatabaseAddress) -> Iterator[Session]:
    """A session on a database without any schema."""
    with closing(Session(empty_database)) as opened:
        yield opened


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Use:
    """Have these statements for migrations, named by their keywords, in place of the product's own."""

    def _use(**files: str) -> None:
        monkeypatch.setattr(migrations, "migration_files", lambda: list(files.items()))

    return _use


def applied(session: Session) -> list[str]:
    """The versions that the database has on record."""
    return [row[0] for row in session.run("select version from smart_schedule_migrations order by version")]


def exists(session: Session, table: str) -> bool:
    """Whether there is such a table."""
    return bool(session.run(f"select to_regclass('{table}') is not null")[0][0])


def nobody_migrates(address: DatabaseAddress) -> bool:
    """Whether the lock that lets one runner work at a time is free."""
    with closing(Session(address)) as other:
        return not other.run("select 1 from pg_locks where locktype = 'advisory'")


def test_every_migration_is_applied_once(session: Session) -> None:
    """R11.1: the first run applies all in order, and a second one finds nothing to do."""
    assert migrate(session) == VERSIONS
    assert migrate(session) == []
    assert applied(session) == VERSIONS


def test_versions_are_in_one_order() -> None:
    """R11.1: the numbers of the migrations have no gap and no two are the same, so that their order is the history's."""
    assert [int(version.split("_")[0]) for version in VERSIONS] == list(range(1, len(VERSIONS) + 1))


def test_two_runners_at_once_apply_each_migration_once(empty_database: DatabaseAddress) -> None:
    """R11.1: of runners that start together each migration is applied by one, and the others wait and find it done."""

    def run(_: int) -> list[str]:
        with closing(Session(empty_database)) as session:
            return migrate(session)

    with ThreadPoolExecutor(max_workers=3) as pool:
        reports = list(pool.map(run, range(3)))
    assert sorted(version for report in reports for version in report) == VERSIONS
    assert sorted(map(len, reports)) == [0, 0, len(VERSIONS)]


def test_a_lock_that_is_not_to_be_had_leaves_nothing_by_halves(
    session: Session, empty_database: DatabaseAddress, use: Use
) -> None:
    """R11.1: a migration that would queue behind a long transaction fails whole, and a later run does it."""
    session.run("create table busy (id int)")
    use(
        m1="create table before_it (id int); alter table busy add column more int; create table after_it (id int)"
    )
    with closing(Session(empty_database)) as other:
        other.run("begin; select * from busy")
        with pytest.raises(StoreConflict):
            migrate(session, lock_timeout_sec=1)
        assert not exists(session, "before_it")
        assert applied(session) == []
        other.run("commit")
    assert migrate(session) == ["m1"]
    assert exists(session, "after_it")


def test_a_failing_migration_leaves_those_before_it(
    session: Session, empty_database: DatabaseAddress, use: Use
) -> None:
    """R11.1: those before a failing one stay applied, and of its own statements none; nobody is locked out afterwards."""
    good = {"m1": "create table first (id int)"}
    use(**good, m2="create table second (id int); select 1 / 0", m3="create table third (id int)")
    with pytest.raises(StoreError):
        migrate(session)
    assert applied(session) == ["m1"]
    assert exists(session, "first")
    assert not exists(session, "second")
    assert not exists(session, "third")
    assert nobody_migrates(empty_database)
    assert session.run("select txid_current_if_assigned()") == [[None]]  # and no transaction is left open
    use(**good, m2="create table second (id int)", m3="create table third (id int)")
    assert migrate(session) == ["m2", "m3"]


def test_a_version_is_on_record_exactly_if_its_statements_are(session: Session, use: Use) -> None:
    """R11.1: the version's row is written in the migration's own transaction: one that cannot be written undoes it all."""
    use(m1="create table first (id int); insert into smart_schedule_migrations (version) values ('m1')")
    with pytest.raises(StoreError):
        migrate(session)
    assert not exists(session, "first")
    assert applied(session) == []


def test_nobody_is_locked_out_after_a_run(session: Session, empty_database: DatabaseAddress) -> None:
    """R11.1: a run that went well releases the lock that lets one runner work at a time."""
    migrate(session)
    assert nobody_migrates(empty_database)


def test_platform_tables_that_are_there_are_left_as_they_are(session: Session) -> None:
    """R1.2: where the services that own them share the database, their tables keep their shape and their rows."""
    session.run(
        "create table clusters (id bigint primary key, tenant_id text not null, name text not null, time_zone text not null,"
        " owner text); insert into clusters values (1, 'acme', 'site', 'UTC', 'theirs')"
    )
    migrate(session)
    assert session.run("select id, name, owner from clusters") == [[1, "site", "theirs"]]
