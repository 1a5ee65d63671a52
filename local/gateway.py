"""An HTTP API on a loopback port: requests become events (payload 2.0) for functions in containers of their own.

Stands in for API Gateway where there is none. It verifies no token: everybody is the caller whose claims it is given.
Like there, a function is asked in an idle container if there is one, else in a new one.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import threading
import time
import uuid
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import parse_qsl, unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Mapping

_TOKEN_LIFE_SEC = 600
_POLL_SEC = 0.05


class ContainerDied(Exception):
    """The container ended before it answered."""


class Containers:
    """A function's containers: as many as were needed at once."""

    def __init__(self, module: str, environ: Mapping[str, str]) -> None:
        self._module = module
        self._environ = dict(environ)
        self._idle: list[subprocess.Popen[str]] = []
        self._all: list[subprocess.Popen[str]] = []
        self._lock = threading.Lock()

    def invoke(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the function answers; `ContainerDied` if it was killed, `RuntimeError` if it raised."""
        container = self._taken()
        assert container.stdin is not None  # noqa: S101 - piped
        assert container.stdout is not None  # noqa: S101 - piped
        line = ""
        with suppress(OSError, ValueError):
            container.stdin.write(json.dumps(event) + "\n")
            container.stdin.flush()
            line = container.stdout.readline()
        if not line:
            raise ContainerDied(self._module)
        with self._lock:
            self._idle.append(container)
        document: dict[str, Any] = json.loads(line)
        if "answer" not in document:
            raise RuntimeError(document["error"])
        answer: dict[str, Any] = document["answer"]
        return answer

    def busy(self) -> list[subprocess.Popen[str]]:
        """Return the containers that are handling an event."""
        with self._lock:
            return [each for each in self._all if each not in self._idle and each.poll() is None]

    def close(self) -> None:
        """End them all."""
        for container in self._all:
            container.kill()
        for container in self._all:
            container.communicate()

    def _taken(self) -> subprocess.Popen[str]:
        with self._lock:
            while self._idle:
                container = self._idle.pop()
                if container.poll() is None:
                    return container
            container = subprocess.Popen(
                [sys.executable, "-m", "local.container", self._module],
                env=self._environ,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                encoding="utf-8",
            )
            self._all.append(container)
            return container


class Gateway:
    """Serves paths, each by one function, from construction until `close`."""

    def __init__(
        self,
        functions: Mapping[str, Containers],
        *,
        claims: Mapping[str, str],
        allow_origin: str | None = None,
        port: int = 0,
    ) -> None:
        self._server = _Server(("127.0.0.1", port), _Handler)
        self._server.functions = functions
        self._server.claims = claims
        self._server.cors = {} if allow_origin is None else {"access-control-allow-origin": allow_origin}
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(_POLL_SEC,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop accepting, and end the functions' containers."""
        self._server.shutdown()
        for containers in set(self._server.functions.values()):
            containers.close()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    functions: Mapping[str, Containers]
    claims: Mapping[str, str]
    cors: Mapping[str, str]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def _serve(self) -> None:
        function = self.server.functions.get(urlsplit(self.path).path)
        if function is None:
            self._send(404, {"content-type": "application/json"}, b'{"message":"Not Found"}')
            return
        try:
            answer = function.invoke(self._event())
        except (ContainerDied, RuntimeError):
            self._send(500, {"content-type": "application/json"}, b'{"message":"Internal Server Error"}')
            return
        body = answer.get("body", "")
        content = base64.b64decode(body) if answer.get("isBase64Encoded") else body.encode()
        self._send(answer["statusCode"], answer.get("headers", {}), content)

    def _event(self) -> dict[str, Any]:
        parts = urlsplit(self.path)
        query: dict[str, str] = {}
        for name, value in parse_qsl(parts.query, keep_blank_values=True):
            query[name] = f"{query[name]},{value}" if name in query else value
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        now = time.time()
        event: dict[str, Any] = {
            "version": "2.0",
            "routeKey": f"{self.command} {parts.path}",
            "rawPath": unquote(parts.path),
            "rawQueryString": parts.query,
            "headers": {name.lower(): value for name, value in self.headers.items()},
            "requestContext": {
                "authorizer": {
                    "jwt": {
                        "claims": {"exp": str(int(now) + _TOKEN_LIFE_SEC), **self.server.claims},
                        "scopes": None,
                    }
                },
                "http": {
                    "method": self.command,
                    "path": parts.path,
                    "protocol": self.request_version,
                    "sourceIp": self.client_address[0],
                    "userAgent": self.headers.get("User-Agent", ""),
                },
                "requestId": uuid.uuid4().hex,
                "stage": "$default",
                "timeEpoch": int(now * 1000),
            },
            "isBase64Encoded": False,
        }
        if query:
            event["queryStringParameters"] = query
        if body:
            event |= {"body": base64.b64encode(body).decode(), "isBase64Encoded": True}
        return event

    def _send(self, status: int, headers: Mapping[str, str], content: bytes) -> None:
        # The caller may have gone meanwhile, as from a held stream; that is its affair.
        with suppress(OSError):
            self.send_response(status)
            for name, value in {**headers, **self.server.cors}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve  # noqa: N815 - named by http.server

    def log_message(self, *_: object) -> None:
        """Keep quiet: addresses may hold tokens."""
