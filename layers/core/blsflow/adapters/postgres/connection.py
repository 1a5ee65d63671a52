"""One database session: prepared named statements, TLS, time-outs, and the one seam where driver errors are translated.

pg8000 never sets TCP_NODELAY: a COPY that fits about one segment then waits 43 ms for an acknowledgement. The socket is
therefore connected here and handed over.
"""

from __future__ import annotations

import socket
import struct
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pg8000.exceptions
import pg8000.native
from pg8000.converters import TIMESTAMPTZ, make_params, timestamptz_in
from pg8000.core import BIND, DATA_ROW, NULL_BYTE, SYNC_MSG, Context

from blsflow.adapters.postgres.address import tls_context
from blsflow.adapters.postgres.statements import as_list, statements
from blsflow.ports.errors import InvariantBroken, StoreConflict, StoreError, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from io import RawIOBase

    from blsflow.adapters.postgres.address import DatabaseAddress

_CONFLICTS = {"40001", "40P01", "55P03"}
_UNAVAILABLE_CLASSES = {"08", "53", "57", "58"}
CONNECT_TIMEOUT_SEC = 5
SILENCE_SEC = 2
"""So much longer than a statement may take is its answer waited for: the server is the first to give up.

Where the time left bounds a transaction, the server goes by what was left when it began, and we by what is left now: if
others took their time before a statement, we are the first, and the server ends it later.
"""
_LEAST_SEC = 0.1
_INT2, _INT4 = struct.Struct(">h"), struct.Struct(">i")


class Session:
    """A connection with its prepared statements; not for two threads at once."""

    def __init__(
        self,
        address: DatabaseAddress,
        *,
        connect_timeout_sec: float = CONNECT_TIMEOUT_SEC,
        statement_timeout_sec: float = 60,
    ) -> None:
        self.address = address
        self.left_sec: Callable[[], float] | None = None
        """The time in which an answer is still of use; None: all that a statement may take."""
        self._statement_timeout_sec = statement_timeout_sec
        self._prepared: dict[str, Any] = {}
        with translated():
            self._connection = _connect(address, connect_timeout_sec, statement_timeout_sec)
        # Not the one that was handed over: under TLS that has gone into the driver's own, and is closed.
        self._socket = self._connection._usock  # noqa: SLF001 - the driver shows its socket nowhere else

    def query(self, statement: str, /, **params: object) -> list[dict[str, Any]]:
        """Run a named statement (one round trip once prepared) and return its rows as mappings."""
        return self.query_text(statements()[statement], **params)

    def query_text(self, sql: str, /, **params: object) -> list[dict[str, Any]]:
        """Run a statement put together from fragments of ours; each text is prepared once."""
        with self._exchange():
            prepared = self._prepare(sql)
            rows = prepared.run(**params)
        if not rows:
            return []
        columns = [column["name"] for column in prepared.cols]
        return [dict(zip(columns, row, strict=True)) for row in rows]

    def stream(self, statement: str, sink: Callable[[list[bytes]], None], /, **params: object) -> None:
        """Run a named statement whose columns are bytea and never null, and hand on each row's values as it arrives.

        By the driver's own parts: it would keep all rows, and have each byte sent as two digits.
        """
        driver = self._connection
        with self._exchange():
            prepared = self._prepare(statements()[statement])
            values = make_params(driver.py_types, prepared.make_vals(params))
            driver._send_message(BIND, _bind(prepared.name_bin, values))  # noqa: SLF001 - its own asks for text
            driver.send_EXECUTE()
            driver._sock.write(SYNC_MSG)  # noqa: SLF001 - it has no method for this
            driver._sock.flush()  # noqa: SLF001
            driver.message_types[DATA_ROW] = lambda row, _: sink(_values(row))
            try:
                driver.handle_messages(Context(prepared.statement))
            finally:
                driver.message_types[DATA_ROW] = driver.handle_DATA_ROW

    def run(self, sql: str) -> list[list[Any]]:
        """Run text without parameters (transaction control, migrations): one round trip, several statements allowed."""
        with self._exchange():
            rows: list[list[Any]] | None = self._connection.run(sql)
        return rows or []

    def copy(self, sql: str, stream: RawIOBase | Iterable[bytes]) -> None:
        """Run a COPY to a stream, or from the pieces of one, in one exchange.

        By the driver's own parts: its `run` would exchange three, and look for placeholders character by character.
        """
        driver = self._connection
        with self._exchange():
            context = Context(sql, stream=stream)
            driver.send_PARSE(NULL_BYTE, sql, ())
            driver.send_BIND(NULL_BYTE, ())
            driver.send_EXECUTE()
            driver._sock.write(SYNC_MSG)  # noqa: SLF001 - it has no method for this
            driver._sock.flush()  # noqa: SLF001
            driver.handle_messages(context)

    def _prepare(self, sql: str) -> Any:  # noqa: ANN401 - the driver's
        prepared = self._prepared.get(sql)
        if prepared is None:
            prepared = self._prepared[sql] = self._connection.prepare(sql)
        return prepared

    def close(self) -> None:
        """Close; a connection that is gone already is closed too."""
        try:
            self._connection.close()
        except (pg8000.exceptions.Error, OSError):
            return

    def bound_sec(self) -> float:
        """Return how long a statement that is sent now may take, which is more than no time."""
        most = self._statement_timeout_sec
        return most if self.left_sec is None else min(most, max(_LEAST_SEC, self.left_sec()))

    @contextmanager
    def _exchange(self) -> Iterator[None]:
        """One exchange with the server; what cuts it short on our side leaves unread answers, and thus no usable session.

        So does a server that has gone silent: whoever would still roll back is not kept waiting for it once more.
        """
        try:
            with translated():
                self._socket.settimeout(self.bound_sec() + SILENCE_SEC)
                yield
        except StoreError as error:
            if not isinstance(error.__cause__, pg8000.exceptions.DatabaseError):
                self.close()
            raise
        except BaseException:
            self.close()
            raise


def _values(row: bytes) -> list[bytes]:
    """The values of a DataRow message; ValueError if one is null."""
    values = []
    at = _INT2.size
    while at < len(row):
        start = at + _INT4.size
        (length,) = _INT4.unpack_from(row, at)
        if length < 0:
            message = "a statement that is streamed has a null"
            raise ValueError(message)
        at = start + length
        values.append(row[start:at])
    return values


def _bind(statement: bytes, values: Sequence[str | None]) -> bytes:
    """A Bind message of text parameters that asks for binary results.

    Format: https://www.postgresql.org/docs/current/protocol-message-formats.html
    """
    parts = [NULL_BYTE, statement, _INT2.pack(0), _INT2.pack(len(values))]
    for value in values:
        raw = b"" if value is None else value.encode()
        parts += (_INT4.pack(-1 if value is None else len(raw)), raw)
    return b"".join([*parts, _INT2.pack(1), _INT2.pack(1)])


@contextmanager
def translated() -> Iterator[None]:
    """Turn driver errors into ours, by their SQLSTATE and never by their text."""
    try:
        yield
    except pg8000.exceptions.DatabaseError as error:
        fields = error.args[0] if error.args and isinstance(error.args[0], dict) else {}
        state = fields.get("C", "")
        message = f"{state}: {fields.get('M', error)}"
        if state in _CONFLICTS:
            raise StoreConflict(message) from error
        if state[:2] in _UNAVAILABLE_CLASSES:
            raise StoreUnavailable(message) from error
        if state[:2] == "23":
            raise InvariantBroken(message, constraint=fields.get("n")) from error
        raise StoreError(message, sqlstate=state) from error
    except (pg8000.exceptions.InterfaceError, OSError) as error:
        raise StoreUnavailable(str(error)) from error


def _connect(
    address: DatabaseAddress, connect_timeout: float, statement_timeout: float
) -> pg8000.native.Connection:
    try:
        sock = socket.create_connection((address.host, address.port), timeout=connect_timeout)
    except OSError as error:
        message = f"{address.host}:{address.port}: {error}"
        raise StoreUnavailable(message) from error
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connection = pg8000.native.Connection(
            user=address.user,
            password=address.password,
            host=address.host,
            port=address.port,
            database=address.dbname,
            ssl_context=tls_context(address),
            sock=sock,
            application_name="blsflow-scheduler",
        )
        connection.register_in_adapter(TIMESTAMPTZ, _instant)
        connection.register_out_adapter(list, as_list)
        connection.run(  # not as start-up options, which RDS Proxy refuses
            f"set jit = off; set statement_timeout = {int(statement_timeout * 1000)}; set lock_timeout = 10000;"
            " set idle_in_transaction_session_timeout = 120000; set time zone 'UTC'"
        )
    except BaseException:
        sock.close()
        raise
    return connection


def _instant(text: str) -> object:
    """Read a timestamptz, sixty times as fast as the driver, which is left infinity and years beyond the calendar."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return timestamptz_in(text)
