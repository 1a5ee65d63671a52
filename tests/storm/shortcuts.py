"""What makes a sequence cheap without changing what the product does or meets: quicker ways for what it asks of others."""

from __future__ import annotations

import json
from contextlib import contextmanager
from functools import cache
from http.client import HTTPConnection
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final
from unittest.mock import patch
from urllib.parse import parse_qsl, unquote, urlsplit

import pg8000.core
import pg8000.native

import blsflow.adapters.http
from blsflow.adapters.postgres.reconcile import ReconcileQueries
from local.simulators.web import Answer, Request

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from local.simulators.web import Served

_SERVED: Final[dict[int, Served]] = {}
_to_statement: Final = cache(pg8000.native.to_statement)


@contextmanager
def shortcuts(*services: Served) -> Iterator[None]:
    """Meanwhile the driver does less for the same, and requests to these are answered by them in the thread that asks.

    Only meanwhile: others in this process are to meet the product as it is, and a port that was theirs may become another's.
    """
    ports = {served._server.server_port: served for served in services}
    with (
        # A statement would be parsed anew for every connection and every unprepared run, a millisecond each.
        patch.object(pg8000.native, "to_statement", _to_statement),
        # The server would send the answer to each part of a request by itself, though all are asked for at its end.
        patch.object(pg8000.core, "FLUSH_MSG", b""),
        patch.object(blsflow.adapters.http, HTTPConnection.__name__, _Direct),
        patch.dict(_SERVED, ports),
    ):
        yield


def without_maintenance() -> AbstractContextManager[object]:
    """Reconcile's partitions, and pages of what is past its retention, are left alone meanwhile."""
    return patch.object(ReconcileQueries, "maintain", lambda *_: None)


class Prepared:
    """A connection of the driver that prepares each text once, and commits each by itself."""

    def __init__(self, connection: pg8000.native.Connection) -> None:
        self._connection = connection
        self._prepared: dict[str, Any] = {}

    def run(self, sql: str, **params: Any) -> list[list[Any]]:
        """Run it as the driver does; transactions of several statements are none."""
        if sql in {"begin", "commit"}:
            return []
        if not params:
            return self._connection.run(sql) or []
        if sql not in self._prepared:
            self._prepared[sql] = self._connection.prepare(sql)
        return self._prepared[sql].run(**params) or []

    def close(self) -> None:
        """Close it."""
        self._connection.close()


class Beginnings:
    """Sends the beginning of a transaction with its first statement, in one round trip: nobody acts in between."""

    def __init__(self, connection: pg8000.native.Connection) -> None:
        self._connection = connection
        self._take_answer = connection.handle_messages
        self._unanswered = False
        connection.handle_messages = self._take_answers

    def send(self, sql: str) -> None:
        """Have this go before what comes next."""
        self._connection.send_QUERY(sql)
        self._unanswered = True

    def _take_answers(self, context: pg8000.core.Context) -> None:
        if self._unanswered:
            self._unanswered = False
            self._take_answer(pg8000.core.Context("begin"))
        self._take_answer(context)


class _Direct(HTTPConnection):
    def connect(self) -> None:
        if self.port in _SERVED:
            self.sock = _Exchange(_SERVED[self.port])
        else:
            super().connect()


class _Exchange:
    """A connection's end of which the other is a service: what was sent is answered once somebody wants to read."""

    def __init__(self, served: Served) -> None:
        self._served = served
        self._sent = bytearray()

    def sendall(self, data: bytes) -> None:
        self._sent += data

    def makefile(self, _mode: str) -> BytesIO:
        head, _, body = bytes(self._sent).partition(b"\r\n\r\n")
        self._sent.clear()
        request_line, *fields = head.decode("latin-1").split("\r\n")
        method, target, _protocol = request_line.split(" ")
        parts = urlsplit(target)
        answer = self._served._server.service.handle(
            Request(
                method=method,
                path=tuple(unquote(part) for part in parts.path.strip("/").split("/")),
                query=dict(parse_qsl(parts.query)),
                headers={name.lower(): value for name, value in (field.split(": ", 1) for field in fields)},
                body=body,
            )
        )
        if not isinstance(answer, Answer):
            return BytesIO()
        content = json.dumps(answer.document).encode()
        headers = {"Content-Type": "application/json", **answer.headers, "Content-Length": str(len(content))}
        told = "\r\n".join(f"{name}: {value}" for name, value in headers.items())
        return BytesIO(f"HTTP/1.1 {answer.status} .\r\n{told}\r\n\r\n".encode() + content)

    def close(self) -> None:
        """There is nothing to close."""
