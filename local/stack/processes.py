"""What the parts of the stack share about the machine they run on."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
STOP_TIMEOUT_SEC = 5
REAP_TIMEOUT_SEC = 1
POLL_SEC = 0.02


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
    """End a process that leads its own group, with all it has started; first asked, then killed.

    When it returns, none of them writes to a folder any more that is to be deleted.
    """
    for request in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):  # the whole group has ended
            os.killpg(process.pid, request)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_TIMEOUT_SEC)
    # The dead wait for a parent to reap them, which in a container may be nobody: hence a limit.
    deadline = time.monotonic() + REAP_TIMEOUT_SEC
    with contextlib.suppress(ProcessLookupError):
        while time.monotonic() < deadline:
            os.killpg(process.pid, 0)
            time.sleep(POLL_SEC)
