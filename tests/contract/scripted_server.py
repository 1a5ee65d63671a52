"""A real HTTP server on this machine that answers as a test tells it to, well or badly."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self


@dataclass(frozen=True, kw_only=True)
class Scripted:
    """One answer. `drip_sec` waits before each byte of the body; `claim` overrides the content length."""

    status: int = 200
    body: bytes = b""
    content_type: str | None = "application/json"
    headers: dict[str, str] = field(default_factory=dict)
    wait_sec: float = 0.0
    drip_sec: float = 0.0
    claim: int | None = None
    date: bool = True


@dataclass(frozen=True, kw_only=True)
class Received:
    """One request as it arrived; header names in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


def json_answer(document: object, status: int = 200) -> Scripted:
    """Return an ordinary answer with this document."""
    return Scripted(status=status, body=json.dumps(document).encode())


class ScriptedServer:
    """Answers by path, 404 elsewhere, and keeps what it received. Hanging answers end with the server."""

    def __init__(self) -> None:
        self.answers: dict[str, Scripted] = {}
        self.received: list[Received] = []
        self.closing = threading.Event()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.script = self
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    script: ScriptedServer


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        script = self.server.script
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        headers = {name.lower(): value for name, value in self.headers.items()}
        script.received.append(Received(method=self.command, path=self.path, headers=headers, body=body))
        answer = script.answers.get(self.path.partition("?")[0], Scripted(status=404))
        script.closing.wait(answer.wait_sec)
        try:
            self._head(answer)
            self._body(answer, script.closing)
        except OSError:
            return  # the client gave up, as the test wants

    def do_POST(self) -> None:
        self.do_GET()

    def _head(self, answer: Scripted) -> None:
        self.send_response_only(answer.status)
        if answer.date:
            self.send_header("Date", self.date_time_string())
        if answer.content_type is not None:
            self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body) if answer.claim is None else answer.claim))
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _body(self, answer: Scripted, closing: threading.Event) -> None:
        if not answer.drip_sec:
            self.wfile.write(answer.body)
            return
        for byte in answer.body:
            if closing.wait(answer.drip_sec):
                return
            self.wfile.write(bytes([byte]))

    def log_message(self, *_: object) -> None:
        """Keep the test's output to itself."""
