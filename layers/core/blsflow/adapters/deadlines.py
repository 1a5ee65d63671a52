"""Deadlines of connections, which bound an exchange as a whole however slowly its bytes trickle."""

from __future__ import annotations

import heapq
import socket
import threading
import time
from itertools import count
from typing import Final, Self


class Deadline:
    """Breaks a connection off when its time is up; a socket's own time-out starts anew with every byte."""

    def __init__(self, sock: socket.socket, deadline: float) -> None:
        self._sock: socket.socket | None = sock
        self.at = deadline
        self.passed = False

    def __enter__(self) -> Self:
        _WATCH.add(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._sock = None

    @property
    def is_over(self) -> bool:
        """Whether there is nothing to break off any more."""
        return self._sock is None

    def break_off(self) -> None:
        """End the connection under its reader, unless that is through."""
        sock = self._sock
        if sock is None:
            return
        self.passed = True
        try:
            # Not SSLSocket's own shutdown: it would drop the TLS state under the reader.
            socket.socket.shutdown(sock, socket.SHUT_RDWR)
        except OSError:
            return  # closed already


class _Watch:
    """One thread that keeps the deadlines of all connections; one for each would cost as much as its request."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: list[tuple[float, int, Deadline]] = []
        self._numbers = count()
        self._thread: threading.Thread | None = None

    def add(self, deadline: Deadline) -> None:
        """Watch it until it is over."""
        with self._changed:
            entry = deadline.at, next(self._numbers), deadline
            heapq.heappush(self._waiting, entry)
            self._drop_over()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="deadlines", daemon=True)
                self._thread.start()
            elif self._waiting[0] is entry:
                self._changed.notify()

    def _run(self) -> None:
        while True:
            self._next().break_off()

    def _next(self) -> Deadline:
        with self._changed:
            while True:
                self._drop_over()
                left = self._waiting[0][0] - time.monotonic() if self._waiting else None
                if left is not None and left <= 0:
                    return heapq.heappop(self._waiting)[2]
                self._changed.wait(left)

    def _drop_over(self) -> None:
        while self._waiting and self._waiting[0][2].is_over:
            heapq.heappop(self._waiting)


_WATCH: Final = _Watch()
