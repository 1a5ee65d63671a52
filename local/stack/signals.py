"""Signals that end the stack in order: they unwind `with` blocks, but never between starting and keeping hold."""

from __future__ import annotations

import contextlib
import signal
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(slots=True)
class _State:
    """Signals are the process's own, and so is this."""

    deferrals: int = 0
    pending: int | None = None
    unwinding: bool = False


_state = _State()


@contextlib.contextmanager
def stop_signals_unwind() -> Iterator[None]:
    """Let the first SIGINT, SIGTERM or SIGHUP unwind the `with` blocks inside; ignore those that follow.

    The exit status is the shell's for that signal. A signal that our parent has us ignore stays ignored. Outside of
    the main thread, where Python handles no signals, it changes nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heeded = [number for number in STOP_SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    previous = {number: signal.signal(number, _on_signal) for number in heeded}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
        _state.pending, _state.unwinding = None, False


@contextlib.contextmanager
def signals_deferred() -> Iterator[None]:
    """Finish what is inside first: what was just started must be registered before it can be cleaned up."""
    _state.deferrals += 1
    try:
        yield
    finally:
        _state.deferrals -= 1
        if _state.pending is not None and not _state.deferrals:
            number, _state.pending = _state.pending, None
            _on_signal(number, None)


def _on_signal(number: int, _frame: object) -> None:
    if _state.unwinding:
        return
    if _state.deferrals:
        _state.pending = number
        return
    _state.unwinding = True
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise SystemExit(128 + number)
