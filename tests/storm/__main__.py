"""`python -m tests.storm`: a storm of many sequences, one of them told again, or the mutations that it must find."""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import sys
import tempfile
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from blsflow.adapters.postgres.connection import Session
from blsflow.adapters.postgres.migrate import migrate
from local.stack.postgres import EmbeddedPostgres
from tests.storm.happenings import ENOUGH_SEQUENCES, missing, summary
from tests.storm.mutations import MUTATIONS
from tests.storm.run import Storm, storm
from tests.storm.story import MOST_EVENTS

if TYPE_CHECKING:
    from blsflow.adapters.postgres.address import DatabaseAddress

_MEMORY = Path("/dev/shm")  # noqa: S108 - where Linux keeps files in memory
_TEMPLATE = "storm_template"
_ENOUGH = 1000
"""A mutation that so many sequences do not find is not found."""


def main() -> int:
    """Run what the arguments ask for; 1 if something was found that must not be, or a mutation was not found."""
    arguments = _arguments()
    with ExitStack() as undo:
        if _MEMORY.is_dir():
            tempfile.tempdir = str(_MEMORY)
        server = undo.enter_context(EmbeddedPostgres()).address
        _prepare(server)
        if arguments.mutations is not None:
            return _look_for_mutations(server, arguments.mutations or list(MUTATIONS), arguments.processes)
        first, count = (
            (arguments.seed, 1) if arguments.seed is not None else (arguments.first, arguments.sequences)
        )
        result = storm(
            server,
            _TEMPLATE,
            seeds=range(first, first + count),
            processes=min(count, arguments.processes),
            most_events=arguments.events,
            progress=_show_progress,
        )
    print(file=sys.stderr)
    _show(result, first)
    if arguments.results:
        _write(Path(arguments.results), result, first)
    never = missing(result.happened) if result.sequences >= ENOUGH_SEQUENCES else []
    for what in never:
        print(f"never happened: {what}")
    return bool(result.failures or never)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.storm", description=__doc__)
    parser.add_argument("--sequences", type=int, default=100_000)
    parser.add_argument(
        "--first", type=int, default=random.SystemRandom().randrange(10**9), help="the first seed"
    )
    parser.add_argument("--seed", type=int, help="this one sequence only")
    parser.add_argument("--events", type=int, default=MOST_EVENTS, help="at most so many in a sequence")
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument(
        "--mutations", nargs="*", help="break the product in these ways (none named: in all), and look for it"
    )
    parser.add_argument("--results", help="write what it came to into this file")
    return parser.parse_args()


def _prepare(server: DatabaseAddress) -> None:
    with closing(Session(server)) as maintenance:
        maintenance.run(f"create database {_TEMPLATE}")
    with closing(Session(replace(server, dbname=_TEMPLATE))) as session:
        migrate(session)


def _look_for_mutations(server: DatabaseAddress, names: list[str], processes: int) -> int:
    missed = 0
    for name in names:
        mutation = MUTATIONS[name]
        result = storm(server, _TEMPLATE, seeds=range(1, _ENOUGH + 1), processes=processes, mutation=name)
        found = result.failures[0].splitlines()[0][:150] if result.failures else "not found"
        missed += not result.failures
        print(f"{name}: {mutation.breaks}\n    {result.sequences} sequences: {found}", flush=True)
    return bool(missed)


def _show_progress(result: Storm) -> None:
    print(f"\r{result.sequences} sequences, {result.seconds:.0f} s", end="", file=sys.stderr, flush=True)


def _show(result: Storm, first: int) -> None:
    for failure in result.failures:
        print(f"{failure}\n")
    print(
        f"{result.sequences} sequences from seed {first} in {result.seconds:.0f} s, {len(result.failures)} failures"
    )
    print(summary(result.happened))


def _write(path: Path, result: Storm, first: int) -> None:
    document = {
        "sequences": result.sequences,
        "first_seed": first,
        "failures": len(result.failures),
        "seconds": round(result.seconds),
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "happened": dict(sorted(result.happened.items())),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=2) + "\n")


if __name__ == "__main__":
    sys.exit(main())
