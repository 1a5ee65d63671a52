"""What a function imports before its first message, and what a message adds: no more than it uses."""

from __future__ import annotations

import json
import os
import pkgutil
import subprocess
import sys
from importlib import import_module
from typing import Any, Final

import pytest

from blsflow.adapters import postgres
from blsflow.adapters.postgres.part import Part
from blsflow.adapters.postgres.transaction import PARTS, PostgresTransaction

WORKERS: Final = ("tick", "decide", "execute", "reconcile", "benchmark", "notify")
GROUND: Final = {
    "blsflow.adapters.postgres.address",
    "blsflow.adapters.postgres.connection",
    "blsflow.adapters.postgres.part",
    "blsflow.adapters.postgres.statements",
    "blsflow.adapters.postgres.store",
    "blsflow.adapters.postgres.transaction",
    "blsflow.domain.errors",
    "blsflow.flow.budget",
    "blsflow.ports.errors",
}
"""What every function stands on, below the packages themselves."""
ELSEWHERE: Final = {
    "boto3",
    "botocore.session",
    "requests",
    "aws_lambda_powertools.utilities.batch",
    "aws_lambda_powertools.utilities.parser",
    "matplotlib",
    "typer",
}
"""What costs a tenth of a second or more, and no function needs before it is called."""
OF_THE_API: Final = {"pydantic", "asyncio", "aws_lambda_powertools.event_handler"}
OF_THE_DOCUMENT: Final = {"aws_lambda_powertools.event_handler.openapi.models"}
A_TRANSACTION: Final = "from blsflow.adapters.postgres.transaction import PostgresTransaction\n"


def imported_by(code: str) -> set[str]:
    """The modules that are there after some code in an interpreter of its own."""
    answer = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport json, sys; print(json.dumps(list(sys.modules)))"],
        env={**os.environ, "POWERTOOLS_SERVICE_NAME": "test", "POWERTOOLS_METRICS_NAMESPACE": "test"},
        capture_output=True,
        text=True,
        check=True,
    )
    return set(json.loads(answer.stdout))


def parts_among(modules: set[str]) -> set[str]:
    """The parts of a transaction that were imported."""
    return {part for part in PARTS if f"blsflow.adapters.postgres.{part.partition('.')[0]}" in modules}


@pytest.mark.parametrize("function", WORKERS)
def test_a_worker_imports_the_ground_and_nothing_else(function: str) -> None:
    """R11.1: its rules, its rows and its services come with its first message."""
    modules = imported_by(f"import functions.{function}.app")
    ours = {name for name in modules if name.startswith("blsflow.") and name.count(".") > 1}
    assert ours - {"blsflow.adapters.postgres"} == GROUND
    assert not modules & (ELSEWHERE | OF_THE_API | OF_THE_DOCUMENT)


@pytest.mark.parametrize("function", ["live", "migrate"])
def test_a_function_beside_the_workers_imports_no_part_and_no_service(function: str) -> None:
    """R11.1: what answers a stream or migrates needs neither the API's libraries nor AWS to begin."""
    modules = imported_by(f"import functions.{function}.app")
    assert not modules & (ELSEWHERE | OF_THE_API | OF_THE_DOCUMENT)
    assert not parts_among(modules)


def test_the_api_imports_no_part_no_service_and_not_what_only_its_document_needs() -> None:
    """R11.1: a request is not kept waiting for the models of OpenAPI."""
    modules = imported_by("import functions.api.app")
    assert modules >= OF_THE_API
    assert not modules & (ELSEWHERE | OF_THE_DOCUMENT)
    assert not parts_among(modules)


@pytest.mark.parametrize(
    ("method", "part"),
    [
        ("due_schedules", "tick.TickQueries"),
        ("begin_tick", "decide.DecideQueries"),
        ("begin_dispatch", "execute.ExecuteQueries"),
        ("open_runs", "converse.ConverseQueries"),
        ("open_attempts", "reconcile.ReconcileQueries"),
        ("claim_benchmarks", "sampling.SamplingQueries"),
        ("claim_notifications", "notify.NotifyQueries"),
        ("write_events", "events.EventQueries"),
    ],
)
def test_a_part_comes_alone(method: str, part: str) -> None:
    """R11.1: a method brings its own part of a transaction, and no other one."""
    modules = imported_by(f"{A_TRANSACTION}PostgresTransaction(None, None).{method}")
    assert parts_among(modules) == {part}
    assert "blsflow.ports.people" not in modules


def test_every_method_of_every_part_is_a_transactions() -> None:
    """R11.1: the list is complete and names nothing twice: a type checker sees the parts and not the list."""
    listed = {part: methods.split() for part, methods in PARTS.items()}
    assert {part: set(methods) for part, methods in listed.items()} == {
        f"{cls.__module__.rpartition('.')[2]}.{cls.__name__}": methods_of(cls) for cls in parts()
    }
    names = [name for methods in listed.values() for name in methods]
    assert len(names) == len(set(names))


def test_a_method_is_its_parts_and_stays_for_the_transaction() -> None:
    """R11.1: it asks the transaction's own session; what there is none of is no attribute."""
    transaction: Any = PostgresTransaction(object(), object())  # type: ignore[arg-type]
    method = transaction.write_events
    assert method.__self__._session is transaction._session
    assert method.__self__.now is transaction.now
    assert transaction.write_events is method
    with pytest.raises(AttributeError, match="has no write_poetry"):
        _ = transaction.write_poetry


def parts() -> list[type[Part]]:
    """The classes of the package that are a part, and not what another part builds on."""
    for module in pkgutil.iter_modules(postgres.__path__, f"{postgres.__name__}."):
        import_module(module.name)
    found: list[type[Part]] = []
    waiting = Part.__subclasses__()
    while waiting:
        cls = waiting.pop()
        waiting += cls.__subclasses__()
        if cls is not PostgresTransaction and not cls.__subclasses__():
            found.append(cls)
    return found


def methods_of(cls: type[Part]) -> set[str]:
    """What a part offers, with what it inherits of another."""
    return {name for base in cls.__mro__[:-1] for name in vars(base) if not name.startswith("_")}
