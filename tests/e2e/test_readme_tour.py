"""The README's tour of the API, typed as it stands there."""

from __future__ import annotations

import os
import re
import subprocess
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from local.stack.processes import REPOSITORY

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.conftest import Watched

POLICY: Final = 1
_HEADING: Final = "## The API in ten minutes"
_BLOCK = re.compile(r"```(\w*)\n(.*?)```", re.DOTALL)
_END = "-- end of block --"


def test_every_command_of_the_tour_answers_what_the_tour_says(product: Watched, tmp_path: Path) -> None:
    """R11.5, R9.1: the blocks run one after the other in one shell; below each stands what it prints, "…" for anything."""
    product.tick(POLICY)
    blocks = _tour()
    commands = [body for language, body in blocks if language == "sh"]
    script = "set -euo pipefail\n" + "".join(f"{body}\necho '{_END}'\n" for body in commands)
    done = subprocess.run(
        ["bash", "-c", script.replace("openapi-of-the-demo.json", str(tmp_path / "openapi.json"))],  # noqa: S607 - bash
        cwd=REPOSITORY,
        env=os.environ | product.product.environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    printed = done.stdout.split(_END)
    shown = [after for (language, _), (_, after) in pairwise(blocks) if language == "sh"]
    assert len(shown) == len(commands) >= 5
    for told, lines in zip(shown, printed, strict=False):
        expected = "\n".join(re.escape(line).replace("…", ".*") for line in told.strip().splitlines())
        assert re.fullmatch(expected, lines.strip()), f"{lines}\nis not\n{told}"
    assert (tmp_path / "openapi.json").read_text().startswith('{"openapi"')


def _tour() -> list[tuple[str, str]]:
    """The blocks of the section, commands and what they print by turns."""
    text = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    section = text.partition(_HEADING)[2].partition("\n## ")[0]
    return [(language, body) for language, body in _BLOCK.findall(section)]
