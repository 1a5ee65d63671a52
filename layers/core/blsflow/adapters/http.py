"""One JSON request to an outside service, under the rules that hold for all of them.

Each command has a connection of its own and is sent once: a kept connection that the other side is just
closing would look like a request that was lost on the way. Only what is asked with GET, which changes nothing,
may go over one that was kept for a moment, and is asked anew over a new one if that has been closed meanwhile.
The environment's proxies and .netrc play no part.
No redirect is followed, so neither a key nor a command reaches another host than the configured one. The
answer is bounded in time and size, must say that it is JSON, and must be JSON.

Longer than most modules: sending, keeping and reading share each rule's failure, and are read together.
"""

from __future__ import annotations

import json
import string
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import TYPE_CHECKING, NoReturn, TypeAlias
from urllib.parse import quote, urlencode, urlsplit

from blsflow.adapters.deadlines import Deadline
from blsflow.domain.errors import BlsflowError, InvalidDocument

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_ANSWER_BYTES = 4 * 1024 * 1024

_CHUNK_BYTES = 64 * 1024
_KEPT_SEC = 5.0
"""So long a connection without a request may be used again: within one pass, but not after a function was frozen."""
_SUCCESS = range(200, 300)
_REDIRECT = range(300, 400)
_PLAIN_IN_HEADERS = string.punctuation.replace("%", "")


Secret: TypeAlias = str | Callable[[], str]
"""A text, or what gives the newest one: a secret that may be rotated while this process lives."""


def bearer(token: Secret) -> Secret:
    """Return an Authorization header's value for a token, as lasting as the token itself.

    Blanks and line ends around it are dropped; one that no header can carry raises `InvalidDocument`, unseen.
    """
    return _bearer(token) if isinstance(token, str) else lambda: _bearer(token())


def _bearer(token: str) -> str:
    text = token.strip()
    if not (text.isascii() and text.isprintable()):
        raise InvalidDocument(field="token", value="(not shown)", cause="has characters that no header holds")
    return f"Bearer {text}"


def header_text(value: str) -> str:
    """Percent-encode what a header cannot carry: anything but visible ASCII, and the percent sign itself."""
    return quote(value, safe=_PLAIN_IN_HEADERS)


class HttpFault(StrEnum):
    """Why a request brought no answer that could be read."""

    TIMEOUT = "timeout"
    CONNECTION = "connection"
    REDIRECTED = "redirected"
    TOO_LARGE = "too_large"
    NOT_JSON = "not_json"


class HttpFailure(BlsflowError):
    """No readable answer. `sent` is False only if surely nothing of the request reached the service."""

    def __init__(self, fault: HttpFault, detail: str, *, sent: bool = True) -> None:
        super().__init__(f"{fault}: {detail}")
        self.fault = fault
        self.detail = detail
        self.sent = sent


@dataclass(frozen=True, kw_only=True, slots=True)
class HttpAnswer:
    """What the service answered, whatever its status.

    Names of `headers` are in lower case. `body` is the decoded JSON; it is None if the answer has no content,
    and if an answer other than 2xx carries something else than JSON (a proxy's page).
    """

    status: int
    headers: Mapping[str, str]
    body: object


class JsonHttp:
    """Sends JSON requests to one service.

    `timeout_sec` bounds the exchange as a whole, however slowly bytes trickle; only connecting to a host of
    several addresses may take that long for each. With `keep_for_reading`, connections of GET requests are kept for the
    next ones, as many as were ever in use at once. With `admit_nan`, the NaN and Infinity that some services
    write into their JSON are decoded to floats for the caller to judge; otherwise such an answer is no JSON. `address` is
    the service's, as people are told of it.
    """

    def __init__(  # noqa: PLR0913 - what a service is to be asked with
        self,
        base_url: str,
        *,
        timeout_sec: float,
        headers: Mapping[str, Secret] | None = None,
        max_bytes: int = MAX_ANSWER_BYTES,
        keep_for_reading: bool = False,
        admit_nan: bool = False,
    ) -> None:
        parts = urlsplit(base_url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise InvalidDocument(field="base_url", value=base_url, cause="is not an http or https address")
        self._connection_type = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        self._host, self._port = parts.hostname, parts.port
        self._base_path = parts.path.rstrip("/")
        self.address = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{self._base_path}"
        self._timeout_sec = timeout_sec
        self._headers: dict[str, Secret] = {
            "Accept": "application/json, application/problem+json",
            "Accept-Encoding": "identity",  # a compressed answer has a size that is only known once unpacked
            "User-Agent": "blsflow-scheduler",
            "Connection": "close",
            **(headers or {}),
        }
        self._max_bytes = max_bytes
        self._keep_for_reading = keep_for_reading
        self._kept: list[tuple[HTTPConnection, float]] = []  # append and pop need no lock
        self._admit_nan = admit_nan

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> HttpAnswer:
        """Send one request, with `body` as JSON unless it is None, and return its answer.

        Raises:
            HttpFailure: there is no answer, or none that may be used.
        """
        target = self._base_path + path + (f"?{urlencode(query)}" if query else "")
        content = None if body is None else json.dumps(body, allow_nan=False).encode()
        standing = self._standing_headers()
        sent_headers = {**standing, **(headers or {})}
        if content is not None:
            sent_headers["Content-Type"] = "application/json"
        deadline = time.monotonic() + self._timeout_sec
        keep = self._keep_for_reading and method == "GET"
        if keep:
            del sent_headers["Connection"]
            while (kept := self._newest_kept()) is not None:
                with suppress(_GoneError):
                    return self._exchange(kept, deadline, method, target, content, sent_headers, keep=True)
        connection = self._connection_type(self._host, self._port, timeout=self._timeout_sec)
        try:
            _connect(connection)
            return self._exchange(connection, deadline, method, target, content, sent_headers, keep=keep)
        except _GoneError as error:
            raise HttpFailure(HttpFault.CONNECTION, f"dropped: {error}") from error

    def _exchange(  # noqa: PLR0913, PLR0917 - a request
        self,
        connection: HTTPConnection,
        deadline: float,
        method: str,
        target: str,
        content: bytes | None,
        headers: Mapping[str, str],
        *,
        keep: bool,
    ) -> HttpAnswer:
        whole = False
        try:
            with Deadline(connection.sock, deadline) as limit:
                try:
                    connection.request(method, target, body=content, headers=headers)
                    response = connection.getresponse()
                    raw = self._read(response)
                except (OSError, HTTPException) as error:
                    if limit.passed or isinstance(error, TimeoutError):
                        raise HttpFailure(HttpFault.TIMEOUT, f"no answer in {self._timeout_sec} s") from error
                    raise _GoneError(type(error).__name__) from error
            if limit.passed:
                raise HttpFailure(HttpFault.TIMEOUT, f"no whole answer in {self._timeout_sec} s")
            answer = self._answer(response, raw)
            whole = response.isclosed() and not response.will_close
            return answer
        finally:
            if keep and whole:
                self._kept.append((connection, time.monotonic()))
            else:
                connection.close()

    def _newest_kept(self) -> HTTPConnection | None:
        """One that was used a moment ago; older ones are closed."""
        while self._kept:
            try:
                connection, used_at = self._kept.pop()
            except IndexError:  # another thread was quicker
                break
            if time.monotonic() - used_at <= _KEPT_SEC:
                return connection
            connection.close()
        return None

    def _standing_headers(self) -> dict[str, str]:
        try:
            return {n: value if isinstance(value, str) else value() for n, value in self._headers.items()}
        except BlsflowError as error:
            raise HttpFailure(HttpFault.CONNECTION, f"no usable credentials: {error}", sent=False) from error

    def _read(self, response: HTTPResponse) -> bytes:
        raw = bytearray()
        while chunk := response.read(_CHUNK_BYTES):
            raw += chunk
            if len(raw) > self._max_bytes:
                raise HttpFailure(HttpFault.TOO_LARGE, f"the answer exceeds {self._max_bytes} bytes")
        return bytes(raw)

    def _answer(self, response: HTTPResponse, raw: bytes) -> HttpAnswer:
        headers = {name.lower(): value for name, value in response.getheaders()}
        status = response.status
        if status in _REDIRECT:
            host = _host_of(headers.get("location", "")) or self._host
            raise HttpFailure(
                HttpFault.REDIRECTED, f"http {status} to {host}: set the URL to the service itself"
            )
        length = headers.get("content-length", "")
        if length.isascii() and length.isdigit() and len(raw) < int(length):
            raise HttpFailure(HttpFault.CONNECTION, f"cut off after {len(raw)} of {length} bytes")
        if status == HTTPStatus.NO_CONTENT:
            return HttpAnswer(status=status, headers=headers, body=None)
        try:
            body = self._decode(headers, raw)
        except HttpFailure:
            if status in _SUCCESS:
                raise
            body = None
        return HttpAnswer(status=status, headers=headers, body=body)

    def _decode(self, headers: Mapping[str, str], raw: bytes) -> object:
        content_type = headers.get("content-type", "").split(";")[0].strip().lower()
        if content_type != "application/json" and not content_type.endswith("+json"):
            raise HttpFailure(HttpFault.NOT_JSON, f"content type {content_type or 'missing'!r}")
        if headers.get("content-encoding", "identity").lower() != "identity":
            raise HttpFailure(HttpFault.NOT_JSON, f"content encoding {headers['content-encoding']!r}")
        try:
            return decode_json(raw, admit_nan=self._admit_nan)
        except ValueError as error:
            raise HttpFailure(HttpFault.NOT_JSON, str(error)) from error


def decode_json(raw: bytes, *, admit_nan: bool = False) -> object:
    """Decode UTF-8 JSON; a name given twice in one object, whose value would be a guess, is refused.

    Raises:
        ValueError: the bytes are no such JSON.
    """
    try:
        return json.loads(
            raw.decode("utf-8"),
            object_pairs_hook=_unique,
            parse_constant=float if admit_nan else _no_constant,
        )
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


class _GoneError(Exception):
    """The connection ended before there was an answer."""


def _connect(connection: HTTPConnection) -> None:
    try:
        connection.connect()
    except TimeoutError as error:
        connection.close()
        raise HttpFailure(HttpFault.TIMEOUT, "no connection in time", sent=False) from error
    except (OSError, UnicodeError) as error:  # the latter for a host that no name can be made of
        connection.close()
        raise HttpFailure(HttpFault.CONNECTION, f"no connection: {error}", sent=False) from error


def _host_of(location: str) -> str | None:
    try:
        return urlsplit(location).hostname
    except ValueError:
        return None


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    decoded = dict(pairs)
    if len(decoded) != len(pairs):
        raise ValueError("a name occurs twice in one object")
    return decoded


def _no_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")
