"""What goes on while migrations run."""

from __future__ import annotations

import threading
from contextlib import closing
from typing import TYPE_CHECKING

from blsflow.adapters.postgres.connection import Session
from blsflow.adapters.postgres.migrate import migration_files

if TYPE_CHECKING:
    from blsflow.adapters.postgres.address import DatabaseAddress


def test_the_log_is_read_while_its_order_is_indexed(empty_database: DatabaseAddress) -> None:
    """R11.1: until the migration commits, readers of the log wait for nothing."""
    with closing(Session(empty_database)) as session, closing(Session(empty_database)) as reader:
        for version, sql in migration_files():
            session.run(f"begin; {sql}")
            if version.startswith("0007"):
                break
            session.run("commit")
        reader.run("set lock_timeout = '1s'")
        assert reader.run("select id from smart_schedule_log_events") == []
        session.run("rollback")


_BENCHMARK = (
    "insert into smart_schedule_machine_project_benchmarks (machine_id, project_id, hashrate_hs, power_w, sampled_at)"
    " values ({machine}, {project}, 1e14, 3000, to_timestamp(1600000000))"
)


def test_benchmarks_that_are_written_while_versions_are_introduced_get_one(
    empty_database: DatabaseAddress,
) -> None:
    """R11.1, R3.2: whoever writes waits for the migration and loses nothing; between its parts too."""
    with closing(Session(empty_database)) as session, closing(Session(empty_database)) as writer:
        for version, sql in migration_files():
            if version.startswith("0015"):
                session.run(
                    _BENCHMARK.format(machine=1, project=1) + ";" + _BENCHMARK.format(machine=2, project=1)
                )
            session.run(f"begin; {sql}")
            writing = None
            if version.startswith(("0015", "0016")):
                new = _BENCHMARK.format(machine=version[3], project=2)
                writing = threading.Thread(target=writer.run, args=(new,))
                writing.start()
                writing.join(0.3)
                assert writing.is_alive()
            session.run("commit")
            if writing is not None:
                writing.join(20)
        assert session.run(
            "select e.machine_id, length(e.entries) / 33, e.version = v.id, e.entries = v.entries,"
            " e.newest = 1600000000 and length(e.figures) = length(p.projects) * 2 and substr(e.said, 3, 8) = int8send(p.id)"
            " from smart_schedule_machine_benchmark_entries e join smart_schedule_measured_projects p on p.id = e.measured"
            " full join (select * from smart_schedule_benchmark_versions where superseded_at is null) v using (machine_id)"
            " order by 1"
        ) == [
            [1, 1, True, True, True],
            [2, 1, True, True, True],
            [5, 1, True, True, True],
            [6, 1, True, True, True],
        ]


def test_ticks_read_on_while_benchmarks_get_their_first_versions(empty_database: DatabaseAddress) -> None:
    """R11.1: what takes long waits for nobody who only reads."""
    with closing(Session(empty_database)) as session, closing(Session(empty_database)) as reader:
        for version, sql in migration_files():
            if version.startswith("0016"):
                session.run("begin; " + sql[: sql.rindex("alter table")])
                break
            session.run(f"begin; {sql}; commit")
        reader.run("set lock_timeout = '1s'")
        assert reader.run("select version from smart_schedule_machine_benchmark_entries") == []
        session.run("rollback")


def test_implausible_figures_of_before_are_no_longer_sent_as_figures(empty_database: DatabaseAddress) -> None:
    """R2.3, R11.1: machines whose benchmarks were packed before come whole from then on, and no others."""
    with closing(Session(empty_database)) as session:
        for version, sql in migration_files():
            if version.startswith("0020"):
                session.run(
                    "; ".join(_BENCHMARK.format(machine=m, project=p) for m in (1, 2, 3, 4) for p in (1, 2))
                )
                session.run(
                    "update smart_schedule_machine_project_benchmarks set power_w = 9.9 where machine_id = 2;"
                    "update smart_schedule_machine_project_benchmarks set flagged = true where machine_id = 3;"
                    "update smart_schedule_machine_project_benchmarks set hashrate_hs = null where machine_id = 4"
                )
                before = session.run(_TOLD)
            session.run(f"begin; {sql}; commit")
        assert [row[1] for row in before] == [1.6e9, 1.6e9, None, 1.6e9]
        assert session.run(_TOLD) == [before[0], [2, None, None, True], before[2], [4, None, None, True]]


_TOLD = (
    "select machine_id, nullif(oldest, 'NaN'), nullif(newest, 'NaN'), substr(said, 19, 8) = float8send(oldest)"
    " from smart_schedule_machine_benchmark_entries order by 1"
)
