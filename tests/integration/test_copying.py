from __future__ import annotations

import math
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from blsflow.adapters.postgres.connection import Session
from blsflow.adapters.postgres.copying import DECISION_COLUMNS, DecisionSpool, RecordReader
from blsflow.domain.decide import Decided
from blsflow.domain.machine import Machine
from blsflow.domain.reasons import Action, Reason
from blsflow.domain.record import HEAD_BYTES, pack
from blsflow.domain.verdict import Verdict
from blsflow.ports.errors import InvariantBroken

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from blsflow.adapters.postgres.address import DatabaseAddress

AT = datetime(2026, 3, 1, 23, 59, 59, 999_999, tzinfo=UTC)
VERSION = 2**41
ATTEMPT = UUID("8f7c3b1e-0000-4000-8000-00000000ff01")


@pytest.fixture
def session(module_database: DatabaseAddress) -> Iterator[Session]:
    """A session within a transaction that is undone."""
    with closing(Session(module_database)) as opened:
        opened.run("begin")
        yield opened


def machine(machine_id: int, *, overridden_by: int = 0) -> Machine:
    """A machine as its record has it."""
    return Machine(
        machine_id=machine_id,
        class_index=0,
        status=1,
        project_id=5,
        hashrate_hs=1e14,
        power_w=math.nan,
        project_since=math.nan,
        reported_at=0.0,
        flags=0,
        foreign_changes=0,
        overridden_by=overridden_by,
        allow_bits=0,
        deny_bits=0,
        benchmarks=(),
    )


def write(session: Session, rows: Sequence[tuple[Machine, Verdict, str, str, UUID | None]]) -> None:
    """Copy decisions in, as a tick does."""
    at_us = int(AT.timestamp()) * 1_000_000 + AT.microsecond
    spool = DecisionSpool(tick_id=-7, ticked_at_us=at_us)
    for each, verdict, action, reason, attempt_id in rows:
        decided = Decided(pack(each)[:HEAD_BYTES], VERSION, each, verdict)
        spool.add(decided, action=action, reason=reason, attempt_id=attempt_id)
    session.copy(
        f"copy smart_schedule_machine_decisions ({DECISION_COLUMNS}) from stdin (format binary)",
        spool.finish(),
    )


def stored(session: Session) -> list[list[object]]:
    """Every decision of the tick, in the order of its machines."""
    return session.run(
        f"select {DECISION_COLUMNS}, job_id from smart_schedule_machine_decisions where tick_id = -7 order by machine_id"
    )


def test_what_a_tick_writes_is_what_is_stored(session: Session) -> None:
    """R3.2: every column of a decision arrives as it was: the instant to the microsecond, negative ids, and the record."""
    one = machine(-3, overridden_by=-12)
    verdict = Verdict(Action.SWITCH, Reason.BETTER_NET, 5, -6, 2**40, -1.25, 1e300)
    write(session, [(one, verdict, "skip", "锁 locked", ATTEMPT)])
    assert stored(session) == [
        [
            AT,
            -7,
            -3,
            "skip",
            "锁 locked",
            "switch",
            5,
            -6,
            2**40,
            -1.25,
            1e300,
            -12,
            ATTEMPT,
            VERSION,
            pack(one),
            None,
        ]
    ]


def test_what_is_not_known_is_null(session: Session) -> None:
    """R3.2: a figure or project that a decision does not have is null, never 0."""
    write(session, [(machine(1), Verdict(Action.KEEP, Reason.ALREADY_BEST), "keep", "x", None)])
    assert stored(session)[0][6:13] == [None] * 7


@pytest.mark.parametrize("figure", [math.nan, math.inf, -math.inf, 0.0, -0.0, 5e-324])
def test_every_figure_arrives_as_it_is(session: Session, figure: float) -> None:
    """R3.2: a net that is no number stays none, and a zero stays a zero."""
    verdict = Verdict(Action.KEEP, Reason.ALREADY_BEST, current_net=figure, best_net=figure)
    write(session, [(machine(1), verdict, "keep", "x", None)])
    for value in stored(session)[0][9:11]:
        assert isinstance(value, float)
        assert math.isnan(value) if math.isnan(figure) else value == figure


def test_a_spool_on_disk_is_stored_like_one_in_memory(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R3.2: decisions beyond the limit of memory are all stored, each once."""
    monkeypatch.setattr("blsflow.adapters.postgres.copying._SPOOL_BYTES", 1000)
    verdict = Verdict(Action.KEEP, Reason.ALREADY_BEST)
    write(session, [(machine(i), verdict, "keep", "x", None) for i in range(2000)])
    assert [row[2] for row in stored(session)] == list(range(2000))


def test_a_tick_of_no_machines_writes_nothing(session: Session) -> None:
    """R3.2: an empty stream is a COPY of no rows."""
    write(session, [])
    assert stored(session) == []


def test_a_second_decision_for_a_machine_refuses_the_whole_copy(session: Session) -> None:
    """R3.2: a machine that comes twice in a tick is a fault, and the error says which constraint found it."""
    verdict = Verdict(Action.KEEP, Reason.ALREADY_BEST)
    with pytest.raises(InvariantBroken) as error:
        write(session, [(machine(1), verdict, "keep", "x", None)] * 2)
    assert error.value.constraint is not None
    assert error.value.constraint.endswith("_pkey")


@pytest.mark.parametrize(
    ("query", "values"),
    [
        ("select null::bytea where false", []),
        ("select null::bytea", []),
        ("select x from (values (1, 'a'::bytea), (2, null), (3, ''), (4, 'b')) v (i, x) order by i", [b"a", b"", b"b"]),
    ],
    ids=["no row", "a null", "some"],
)  # fmt: skip
def test_what_the_server_sends_is_read(session: Session, query: str, values: list[bytes]) -> None:
    """R2.4: the server's own stream is read like that of the format's description."""
    found: list[bytes] = []
    session.copy(f"copy ({query}) to stdout (format binary)", RecordReader(found.append))
    assert found == values


def test_a_block_beyond_any_packet_is_read_whole(session: Session) -> None:
    """R2.4: a megabyte in one value arrives as one block."""
    found: list[bytes] = []
    session.copy(
        "copy (select decode(repeat('ab', 1000000), 'hex') from generate_series(1, 2)) to stdout (format binary)",
        RecordReader(found.append),
    )
    assert found == [b"\xab" * 1_000_000] * 2
