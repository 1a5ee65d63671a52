"""The whole product on one machine: the deployed template, the sample fleet, and simulators of the outside services."""

from __future__ import annotations

import contextlib
import json
import select
import socket
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import quote

import pg8000.native

from blsflow.adapters.postgres.connection import Session
from local.fleet.seed import seed
from local.stack.deploy import STACK_NAME
from local.stack.stack import LocalStack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from local.fleet.seed import Seeded

TOKEN: Final = "simulated-device-control"  # noqa: S105 - the simulators' own
USDT_TO_CNY_RATE: Final = "7.2"
CONSOLE_ORIGIN: Final = "http://console.localhost"
"""From where a browser may call the API of the local product."""
_START_TIMEOUT_SEC: Final = 30
_RUN_SEC: Final = 20
"""How long a simulated conversation's run takes, unless somebody says otherwise (`/sim/faults`)."""


class LocalProduct:
    """Starts everything and stops it again; ticks come from the deployed schedule, not from here.

    Attributes:
        stack: the deployed template.
        seeded: what the sample fleet holds.
        device_control_url, profit_url, execution_url: where the simulators answer; `/sim/faults` and `/sim/ledger`
            steer and show them.
        issuer_url: who signs the API's tokens.
    """

    stack: LocalStack
    seeded: Seeded

    def __init__(
        self,
        *,
        machines: int = 2000,
        ramp_sec: float = 5.0,
        parameters: Mapping[str, str] | None = None,
        progress: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Prepare; nothing is started yet. ``ramp_sec`` is how long a simulated machine takes to obey."""
        self._machines = machines
        self._ramp_sec = ramp_sec
        self._progress = progress
        self._cleanup = contextlib.ExitStack()
        self._ports = _free_ports(4)
        self.device_control_url, self.profit_url, self.execution_url, self.issuer_url = (
            f"http://127.0.0.1:{port}" for port in self._ports
        )
        self.stack = LocalStack(
            {
                "ExecuteEnabled": "true",
                "SwitchApiBaseUrl": self.device_control_url,
                "ExecutionServiceBaseUrl": self.execution_url,
                "ProfitFeed": "contract",
                "ProfitApiBaseUrl": self.profit_url,
                "UsdtToCnyRate": USDT_TO_CNY_RATE,
                "JwtIssuer": self.issuer_url,
                "CorsAllowOrigins": CONSOLE_ORIGIN,
                # simulated machines are steady within seconds and report every other one
                "BenchmarkSampleWindowSec": "12",
                "BenchmarkWarmUpSec": "6",
                **(parameters or {}),
            },
            secrets=dict.fromkeys(
                ("SwitchApiTokenSecretArn", "ExecutionServiceTokenSecretArn", "ProfitApiKeySecretArn"), TOKEN
            ),
            progress=progress,
        )

    def __enter__(self) -> Self:
        try:
            self._cleanup.enter_context(self.stack)
            self._allow_consoles()
            started = time.monotonic()
            with contextlib.closing(self._driver_connection()) as connection:
                self.seeded = seed(connection, machines=self._machines)
            self._cleanup.enter_context(self._simulators())
            self._progress(f"sample fleet and simulators: {time.monotonic() - started:.1f} s")
        except BaseException:
            self._cleanup.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._cleanup.close()

    @property
    def database_url(self) -> str:
        """The database's address as `BLSFLOW_SCHEDULER_DATABASE_URL` takes it."""
        address = self.stack.database
        return (
            f"postgresql://{quote(address.user)}:{quote(address.password)}@{address.host}:{address.port}"
            f"/{address.dbname}?tls=off"
        )

    @property
    def api_url(self) -> str:
        """Where the deployed API answers, by the emulator's own path to it."""
        api = self.stack.outputs["ApiId"]
        return f"{self.stack.endpoint_url}/_aws/execute-api/{api}/$default/api/v1/smart-schedule"

    @property
    def environment(self) -> dict[str, str]:
        """What `blsflow` needs in its environment to work on this product beside the deployed functions."""
        return {
            "BLSFLOW_SCHEDULER_DATABASE_URL": self.database_url,
            "BLSFLOW_SCHEDULER_EXECUTE_ENABLED": "true",
            "BLSFLOW_SCHEDULER_SWITCH_API_BASE_URL": self.device_control_url,
            "BLSFLOW_SCHEDULER_SWITCH_API_TOKEN": TOKEN,
            "BLSFLOW_SCHEDULER_EXECUTION_API_BASE_URL": self.execution_url,
            "BLSFLOW_SCHEDULER_EXECUTION_API_TOKEN": TOKEN,
            "BLSFLOW_SCHEDULER_PROFIT_API_BASE_URL": self.profit_url,
            "USDT_TO_CNY_RATE": USDT_TO_CNY_RATE,
            "BLSFLOW_SCHEDULER_API_URL": self.api_url,
            "BLSFLOW_SCHEDULER_ISSUER_URL": self.issuer_url,
        }

    def _allow_consoles(self) -> None:
        """Give the API the template's CORS settings: the emulator's CloudFormation leaves them out."""
        template = self.stack.client("cloudformation").get_template(StackName=STACK_NAME)["TemplateBody"]
        document = template if isinstance(template, dict) else json.loads(template)
        cors = document["Resources"]["HttpApi"]["Properties"]["CorsConfiguration"]["Fn::If"][1]
        self.stack.client("apigatewayv2").update_api(
            ApiId=self.stack.outputs["ApiId"], CorsConfiguration={**cors, "AllowOrigins": [CONSOLE_ORIGIN]}
        )

    def session(self) -> Session:
        """Open a session on the product's database."""
        return Session(self.stack.database)

    def _driver_connection(self) -> pg8000.native.Connection:
        address = self.stack.database
        return pg8000.native.Connection(
            user=address.user,
            password=address.password,
            host=address.host,
            port=address.port,
            database=address.dbname,
        )

    @contextlib.contextmanager
    def _simulators(self) -> Iterator[dict[str, Any]]:
        """Run all simulators in one child process; its complaints go to a file that is shown if it dies."""
        with tempfile.TemporaryFile("w+") as errors:
            process = subprocess.Popen(
                [
                    sys.executable, "-m", "local.simulators",
                    "--database", self.database_url.removesuffix("?tls=off"),
                    "--token", TOKEN,
                    "--ramp-sec", str(self._ramp_sec),
                    "--run-sec", str(_RUN_SEC),
                    "--telemetry-interval-sec", "2",
                    "--device-control-port", str(self._ports[0]),
                    "--profit-port", str(self._ports[1]),
                    "--execution-port", str(self._ports[2]),
                    "--issuer-port", str(self._ports[3]),
                ],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )  # fmt: skip
            try:
                yield _first_line(process, errors)
            finally:
                process.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=10)
                process.kill()
                process.wait()


def _first_line(process: subprocess.Popen[str], errors: Any) -> dict[str, Any]:  # noqa: ANN401 - a text file
    """Wait for the simulators' addresses, which they print once they answer."""
    stdout = process.stdout
    if stdout is not None and select.select([stdout], [], [], _START_TIMEOUT_SEC)[0]:
        line = stdout.readline()
        if line:
            found: dict[str, Any] = json.loads(line)
            return found
    errors.seek(0)
    raise RuntimeError(f"the simulators did not start:\n{errors.read()[-2000:]}")


def _free_ports(count: int) -> list[int]:
    """Return ports that nobody listens on now."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]
