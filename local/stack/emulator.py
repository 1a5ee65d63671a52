"""The AWS emulator, with execution roles enforced, in a process group and temporary folder of its own."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Self

import boto3

from local.stack.processes import free_port, stop_process_group, tool
from local.stack.signals import signals_deferred

REGION = "us-east-1"
ADMINISTRATOR = "test"  # the emulator's built-in account: key and secret alike
START_TIMEOUT_SEC = 60
POLL_SEC = 0.1


class Emulator:
    """MiniStack on a free port of 127.0.0.1, as long as its `with` block.

    Raises:
        RuntimeError: it did not answer in time; the message ends with its log.
    """

    def __init__(self) -> None:
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._folder: Path | None = None

    @property
    def endpoint_url(self) -> str:
        """Where every AWS service answers."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def client_environment(self) -> dict[str, str]:
        """Environment for AWS clients that are to talk to the emulator and to nothing else."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint_url,
            "AWS_ACCESS_KEY_ID": ADMINISTRATOR,
            "AWS_SECRET_ACCESS_KEY": ADMINISTRATOR,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def client(self, service: str) -> Any:  # noqa: ANN401 - boto3 makes its clients' types at run time
        """A boto3 client of the emulator, with an administrator's rights."""
        session: Any = boto3.Session(
            region_name=REGION, aws_access_key_id=ADMINISTRATOR, aws_secret_access_key=ADMINISTRATOR
        )
        return session.client(service, endpoint_url=self.endpoint_url)

    @property
    def log(self) -> str:
        """What the emulator has logged so far; empty once it is stopped."""
        path = self._folder / "log" if self._folder else None
        return path.read_text(errors="replace") if path and path.exists() else ""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start the emulator; returns when its services answer."""
        try:
            with signals_deferred():
                # Workers leave the layers they unpacked in TMPDIR: hence a private one that goes with the emulator.
                self._folder = Path(tempfile.mkdtemp(prefix="blsflow-emulator-"))
                self._process = self._launch(self._folder)
            self._wait_until_healthy(self._process)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop it with all its workers and delete their files; harmless when it never started."""
        if self._process:
            stop_process_group(self._process)
            self._process = None
        if self._folder:
            # tens of thousands of unpacked files, which Python takes several times as long for
            subprocess.run(["rm", "-rf", "--", str(self._folder)], check=False)  # noqa: S607 - rm
            self._folder = None

    def _launch(self, folder: Path) -> subprocess.Popen[bytes]:
        scratch = folder / "tmp"
        scratch.mkdir()
        with (folder / "log").open("wb") as log:
            return subprocess.Popen(
                [tool("emulator", "ministack")],
                cwd=folder,
                env=self._environment(scratch),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _environment(self, scratch: Path) -> dict[str, str]:
        # Functions inherit the emulator's environment, so it gets as little as AWS would give them.
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "LANG": "C.UTF-8",
            "HOME": str(scratch),
            "TMPDIR": str(scratch),
            "STATE_DIR": str(scratch / "state"),
            "GATEWAY_PORT": str(self._port),
            "BIND_HOST": "127.0.0.1",
            "MINISTACK_REGION": REGION,
            "AUTH": "true",
            "SFTP_ENABLED": "0",
            "IOT_MTLS_ENABLED": "0",
        }

    def _wait_until_healthy(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + START_TIMEOUT_SEC
        while time.monotonic() < deadline and process.poll() is None:
            try:
                with urllib.request.urlopen(f"{self.endpoint_url}/_ministack/health", timeout=1):  # noqa: S310
                    return
            except (urllib.error.URLError, OSError):
                time.sleep(POLL_SEC)
        raise RuntimeError(f"the AWS emulator did not become healthy:\n{self.log}")
