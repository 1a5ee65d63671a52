"""The adapter against prepared answers: what each answer of an execution service is taken for."""

from __future__ import annotations

import json
import socket
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pytest

from blsflow.adapters.execution_service import HttpExecutionService
from blsflow.domain.conversation import (
    CancelAccepted,
    CancelTooLate,
    CancelUnknown,
    Conversation,
    ConversationCommand,
    RunForbidden,
    RunFound,
    RunNotFound,
    RunState,
    RunUnreadable,
    Target,
    TargetsForbidden,
    TargetsFound,
    TargetsUnreadable,
    TargetUnavailable,
)
from blsflow.domain.execution import Accepted, Ambiguous, Busy, Rejected
from tests.contract.execution_scenes import CONTRACT, check_schema
from tests.contract.scripted_server import Scripted, ScriptedServer, json_answer

if TYPE_CHECKING:
    from collections.abc import Iterator

TOKEN = "execution-token"
COMMAND = ConversationCommand(
    key="occurrence/1",
    caller_tenant="tenant-a",
    caller_subject="李雷 100%",
    target="analyst",
    conversation_id="conv-1",
    prompt="昨天换了几台?\n",
    expires_at=datetime(2026, 3, 1, 7, 0, 30, tzinfo=UTC),
)
CALLER: dict[str, Any] = {"caller_tenant": "tenant-a", "caller_subject": "li.lei", "key": "occurrence/1"}
RUN = {
    "run_id": "run/1",
    "key": "occurrence/1",
    "target_id": "analyst",
    "conversation_id": "conv-1",
    "state": "running",
    "output_ref": None,
    "error": None,
    "started_at": "2026-03-01T15:00:02+08:00",
    "ended_at": None,
}
OVER = RUN | {"state": "succeeded", "output_ref": "message:7", "ended_at": "2026-03-01T07:00:41Z"}
BY_ID, BY_KEY = "/v1/runs/run%2F1", "/v1/attempts/occurrence%2F1"


def refusal(status: int, code: str | None, detail: str = "why") -> Scripted:
    """A problem document; without a code, what a proxy says instead."""
    if code is None:
        return Scripted(status=status, body=b"<html>", content_type="text/html")
    document = {"type": "about:blank", "title": code, "status": status, "code": code, "detail": detail}
    return Scripted(
        status=status, body=json.dumps(document).encode(), content_type="application/problem+json"
    )


CUT_OFF = Scripted(status=202, body=b'{"run_id": "run-1"', claim=99)
MUTE = Scripted(status=202, body=b'{"run_id": "run-1"}', wait_sec=5)
ELSEWHERE = Scripted(status=307, headers={"Location": "/v1/elsewhere"})


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    """A server without answers."""
    with ScriptedServer() as running:
        yield running


def client(server: ScriptedServer) -> HttpExecutionService:
    """A client that waits a second."""
    return HttpExecutionService(server.url, TOKEN, 1.0)


# ---------------------------------------------------------------- start


def test_a_start_is_the_contracts(server: ScriptedServer) -> None:
    """R8.1: one POST carries target, conversation and prompt, the key, the caller's identity and the expiry."""
    server.answers["/v1/runs"] = json_answer({"run_id": "run-1"}, 202)
    assert client(server).start(COMMAND) == Accepted(job_id="run-1", refused=())
    (received,) = server.received
    assert (received.method, received.path) == ("POST", "/v1/runs")
    body = json.loads(received.body)
    check_schema("RunRequest", body)
    assert body == {"target_id": "analyst", "conversation_id": "conv-1", "prompt": "昨天换了几台?\n"}
    assert received.headers["authorization"] == f"Bearer {TOKEN}"
    assert received.headers["idempotency-key"] == "occurrence/1"
    assert received.headers["x-caller"] == "tenant-a"
    assert received.headers["x-on-behalf-of"] == "%E6%9D%8E%E9%9B%B7%20100%25"
    assert datetime.fromisoformat(received.headers["x-expires-at"]) == COMMAND.expires_at


def test_a_key_is_read_back_as_it_was_sent(server: ScriptedServer) -> None:
    """R5.3: whatever a key is made of, header and path name the same one."""
    key = "100% 早报/1?x"
    server.answers["/v1/runs"] = json_answer({"run_id": "run-1"}, 202)
    client(server).start(replace(COMMAND, key=key))
    client(server).read_back(**CALLER | {"key": key}, run_id=None)
    sent, read = server.received
    assert unquote(sent.headers["idempotency-key"]) == key
    assert unquote(read.path.removeprefix("/v1/attempts/")) == key
    assert "?" not in read.path


@pytest.mark.parametrize("subject", ["a\r\nX-Caller: tenant-b", " padded ", "naïve", "\x00", "😀"])
def test_no_name_breaks_a_header(server: ScriptedServer, subject: str) -> None:
    """R8.9: an identity reaches the service as it is, and never as another header or an exception."""
    server.answers["/v1/runs"] = json_answer({"run_id": "run-1"}, 202)
    assert isinstance(client(server).start(replace(COMMAND, caller_subject=subject)), Accepted)
    (received,) = server.received
    assert received.headers["x-caller"] == "tenant-a"
    assert received.headers["x-on-behalf-of"].isascii()


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (refusal(423, "busy"), Busy(reason="busy")),
        (refusal(429, "rate_limited"), Busy(reason="rate_limited")),
        (refusal(423, None), Busy(reason="http_423")),
        (refusal(404, "target_not_found"), TargetUnavailable(detail="why")),
        (refusal(404, "conversation_not_found"), TargetUnavailable(detail="why")),
        (refusal(410, "target_gone"), TargetUnavailable(detail="why")),
        (refusal(410, "conversation_gone", ""), TargetUnavailable(detail="conversation_gone")),
        (refusal(404, "target_gone"), Rejected(reason="target_gone", detail="why")),
        (refusal(404, "no_such_path"), Rejected(reason="no_such_path", detail="why")),
        (refusal(404, None), Rejected(reason="http_404", detail="")),
        (refusal(410, None), Rejected(reason="http_410", detail="")),
        (refusal(422, "target_not_found"), Rejected(reason="target_not_found", detail="why")),
        (refusal(400, "invalid_request"), Rejected(reason="invalid_request", detail="why")),
        (refusal(401, "unauthorized"), Rejected(reason="unauthorized", detail="why")),
        (refusal(403, "forbidden"), Rejected(reason="forbidden", detail="why")),
        (refusal(413, None), Rejected(reason="http_413", detail="")),
        (refusal(422, "expired"), Rejected(reason="expired", detail="why")),
        (refusal(422, "a\x00b", "\ud800" + "x" * 999), Rejected(reason="a b", detail="x" * 499)),
    ],
)
def test_definite_answers_are_definite(server: ScriptedServer, answer: Scripted, expected: object) -> None:
    """R5.3, R8.9: busy, rejected and unavailable are told apart, with words that a database can keep."""
    server.answers["/v1/runs"] = answer
    assert client(server).start(COMMAND) == expected
    assert len(server.received) == 1


@pytest.mark.parametrize(
    "answer",
    [
        refusal(500, "internal_error"),
        refusal(500, "target_not_found"),
        refusal(502, None),
        refusal(503, "busy"),
        refusal(504, None),
        refusal(408, None),
        refusal(409, "conflict"),
        ELSEWHERE,
        CUT_OFF,
        MUTE,
        Scripted(status=202, body=b"ok", content_type="text/plain"),
        Scripted(status=202, body=b'{"run_id":'),
        Scripted(status=204),
        json_answer({}, 202),
        json_answer({"run_id": None}, 202),
        json_answer({"run_id": ""}, 202),
        json_answer({"run_id": 17}, 202),
        json_answer({"run_id": "x" * 201}, 202),
        json_answer({"run_id": "run\x00"}, 202),
        json_answer({"run_id": "run\ud800"}, 202),
        json_answer(["run-1"], 202),
        json_answer(None, 202),
    ],
)
def test_everything_else_is_ambiguous_and_sent_once(server: ScriptedServer, answer: Scripted) -> None:
    """R5.3: faults, conflicts, time-outs and acceptances that name no run are ambiguous, and never repeated."""
    server.answers["/v1/runs"] = answer
    outcome = client(server).start(COMMAND)
    assert isinstance(outcome, Ambiguous)
    assert outcome.cause
    assert [received.method for received in server.received] == ["POST"]


def test_a_service_that_is_not_there_is_a_value() -> None:
    """R5.3: a refused connection raises nowhere; a start stays open, all else is unknown."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    away = HttpExecutionService(f"http://127.0.0.1:{port}", TOKEN, 1.0)
    assert isinstance(away.start(COMMAND), Ambiguous)
    assert isinstance(away.read_back(**CALLER, run_id=None), RunUnreadable)
    assert isinstance(away.cancel(**CALLER, run_id="run/1"), CancelUnknown)
    assert isinstance(away.targets(caller_tenant="t", caller_subject="s"), TargetsUnreadable)


# ---------------------------------------------------------------- read back


@pytest.mark.parametrize(("run_id", "path"), [("run/1", BY_ID), (None, BY_KEY)])
def test_a_run_is_read_by_id_or_by_key(server: ScriptedServer, run_id: str | None, path: str) -> None:
    """R8.8: state, times in UTC, reference to the output and error come back, for the caller's identity."""
    check_schema("Run", OVER)
    server.answers[path] = json_answer(OVER | {"error": {"code": "late", "detail": "but done"}})
    assert client(server).read_back(**CALLER, run_id=run_id) == RunFound(
        run_id="run/1",
        state=RunState.SUCCEEDED,
        output_ref="message:7",
        error="late: but done",
        started_at=datetime(2026, 3, 1, 7, 0, 2, tzinfo=UTC),
        ended_at=datetime(2026, 3, 1, 7, 0, 41, tzinfo=UTC),
    )
    (received,) = server.received
    assert received.method == "GET"
    assert (received.headers["x-caller"], received.headers["x-on-behalf-of"]) == ("tenant-a", "li.lei")


def test_every_state_of_the_contract_is_known() -> None:
    """R8.7: the product's states of a run are the contract's."""
    assert set(RunState) == set(CONTRACT["components"]["schemas"]["Run"]["properties"]["state"]["enum"])


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (refusal(404, "run_not_found"), RunNotFound()),
        (refusal(403, "forbidden"), RunForbidden()),
        (json_answer(RUN | {"error": {"code": "slow"}}), None),
    ],
)
def test_the_services_own_word_counts(server: ScriptedServer, answer: Scripted, expected: object) -> None:
    """R8.11: not found and forbidden are the service's stable codes; a run at work may name an error."""
    server.answers[BY_ID] = answer
    found = client(server).read_back(**CALLER, run_id="run/1")
    if expected is None:
        assert isinstance(found, RunFound)
        assert (found.state, found.error) == (RunState.RUNNING, "slow")
    else:
        assert found == expected


@pytest.mark.parametrize(
    "answer",
    [
        refusal(404, "no_such_path"),
        refusal(404, None),
        refusal(410, "run_not_found"),
        refusal(403, None),
        refusal(403, "blocked_by_firewall"),
        refusal(401, "forbidden"),
        refusal(429, "rate_limited"),
        refusal(500, "run_not_found"),
        ELSEWHERE,
        replace(CUT_OFF, status=200),
        replace(MUTE, status=200),
        json_answer(RUN, 202),
        json_answer([RUN]),
        json_answer(RUN | {"run_id": "run/2"}),
        json_answer(RUN | {"run_id": None}),
        json_answer(RUN | {"key": "occurrence/2"}),
        json_answer({name: value for name, value in RUN.items() if name != "key"}),
        json_answer(RUN | {"state": "done"}),
        json_answer(RUN | {"state": None}),
        json_answer(RUN | {"state": "cancelling"}),
        json_answer(RUN | {"ended_at": "2026-03-01T07:00:41Z"}),
        json_answer(OVER | {"ended_at": None}),
        json_answer(OVER | {"ended_at": "2026-03-01T07:00:41"}),
        json_answer(OVER | {"ended_at": "yesterday"}),
        json_answer(OVER | {"ended_at": "0001-01-01T00:00:00+08:00"}),
        json_answer(OVER | {"ended_at": 1772348441}),
        json_answer(OVER | {"started_at": "soon"}),
        json_answer(OVER | {"output_ref": ""}),
        json_answer(OVER | {"output_ref": 7}),
        json_answer(OVER | {"output_ref": "x" * 2001}),
        json_answer(OVER | {"output_ref": "a\x00"}),
        json_answer(OVER | {"error": "failed"}),
        json_answer(OVER | {"error": {"detail": "no code"}}),
    ],
)
def test_all_else_proves_nothing(server: ScriptedServer, answer: Scripted) -> None:
    """R8.11: a proxy's refusal, another run and a run that contradicts itself or the contract end and free nothing."""
    server.answers[BY_ID] = answer
    report = client(server).read_back(**CALLER, run_id="run/1")
    assert isinstance(report, RunUnreadable)
    assert report.cause


# ---------------------------------------------------------------- cancel


@pytest.mark.parametrize(("run_id", "path"), [("run/1", BY_ID), (None, BY_KEY)])
@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (RUN, CancelAccepted()),
        (RUN | {"state": "queued"}, CancelAccepted()),
        (OVER | {"state": "cancelled"}, CancelAccepted()),
        (OVER, CancelTooLate(state=RunState.SUCCEEDED)),
        (OVER | {"state": "failed"}, CancelTooLate(state=RunState.FAILED)),
        (OVER | {"state": "interrupted"}, CancelTooLate(state=RunState.INTERRUPTED)),
    ],
)
def test_a_cancel_is_asked_for_once_and_promises_no_end(
    server: ScriptedServer, run: dict[str, Any], expected: object, run_id: str | None, path: str
) -> None:
    """R8.8: a cancel that comes too late says which end the run had; one that does not leaves the end to a read back."""
    server.answers[f"{path}/cancel"] = json_answer(run, 202)
    assert client(server).cancel(**CALLER, run_id=run_id) == expected
    (received,) = server.received
    assert received.method == "POST"
    assert received.headers["x-on-behalf-of"] == "li.lei"


@pytest.mark.parametrize(
    "answer",
    [
        refusal(404, "run_not_found"),
        refusal(403, "forbidden"),
        refusal(409, "conflict"),
        refusal(423, "busy"),
        refusal(500, None),
        CUT_OFF,
        MUTE,
        ELSEWHERE,
        Scripted(status=204),
        json_answer(RUN | {"run_id": "run/2"}, 202),
        json_answer({}, 202),
    ],
)
def test_a_cancel_without_a_clear_answer_is_unknown(server: ScriptedServer, answer: Scripted) -> None:
    """R8.8: nothing that a cancel is answered frees the slot or is taken for an end."""
    server.answers[f"{BY_ID}/cancel"] = answer
    outcome = client(server).cancel(**CALLER, run_id="run/1")
    assert isinstance(outcome, CancelUnknown)
    assert outcome.cause
    assert len(server.received) == 1


# ---------------------------------------------------------------- catalogue

ROW = {
    "target_id": "analyst",
    "name": "Analyst",
    "unavailable_reason": None,
    "conversations": [{"conversation_id": "conv-1", "title": "早报"}],
}


def test_the_catalogue_comes_in_pages(server: ScriptedServer) -> None:
    """R8.1: targets with the user's conversations, and the cursor that asks for the next page."""
    page = {"targets": [ROW, ROW | {"unavailable_reason": "retired"}], "next_cursor": "a b"}
    check_schema("TargetPage", page)
    server.answers["/v1/targets"] = json_answer(page)
    user = {"caller_tenant": "tenant-a", "caller_subject": "li.lei"}
    found = client(server).targets(**user)
    analyst = Target(
        target="analyst",
        name="Analyst",
        unavailable_reason=None,
        conversations=(Conversation(conversation_id="conv-1", title="早报"),),
    )
    assert found == TargetsFound(
        targets=(analyst, replace(analyst, unavailable_reason="retired")), next_cursor="a b"
    )
    server.answers["/v1/targets"] = json_answer({"targets": [], "next_cursor": None})
    last = client(server).targets(caller_tenant="tenant-a", caller_subject="li.lei", cursor="a b")
    assert last == TargetsFound(targets=(), next_cursor=None)
    assert [received.path for received in server.received] == ["/v1/targets", "/v1/targets?cursor=a+b"]
    assert server.received[1].headers["x-on-behalf-of"] == "li.lei"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (refusal(403, "forbidden"), TargetsForbidden),
        (refusal(403, None), TargetsUnreadable),
        (refusal(401, "unauthorized"), TargetsUnreadable),
        (refusal(500, None), TargetsUnreadable),
        (replace(MUTE, status=200), TargetsUnreadable),
        (json_answer({"targets": {}, "next_cursor": None}), TargetsUnreadable),
        (json_answer({"targets": [], "next_cursor": ""}), TargetsUnreadable),
        (json_answer({"targets": [], "next_cursor": 2}), TargetsUnreadable),
        (json_answer({"targets": ["analyst"], "next_cursor": None}), TargetsUnreadable),
        (json_answer({"targets": [ROW | {"target_id": ""}], "next_cursor": None}), TargetsUnreadable),
        (json_answer({"targets": [ROW | {"name": None}], "next_cursor": None}), TargetsUnreadable),
        (json_answer({"targets": [ROW | {"conversations": None}], "next_cursor": None}), TargetsUnreadable),
    ],
)
def test_a_catalogue_that_cannot_be_read_is_no_empty_one(
    server: ScriptedServer, answer: Scripted, expected: type
) -> None:
    """R8.9: "there is nothing" and "nobody can tell" are different answers."""
    server.answers["/v1/targets"] = answer
    found = client(server).targets(caller_tenant="tenant-a", caller_subject="li.lei")
    assert isinstance(found, expected)
