"""What the parts of the stack share about the machine they run on."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import threading
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

REPOSITORY = Path(__file__).resolve().parents[2]
STOP_TIMEOUT_SEC = 5
STOP_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


def tool(environment: str, program: str) -> str:
    """Path of a program in one of the environments that `make tools` creates.

    Raises:
        RuntimeError: it has not been installed.
    """
    path = REPOSITORY / ".tools" / environment / "bin" / program
    if not path.exists():
        raise RuntimeError(f"{program} is not installed at {path}; run `make tools`")
    return str(path)


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def stop_process_group(process: subprocess.Popen[bytes]) -> None:
    """End a process that leads its own group, with all it has started; first asked, then killed."""
    for request in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, request)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_TIMEOUT_SEC)


@contextlib.contextmanager
def stop_signals_unwind() -> Iterator[None]:
    """Let SIGTERM and SIGHUP unwind the `with` blocks inside, as Ctrl-C does, instead of ending us at once.

    The exit status is the shell's for that signal. Outside of the main thread, where Python handles no
    signals, it changes nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def unwind(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)

    previous = {number: signal.signal(number, unwind) for number in STOP_SIGNALS}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def signals_held() -> Iterator[None]:
    """Finish what is inside although the user presses Ctrl-C again: a clean-up that stops halfway is none."""
    held = {signal.SIGINT, *STOP_SIGNALS}
    signal.pthread_sigmask(signal.SIG_BLOCK, held)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, held)
