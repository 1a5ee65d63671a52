"""Many sequences in several processes, each with a database of its own on one server."""

from __future__ import annotations

import gc
import multiprocessing
import time
from collections import Counter
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Final

from blsflow.adapters.postgres.connection import Session
from tests.storm.mutations import MUTATIONS, mutated
from tests.storm.stage import Stage
from tests.storm.story import MOST_EVENTS, Story, explain_failure

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.context import SpawnProcess

    from blsflow.adapters.postgres.address import DatabaseAddress

_EACH: Final = 25
"""After so many sequences a process tells how far it is."""
_GARBAGE: Final = 50_000
"""So many objects may be made before garbage is looked for."""


@dataclass
class Storm:
    """What a storm came to: sequences, what happened in them, and the failures with their stories."""

    sequences: int = 0
    seconds: float = 0.0
    happened: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Share:
    """The part of a storm that one process carries out."""

    server: DatabaseAddress
    template: str
    name: str
    seeds: range
    most_events: int
    mutation: str | None = None

    @property
    def failures_enough(self) -> int:
        """After how many failures it stops: a mutation is found by one."""
        return 3 if self.mutation is None else 1


def storm(  # noqa: PLR0913 - where, with what, how much of it, and who wants to know
    server: DatabaseAddress,
    template: str,
    *,
    seeds: range,
    processes: int,
    most_events: int = MOST_EVENTS,
    mutation: str | None = None,
    progress: Callable[[Storm], None] = lambda _: None,
) -> Storm:
    """Carry out the sequences of all seeds; stop early after a few failures.

    ``mutation`` breaks the product on purpose in one way of `MUTATIONS`.
    """
    began = time.monotonic()
    context = multiprocessing.get_context("spawn")
    result = Storm()
    workers: list[SpawnProcess] = []
    telling: list[Connection] = []
    for each in range(processes):
        share = Share(
            server=server,
            template=template,
            name=f"storm_{each}",
            seeds=seeds[each::processes],
            most_events=most_events,
            mutation=mutation,
        )
        here, there = context.Pipe(duplex=False)
        workers.append(context.Process(target=_carry_out, args=(share, there)))
        workers[-1].start()
        there.close()
        telling.append(here)
    while telling:
        for ready in wait(telling):
            assert isinstance(ready, Connection)
            try:
                sequences, happened, failures = ready.recv()
            except EOFError:
                telling.remove(ready)
                continue
            result.sequences += sequences
            result.happened.update(happened)
            result.failures += failures
            result.seconds = time.monotonic() - began
            progress(result)
            if result.failures and mutation is not None:
                for worker in workers:
                    worker.kill()  # it was found
    for worker in workers:
        worker.join()
        if worker.exitcode and mutation is None:
            result.failures.append(f"a process of the storm ended with exit code {worker.exitcode}")
    return result


def _carry_out(share: Share, told: Connection) -> None:
    """Carry out one share in this process."""
    with told, ExitStack() as undo:
        maintenance = undo.enter_context(closing(Session(share.server)))
        maintenance.run(f"drop database if exists {share.name} with (force)")
        maintenance.run(f"create database {share.name} template {share.template} strategy file_copy")
        undo.callback(maintenance.run, f"drop database {share.name} with (force)")
        if share.mutation is not None:
            undo.enter_context(mutated(MUTATIONS[share.mutation]))
        stage = undo.enter_context(Stage(replace(share.server, dbname=share.name)))
        gc.freeze()
        gc.set_threshold(_GARBAGE)
        _tell(stage, share, told)


def _tell(stage: Stage, share: Share, told: Connection) -> None:
    sequences, happened, failed = 0, Counter[str](), 0
    for seed in share.seeds:
        failures = []
        story = Story(stage, seed, most_events=share.most_events)
        try:
            story.run()
        except Exception as error:  # noqa: BLE001 - whatever it is, it is what was looked for
            failures.append(explain_failure(story, error))
            stage.recover()
        sequences += 1
        happened.update(story.counts())
        failed += len(failures)
        if failures or sequences == _EACH:
            told.send((sequences, happened, failures))
            sequences, happened = 0, Counter[str]()
        if failed == share.failures_enough:
            return
    told.send((sequences, happened, []))
