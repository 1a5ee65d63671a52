"""The local stack leaves nothing behind, whatever ends it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from local.stack.processes import REPOSITORY

if TYPE_CHECKING:
    from pathlib import Path

# Reports the ports once both servers are up and the build begins. A shell that runs the tests in the
# background has SIGINT ignored, and nohup SIGHUP, which Python would inherit.
PROGRAM = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
from local.stack.stack import LocalStack

def progress(text):
    if text.startswith("sam build"):
        print(stack.endpoint_url.rpartition(":")[2], stack.database.port, flush=True)

stack = LocalStack(progress=progress)
with stack:
    pass
"""


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_takes_everything_down(number: signal.Signals, tmp_path: Path) -> None:
    """R11.4: interrupted while it deploys, the stack stops its servers and deletes what it wrote."""
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        cwd=REPOSITORY,
        env=os.environ | {"TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        ports = [int(port) for port in process.stdout.readline().split()]
        assert len(ports) == 2
        assert all(_listens(port) for port in ports)
        process.send_signal(number)
        assert process.wait(30) in {128 + number, -number}
    assert not any(_listens(port) for port in ports)
    assert not list(tmp_path.glob("blsflow-*"))
