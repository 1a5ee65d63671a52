"""The deployed template with everything it stands on, as one context manager."""

from __future__ import annotations

import contextlib
import json
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from blsflow.adapters.postgres.connection import Session
from local.stack.deploy import build, deploy, host_target
from local.stack.emulator import Emulator
from local.stack.postgres import EmbeddedPostgres
from local.stack.signals import signals_deferred, stop_signals_unwind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from blsflow.adapters.postgres.address import DatabaseAddress

DATABASE_NAME = "blsflow"
DATABASE_SECRET = "blsflow/database"  # noqa: S105 - a name


class LocalStack:
    """PostgreSQL, the AWS emulator, and the template deployed into it, migrated and running.

    Everything it started or wrote is gone after the `with` block, also when SIGINT,
    SIGTERM or SIGHUP ends it.

    Attributes:
        database: the superuser's way into the database that the functions use.
        endpoint_url: where every AWS service answers.
        outputs: the outputs of the deployed stack, such as `TickFunctionName` and `DecideQueueUrl`.

    Raises:
        RuntimeError: a part did not start, or the deployment failed; the message ends with that part's log.
    """

    def __init__(
        self,
        parameters: Mapping[str, str] | None = None,
        *,
        secrets: Mapping[str, str] | None = None,
        progress: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Prepare a stack; nothing is started yet.

        Args:
            parameters: template parameters on top of those that the local machine dictates.
            secrets: texts to keep in Secrets Manager, by the template parameter that takes their ARN.
            progress: is told what begins and how long it took.
        """
        self._parameters = dict(parameters or {})
        self._secrets = dict(secrets or {})
        self._progress = progress
        self._cleanup = contextlib.ExitStack()
        self._deploying = False
        self._emulator = Emulator()
        self._postgres = EmbeddedPostgres()
        self.database: DatabaseAddress = self._postgres.address
        self.endpoint_url = self._emulator.endpoint_url
        self.outputs: dict[str, str] = {}

    def __enter__(self) -> Self:
        self._cleanup.enter_context(stop_signals_unwind())
        try:
            self._start()
        except BaseException as error:
            if self._deploying and self._emulator.log and isinstance(error, RuntimeError):
                error.add_note(f"the emulator's log ends with:\n{self._emulator.log[-4000:]}")
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._progress("stopping; deleting what the emulator unpacked may take a minute")
        with signals_deferred():
            self._cleanup.close()

    def client(self, service: str) -> Any:  # noqa: ANN401 - boto3 makes its clients' types at run time
        """A boto3 client of the emulator, with an administrator's rights."""
        return self._emulator.client(service)

    @property
    def emulator_log(self) -> str:
        """What the emulator has logged so far."""
        return self._emulator.log

    def _start(self) -> None:
        with self._step("PostgreSQL"):
            self._cleanup.callback(self._postgres.stop)
            self._postgres.start()
            self.database = self._create_database()
        with self._step("AWS emulator"):
            self._cleanup.callback(self._emulator.stop)
            self._emulator.start()
        target = host_target()
        with signals_deferred():
            folder = Path(self._cleanup.enter_context(tempfile.TemporaryDirectory(prefix="blsflow-build-")))
        with self._step(f"sam build ({target['PythonRuntime']}, {target['Architecture']})"):
            template = build(folder, target)
        self._deploying = True
        with self._step("sam deploy, migrations included"):
            secret = {"DatabaseSecretArn": self._store_database_secret(), "DatabaseTls": "off"}
            secret |= {name: self._store_secret(name, text) for name, text in self._secrets.items()}
            parameters = target | secret | self._parameters
            self.outputs = deploy(template, parameters, self._emulator)

    def _create_database(self) -> DatabaseAddress:
        server = self._postgres.address
        with contextlib.closing(Session(server)) as session:
            session.run(f"create database {DATABASE_NAME}")
        return replace(server, dbname=DATABASE_NAME)

    def _store_database_secret(self) -> str:
        address = self.database
        secret = {
            "host": address.host,
            "port": address.port,
            "username": address.user,
            "password": address.password,
            "dbname": address.dbname,
        }
        return self._store_secret(DATABASE_SECRET, json.dumps(secret))

    def _store_secret(self, name: str, text: str) -> str:
        created = self.client("secretsmanager").create_secret(Name=name, SecretString=text)
        return str(created["ARN"])

    @contextlib.contextmanager
    def _step(self, name: str) -> Iterator[None]:
        self._progress(f"{name} ...")
        started = time.monotonic()
        yield
        self._progress(f"{name}: {time.monotonic() - started:.1f} s")
