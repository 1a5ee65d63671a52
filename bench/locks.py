"""Two ticks that want the locks of the same 100,000 machines at the same moment, against one that has them to itself."""

from __future__ import annotations

import threading
import uuid
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from bench.fleet import Tick, fill, market, next_tick
from bench.measuring import Bound, Row, interleaved, ratio_row, seconds
from blsflow.adapters.postgres.connection import Session
from blsflow.adapters.postgres.store import PostgresStore
from blsflow.domain.gates import Gates
from blsflow.ports.decide import NewAttempt

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from blsflow.ports.decide import BegunTick

MACHINES: Final = 100_000
BATCH: Final = 500
_GATES: Final = Gates(execute_enabled=True, executor_configured=True)


def run() -> Iterator[Row]:
    """Take the locks alone, and by two at once; a lock won twice ends the benchmark."""
    with market() as session:
        fill(session, MACHINES)
        Tick(session).seconds()
        found = interleaved({"two": lambda: _taken(session, 2), "one": lambda: _taken(session, 1)})
    yield ratio_row(
        "100,000 locks wanted by two ticks at once, with attempts, and the loser's decisions put right",
        "one tick alone",
        found["two"],
        found["one"],
        Bound(limit=2),
    )


def _taken(session: Session, ticks: int) -> float:
    next_tick(session)
    works = [_Tick(session) for _ in range(ticks)]
    session.run("vacuum smart_schedule_machine_locks")  # every lock was written twice since the last round
    session.run("checkpoint")
    threads = [threading.Thread(target=work.take) for work in works]

    def at_once() -> None:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    took = seconds(at_once)
    won = sum(work.won for work in works)
    ((rows, machines),) = session.run(
        "select count(*), count(distinct machine_id) from smart_schedule_attempt_machines where ended_at is null"
    )
    for work in works:
        work.close()
    if not won == rows == machines == MACHINES:
        raise AssertionError(
            f"{won} locks won by {ticks} ticks, {rows} machines of attempts, {machines} different ones"
        )
    return took


class _Tick:
    """A tick whose decisions are written and whose locks are not yet taken."""

    def __init__(self, session: Session) -> None:
        self.won = 0
        self._own = Session(session.address)
        self._store = PostgresStore(lambda: self._own)
        with self._store.transaction() as tx:
            trial = tx.begin_trial(1, _GATES, tenant_id="acme")
        assert trial is not None  # noqa: S101 - the fleet has one policy
        ((tick_id, occurrence_id),) = session.run(
            "select nextval(pg_get_serial_sequence('smart_schedule_ticks', 'id')), max(id) from smart_schedule_occurrences"
        )
        self._begun: BegunTick = replace(trial.tick, tick_id=tick_id, occurrence_id=occurrence_id)
        self._attempts = [
            NewAttempt(
                attempt_id=uuid.uuid4(),
                key=f"bench-{tick_id}-{batch}",
                action="switch",
                project_id=1,
                run_config_id=11,
                machine_ids=list(range(1 + batch * BATCH, 1 + (batch + 1) * BATCH)),
            )
            for batch in range(MACHINES // BATCH)
        ]
        self._decide(session, self._attempts)

    def _decide(self, session: Session, attempts: Sequence[NewAttempt]) -> None:
        ids = ",".join(f"'{attempt.attempt_id}'" for attempt in attempts)
        session.run(
            f"""
            insert into smart_schedule_machine_decisions
                (ticked_at, tick_id, machine_id, action, reason, proposed, attempt_id, figures)
            select '{self._begun.ticked_at.isoformat()}', {self._begun.tick_id}, g, 'switch', 'better_net', 'switch',
                   (array[{ids}]::uuid[])[1 + (g - 1) / {BATCH}], ''
            from generate_series(1, {MACHINES}) g
            """
        )

    def take(self) -> None:
        """Take what can be had, and commit."""
        with self._store.transaction() as tx:
            prepared = tx.prepare_attempts(
                self._begun,
                self._attempts,
                valid_until=self._begun.ticked_at + timedelta(minutes=2),
                lock_ttl=timedelta(minutes=5),
            )
        self.won = sum(prepared.machines.values())

    def close(self) -> None:
        """Close its session."""
        with closing(self._own):
            pass
