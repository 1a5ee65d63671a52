"""Real clients of the live stream over HTTP, cut off at every turn, while writers commit out of the order of their ids."""

from __future__ import annotations

import itertools
import json
import os
import queue
import random
import shutil
import subprocess
import threading
import time
from contextlib import closing, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from httpx_sse import connect_sse

from local.gateway import Containers, Gateway
from tests.integration.control_scenes import connect, environment
from tests.integration.cutting import UNANSWERED, UNASKED, WHOLE, CuttingProxy
from tests.integration.live_scenes import NORTH, SOUTH, begin, policy_of, write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from blsflow.adapters.postgres.address import DatabaseAddress

WRITERS = 4
CUTS = 40
BROWSER_EVENTS = 60
STREAM = "/api/v1/smart-schedule/stream"
CLAIMS = {"tenant_id": NORTH, "sub": "ops@north", "scope": "schedule:read"}
DEADLINE_SEC = 90
MOST_BYTES_THROUGH = 3_000
"""About ten events."""


@pytest.fixture
def containers(database: DatabaseAddress) -> Containers:
    """The live function's containers on this database."""
    return Containers("functions.live.app", {**os.environ, **environment(database)})


@pytest.fixture
def gateway(containers: Containers) -> Iterator[Gateway]:
    """Both routes of the stream, for one tenant's caller; other origins may ask."""
    with Gateway(
        {STREAM: containers, f"{STREAM}/browser": containers}, claims=CLAIMS, allow_origin="*"
    ) as served:
        yield served


class Together:
    """Lets writers begin their transactions at once, as long as there is need of more."""

    def __init__(self, is_needed: Callable[[], bool]) -> None:
        self._barrier = threading.Barrier(WRITERS, action=self._look)
        self._is_needed = is_needed
        self._go_on = True

    def go_on(self) -> bool:
        """Wait for the others; whether all of them are to go on."""
        self._barrier.wait(DEADLINE_SEC)
        return self._go_on

    def _look(self) -> None:
        self._go_on = self._is_needed()


def keep_writing(address: DatabaseAddress, policy_id: int, seed: int, together: Together) -> None:
    """Commit and roll back transactions of several events each, that overlap with those of the other writers."""
    chance = random.Random(seed)  # noqa: S311 - a test's own dice
    with closing(connect(address)) as connection:
        for number in itertools.count():
            if not together.go_on():
                return
            begin(connection)
            for part in range(chance.randint(1, 4)):
                time.sleep(chance.uniform(0, 0.01))
                write(
                    connection, f"w{seed} t{number} e{part}", policy_id=policy_id, params={"text": "x" * 50}
                )
                write(connection, "somebody else's", tenant_id=SOUTH)
            time.sleep(chance.uniform(0, 0.05))
            connection.run("rollback" if chance.random() < 0.1 else "commit")


@contextmanager
def writers(address: DatabaseAddress, policy_id: int, is_needed: Callable[[], bool]) -> Iterator[None]:
    """Several writers at once; they are through when the block ends."""
    together = Together(is_needed)
    threads = [
        threading.Thread(target=keep_writing, args=(address, policy_id, seed, together))
        for seed in range(WRITERS)
    ]
    for thread in threads:
        thread.start()
    yield
    for thread in threads:
        thread.join()


def written(address: DatabaseAddress, policy_id: int) -> list[int]:
    """The policy's events in the order of their transactions."""
    with closing(connect(address)) as connection:
        rows = connection.run(
            "select id from smart_schedule_log_events where policy_id = :policy_id order by xid, id",
            policy_id=policy_id,
        )
    return [row[0] for row in rows]


class Client:
    """Follows a stream with a client library, and comes back with the id of the last event that it gave out."""

    def __init__(self, url: str, **query: str) -> None:
        self._url, self._query = url, query
        self.last_id = ""
        self.seen: list[int] = []
        self.kinds: set[str] = set()
        self.connects = 0

    def follow(self, is_through: Callable[[], bool]) -> None:
        """Come back until it is through, whatever happens to a connection."""
        deadline = time.monotonic() + DEADLINE_SEC
        with httpx.Client(timeout=60) as http:
            while not is_through():
                assert time.monotonic() < deadline, (
                    f"{len(self.seen)} events after {self.connects} connections"
                )
                headers = {"Last-Event-ID": self.last_id} if self.last_id else {}
                self.connects += 1
                with (
                    suppress(httpx.TransportError),
                    connect_sse(http, "GET", self._url, params=self._query, headers=headers) as source,
                ):
                    if source.response.status_code == 200:
                        for event in source.iter_sse():
                            self._take(event.event, event.id, event.data)

    def _take(self, kind: str, event_id: str, data: str) -> None:
        if data:
            self.seen.append(json.loads(data)["id"])
            self.kinds.add(kind)
        if event_id:
            self.last_id = event_id


def is_out_of_order(ids: list[int]) -> bool:
    """Whether transactions took their ids in another order than their own."""
    return any(second < first for first, second in pairwise(ids))


def test_a_client_that_is_cut_off_all_the_time_sees_every_event_once(
    database: DatabaseAddress, gateway: Gateway
) -> None:
    """R9.3: cut in bodies, before answers and before requests, while writers commit out of order: each once, in order."""
    with closing(connect(database)) as connection:
        policy_id = policy_of(connection, NORTH)
    chance = random.Random(7)  # noqa: S311 - a test's own dice
    cuts: list[int] = []

    def cut(body: bytes) -> int:
        if not body:
            return UNASKED if chance.random() < 0.1 else WHOLE
        somewhere = chance.randrange(min(len(body), MOST_BYTES_THROUGH))
        cuts.append(
            (UNANSWERED, somewhere, somewhere, somewhere, WHOLE)[
                len(cuts) % 5 if done.is_set() else len(cuts) % 4
            ]
        )
        return cuts[-1]

    done = threading.Event()
    expected: list[int] = []
    with CuttingProxy(gateway.url, cut) as proxy:
        client = Client(proxy.url + STREAM, policy_id=str(policy_id), after_id="0-0")

        def is_through() -> bool:
            if done.is_set() and not expected:
                expected.extend(written(database, policy_id))
            return bool(expected) and len(client.seen) >= len(expected)

        following = threading.Thread(target=client.follow, args=(is_through,))
        with writers(database, policy_id, lambda: len(cuts) < CUTS):
            following.start()
        done.set()
        following.join()
    assert client.seen == expected
    assert is_out_of_order(expected)
    assert {UNANSWERED, WHOLE} < set(cuts)
    assert client.kinds == {"log"}


def test_a_handler_that_is_killed_loses_nothing(
    database: DatabaseAddress, gateway: Gateway, containers: Containers
) -> None:
    """R9.3: containers die while they hold a stream; the place they took is free, and the client goes on where it was."""
    with closing(connect(database)) as connection:
        policy_id = policy_of(connection, NORTH)
        client = Client(gateway.url + STREAM, policy_id=str(policy_id), after_id="0-0")
        killed = 0
        following = threading.Thread(target=client.follow, args=(lambda: len(client.seen) >= 6,))
        following.start()
        for number in range(6):
            while not containers.busy():
                time.sleep(0.05)
            if number % 2:
                for container in containers.busy():
                    container.kill()
                    killed += 1
            write(connection, f"e{number}", policy_id=policy_id)
            while len(client.seen) <= number and following.is_alive():
                time.sleep(0.05)
        following.join()
        assert client.seen == written(database, policy_id)
        assert killed >= 3
        places = (
            "select count(*) from pg_locks where locktype = 'advisory'"
            " and database = (select oid from pg_database where datname = current_database())"
        )
        deadline = time.monotonic() + DEADLINE_SEC
        while connection.run(places) != [[0]]:
            assert time.monotonic() < deadline
            time.sleep(0.05)


PAGE = """<!doctype html><script>
const seen = [], errors = [];
const source = new EventSource(%(url)s);
const report = () => fetch("/report", {method: "POST", body: JSON.stringify({seen, errors, state: source.readyState})});
for (const kind of ["log", "progress", "tick", "reset"])
    source.addEventListener(kind, event => {
        seen.push([kind, JSON.parse(event.data).id, event.lastEventId]);
        if (seen.length >= %(enough)d) report();
    });
source.onerror = () => { errors.push(source.readyState); if (source.readyState === EventSource.CLOSED) report(); };
</script>"""


@contextmanager
def page_of(html: str) -> Iterator[tuple[str, queue.Queue[Any]]]:
    """An origin that serves one page, and takes what the page reports."""
    reports: queue.Queue[Any] = queue.Queue()

    class Origin(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/" else 404)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            if self.path == "/":
                self.wfile.write(html.encode())

        def do_POST(self) -> None:
            reports.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Origin)
    serving = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    serving.start()
    try:
        yield f"http://localhost:{server.server_port}/", reports
    finally:
        server.shutdown()
        server.server_close()
        serving.join()


@contextmanager
def browser(url: str, profile: Path) -> Iterator[None]:
    """Chromium without a window, looking at a page."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip(
            "no Chromium on the path: the browser's own EventSource is not tried (Debian: apt install chromium)"
        )
    process = subprocess.Popen(
        [
            chromium,
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--no-proxy-server",
            f"--user-data-dir={profile}",
            "--remote-debugging-port=0",
            url,
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def test_a_browsers_own_event_source_sees_every_event_once(
    database: DatabaseAddress, gateway: Gateway, tmp_path: Path
) -> None:
    """R9.3: a page of another origin, whose connections are cut in the middle of bodies, is given each event once."""
    with closing(connect(database)) as connection:
        policy_id = policy_of(connection, NORTH)
        for number in range(BROWSER_EVENTS // 2):
            write(connection, f"e{number}", policy_id=policy_id, kind=("log", "tick", "progress")[number % 3])
    chance = random.Random(11)  # noqa: S311 - a test's own dice
    cuts: list[int] = []

    def cut(body: bytes) -> int:
        if not body:
            return WHOLE
        cuts.append(chance.randrange(len(body)) if len(cuts) % 2 == 0 else WHOLE)
        return cuts[-1]

    with CuttingProxy(gateway.url, cut) as proxy:
        url = f"{proxy.url}{STREAM}/browser?policy_id={policy_id}&after_id=0-0&access_token=t"
        html = PAGE % {"url": json.dumps(url), "enough": BROWSER_EVENTS}
        with page_of(html) as (address, reports), browser(address, tmp_path):
            with closing(connect(database)) as connection:
                for number in range(BROWSER_EVENTS // 2, BROWSER_EVENTS):
                    # a few at a time, so that there are several answers, half of them cut off
                    while len(cuts) <= (number - BROWSER_EVENTS // 2) // 5:
                        time.sleep(0.05)
                    write(connection, f"e{number}", policy_id=policy_id)
            report = reports.get(timeout=DEADLINE_SEC)
    assert [event_id for _, event_id, _ in report["seen"]] == written(database, policy_id)
    assert len({last_id for _, _, last_id in report["seen"]}) == BROWSER_EVENTS
    assert {kind for kind, _, _ in report["seen"]} == {"log", "tick", "progress"}
    assert len(report["errors"]) >= len(cuts) - 1 >= 5  # it was cut off, and came back by itself


def test_a_browser_that_saw_nothing_yet_still_comes_back_to_its_place(
    database: DatabaseAddress, tmp_path: Path
) -> None:
    """R9.3: the id of an answer without events is what the browser comes back with, so that none in between is lost."""
    containers = Containers("tests.integration.impatient_live", {**os.environ, **environment(database)})
    cut_off = threading.Event()
    with closing(connect(database)) as connection:

        def cut(body: bytes) -> int:
            if body and not cut_off.is_set():
                # what comes while no connection is open
                write(connection, "between")
                cut_off.set()
            return WHOLE

        with (
            Gateway({f"{STREAM}/browser": containers}, claims=CLAIMS, allow_origin="*") as gateway,
            CuttingProxy(gateway.url, cut) as proxy,
        ):
            html = PAGE % {"url": json.dumps(f"{proxy.url}{STREAM}/browser"), "enough": 1}
            with page_of(html) as (address, reports), browser(address, tmp_path):
                report = reports.get(timeout=DEADLINE_SEC)
    assert [kind for kind, _, _ in report["seen"]] == ["log"]
    assert report["seen"][0][1] == 1
