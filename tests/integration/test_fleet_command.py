"""`make fleet`: a sample fleet in a database of one's own, and in no other."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from local.fleet.__main__ import main
from local.stack.processes import REPOSITORY
from tests.integration.control_scenes import environment, look

if TYPE_CHECKING:
    import pytest

    from blsflow.adapters.postgres.address import DatabaseAddress

COLUMNS = """
select table_name, column_name from information_schema.columns
where table_schema = 'public'
  and (table_name !~ '^smart_schedule' or table_name = 'smart_schedule_resource_eligibilities')
"""


def test_an_empty_database_gets_a_fleet_in_shadow_once(
    database: DatabaseAddress, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """R11.4, R4.1: policies over machines that nothing will move; a database that holds some is left as it is."""
    for name, value in environment(database).items():
        monkeypatch.setenv(name, value)
    assert main(["--machines", "40"]) == 0
    assert "40 machines of north-mining, lakeside" in capsys.readouterr().out
    modes = "select distinct execution_mode from smart_schedule_policy_groups"
    assert look(database, modes) == [["shadow"]]
    assert main([]) == 2
    assert "holds machines already, and is left as it is" in capsys.readouterr().err
    assert look(database, "select count(*) from machines") == [[40]]


def test_a_database_that_is_not_migrated_is_told_how_it_is(
    empty_database: DatabaseAddress, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """R11.1: the first thing to do is named."""
    for name, value in environment(empty_database).items():
        monkeypatch.setenv(name, value)
    assert main([]) == 2
    assert "run `blsflow migrate` first" in capsys.readouterr().err


def test_the_docs_name_every_column_that_a_fleet_needs(database: DatabaseAddress) -> None:
    """R11.4: docs/database.md tells by which rows a deployment that stands alone gets its fleet."""
    section = (REPOSITORY / "docs" / "database.md").read_text(encoding="utf-8").partition("Their columns")[2]
    told: dict[str, set[str]] = {}
    for table, columns in re.findall(
        r"^\| `(\w+)` \| (.*) \|$", section.partition("Beside them")[0], re.MULTILINE
    ):
        told[table] = set(re.findall(r"`(\w+)`", columns))
    beside = section.partition("Beside them go ")[2].partition(")")[0]
    told["smart_schedule_resource_eligibilities"] = set(re.findall(r"`(\w+)`", beside.partition("(")[2]))
    there: dict[str, set[str]] = {}
    for table, column in look(database, COLUMNS):
        there.setdefault(table, set()).add(column)
    assert {table: there[table] - told.get(table, set()) for table in there} == {
        table: set() for table in there
    }
