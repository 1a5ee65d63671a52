"""A database that goes away, refuses or is full, under the product's own use cases: what fails is undone, and comes right."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from blsflow.adapters.inline import InlineQueue
from blsflow.adapters.postgres.connection import Session
from blsflow.adapters.postgres.migrate import migrate
from blsflow.adapters.postgres.store import PostgresStore
from blsflow.bootstrap import application_from
from blsflow.flow.health import health
from blsflow.ports.errors import StoreConflict, StoreError, StoreUnavailable
from local.stack.postgres import UNPRIVILEGED_USER
from tests.integration.debian import Server
from tests.integration.scene import COIN_B, Scene

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from blsflow.adapters.postgres.address import DatabaseAddress

_MACHINES = 3


@pytest.fixture
def scene(database: DatabaseAddress) -> Iterator[Scene]:
    """Three machines on coin A, with coin B earning more."""
    with Scene(database, machines=_MACHINES) as made:
        yield made


def _comes_right(scene: Scene) -> None:
    """A new process and the next minutes bring the machines to coin B, with each command sent once."""
    scene.start()
    for _ in range(4):
        scene.forward(150)
        scene.report()
        scene.prices()
        scene.round()
    assert scene.findings() == {}
    assert all(posts == 1 for posts in scene.posts())
    assert scene.value("select count(*) from smart_schedule_machine_locks where freed_at is null") == 0
    assert scene.value("select count(*) from smart_schedule_occurrences where ended_at is null") == 0
    assert scene.rows("select distinct project_id from machine_mining_runtime") == [[COIN_B]]


# ---------------------------------------------------------------- connections that break


class _Cut(Session):
    """A session that somebody ends at its n-th round trip: the server drops the connection under it."""

    def __init__(self, address: DatabaseAddress, at: list[int], admin: Session) -> None:
        super().__init__(address)
        self._at = at
        self._admin = admin
        self._pid = super().run("select pg_backend_pid()")[0][0]

    def query_text(self, sql: str, /, **params: object) -> list[dict[str, Any]]:
        self._come_by()
        return super().query_text(sql, **params)

    def run(self, sql: str) -> list[list[Any]]:
        if sql != "rollback":
            self._come_by()
        return super().run(sql)

    def stream(self, statement: str, sink: Any, /, **params: object) -> None:
        self._come_by()
        super().stream(statement, sink, **params)

    def copy(self, sql: str, stream: Any) -> None:
        self._come_by()
        super().copy(sql, stream)

    def _come_by(self) -> None:
        self._at[0] -= 1
        if self._at[0] == 0:
            self._admin.run(f"select pg_terminate_backend({self._pid}, 5000)")


@pytest.mark.timeout(600)
def test_a_connection_dropped_at_any_statement_is_felt_once_and_mended(scene: Scene) -> None:
    """R11.3, R5.3, R8.3: the server ends the session before each statement of tick, decide, execute and follow in turn.

    Where nothing was asked of the session yet, it is renewed unnoticed. Everywhere else the step fails as a database that is
    away, and what comes next does the work; no command is sent twice.
    """
    failed = renewed = 0
    with closing(Session(scene.address)) as admin:
        for step in range(1, 200):
            scene.session.run(
                "update machine_mining_runtime set project_id = 1; delete from smart_schedule_machine_states"
            )
            for machine_id in range(1, _MACHINES + 1):
                scene.world.command(machine_id, "switch", 1)
            scene.forward(30)
            scene.report()
            scene.prices()
            scene.due()
            scene.start()
            at = [step]
            scene.app.__dict__["store"] = PostgresStore(lambda at=at: _Cut(scene.address, at, admin))  # type: ignore[misc]
            try:
                scene.tick()
                scene.decide()
                scene.execute()
                scene.forward(20)
                scene.report()
                scene.reconcile()
            except StoreUnavailable:
                failed += 1
            else:
                renewed += at[0] <= 0
            finally:
                scene.app.store.close()
            if at[0] > 0:
                break
            if step % 3 == 0:
                _comes_right(scene)
        _comes_right(scene)
    assert failed > 15
    assert renewed > 5


@pytest.mark.timeout(300)
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT], ids=["fast restart", "power cut"])
def test_a_fail_over_in_a_transaction_loses_it_whole_and_nothing_else(how: signal.Signals) -> None:
    """R11.3, R6.4: the server restarts in the middle of a decision; nothing of it is there, and the next delivery decides."""
    with Server(settings=dict.fromkeys(("fsync", "synchronous_commit", "full_page_writes"), "on")) as server:
        with closing(Session(server.address)) as session:
            migrate(session)
        with Scene(server.address, machines=_MACHINES) as scene:
            scene.tick()
            occurrence = scene.value("select id from smart_schedule_occurrences")
            app = scene.app
            with pytest.raises(StoreUnavailable), app.store.transaction() as tx:
                _begin_and_lose(tx, occurrence, app.gates, lambda: server.restart(how=how))
            scene.session = Session(scene.address)
            scene._driver = _driver(scene)
            assert (
                scene.value(f"select state from smart_schedule_occurrences where id = {occurrence}")
                == "recorded"
            )
            assert app.decide(occurrence).outcome == "decided"
            _comes_right(scene)


def _begin_and_lose(tx: Any, occurrence: int, gates: Any, lose: Callable[[], None]) -> None:
    tx.begin_tick(occurrence, gates)
    lose()
    tx.close_finished_ticks()


def _driver(scene: Scene) -> Any:
    import pg8000.native  # noqa: PLC0415 - the simulators' own connection, as the scene makes it

    a = scene.address
    return pg8000.native.Connection(
        user=a.user, host=a.host, port=a.port, database=a.dbname, password=a.password
    )


# ---------------------------------------------------------------- refusals


@contextmanager
def _refusing(scene: Scene, table: str, state: str) -> Iterator[None]:
    """Have the database refuse every write to a table with this SQLSTATE."""
    scene.session.run(
        f"""
        create function clock.refuse() returns trigger language plpgsql as
            $$begin raise exception 'simulated' using errcode = '{state}'; end$$;
        create trigger aa_refuse before insert or update on {table}
            for each statement execute function clock.refuse();
        """
    )
    try:
        yield
    finally:
        scene.session.run(f"drop trigger aa_refuse on {table}; drop function clock.refuse()")


@pytest.mark.parametrize(
    ("state", "error"),
    [
        ("40P01", StoreConflict),
        ("40001", StoreConflict),
        ("55P03", StoreConflict),
        ("57014", StoreUnavailable),
        ("53100", StoreUnavailable),
        ("53200", StoreUnavailable),
    ],
    ids=["deadlock", "serialization", "lock time-out", "statement time-out", "disk full", "out of memory"],
)
@pytest.mark.parametrize(
    ("table", "work"),
    [
        ("smart_schedule_occurrences", "scan"),
        ("smart_schedule_ticks", "decide"),
        ("smart_schedule_machine_locks", "decide"),
        ("smart_schedule_attempts", "execute"),
    ],
)
def test_what_the_database_refuses_leaves_no_half(
    scene: Scene, table: str, work: str, state: str, error: type[StoreError]
) -> None:
    """R8.3, R5.3, R6.4: whichever refusal meets whichever worker: its transaction is undone, and the next time works."""
    steps: dict[str, Callable[[], object]] = {
        "scan": scene.tick,
        "decide": scene.decide,
        "execute": scene.execute,
    }
    for name, step in steps.items():
        if name == work:
            break
        step()
    before = _standing(scene)
    with _refusing(scene, table, state), pytest.raises(error) as refused:
        steps[work]()
    assert refused.value.retryable
    assert _standing(scene) == before
    assert scene.posts() == []
    _comes_right(scene)


def _standing(scene: Scene) -> list[list[Any]]:
    return scene.rows(
        "select (select count(*) from smart_schedule_ticks), (select count(*) from smart_schedule_machine_decisions),"
        " (select count(*) from smart_schedule_machine_locks where freed_at is null),"
        " (select coalesce(string_agg(state, ','), '') from smart_schedule_attempts),"
        " (select coalesce(string_agg(state, ','), '') from smart_schedule_occurrences)"
    )


@pytest.mark.timeout(300)
def test_a_full_disk_costs_what_needs_it_and_comes_right_with_room(scene: Scene, tmp_path: Path) -> None:
    """R8.10, R11.3: with no room for prices a scan still records what is due, tells of it, and recovers by itself."""
    with _tiny_disk(tmp_path) as disk:
        scene.session.run(f"create tablespace tiny location '{disk}'")
        scene.session.run("alter table smart_schedule_profit_fetches set tablespace tiny")
        with suppress(StoreUnavailable):
            scene.session.run(
                "insert into smart_schedule_profit_fetches (fetched_at, source, outcome, detail)"
                " select now() - interval '1 day', 'test', 'ok', md5(g::text) from generate_series(1, 100000) g"
            )
            pytest.fail("the disk is not full")
        with pytest.raises(StoreUnavailable, match="53100"):
            _fill(scene)
        with closing(_Feed(scene)):
            report = scene.app.tick(budget_sec=10)
            assert list(report.failures) == ["prices"]
            assert isinstance(report.failures["prices"], StoreUnavailable)
            assert report.recorded == 1
            subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)  # noqa: S607
            scene.forward(60)
            assert scene.app.tick(budget_sec=10).failures == {}
        scene.session.run("alter table smart_schedule_profit_fetches set tablespace pg_default")
        scene.session.run("drop tablespace tiny")
    _comes_right(scene)


def _fill(scene: Scene) -> None:
    for _ in range(10_000):
        scene.session.run(
            "insert into smart_schedule_profit_fetches (fetched_at, source, outcome) values (now(), 'test', 'ok')"
        )


class _Feed:
    """A feed whose every answer is an outage, so that only its line is written."""

    source = "contract"

    def __init__(self, scene: Scene) -> None:
        scene.app.__dict__["feed"] = self
        self._scene = scene

    def fetch(self) -> Any:
        """Give nothing."""
        from blsflow.domain.prices import FeedFault, FeedUnavailable  # noqa: PLC0415 - as a feed does

        raise FeedUnavailable(FeedFault.TIMEOUT, "x" * 4000)

    def close(self) -> None:
        """Have no feed again."""
        self._scene.app.__dict__["feed"] = None


@contextmanager
def _tiny_disk(folder: Path) -> Iterator[Path]:
    """A file system of one megabyte that the database may write to."""
    place = Path("/var/tmp") / f"blsflow-{os.getpid()}-{folder.name}"  # noqa: S108 - where the server's user may go
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)],  # noqa: S607
        check=False,
        capture_output=True,
    )
    try:
        if mounted.returncode:
            pytest.skip("no file system can be mounted here, so that no disk can be filled")
        shutil.chown(place, UNPRIVILEGED_USER)
        yield place
    finally:
        if not mounted.returncode:
            subprocess.run(["umount", "-l", str(place)], check=True)  # noqa: S607
        place.rmdir()


@pytest.mark.timeout(300)
def test_twice_as_many_workers_as_connections_all_get_their_turn() -> None:
    """R8.3, R11.3: beyond its connections the database is away; what is delivered again is done, once."""
    with Server(settings={"max_connections": "12", "superuser_reserved_connections": "0"}) as server:
        with closing(Session(server.address)) as session:
            migrate(session)
        with Scene(server.address, machines=_MACHINES) as scene:
            scene.tick()
            occurrence = scene.value("select id from smart_schedule_occurrences")
            outcomes: list[str] = []
            barrier = threading.Barrier(24)
            workers = [
                threading.Thread(target=_contend, args=(scene, occurrence, barrier, outcomes))
                for _ in range(24)
            ]
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join(120)
            assert outcomes.count("decided") == 1
            assert outcomes.count("already_begun") == 23
            assert outcomes.count("unavailable") > 0, "there were connections for everybody"
            assert scene.value("select count(*) from smart_schedule_machine_decisions") == _MACHINES
            _comes_right(scene)


def _contend(scene: Scene, occurrence: int, barrier: threading.Barrier, outcomes: list[str]) -> None:
    """Decide, and hold the connection until the others have tried; deliver again until it was done or found done."""
    a = scene.address
    app = application_from(
        {
            "BLSFLOW_SCHEDULER_DATABASE_URL": f"postgresql://{a.user}:{quote(a.password)}@{a.host}:{a.port}/{a.dbname}",
            "BLSFLOW_SCHEDULER_DATABASE_TLS": "off",
            "BLSFLOW_SCHEDULER_EXECUTE_ENABLED": "true",
            "BLSFLOW_SCHEDULER_SWITCH_API_BASE_URL": scene._served.url,
            "USDT_TO_CNY_RATE": "1",
        }
    )
    app.own_execute_queue = InlineQueue()
    outcome = "unavailable"
    first = True
    while outcome == "unavailable":
        try:
            outcome = app.decide(occurrence).outcome
        except StoreUnavailable:
            outcome = "unavailable"
        outcomes.append(outcome)
        if first:
            barrier.wait(60)
            first = False
    app.store.close()


# ---------------------------------------------------------------- health


def test_health_tells_the_truth(
    scene: Scene, database: DatabaseAddress, database_server: DatabaseAddress
) -> None:
    """R11.3: ready while the database answers; not, without a secret, when it does not; and ready again after."""
    app = scene.app
    assert health(app.store).can_serve("0001")
    with closing(Session(database_server)) as admin:
        admin.run(f"alter database {database.dbname} allow_connections false")
        admin.run(
            "select pg_terminate_backend(pid, 5000) from pg_stat_activity"
            f" where datname = '{database.dbname}'"
        )
        away = health(app.store)
        admin.run(f"alter database {database.dbname} allow_connections true")
    assert not away.can_serve("0001")
    assert health(app.store).can_serve("0001")
    nowhere = PostgresStore(lambda: Session(replace(database, password="canary", port=1)))
    assert "canary" not in repr(health(nowhere))
    scene.session = Session(scene.address)
    scene._driver = _driver(scene)
