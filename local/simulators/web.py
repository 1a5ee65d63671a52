"""JSON services on loopback ports, just enough for a simulator."""

from __future__ import annotations

import json
import socket
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Protocol, Self
from urllib.parse import parse_qsl, unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_BODY_BYTES = 4 * 1024 * 1024
POLL_SEC = 0.02


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """What arrived; `path` is split at slashes and unquoted, header names are in lower case."""

    method: str
    path: tuple[str, ...]
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:  # noqa: ANN401 - whatever the caller sent
        """Return the decoded body; ValueError if it is not JSON."""
        return json.loads(self.body)


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What goes back. NaN and infinities are sent as Python writes them, as careless services do."""

    document: Any
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


class Drop:
    """Says that the connection is to be closed without an answer."""


class Service(Protocol):
    """Answers requests, from many threads at once."""

    def handle(self, request: Request) -> Answer | Drop:
        """Answer one request."""


def problem(status: int, code: str, detail: str) -> Answer:
    """Make an RFC 9457 problem document with a stable code."""
    document = {"type": "about:blank", "title": code, "status": status, "code": code, "detail": detail}
    return Answer(document=document, status=status, headers={"Content-Type": "application/problem+json"})


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Head and body go out as two small segments: the second would wait 40 ms for an acknowledgement.
    disable_nagle_algorithm = True
    server: _Server

    def _serve(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        if length > MAX_BODY_BYTES:
            self._answer(problem(413, "too_large", f"at most {MAX_BODY_BYTES} bytes"))
            return
        parts = urlsplit(self.path)
        request = Request(
            method=self.command,
            path=tuple(unquote(part) for part in parts.path.strip("/").split("/")),
            query=dict(parse_qsl(parts.query)),
            headers={name.lower(): value for name, value in self.headers.items()},
            body=self.rfile.read(length),
        )
        answer = self.server.service.handle(request)
        if isinstance(answer, Answer):
            self._answer(answer)
        else:
            self.close_connection = True
            with suppress(OSError):
                self.connection.shutdown(socket.SHUT_RDWR)

    def _answer(self, answer: Answer) -> None:
        body = json.dumps(answer.document).encode()
        self.send_response(answer.status)
        for name, value in {"Content-Type": "application/json", **answer.headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        # The caller may have given up waiting; that is its affair.
        with suppress(OSError):
            self.wfile.write(body)

    do_GET = do_POST = do_PUT = _serve  # noqa: N815 - named by http.server

    def log_message(self, *_: object) -> None:
        """Keep quiet: the simulators' standard output is for their addresses."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    service: Service


class Served:
    """A service on a loopback port, from construction until `close`."""

    def __init__(self, service: Service, port: int = 0) -> None:
        self._server = _Server(("127.0.0.1", port), _Handler)
        self._server.service = service
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(POLL_SEC,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop accepting and free the port."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
