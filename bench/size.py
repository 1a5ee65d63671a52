"""What is uploaded, unzipped, built as `sam build` builds it for this machine; and whether it is compiled."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from bench.measuring import Bound, Row, plain_row
from local.stack.deploy import build, host_target

if TYPE_CHECKING:
    from collections.abc import Iterator

_MEGABYTE = 1_000_000


def run() -> Iterator[Row]:
    """Build everything once and weigh it; sizes do not vary."""
    with tempfile.TemporaryDirectory() as folder:
        built = build(Path(folder), host_target()).parent
        sizes = {
            part.name: sum(file.stat().st_size for file in part.rglob("*") if file.is_file()) / _MEGABYTE
            for part in sorted(built.iterdir())
            if part.is_dir()
        }
        sources = [file for file in built.rglob("*.py") if file.stat().st_size]
        compiled = [
            file for file in sources if list((file.parent / "__pycache__").glob(f"{file.stem}.*.pyc"))
        ]
    yield plain_row(
        "size of layers and functions together, unzipped",
        [sum(sizes.values())],
        "MB",
        Bound(limit=30),
        figures={name: f"{size:.2f} MB" for name, size in sizes.items() if size >= 0.1},  # noqa: PLR2004 - what matters
    )
    yield plain_row(
        "compiled modules among those shipped",
        [100 * len(compiled) / len(sources)],
        "%",
        Bound(limit=100, at_least=True),
    )
