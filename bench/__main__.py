"""``python -m bench [PART ...]``: measure all parts, or the named ones, and write docs/performance.md anew."""

from __future__ import annotations

import importlib
import sys
import time
from typing import Final

from bench.report import keep, write

PARTS: Final = ("tick", "memory", "policy", "locks", "scan", "reconcile", "log", "cold", "size", "due")


def main(names: list[str]) -> int:
    """Run the parts in order; each one's figures are kept as soon as it is through."""
    unknown = [name for name in names if name not in PARTS]
    if unknown:
        print(f"no part is called {', '.join(unknown)}; there are: {', '.join(PARTS)}", file=sys.stderr)
        return 2
    for name in names or PARTS:
        print(f"{name}:", flush=True)
        began = time.monotonic()
        rows = []
        for row in importlib.import_module(f"bench.{name}").run():
            rows.append(row)
            print(f"  {row.work} / {row.yardstick}: {row.value:.3g} {row.unit}", flush=True)
        keep(name, rows)
        write(PARTS)
        print(f"  {time.monotonic() - began:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
