"""The live function's handler on a real database, one answer at a time."""

from __future__ import annotations

import json
import os
import signal
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from blsflow.adapters.postgres import logs
from blsflow.adapters.postgres.connection import SILENCE_SEC, Session
from blsflow.adapters.postgres.store import PostgresStore
from blsflow.flow import live as live_flow
from functions.live import app
from tests.integration.control_scenes import connect, environment, look
from tests.integration.handler_scenes import Deployment, sample
from tests.integration.live_scenes import (
    NORTH,
    SOUTH,
    Frame,
    begin,
    frames_of,
    policy_of,
    wait_for_the_server,
    write,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pg8000.native

    from blsflow.adapters.postgres.address import DatabaseAddress


class Stream:
    """A client that reads one answer after the other, and comes back with the last id that it saw."""

    def __init__(self, deployment: Deployment, **query: str) -> None:
        self.deployment = deployment
        self.query = query
        self.last_id = ""
        self.seen: list[str] = []
        self.response: dict[str, Any] = {}

    def ask(self, **claims: str) -> list[Frame]:
        """Read one answer, which is a stream."""
        assert self.refused(**claims)["statusCode"] == 200, self.response
        frames = frames_of(self.response["body"])
        self.last_id = frames[-1].last_id
        self.seen += [frame.data["code"] for frame in frames if frame.data is not None]
        return frames

    def refused(self, **claims: str) -> dict[str, Any]:
        """Read one answer, whichever it is."""
        event = sample("live/stream")
        event["queryStringParameters"] = self.query
        event["requestContext"]["authorizer"]["jwt"]["claims"] |= claims
        if self.last_id:
            event["headers"]["last-event-id"] = self.last_id
        wait_for_the_server(self.deployment.address)
        self.response = self.deployment.invoke("live", event)
        return self.response

    def problem(self, **claims: str) -> dict[str, Any]:
        """Read one answer, which is a problem document."""
        response = self.refused(**claims)
        assert response["headers"]["content-type"] == "application/problem+json"
        document: dict[str, Any] = json.loads(response["body"])
        assert document["status"] == response["statusCode"]
        return document


@pytest.fixture
def deployment(
    database: DatabaseAddress, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Deployment]:
    """The live function on an empty log; it is not held for long."""
    monkeypatch.setattr("functions.live.app._HOLD_SEC", 0)
    scene = Deployment(database, monkeypatch, capsys)
    scene.set(**environment(database))
    yield scene
    scene.cold()


@pytest.fixture
def writer(database: DatabaseAddress) -> Iterator[pg8000.native.Connection]:
    """A session that writes; each statement is a transaction unless one is open."""
    with closing(connect(database)) as connection:
        yield connection


def test_a_stream_begins_with_the_newest_events(
    deployment: Deployment, writer: pg8000.native.Connection
) -> None:
    """R9.3: the sample event's answer holds the policy's newest events, oldest first, each as the API shows it."""
    assert policy_of(writer, NORTH) == 1
    for number in range(15):
        write(
            writer,
            f"e{number}",
            policy_id=1,
            kind=("log", "tick", "progress")[number % 3],
            params={"n": number},
        )
    wait_for_the_server(deployment.address)
    response = deployment.invoke("live", sample("live/stream"))
    assert response["statusCode"] == 200
    assert response["headers"] == {
        "content-type": "text/event-stream; charset=utf-8",
        "cache-control": "no-store",
        "x-request-id": sample("live/stream")["requestContext"]["requestId"],
    }
    assert response["body"].startswith("retry: 500\n\n")
    frames = frames_of(response["body"])
    assert [frame.data["code"] for frame in frames] == [f"e{number}" for number in range(5, 15)]
    assert [frame.event for frame in frames[:3]] == ["progress", "log", "tick"]
    stored = dict(deployment.look("select id, to_json(at)::text from smart_schedule_log_events"))
    assert frames[0].data == {
        "id": 6,
        "at": json.loads(stored[6]),
        "kind": "progress",
        "level": "info",
        "code": "e5",
        "params": {"n": 5},
        "policy_id": 1,
        "tick_id": None,
        "attempt_id": None,
        "machine_id": None,
    }
    line = deployment.summary("live")
    assert (line["tenant_id"], line["policy_id"], line["events"]) == (NORTH, 1, 10)
    assert "signature" not in deployment.output


def test_a_browser_comes_back_with_the_id_that_it_saw(
    deployment: Deployment, writer: pg8000.native.Connection
) -> None:
    """R9.3: the sample event of the browser's route, whose token is in its address, resumes by its header."""
    assert policy_of(writer, NORTH) == 1
    write(writer, "first", policy_id=1)
    wait_for_the_server(deployment.address)
    event = sample("live/resume_in_browser")
    event["requestContext"]["authorizer"]["jwt"]["claims"]["exp"] = str(int(time.time()) + 600)
    response = deployment.invoke("live", event)
    assert [frame.data["code"] for frame in frames_of(response["body"])] == ["first"]
    assert "signature" not in deployment.output


def test_an_idle_answer_gives_a_place_to_go_on_from(
    deployment: Deployment, writer: pg8000.native.Connection
) -> None:
    """R9.3: who begins with now gets an id though there is no event, and what comes between two answers is shown."""
    write(writer, "before")
    stream = Stream(deployment)
    (idle,) = stream.ask()
    assert idle.data is None
    write(writer, "between")
    stream.ask()
    assert stream.seen == ["between"]
    last_id = stream.last_id
    (idle,) = stream.ask()
    assert (idle.data, idle.last_id) == (None, last_id)


def test_a_first_event_ever_is_not_missed(deployment: Deployment, writer: pg8000.native.Connection) -> None:
    """R9.3: an empty log has a place too."""
    stream = Stream(deployment)
    stream.ask()
    write(writer, "first")
    stream.ask()
    assert stream.seen == ["first"]


@pytest.mark.parametrize("older_commits_first", [True, False])
@pytest.mark.parametrize("begins", ["before", "between", "after"])
def test_commits_out_of_the_order_of_ids_are_shown_once(
    database: DatabaseAddress, deployment: Deployment, begins: str, *, older_commits_first: bool
) -> None:
    """R9.3: whichever of two transactions takes the lower id, commits first, or is under way when the stream begins."""
    with closing(connect(database)) as older, closing(connect(database)) as younger:
        stream = Stream(deployment)
        if begins == "before":
            stream.ask()
        begin(older)
        begin(younger)
        write(younger, "of the younger")  # the lower id
        write(older, "of the older")
        if begins != "before":
            stream.ask()
        first, second = (older, younger) if older_commits_first else (younger, older)
        first.run("commit")
        stream.ask()
        if begins == "after":
            write(first, "one more")
            stream.ask()
        second.run("commit")
        stream.ask()
        stream.ask()
    assert stream.seen == ["of the older", "of the younger", *(["one more"] if begins == "after" else [])]


def test_a_held_stream_answers_soon_after_an_event_and_holds_no_transaction(
    deployment: Deployment, writer: pg8000.native.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R9.3: while it waits, its session is idle and outside of any transaction; an event ends the wait."""
    monkeypatch.setattr("functions.live.app._HOLD_SEC", 60)
    states = []

    def pause(_seconds: float) -> None:
        states.append(
            writer.run(
                "select state, backend_xmin from pg_stat_activity"
                " where application_name = 'blsflow-scheduler' and datname = current_database()"
            )
        )
        if len(states) in {3, 4}:
            write(writer, f"after {len(states)} looks")

    monkeypatch.setattr(live_flow.live, "__kwdefaults__", {"pause": pause})
    stream = Stream(deployment)
    stream.ask()
    assert states == [[["idle", None]]] * 4
    # the second came while the first was being gathered
    assert stream.seen == ["after 3 looks", "after 4 looks"]


def test_only_the_callers_events_are_shown(deployment: Deployment, writer: pg8000.native.Connection) -> None:
    """R9.3: another tenant's events are in no answer, and its policies and events are as unknown as none."""
    theirs = policy_of(writer, SOUTH)
    theirs_event = write(writer, "theirs", tenant_id=SOUTH, policy_id=theirs)
    ours = write(writer, "ours")
    stream = Stream(deployment, after_id="0-0")
    stream.ask()
    assert stream.seen == ["ours"]

    def told(**query: str) -> dict[str, Any]:
        problem = Stream(deployment, **query).problem()
        return {name: value for name, value in problem.items() if name != "request_id"}

    unknown, foreign = told(policy_id="4711"), told(policy_id=str(theirs))
    assert (unknown["status"], unknown["code"]) == (404, "not_found")
    assert json.loads(json.dumps(unknown).replace("4711", str(theirs))) == foreign
    unknown, foreign = told(after_id=str(ours + 100)), told(after_id=str(theirs_event))
    assert json.loads(json.dumps(unknown).replace(str(ours + 100), str(theirs_event))) == foreign
    place = look(
        deployment.address,
        "select xid::text || '-' || id from smart_schedule_log_events where code = 'theirs'",
    )
    assert Stream(deployment, after_id=place[0][0]).ask()[0].event == "reset"


def test_the_number_of_an_event_is_a_place_too(
    database: DatabaseAddress, deployment: Deployment, writer: pg8000.native.Connection
) -> None:
    """R9.3: after_id takes an event's number; of one that is not settled yet, nothing that comes before it is lost."""
    ids = [write(writer, f"e{number}") for number in range(3)]
    stream = Stream(deployment, after_id=str(ids[0]))
    stream.ask()
    assert stream.seen == ["e1", "e2"]
    with closing(connect(database)) as older:
        begin(older)
        unsettled = write(writer, "committed early")
        write(older, "committed late")
        stream = Stream(deployment, after_id=str(unsettled))
        stream.ask()
        older.run("commit")
        stream.ask()
    assert stream.seen == ["committed late", "committed early"]


def test_the_id_of_a_reconnect_goes_before_the_place_of_the_address(
    deployment: Deployment, writer: pg8000.native.Connection
) -> None:
    """R9.3: a browser comes back to the address that it began with, and is not sent back to its beginning."""
    for number in range(4):
        write(writer, f"e{number}")
    stream = Stream(deployment, after_id="0-0", backfill="2")
    stream.ask()
    write(writer, "new")
    stream.ask()
    assert stream.seen == ["e0", "e1", "e2", "e3", "new"]


def test_a_place_that_is_lost_is_told_and_followed_from_now(
    deployment: Deployment, writer: pg8000.native.Connection
) -> None:
    """R9.3: what a restore or retention took is not passed over in silence; the stream says so once and goes on."""
    for code in ("kept", "lost"):
        write(writer, code)
    stream = Stream(deployment, backfill="10")
    stream.ask()
    lost_id = stream.last_id
    writer.run("delete from smart_schedule_log_events where code = 'lost'")
    (reset,) = stream.ask()
    assert (reset.event, reset.data) == ("reset", {"code": "position_lost", "params": {"position": lost_id}})
    write(writer, "new")
    stream.ask()
    assert stream.seen == ["kept", "lost", "position_lost", "new"]


def test_a_log_that_was_restored_into_another_server_is_taken_in(
    deployment: Deployment, writer: pg8000.native.Connection
) -> None:
    """R9.3: events of a server whose transactions were counted further are the oldest here, and shown again to nobody."""
    write(writer, "restored 1")
    write(writer, "restored 2")
    writer.run("update smart_schedule_log_events set xid = (xid::text::numeric + 1e12)::text::xid8")
    old = look(
        deployment.address, "select xid::text || '-' || id from smart_schedule_log_events order by id desc"
    )
    write(writer, "here")
    stream = Stream(deployment, backfill="10")
    stream.ask()
    store = PostgresStore(lambda: Session(deployment.address))
    with store.transaction() as tx:
        tx.maintain(retention_days=90)
    store.close()
    write(writer, "later")
    stream.ask()
    assert stream.seen == ["here", "later"]
    assert Stream(deployment, after_id=old[0][0]).ask()[0].event == "reset"
    whole = Stream(deployment, after_id="0-0")
    whole.ask()
    assert whole.seen == ["restored 1", "restored 2", "here", "later"]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"after_id": "yesterday"}, "after_id"),
        ({"after_id": "1-2-3"}, "after_id"),
        ({"after_id": "-1"}, "after_id"),
        ({"after_id": "99999999999999999999-1"}, "after_id"),
        ({"after_id": "1-9223372036854775808"}, "after_id"),
        ({"after_id": "9223372036854775808"}, "after_id"),
        ({"after_id": "１-１"}, "after_id"),
        ({"policy_id": "1;drop"}, "policy_id"),
        ({"policy_id": ""}, "policy_id"),
        ({"policy_id": "9999999999999999999"}, "policy_id"),
        ({"backfill": "1001"}, "backfill"),
        ({"backfill": "-1"}, "backfill"),
        ({"polcy_id": "1"}, "polcy_id"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name(
    deployment: Deployment, query: dict[str, str], field: str
) -> None:
    """R9.2, R9.3: a garbled place or parameter is a problem document that names it, never a stream from somewhere."""
    problem = Stream(deployment, **query).problem()
    assert (problem["status"], problem["code"]) == (400, "malformed_request")
    assert [each["field"] for each in problem["params"]["errors"]] == [field]
    assert deployment.summary("live")["refused"] == "malformed_request"


def test_a_garbled_last_id_is_refused(deployment: Deployment) -> None:
    """R9.3: an id that was not given here names its header."""
    stream = Stream(deployment)
    stream.last_id = "17"
    assert stream.problem()["params"]["errors"][0]["field"] == "Last-Event-ID"


def test_a_stream_needs_a_token_that_may_read(deployment: Deployment) -> None:
    """R9.3: without the scope, or without a token that is valid now, nothing is told."""
    stream = Stream(deployment)
    problem = stream.problem(scope="schedule:write")
    assert (problem["status"], problem["code"]) == (403, "insufficient_scope")
    assert stream.problem(exp="1")["code"] == "unauthorized"
    assert stream.problem(tenant_id="")["code"] == "unauthorized"


def test_a_fault_of_ours_is_logged_and_not_shown(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R9.2: the caller learns the request's id, the log the cause."""
    monkeypatch.setattr(logs, "READING", "select canary_of_a_cause")
    problem = Stream(deployment).problem()
    assert (problem["status"], problem["code"]) == (500, "internal_error")
    assert "canary" not in json.dumps(problem)
    line = deployment.summary("live")
    assert "canary_of_a_cause" in line["cause"]
    assert line["api_request_id"] == problem["request_id"]


def test_every_answer_names_its_request(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    """R9.2: a stream, a refusal and a fault have the gateway's own id of the request, as the log's line has."""
    stream = Stream(deployment)
    answers = [stream.refused(), stream.refused(scope="schedule:write")]
    monkeypatch.setattr(logs, "READING", "select canary_of_a_cause")
    answers.append(stream.refused())
    assert [answer["statusCode"] for answer in answers] == [200, 403, 500]
    request_id = deployment.summary("live")["api_request_id"]
    assert request_id == sample("live/stream")["requestContext"]["requestId"]
    assert {answer["headers"]["x-request-id"] for answer in answers} == {request_id}


def test_a_database_that_does_not_answer_is_to_be_tried_again(deployment: Deployment) -> None:
    """R9.2: 503 with the time to come back after."""
    deployment.set(BLSFLOW_SCHEDULER_DATABASE_URL="postgresql://u:p@127.0.0.1:9/nothing")
    stream = Stream(deployment)
    assert stream.problem()["code"] == "unavailable"
    assert stream.response["headers"]["retry-after"] == "5"


@pytest.mark.parametrize("how", ["silent", "slow"])
def test_a_database_that_stops_answering_late_in_a_hold_is_told_of_before_the_function_ends(
    database: DatabaseAddress, deployment: Deployment, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """R9.2, R9.3: what is left of the function's time bounds each statement, and the stream's place is free at once."""
    monkeypatch.setattr(app, "_HOLD_SEC", 1)
    monkeypatch.setattr(app, "_LAST_LOOK_SEC", 0.5)
    deployment.set(BLSFLOW_SCHEDULER_DATABASE_TIMEOUT_SEC="60")
    stream = Stream(deployment)
    with closing(connect(database)) as other:

        def stops(seconds: float) -> None:
            if how == "slow":
                other.run("begin")
                other.run("lock table smart_schedule_log_events")
            else:
                _signal_stream(other, signal.SIGSTOP)
            time.sleep(seconds)

        monkeypatch.setattr(live_flow.live, "__kwdefaults__", {"pause": stops})
        began = time.monotonic()
        try:
            assert stream.problem()["code"] == "unavailable"
        finally:
            if how == "slow":
                other.run("rollback")
            else:
                _signal_stream(other, signal.SIGCONT)
        assert time.monotonic() - began < 1.5 + SILENCE_SEC + 1
        for _ in range(50):
            if not (held := other.run(_PLACES)):
                break
            time.sleep(0.1)
        assert held == []


_PLACES = (
    "select distinct l.pid from pg_locks l join pg_stat_activity a using (pid)"
    " where l.locktype = 'advisory' and a.datname = current_database()"
)


def _signal_stream(connection: pg8000.native.Connection, what: signal.Signals) -> None:
    for (pid,) in connection.run(_PLACES):
        os.kill(pid, what)


def test_places_are_bounded_per_tenant_and_in_all(
    database: DatabaseAddress, deployment: Deployment, writer: pg8000.native.Connection
) -> None:
    """R9.3: beyond the cap a stream is refused at once and told when to come back; a session that dies frees its place."""
    deployment.set(BLSFLOW_SCHEDULER_STREAMS_PER_TENANT="2", BLSFLOW_SCHEDULER_STREAMS="3")
    held = [_hold(database, tenant) for tenant in (NORTH, NORTH)]
    stream = Stream(deployment)
    problem = stream.problem()
    assert (problem["status"], problem["code"]) == (429, "too_many_streams")
    assert problem["params"] == {"full_of": "tenant", "most": 2}
    assert int(stream.response["headers"]["retry-after"]) > 0
    Stream(deployment).ask(tenant_id=SOUTH)
    held += [_hold(database, SOUTH)]
    problem = Stream(deployment).problem(tenant_id="east-mining")
    assert problem["params"] == {"full_of": "deployment", "most": 3}
    pid = held[0].run("select pg_backend_pid()")[0][0]
    writer.run("select pg_terminate_backend(:pid)", pid=pid)
    _wait_until_gone(writer, pid)
    stream.ask()
    held.append(_hold(database, NORTH))  # a place that was answered from is free again
    for connection in held[1:]:
        connection.close()


def _hold(address: DatabaseAddress, tenant_id: str) -> pg8000.native.Connection:
    """Take a place as another container does."""
    connection = connect(address)
    taken = connection.run("select smart_schedule_take_stream(:tenant, 2, 3)", tenant=tenant_id)
    assert taken == [[None]]
    return connection


def _wait_until_gone(writer: pg8000.native.Connection, pid: int) -> None:
    while writer.run("select count(*) from pg_stat_activity where pid = :pid", pid=pid) != [[0]]:
        time.sleep(0.01)


def test_a_refused_or_failed_stream_frees_its_place(deployment: Deployment) -> None:
    """R9.3: whatever ends a stream, its place is free for the next."""
    deployment.set(BLSFLOW_SCHEDULER_STREAMS_PER_TENANT="1")
    for _ in range(2):
        assert Stream(deployment, policy_id="4711").problem()["code"] == "not_found"
        assert Stream(deployment, after_id="4711").problem()["code"] == "not_found"
    Stream(deployment).ask()
    assert look(deployment.address, "select count(*) from pg_locks where locktype = 'advisory'") == [[0]]


@pytest.mark.parametrize("query", [{"after_id": "0-0"}, {"backfill": "1000"}])
def test_an_answer_is_bounded_in_bytes_without_a_gap(
    deployment: Deployment, writer: pg8000.native.Connection, query: dict[str, str]
) -> None:
    """R9.3: large events come in several answers; a backfill drops the oldest of them."""
    text = "x" * 300_000
    for number in range(10):
        write(writer, f"e{number}", params={"text": text})
    stream = Stream(deployment, **query)
    sizes = []
    for _ in range(3):
        stream.ask()
        sizes.append(len(stream.response["body"]))
    assert max(sizes) < logs.MOST_BYTES + 2 * len(text) + 10_000
    codes = [f"e{number}" for number in range(10)]
    assert stream.seen == (codes if "after_id" in query else codes[-4:])


def test_an_answer_is_bounded_in_events_without_a_gap(
    deployment: Deployment, writer: pg8000.native.Connection
) -> None:
    """R9.3: a long backlog comes in several answers, also where one transaction wrote it."""
    writer.run(
        "insert into smart_schedule_log_events (at, tenant_id, code)"
        f" select now(), '{NORTH}', 'e' || n from generate_series(1, {3 * logs.MOST_FRAMES + 7}) n"
    )
    stream = Stream(deployment, after_id="0-0")
    while stream.ask()[0].data is not None:
        pass
    assert stream.seen == [f"e{number}" for number in range(1, 3 * logs.MOST_FRAMES + 8)]


def test_an_events_text_stays_on_its_line(deployment: Deployment, writer: pg8000.native.Connection) -> None:
    """R9.3: line breaks, quotes and other languages in an event neither end nor change it."""
    params = {
        "why": 'a\n\nid: 9-9\r\ndata: {"x": 1}\u2028\u2029\x85 "quoted" \\ 北矿 \U0001f600',
        "n": [1, None, 1.5],
    }
    write(writer, 'odd"code\n', params=params)
    stream = Stream(deployment, after_id="0-0")
    (frame,) = stream.ask()
    assert (frame.data["code"], frame.data["params"]) == ('odd"code\n', params)


def test_a_browsers_token_that_is_good_for_long_is_refused(deployment: Deployment) -> None:
    """R9.3, R11.3: a token that stands in an address is one for minutes; the sample's is good for decades."""
    refused = deployment.invoke("live", sample("live/resume_in_browser"))
    assert refused["statusCode"] == 403
    assert json.loads(refused["body"])["code"] == "unfit_token"


def test_a_refused_value_is_not_repeated(deployment: Deployment) -> None:
    """R9.2: what came under a name that there is none of may be a token."""
    problem = Stream(deployment, acces_token="secret-9f3a").problem()
    assert "secret-9f3a" not in str(problem)
