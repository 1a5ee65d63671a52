"""A proxy that cuts connections: before the request is passed on, before the answer, or anywhere in its body."""

from __future__ import annotations

import http.client
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Final, Self
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable

WHOLE: Final = -1
"""Instead of a number of bytes: everything comes through."""
UNANSWERED: Final = -2
"""The answer is taken and not passed on."""
UNASKED: Final = -3
"""The request is not passed on."""


class CuttingProxy:
    """Passes GET requests on to a server. ``cut`` is asked, for each answer, how many bytes of its body come through."""

    def __init__(self, url: str, cut: Callable[[bytes], int]) -> None:
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.upstream = urlsplit(url).netloc
        self._server.cut = cut
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    upstream: str
    cut: Callable[[bytes], int]


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        if self.server.cut(b"") == UNASKED:
            return
        upstream = http.client.HTTPConnection(self.server.upstream, timeout=60)
        headers = {name: value for name, value in self.headers.items() if name.lower() != "connection"}
        upstream.request("GET", self.path, headers=headers)
        answer = upstream.getresponse()
        body = answer.read()
        upstream.close()
        through = self.server.cut(body)
        if through == UNANSWERED:
            return
        # The client may have gone first.
        with suppress(OSError):
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in {"date", "server", "connection"}:
                    self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body if through == WHOLE else body[:through])

    def log_message(self, *_: object) -> None:
        """Keep quiet."""
