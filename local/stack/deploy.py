"""Build and deploy the real template into the emulator with the SAM CLI."""

from __future__ import annotations

import contextlib
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from local.stack.processes import REPOSITORY, stop_process_group, tool
from local.stack.signals import signals_deferred

if TYPE_CHECKING:
    from collections.abc import Mapping

    from local.stack.emulator import Emulator

STACK_NAME = "blsflow"
TIMEOUT_SEC = 180


def host_target() -> dict[str, str]:
    """Template parameters that make functions run on this machine: its CPU and our own Python."""
    return {
        "PythonRuntime": f"python{sys.version_info.major}.{sys.version_info.minor}",
        "Architecture": "arm64" if platform.machine() in {"aarch64", "arm64"} else "x86_64",
    }


def build(folder: Path, target: Mapping[str, str]) -> Path:
    """Build every function and layer into a folder and return the built template.

    Args:
        folder: a folder of one's own, since the SAM CLI writes beside its build directory too.
        target: the template parameters `PythonRuntime` and `Architecture`.

    Raises:
        RuntimeError: the build failed; the message is the SAM CLI's own.
    """
    environment = {
        "BUILD_PYTHON_VERSION": target["PythonRuntime"].removeprefix("python"),
        "BUILD_ARCHITECTURE": target["Architecture"],
        "PYTHON": sys.executable,
    }
    template = str(REPOSITORY / "template.yaml")
    output = folder / "build"
    _sam("build", environment, "--template", template, "--build-dir", str(output), *_overrides(target))
    return output / "template.yaml"


def deploy(template: Path, parameters: Mapping[str, str], emulator: Emulator) -> dict[str, str]:
    """Deploy a built template and return the outputs of its stack.

    Raises:
        RuntimeError: the deployment failed; the message is the SAM CLI's own.
    """
    _sam(
        "deploy", emulator.client_environment, "--template-file", str(template), "--stack-name", STACK_NAME,
        "--resolve-s3", "--capabilities", "CAPABILITY_IAM", "--no-confirm-changeset", *_overrides(parameters),
    )  # fmt: skip
    stack = emulator.client("cloudformation").describe_stacks(StackName=STACK_NAME)["Stacks"][0]
    return {output["OutputKey"]: output["OutputValue"] for output in stack.get("Outputs", [])}


def _overrides(parameters: Mapping[str, str]) -> list[str]:
    return ["--parameter-overrides", *(f"{name}={value}" for name, value in parameters.items())]


def _sam(command: str, environment: Mapping[str, str], *arguments: str) -> None:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    # Our own Python first: the build compiles with the `python3.x` that it finds on the path.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    with contextlib.ExitStack() as cleanup:
        with signals_deferred():
            # The SAM CLI leaves empty folders in TMPDIR: hence one that goes with the command.
            scratch = cleanup.enter_context(tempfile.TemporaryDirectory(prefix="blsflow-sam-"))
            output = cleanup.enter_context(Path(scratch, "output").open("w+b"))
            settings = {"PATH": path, "TMPDIR": scratch, "SAM_CLI_TELEMETRY": "0", "SAM_CLI_POLL_DELAY": "1"}
            process = subprocess.Popen(
                [tool("sam", "sam"), command, *arguments],
                cwd=REPOSITORY,
                env=inherited | settings | dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            cleanup.callback(stop_process_group, process)
        try:
            status: int | str = process.wait(TIMEOUT_SEC)
        except subprocess.TimeoutExpired:
            # Most likely a migrate function that cannot even be imported: CloudFormation waits for its answer.
            status = f"not finished after {TIMEOUT_SEC} s"
        if status:
            output.seek(0)
            raise RuntimeError(f"sam {command} failed ({status}):\n{output.read().decode(errors='replace')}")
