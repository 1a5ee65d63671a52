import json
import math
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from blsflow.adapters.http import HttpFailure, HttpFault, JsonHttp, decode_json
from blsflow.domain.errors import InvalidDocument
from tests.contract.scripted_server import Scripted, ScriptedServer, json_answer

TEN_MEGABYTES = b"[" + b"1," * 5_000_000 + b"1]"


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    """A server without answers."""
    with ScriptedServer() as running:
        yield running


def failure_of(http: JsonHttp, method: str = "GET", path: str = "/x") -> HttpFailure:
    """Return the failure that a request ends in."""
    with pytest.raises(HttpFailure) as failure:
        http.request(method, path)
    return failure.value


def test_a_request_carries_what_it_was_given(server: ScriptedServer) -> None:
    """R1.1: path, query, headers and JSON body reach the service as given, once."""
    server.answers["/base/x"] = json_answer({"ok": True})
    http = JsonHttp(server.url + "/base/", timeout_sec=5, headers={"Authorization": "Bearer k"})
    answer = http.request("POST", "/x", query={"a": "1 2"}, body={"n": 1}, headers={"X-Caller": "c"})
    assert (answer.status, answer.body) == (200, {"ok": True})
    (received,) = server.received
    assert (received.method, received.path) == ("POST", "/base/x?a=1+2")
    assert json.loads(received.body) == {"n": 1}
    assert received.headers["authorization"] == "Bearer k"
    assert received.headers["x-caller"] == "c"
    assert received.headers["content-type"] == "application/json"


@pytest.mark.parametrize("status", [400, 401, 404, 409, 423, 429, 500, 503, 520])
def test_a_status_is_for_the_caller_to_judge(server: ScriptedServer, status: int) -> None:
    """R5.3: an answer with an error status is an answer, with its problem document if it has one."""
    server.answers["/x"] = Scripted(
        status=status, body=b'{"code": "busy"}', content_type="application/problem+json; charset=utf-8"
    )
    answer = JsonHttp(server.url, timeout_sec=5).request("GET", "/x")
    assert (answer.status, answer.body) == (status, {"code": "busy"})


def test_a_proxys_error_page_is_an_answer_without_a_body(server: ScriptedServer) -> None:
    """R5.3: a 502 with HTML is still told by its status."""
    server.answers["/x"] = Scripted(status=502, body=b"<html>", content_type="text/html")
    answer = JsonHttp(server.url, timeout_sec=5).request("GET", "/x")
    assert (answer.status, answer.body) == (502, None)


def test_no_content_is_an_answer(server: ScriptedServer) -> None:
    """R5.3: 204 has no body to decode."""
    server.answers["/x"] = Scripted(status=204, content_type=None)
    assert JsonHttp(server.url, timeout_sec=5).request("GET", "/x").body is None


@pytest.mark.parametrize(
    "answer",
    [
        Scripted(body=b"{}", wait_sec=30),
        Scripted(body=b'"' + b"x" * 200 + b'"', drip_sec=0.1),
    ],
    ids=["silent", "dripping"],
)
def test_time_is_bounded_as_a_whole(server: ScriptedServer, answer: Scripted) -> None:
    """R2.1, R5.3: a service that is silent, or that sends a byte now and then, is given up in time."""
    server.answers["/x"] = answer
    began = time.monotonic()
    failure = failure_of(JsonHttp(server.url, timeout_sec=0.5))
    assert time.monotonic() - began < 3
    assert (failure.fault, failure.sent) == (HttpFault.TIMEOUT, True)


def test_dripping_headers_are_given_up_in_time() -> None:
    """R2.1: the bound also holds for a service that never gets to the end of its headers."""

    def drip() -> None:
        connection, _ = listening.accept()
        with connection, suppress(OSError):
            connection.sendall(b"HTTP/1.1 200 OK\r\nX-Drip: ")
            while True:
                connection.sendall(b"x")
                time.sleep(0.05)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=drip, daemon=True).start()
        http = JsonHttp(f"http://127.0.0.1:{listening.getsockname()[1]}", timeout_sec=0.5)
        began = time.monotonic()
        assert failure_of(http).fault is HttpFault.TIMEOUT
        assert time.monotonic() - began < 3


def test_a_refused_connection_is_known_to_have_sent_nothing() -> None:
    """R5.3: only what surely never left is not ambiguous."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    failure = failure_of(JsonHttp(f"http://127.0.0.1:{port}", timeout_sec=5))
    assert (failure.fault, failure.sent) == (HttpFault.CONNECTION, False)


@pytest.mark.parametrize("host", ["no-such-host.invalid", "no..host"])
def test_an_unknown_host_is_known_to_have_been_sent_nothing(host: str) -> None:
    """R5.3: a name that does not resolve is a connection that never was."""
    failure = failure_of(JsonHttp(f"http://{host}", timeout_sec=5))
    assert (failure.fault, failure.sent) == (HttpFault.CONNECTION, False)


def test_tls_with_a_service_that_speaks_none_sends_nothing(server: ScriptedServer) -> None:
    """R5.3: a failed handshake comes before the request."""
    failure = failure_of(JsonHttp(server.url.replace("http:", "https:"), timeout_sec=2))
    assert failure.sent is False
    assert server.received == []


def test_a_dropped_connection_may_have_taken_effect(server: ScriptedServer) -> None:
    """R5.3: an answer that is cut off says nothing about what the service did."""
    server.answers["/x"] = Scripted(body=b'{"a": 1}', claim=100)
    failure = failure_of(JsonHttp(server.url, timeout_sec=5), "POST")
    assert (failure.fault, failure.sent) == (HttpFault.CONNECTION, True)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_redirect_is_followed(server: ScriptedServer, status: int) -> None:
    """R1.1, R5.3: neither key nor command goes where a redirect points, on this host or another."""
    with ScriptedServer() as other:
        server.answers["/x"] = Scripted(status=status, headers={"Location": f"{other.url}/steal"})
        failure = failure_of(JsonHttp(server.url, timeout_sec=5, headers={"Authorization": "k"}))
        assert failure.fault is HttpFault.REDIRECTED
        assert other.received == []
    assert len(server.received) == 1


def test_size_is_bounded_when_it_is_announced(server: ScriptedServer) -> None:
    """R2.1: an answer of 10 MB is not taken."""
    server.answers["/x"] = Scripted(body=TEN_MEGABYTES)
    assert failure_of(JsonHttp(server.url, timeout_sec=20)).fault is HttpFault.TOO_LARGE


def test_size_is_bounded_when_it_is_not_announced(server: ScriptedServer) -> None:
    """R2.1: nor is one that comes in chunks and tells no length."""
    chunk = b"%x\r\n%s\r\n" % (len(TEN_MEGABYTES), TEN_MEGABYTES)
    server.answers["/x"] = Scripted(body=chunk + b"0\r\n\r\n", headers={"Transfer-Encoding": "chunked"})
    assert failure_of(JsonHttp(server.url, timeout_sec=20)).fault is HttpFault.TOO_LARGE


@pytest.mark.parametrize(
    "answer",
    [
        Scripted(body=b"{}", content_type="text/html"),
        Scripted(body=b"{}", content_type=None),
        Scripted(body=b""),
        Scripted(body=b"{'a': 1}"),
        Scripted(body=b'{"a": 1'),
        Scripted(body=b"\xff\xfe"),
        Scripted(body=b"[" * 100_000),
        Scripted(body=b'{"a": 1, "a": 2}'),
        Scripted(body=b'{"a": NaN}'),
        Scripted(body=b"{}", headers={"Content-Encoding": "gzip"}),
    ],
    ids=["html", "untyped", "empty", "quotes", "cut", "utf-16", "deep", "twice", "nan", "gzip"],
)
def test_what_is_not_strictly_json_is_refused(server: ScriptedServer, answer: Scripted) -> None:
    """R2.1, R5.3: a 2xx answer says that it is JSON and is JSON, or it is no answer."""
    server.answers["/x"] = answer
    assert failure_of(JsonHttp(server.url, timeout_sec=5)).fault is HttpFault.NOT_JSON


def test_nan_is_decoded_only_for_those_who_judge_it() -> None:
    """R2.1 (P08): a feed's NaN is kept for the row to be judged; elsewhere it is no JSON."""
    decoded = decode_json(b"[NaN, -Infinity, 1]", admit_nan=True)
    assert isinstance(decoded, list)
    assert math.isnan(decoded[0])
    assert decoded[1:] == [-math.inf, 1]
    with pytest.raises(ValueError, match="NaN is not JSON"):
        decode_json(b"[NaN]")


@pytest.mark.parametrize(
    "url", ["", "profit.example.com", "ftp://profit.example.com", "file:///etc/passwd", "http://"]
)
def test_an_address_of_another_kind_is_refused(url: str) -> None:
    """R11.7: only http and https addresses are opened, and the field is named."""
    with pytest.raises(InvalidDocument) as refusal:
        JsonHttp(url, timeout_sec=5)
    assert refusal.value.field == "base_url"


class CountingServer:
    """Answers ``answers`` requests on each connection, and closes it when one more has come."""

    def __init__(self, answers: int) -> None:
        self.requests: list[tuple[int, bytes]] = []
        self._answers = answers
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        """Take no more connections."""
        self._listener.close()

    def _serve(self) -> None:
        number = 0
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._answer, args=(connection, number), daemon=True).start()
                number += 1

    def _answer(self, connection: socket.socket, number: int) -> None:
        with connection, suppress(OSError):
            for answered in range(self._answers + 1):
                request = connection.recv(65536)
                if not request:
                    return
                self.requests.append((number, request))
                if answered < self._answers:
                    connection.sendall(
                        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
                    )


@pytest.fixture
def counting() -> Iterator[CountingServer]:
    """A server that closes each connection at its third request."""
    running = CountingServer(answers=2)
    yield running
    running.close()


def test_a_connection_is_kept_for_the_next_reading(counting: CountingServer) -> None:
    """R5.4: read-backs share connections, and one that the service has closed meanwhile is a read-back all the same."""
    http = JsonHttp(counting.url, timeout_sec=5, keep_for_reading=True)
    assert [http.request("GET", f"/{number}").status for number in range(3)] == [200, 200, 200]
    assert [number for number, _ in counting.requests] == [0, 0, 0, 1]
    assert counting.requests[2][1].startswith(b"GET /2 ")  # what went over the closed one is asked anew
    assert counting.requests[3][1].startswith(b"GET /2 ")


def test_a_command_has_a_connection_of_its_own(counting: CountingServer) -> None:
    """R5.3: a command never goes over a kept connection, nor is its own kept: when it seems lost, it may have arrived."""
    http = JsonHttp(counting.url, timeout_sec=5, keep_for_reading=True)
    for method in ("GET", "POST", "POST", "GET"):
        http.request(method, "/x")
    assert [number for number, _ in counting.requests] == [0, 1, 2, 0]
    assert all(b"Connection: close" in request for number, request in counting.requests if number)


def test_a_connection_unused_for_long_is_not_used_again(
    counting: CountingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R5.4: what was kept before a function was frozen is no more to be relied on."""
    monkeypatch.setattr("blsflow.adapters.http._KEPT_SEC", -1.0)
    http = JsonHttp(counting.url, timeout_sec=5, keep_for_reading=True)
    for _ in range(2):
        http.request("GET", "/x")
    assert [number for number, _ in counting.requests] == [0, 1]


def test_a_reading_on_a_new_connection_is_asked_once(server: ScriptedServer) -> None:
    """R5.3: a service that drops a new connection is unavailable: nothing is asked in a loop."""
    server.answers["/x"] = Scripted(body=b"{", claim=99)
    http = JsonHttp(server.url, timeout_sec=5, keep_for_reading=True)
    assert failure_of(http).fault is HttpFault.CONNECTION
    assert len(server.received) == 1
