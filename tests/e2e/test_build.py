"""The template validates and builds, for AWS from any host, and what is built stands on its own."""

from __future__ import annotations

import struct
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

import pytest

from local.stack.deploy import build, host_target
from local.stack.processes import REPOSITORY, tool

AWS_TARGET = {"PythonRuntime": "python3.13", "Architecture": "arm64"}
FUNCTIONS = ["tick", "decide", "execute", "reconcile", "api", "live", "notify", "migrate"]
LAYERS = ["CoreLayer", "VendorLayer"]
# What the functions need of the Lambda runtime, as modules: boto3 is not among it.
RUNTIME_PACKAGES = ["botocore", "jmespath", "dateutil", "six", "urllib3"]
SIZE_LIMIT_MB = 30
ELF_MACHINE_AARCH64 = 0xB7


@pytest.fixture(scope="module")
def aws_build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Everything built for AWS, whichever Python and CPU this machine has."""
    return build(tmp_path_factory.mktemp("aws"), AWS_TARGET).parent


@pytest.fixture(scope="module")
def host_build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Everything built for this machine, so that it can be imported."""
    return build(tmp_path_factory.mktemp("host"), host_target()).parent


@pytest.fixture(scope="module")
def runtime_packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with botocore and what it needs, and nothing else of our environment."""
    folder = tmp_path_factory.mktemp("runtime")
    site_packages = Path(str(distribution("botocore").locate_file("")))
    for name in RUNTIME_PACKAGES:
        source = site_packages / name
        source = source if source.exists() else site_packages / f"{name}.py"
        (folder / source.name).symlink_to(source)
    return folder


def _files(folder: Path, pattern: str) -> list[Path]:
    return sorted(folder.rglob(pattern))


def test_the_template_is_valid() -> None:
    """R11.1: `sam validate --lint` has nothing to say against the template."""
    result = subprocess.run(
        [tool("sam", "sam"), "validate", "--lint", "--region", "us-east-1"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr


def test_compiled_packages_are_those_of_the_target(aws_build: Path) -> None:
    """R11.1: a build for AWS holds binaries for its CPU and Python only, whatever the host is."""
    libraries = _files(aws_build, "*.so")
    assert any("pydantic_core" in str(library) for library in libraries)
    for library in libraries:
        (machine,) = struct.unpack_from("<H", library.read_bytes(), 18)
        assert machine == ELF_MACHINE_AARCH64, library
        assert "cpython-313-" in library.name or ".abi3." in library.name or library.name.count(".") == 1, (
            library
        )


def test_compiled_files_are_the_targets_or_none(aws_build: Path, host_build: Path) -> None:
    """R11.1: bytecode of another Python is dead weight; for a Python that is here, all of it is compiled."""
    assert {path.suffixes[0] for path in _files(aws_build, "*.pyc")} <= {".cpython-313"}
    for layer in LAYERS:
        sources, compiled = _files(host_build / layer, "*.py"), _files(host_build / layer, "*.pyc")
        assert len(sources) == len(compiled) > 0
        unchecked = [int.from_bytes(path.read_bytes()[4:8], "little") == 1 for path in compiled]
        assert all(unchecked), "time stamps do not survive packaging"


def test_botocore_is_left_to_the_runtime(aws_build: Path) -> None:
    """R11.1: what the runtime brings is not shipped, and neither are our tools."""
    shipped = {path.name for path in (aws_build / "VendorLayer" / "python").iterdir()}
    assert not shipped & {"boto3", "botocore", "pytest", "typer", "rich", "bin"}


def test_the_package_is_small(aws_build: Path) -> None:
    """R11.1: layers and functions together stay far below Lambda's limit, because size is cold-start time."""
    sizes = {
        folder.name: sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6
        for folder in aws_build.iterdir()
        if folder.is_dir()
    }
    print("\n" + "\n".join(f"{name:20s} {size:7.2f} MB" for name, size in sorted(sizes.items())))  # noqa: T201
    assert sum(sizes.values()) <= SIZE_LIMIT_MB, sizes


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_imports_with_its_layers_and_the_runtime_only(
    name: str, host_build: Path, runtime_packages: Path
) -> None:
    """R11.1: each handler imports without our environment, and without reading any variable at import."""
    path = [
        str(host_build / f"{name.title()}Function"),
        *(str(host_build / layer / "python") for layer in LAYERS),
    ]
    program = (
        f"import sys; sys.path[:] = {[*path, str(runtime_packages)]!r} + sys.path\n"
        f"import {name}.app as app, blsflow\n"
        f"assert callable(app.handler) and blsflow.__file__.startswith({str(host_build)!r}), blsflow.__file__"
    )
    result = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program], env={}, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
