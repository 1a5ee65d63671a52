from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pytest

from blsflow.adapters.postgres.connection import Session
from blsflow.adapters.postgres.migrate import migrate
from local.stack.postgres import EmbeddedPostgres
from tests.integration.control_scenes import PROFIT_GUARD, environment, look, seeded, services

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from blsflow.adapters.postgres.address import DatabaseAddress

_LONGEST_SEC: Final = 40
_COMMAND: Final = (sys.executable, "-c", "from blsflow_cli.main import run; run()")


class Running:
    """A `blsflow` process, with the JSON lines that it has printed so far."""

    def __init__(self, environ: dict[str, str], *arguments: str) -> None:
        self.process = subprocess.Popen(
            [*_COMMAND, *arguments, "--json"],
            env=os.environ | environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.lines: list[dict[str, Any]] = []
        self.errors: list[str] = []
        self._readers = [
            threading.Thread(target=self._read_lines, daemon=True),
            threading.Thread(target=self._read_errors, daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    def _read_lines(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(json.loads(line))

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        self.errors.extend(self.process.stderr)

    def events(self, name: str) -> list[dict[str, Any]]:
        """The lines of one kind, oldest first."""
        return [line for line in self.lines if line["event"] == name]

    def wait_until(self, happened: Callable[[], object]) -> None:
        """Wait for something; fail with what was printed if it does not happen in time."""
        ends = time.monotonic() + _LONGEST_SEC
        while not happened():
            assert time.monotonic() < ends, (self.lines, self.errors)
            assert self.process.poll() is None, (self.lines, self.errors)
            time.sleep(0.05)

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Ask it to stop, and return its exit code."""
        self.process.send_signal(number)
        code = self.process.wait(_LONGEST_SEC)
        for reader in self._readers:
            reader.join()
        return code


@contextmanager
def serving(environ: dict[str, str], *arguments: str) -> Iterator[Running]:
    """A process that is gone when the block ends."""
    running = Running(environ, *arguments)
    try:
        yield running
    finally:
        running.process.kill()
        running.process.wait()


@pytest.fixture
def deployed(database: DatabaseAddress) -> Iterator[dict[str, str]]:
    """The environment of a deployment that executes, over a seeded database, scanning every second."""
    with services(seeded(database)) as environ:
        yield environ | {"TICK_INTERVAL_SEC": "1"}


def test_serve_carries_ticks_to_their_confirmed_ends(
    database: DatabaseAddress, deployed: dict[str, str]
) -> None:
    """R11.5, R5.4: without AWS, due policies are decided, sent and followed until every machine is confirmed and free."""
    with serving(deployed, "serve") as running:
        running.wait_until(
            lambda: (
                look(
                    database,
                    "select count(*) > 0 and count(*) = count(ended_at) from smart_schedule_attempts",
                )
                == [[True]]
            )
        )
        assert running.stop() == 0
    assert look(database, "select count(*) from smart_schedule_machine_locks where freed_at is null") == [[0]]
    assert look(
        database, "select count(*) > 0 from smart_schedule_attempt_machines where state = 'succeeded'"
    ) == [[True]]
    rounds = running.events("round")
    assert sum(len(each["ticks"]) for each in rounds) >= 5
    assert {each["outcome"] for one in rounds for each in one["sent"]} == {"accepted"}
    assert sum(one["followed"]["machines_settled"] for one in rounds if one["followed"]) > 0
    assert [line["event"] for line in (running.lines[0], running.lines[-1])] == ["started", "stopped"]
    assert not running.events("failed")


def test_serve_says_what_it_lacks_before_anything_freezes_for_it(deployed: dict[str, str]) -> None:
    """R2.1, R11.7: without a rate, prices or a way to send it runs all the same, and says at once what that means."""
    without = {name: text for name, text in deployed.items() if "API_BASE_URL" not in name}
    with serving(without | {"USDT_TO_CNY_RATE": "abc"}, "serve") as running:
        running.wait_until(lambda: running.events("round"))
        assert running.stop() == 0
    assert {line["setting"] for line in running.events("lacking")} == {
        "USDT_TO_CNY_RATE",
        "BLSFLOW_SCHEDULER_PROFIT_API_BASE_URL",
        "BLSFLOW_SCHEDULER_SWITCH_API_BASE_URL",
    }
    with serving(deployed, "serve") as complete:
        complete.wait_until(lambda: complete.events("round"))
        assert complete.stop() == 0
    assert complete.events("lacking") == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_serve_stops_with_exit_code_0_and_is_taken_up_again(
    database: DatabaseAddress, deployed: dict[str, str], number: int
) -> None:
    """R11.6: told to stop with work under way it ends cleanly, and the next process follows that work to its end."""
    with serving(deployed, "serve") as running:
        running.wait_until(
            lambda: look(database, "select count(*) > 0 from smart_schedule_attempts") == [[True]]
        )
        assert running.stop(number) == 0
    assert running.lines[-1]["event"] == "stopped"
    assert running.errors == []
    assert look(
        database,
        "select count(*) from pg_stat_activity "
        "where application_name = 'blsflow-scheduler' and datname = current_database()",
    ) == [[0]]
    with serving(deployed, "serve") as again:
        again.wait_until(
            lambda: (
                look(
                    database,
                    "select count(*) from smart_schedule_attempts where ended_at is null",
                )
                == [[0]]
            )
        )
        assert again.stop() == 0
    assert look(
        database, "select count(*) = count(distinct idempotency_key) from smart_schedule_attempts"
    ) == [[True]]


def test_serve_prints_notifications_when_no_topic_is_configured(
    database: DatabaseAddress, deployed: dict[str, str]
) -> None:
    """R10.1: a freeze is told, once, and marked as told."""
    with serving(deployed, "serve") as running:
        running.wait_until(lambda: running.events("round"))
        look(
            database,
            "insert into smart_schedule_outbox (tenant_id, policy_id, code, params, created_at, next_try_at) "
            """values ('north-mining', :id, 'policy_frozen', '{"cause": "manual"}', now(), now())""",
            id=PROFIT_GUARD,
        )
        running.wait_until(lambda: running.events("notification"))
        running.wait_until(
            lambda: (
                look(database, "select count(*) from smart_schedule_outbox where published_at is null")
                == [[0]]
            )
        )
        assert running.stop() == 0
    (told,) = running.events("notification")
    assert (told["body"]["code"], told["body"]["params"]) == ("policy_frozen", {"cause": "manual"})


def test_one_schedule_that_fails_hinders_no_other(
    database: DatabaseAddress, deployed: dict[str, str]
) -> None:
    """R8.10: a policy whose rule cannot be read is set aside, and the others tick on."""
    look(
        database,
        """update smart_schedule_schedules set rule = '{"kind": "yearly"}' where policy_id = :id""",
        id=PROFIT_GUARD,
    )
    with serving(deployed, "serve") as running:
        running.wait_until(
            lambda: look(database, "select count(*) >= 4 from smart_schedule_ticks") == [[True]]
        )
        assert running.stop() == 0
    assert look(
        database, "select count(*) from smart_schedule_ticks where policy_id = :id", id=PROFIT_GUARD
    ) == [[0]]
    assert running.events("round")[0]["scan"]["broken"] == 1


@contextmanager
def own_server() -> Iterator[tuple[EmbeddedPostgres, DatabaseAddress]]:
    """A server of one's own, to be restarted, with a seeded database."""
    with EmbeddedPostgres() as server:
        address = replace(server.address, dbname="own")
        with closing(Session(server.address)) as session:
            session.run("create database own")
        with closing(Session(address)) as session:
            migrate(session)
        yield server, seeded(address)


def restart(server: EmbeddedPostgres, away_sec: float) -> None:
    """Shut a server down as an administrator would, and start it again on its port after a while."""
    assert server._server is not None
    server._server.send_signal(signal.SIGINT)
    server._server.wait(_LONGEST_SEC)
    time.sleep(away_sec)
    server._launch()


def test_serve_survives_a_restart_of_the_database() -> None:
    """R11.5: while the database is away it says so and waits longer each time; afterwards it scans on by itself."""
    with own_server() as (server, address):
        environ = environment(address) | {"TICK_INTERVAL_SEC": "1"}
        with serving(environ, "serve") as running:
            running.wait_until(lambda: len(running.events("round")) >= 2)
            restart(server, away_sec=2)
            running.wait_until(lambda: running.events("database_back"))
            before = len(running.events("round"))
            running.wait_until(lambda: len(running.events("round")) > before + 1)
            assert running.stop() == 0
    waits = [line["retry_in_sec"] for line in running.events("database_lost")]
    assert waits
    assert waits == sorted(waits)


def test_serve_stops_in_order_while_the_database_is_away() -> None:
    """R11.6: being told to stop is heard while waiting for the database, too."""
    with own_server() as (server, address):
        environ = environment(address) | {"TICK_INTERVAL_SEC": "1"}
        with serving(environ, "serve") as running:
            running.wait_until(lambda: running.events("round"))
            assert server._server is not None
            server._server.send_signal(signal.SIGINT)
            server._server.wait(_LONGEST_SEC)
            running.wait_until(lambda: len(running.events("database_lost")) >= 2)
            assert running.stop() == 0
    assert running.lines[-1]["event"] == "stopped"
    assert not [line for line in running.errors if "Traceback" in line]


def test_following_the_log_shows_what_comes_and_ends_quietly(
    database: DatabaseAddress,
) -> None:
    """R9.3, R11.5: events written after the first page are shown as they come; an interrupt is no failure."""
    environ = environment(seeded(database))

    def write(code: str) -> None:
        look(
            database,
            "insert into smart_schedule_log_events (at, tenant_id, code) values (now(), 'north-mining', :code)",
            code=code,
        )

    write("before")
    with serving(environ, "logs", "--follow") as running:
        running.wait_until(lambda: [line["code"] for line in running.lines] == ["before"])
        for number in range(3):
            write(f"after {number}")
        running.wait_until(lambda: len(running.lines) == 4)
        assert running.stop(signal.SIGINT) == 0
    assert [line["code"] for line in running.lines] == ["before", "after 0", "after 1", "after 2"]
    assert not running.errors
