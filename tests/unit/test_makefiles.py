"""Make works wherever a checkout lies, also under a path with a space."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from local.stack.processes import REPOSITORY

if TYPE_CHECKING:
    from pathlib import Path


def dry_run(checkout: Path, cwd: Path, makefile: str, target: str) -> str:
    """What make would do, by a Makefile of the checkout that is named as the SAM CLI names it."""
    program = ["make", "-n", "--no-print-directory", "--makefile", str(checkout / makefile)]
    done = subprocess.run(
        [*program, target, f"ARTIFACTS_DIR={cwd / 'to'}"],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What make reads of a checkout, in a folder whose name has spaces."""
    made = tmp_path / "a new folder" / "blsflow"
    for name in (
        "Makefile",
        "layers/compile.mk",
        "layers/core/Makefile",
        "layers/vendor/Makefile",
        "functions/Makefile",
    ):
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPOSITORY / name, made / name)
    return made


@pytest.mark.parametrize(
    ("makefile", "target"),
    [
        ("layers/core/Makefile", "build-CoreLayer"),
        ("layers/vendor/Makefile", "build-VendorLayer"),
        ("functions/Makefile", "build-TickFunction"),
    ],
)
def test_parts_are_built_from_a_folder_with_a_space(checkout: Path, makefile: str, target: str) -> None:
    """R11.1: `sam build` runs each Makefile by its full path from another folder."""
    assert "compileall" in dry_run(checkout, checkout.parent, makefile, target)
    assert "compileall" in dry_run(REPOSITORY, checkout.parent, makefile, target)


def test_make_quotes_the_folder_that_it_is_in(checkout: Path) -> None:
    """R11.1: a path of several words reaches the tools as one."""
    for name in ("requirements-bootstrap.txt", "requirements-dev.txt", "pyproject.toml", "requirements-sam.txt",
                 "requirements-emulator.txt"):  # fmt: skip
        (checkout / name).touch()
    planned = dry_run(checkout, checkout, "Makefile", "build")
    assert f'VIRTUAL_ENV="{checkout}/.venv" ' in planned
    assert f'PYTHON="{checkout}/.venv/bin/python" ' in planned
    assert str(checkout) not in planned.replace(f'"{checkout}/', "")
