from __future__ import annotations

import math
import struct
import threading
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from blsflow.adapters.postgres.connection import Session
from blsflow.domain.machine import FLAGGED, SHARED, Benchmark, Machine
from blsflow.domain.prospects import plausible
from blsflow.domain.record import pack

if TYPE_CHECKING:
    from collections.abc import Iterator

    from blsflow.adapters.postgres.address import DatabaseAddress

_INSERT = (
    "insert into smart_schedule_machine_project_benchmarks"
    " (machine_id, project_id, hashrate_hs, power_w, sampled_at) values"
)


@pytest.fixture
def session(database: DatabaseAddress) -> Iterator[Session]:
    """A session in an empty database."""
    with closing(Session(database)) as opened:
        yield opened


def _entries(session: Session) -> dict[int, bytes]:
    rows = session.run("select machine_id, entries from smart_schedule_machine_benchmark_entries order by 1")
    return {int(machine_id): bytes(entries) for machine_id, entries in rows}


def _packed(*benchmarks: Benchmark) -> bytes:
    """What stands behind the header of a record with these benchmarks."""
    bare = Machine(1, 0, 1)
    return pack(bare._replace(benchmarks=benchmarks))[len(pack(bare)) :]


def test_benchmarks_are_packed_as_they_are_written(session: Session) -> None:
    """R2.4: what a tick reads of a machine's benchmarks is what was written last, in the layout of its record."""
    session.run(
        _INSERT
        + " (1, 12, 2e14, null, to_timestamp(1600000000.25)), (1, 11, 1e14, 3050, to_timestamp(1600000000)),"
        " (2, 11, null, 10, to_timestamp(1600000000))"
    )
    of_one = Benchmark(11, 1e14, 3050.0, 1.6e9), Benchmark(12, 2e14, float("nan"), 1600000000.25)
    assert _entries(session) == {
        1: _packed(*of_one),
        2: _packed(Benchmark(11, float("nan"), 10.0, 1.6e9)),
    }
    session.run(
        "update smart_schedule_machine_project_benchmarks set flagged = true, shared_from = 5, power_w = 1"
        " where machine_id = 1 and project_id = 12"
    )
    changed = Benchmark(12, 2e14, 1.0, 1600000000.25, FLAGGED | SHARED)
    assert _entries(session)[1] == _packed(of_one[0], changed)
    session.run(
        "update smart_schedule_machine_project_benchmarks set machine_id = 3 where machine_id = 1 and project_id = 11"
    )
    assert _entries(session)[1] == _packed(changed)
    assert _entries(session)[3] == _packed(of_one[0])
    session.run("delete from smart_schedule_machine_project_benchmarks where machine_id = 1")
    assert _entries(session)[1] == b""
    session.run("truncate smart_schedule_machine_project_benchmarks")
    assert _entries(session) == {}


def test_what_a_tick_is_told_of_them_stands_beside_them(session: Session) -> None:
    """R2.3, R3.10: which projects they are of, what was measured, and from when to when, unless one is none to decide on."""
    session.run(
        _INSERT
        + " (1, 12, 2e14, 3000, to_timestamp(1600000000.25)), (1, 11, 1e14, 3050, to_timestamp(1500000000)),"
        " (2, 11, 1e14, 3000, to_timestamp(5)), (2, 12, 1e14, null, to_timestamp(6)), (3, 11, 1e14, 3000, now()),"
        " (4, 11, 1e14, 3000, to_timestamp(7)), (5, 11, 1e14, 3000, to_timestamp(8)), (5, 12, 1e14, 9.9, to_timestamp(8))"
    )
    session.run(
        "update smart_schedule_machine_project_benchmarks set flagged = true where (machine_id, project_id) = (2, 11)"
    )
    session.run("delete from smart_schedule_machine_project_benchmarks where machine_id = 3")
    found = session.run(
        "select e.machine_id, e.said, e.figures, e.newest, e.measured, e.version, p.projects"
        " from smart_schedule_machine_benchmark_entries e"
        " left join smart_schedule_measured_projects p on p.id = e.measured order by 1"
    )
    told = {
        1: ((11, 12), (1e14, 3050.0, 2e14, 3000.0), 1.5e9, 1600000000.25),
        2: ((11, 12), (1e14, 3000.0, 1e14, math.nan), math.nan, math.nan),
        3: ((), (), math.nan, math.nan),
        4: ((11,), (1e14, 3000.0), 7.0, 7.0),
        5: ((11, 12), (1e14, 3000.0, 1e14, 9.9), math.nan, math.nan),
    }
    assert len(found) == len(told)
    for machine_id, said, figures, newest, measured, version, named in found:
        projects, expected, oldest, until = told[machine_id]
        count, number, its_version, its_oldest = struct.unpack(">Hqqd", said)
        assert (count, number, its_version) == (len(projects), measured or 0, version)
        assert repr((its_oldest, newest)) == repr((oldest, until))
        assert figures == struct.pack(f">{len(expected)}d", *expected)
        assert (named or b"") == struct.pack(f">{len(projects)}q", *projects)
    numbers = {machine_id: measured for machine_id, _, _, _, measured, _, _ in found}
    assert numbers[1] == numbers[2] != numbers[4]
    assert numbers[3] is None


def _float8(value: float | None) -> str:
    return "null" if value is None else f"'{value!r}'::float8"


def test_figures_are_plausible_here_as_in_the_rules(session: Session) -> None:
    """R2.3: what a tick is told that it may decide on is what the rules would take, to the last bit."""
    hashrates = [None, -1.0, -0.0, 0.0, 5e-324, 1e14, 1.7976931348623157e308, math.inf, -math.inf, math.nan]
    powers = [
        None,
        -10.0,
        0.0,
        math.nextafter(10.0, 0.0),
        10.0,
        3000.0,
        1.7976931348623157e308,
        math.inf,
        math.nan,
    ]
    for hashrate_hs in hashrates:
        for power_w in powers:
            ((found,),) = session.run(
                f"select smart_schedule_plausible({_float8(hashrate_hs)}, {_float8(power_w)})"
            )
            known = math.nan if hashrate_hs is None else hashrate_hs, math.nan if power_w is None else power_w
            assert found is plausible(*known), (hashrate_hs, power_w)


def test_what_is_not_packed_is_not_packed_anew(session: Session) -> None:
    """R2.4, R10.1: drifted readings are noted often; a row of entries is written when they change, and then only."""
    session.run(_INSERT + " (1, 11, 1e14, 3000, now()), (2, 11, null, 3000, now())")
    versions = (
        "select machine_id, xmin::text, ctid::text from smart_schedule_machine_benchmark_entries order by 1"
    )
    before = session.run(versions)
    session.run(
        "update smart_schedule_machine_project_benchmarks set drift_seen_at = now(), drift_hashrates_hs = '{1}'"
    )
    assert session.run(versions) == before
    for change in (
        "power_w = 1",
        "hashrate_hs = 1",
        "shared_from = 9",
        "flagged = true",
        "power_estimated = true",
    ):
        session.run(f"update smart_schedule_machine_project_benchmarks set {change} where machine_id = 2")
        after = session.run(versions)
        assert (after[0], after[1] != before[1]) == (before[0], True), change
        before = after


def test_two_that_write_one_machines_benchmarks_at_once_lose_neither(session: Session) -> None:
    """R2.4: the second of two open transactions waits for the first and packs what both wrote."""
    with closing(Session(session.address)) as other:
        session.run("begin; " + _INSERT + " (1, 11, 1e14, 3000, to_timestamp(1600000000))")
        second = threading.Thread(
            target=other.run, args=(_INSERT + " (1, 12, 2e14, 3000, to_timestamp(1600000000))",)
        )
        second.start()
        second.join(0.3)
        assert second.is_alive()
        session.run("commit")
        second.join(20)
    ((version,),) = session.run("select version from smart_schedule_machine_benchmark_entries")
    kept = "select id from smart_schedule_benchmark_versions where superseded_at is null"
    assert session.run(kept) == [[version]]
    assert _entries(session)[1] == _packed(
        Benchmark(11, 1e14, 3000.0, 1.6e9), Benchmark(12, 2e14, 3000.0, 1.6e9)
    )
    ((said, figures, oldest, newest, named),) = session.run(
        "select e.said, e.figures, e.oldest, e.newest, p.projects from smart_schedule_machine_benchmark_entries e"
        " join smart_schedule_measured_projects p on p.id = e.measured"
    )
    assert struct.unpack(">Hqqd", said)[::2] == (2, version)
    assert figures == struct.pack(">4d", 1e14, 3000.0, 2e14, 3000.0)
    assert (oldest, newest, named) == (1.6e9, 1.6e9, struct.pack(">2q", 11, 12))


def test_two_that_measure_new_lists_of_projects_do_not_wait_for_each_other(session: Session) -> None:
    """R7.3: each adds a list that the other is about to need: the second waits for the first, and neither for both."""
    with closing(Session(session.address)) as other:
        session.run("begin; " + _INSERT + " (1, 11, 1e14, 3000, to_timestamp(1600000000))")
        three = " (2, 12, 1e14, 3000, now())", " (2, 11, 1e14, 3000, now())", " (3, 11, 1e14, 3000, now())"
        second = threading.Thread(
            target=other.run, args=(f"begin; {'; '.join(_INSERT + each for each in three)}; commit",)
        )
        second.start()
        second.join(0.3)
        assert second.is_alive()
        session.run(_INSERT + " (4, 12, 1e14, 3000, now())")
        session.run("commit")
        second.join(20)
        assert not second.is_alive()
    rows = session.run(
        "select e.machine_id, p.projects from smart_schedule_machine_benchmark_entries e"
        " join smart_schedule_measured_projects p on p.id = e.measured order by 1"
    )
    assert rows == [
        [1, struct.pack(">q", 11)],
        [2, struct.pack(">2q", 11, 12)],
        [3, struct.pack(">q", 11)],
        [4, struct.pack(">q", 12)],
    ]
