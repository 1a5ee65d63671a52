from __future__ import annotations

import ast
import math
import re
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pg8000.native import to_statement

from blsflow.adapters import postgres
from blsflow.adapters.postgres.connection import Session
from blsflow.adapters.postgres.statements import purposes, statements
from blsflow.domain import pages
from blsflow.domain.block import Block, machines_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from blsflow.adapters.postgres.address import DatabaseAddress

COPIES = {"read_stored_records"}
"""Run as COPY, which is neither prepared nor given parameters."""

_NAME = re.compile(r"(?<![:\w]):([a-z_]+)")
_RUNNERS = {"query", "stream", "_count", "inlined"}


@pytest.fixture(scope="module")
def session(module_database: DatabaseAddress) -> Iterator[Session]:
    """A session on a migrated database."""
    with closing(Session(module_database)) as opened:
        yield opened


def calls() -> list[tuple[str, set[str], bool]]:
    """Every use of a statement in the code: its name, the parameters named there, and whether these are all."""
    found = []
    for path in sorted(Path(postgres.__path__[0]).glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and _called(node.func) in _RUNNERS and node.args:
                name = node.args[0]
                if isinstance(name, ast.Constant) and isinstance(name.value, str):
                    named = {keyword.arg for keyword in node.keywords if keyword.arg is not None}
                    found.append((name.value, named, len(named) == len(node.keywords)))
    return found


def _called(function: ast.expr) -> str | None:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else None


def test_the_uses_of_statements_are_found() -> None:
    """R11.1: the reading of the code on which the checks below rest sees its calls."""
    assert {"record_scan", "close_unbegun", "read_machines"} <= {name for name, _, _ in calls()}


def test_every_statement_is_used_and_every_used_one_exists() -> None:
    """R11.1: no statement lies about unused, and none is asked for that is not there; doctor and listings name theirs."""
    used = {name for name, _, _ in calls()}
    used |= {each.name for each in vars(pages).values() if isinstance(each, pages.Listing)}
    of_doctor = {name for name in statements() if name.startswith("doctor_")}
    assert used - set(statements()) == set()
    assert set(statements()) - used - of_doctor == set()


@pytest.mark.parametrize("name", sorted({name for name, _, _ in calls()}))
def test_every_statement_is_given_its_parameters(name: str) -> None:
    """R11.1: the code gives each statement the parameters that stand in its text, and no others."""
    wanted = set(_NAME.findall(statements()[name]))
    for used, given, complete in calls():
        if used == name:
            assert given <= wanted
            assert given == wanted or not complete


@pytest.mark.parametrize("name", sorted(statements()))
def test_every_statement_says_what_it_is_for(name: str) -> None:
    """R11.1: a sentence under each statement's name says its purpose."""
    assert purposes()[name].endswith(".")
    assert len(purposes()[name].split()) >= 3


@pytest.mark.parametrize("name", sorted(statements()))
def test_the_driver_sees_the_parameters_that_are_written(name: str) -> None:
    """R11.1: the driver's own reading of placeholders finds exactly those of the text, whatever colons it holds besides."""
    names = set(_NAME.findall(statements()[name]))
    text, values = to_statement(statements()[name])
    assert set(map(int, re.findall(r"\$(\d+)", text))) == set(range(1, len(names) + 1))
    assert sorted(values({name: name for name in names})) == sorted(names)


@pytest.mark.parametrize("name", sorted(set(statements()) - COPIES))
def test_every_statement_is_understood_by_the_database(session: Session, name: str) -> None:
    """R11.1: each statement can be prepared on the newest schema, with a parameter for every name."""
    prepared = session._connection.prepare(statements()[name])
    known = session._connection.run(
        "select coalesce(cardinality(parameter_types), 0) from pg_prepared_statements where name = :name",
        name=prepared.name_bin.rstrip(b"\0").decode(),
    )
    assert known == [[len(set(_NAME.findall(statements()[name])))]]


@pytest.mark.parametrize(
    "word", ["acme", "null", "Null", "o'brien", r"back\slash \' end", "a:b :c $1 $$ -- /*", "北矿", '"']
)
def test_machines_are_read_whatever_the_values(session: Session, word: str) -> None:
    """R2.4: machines are read whatever characters their tenant's and model's names hold: values never become statement."""
    quoted = word.replace("'", "''")
    session.run(
        f"begin; insert into clusters values (1, '{quoted}', 'site', 'UTC');"
        f"insert into machines values (7, '{quoted}', 1, '{quoted}', 'm', false), (8, 'other', 1, '{quoted}', 'm', false)"
    )
    blocks: list[list[bytes]] = []
    try:
        session.stream(
            "read_machines",
            blocks.append,
            tenant_id=word,
            cluster_ids=[1],
            models=[word],
            covered=[True],
            everything=False,
            override_ids=[0],
            override_ranks=[2**31 - 1],
            overridden_machines=[],
            overriding_policies=[],
            overriding_ranks=[],
            machine_ids=[],
            projects=[1, 2],
            report_max_age_sec=600,
            sampled_from=0.0,
            sampled_until=math.inf,
        )
    finally:
        session.run("rollback")
    (values,) = blocks
    assert [machine.machine_id for machine in machines_of(Block(*values))] == [7]
