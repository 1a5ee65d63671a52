"""The document that the API serves, and what every operation of it says and does."""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from blsflow.web.caller import Scope
from blsflow.web.problems import PROBLEMS
from local.openapi import DOCUMENT_FILE, GUIDE_FILE, rendered, with_tables
from local.stack.processes import REPOSITORY
from tests.api_operations import Operation, document, operations, resolved
from tests.integration.api_deployment import ApiDeployment, deployed
from tests.integration.api_scene import ALL_SCOPES, Api

if TYPE_CHECKING:
    from collections.abc import Iterator

    from blsflow.adapters.postgres.address import DatabaseAddress

every_operation = pytest.mark.parametrize("operation", operations(), ids=str)
OPEN = {"read_health", "openapi"}
"""What is answered without signing in."""
_SOURCES = (REPOSITORY / "functions", REPOSITORY / "layers" / "core" / "blsflow" / "web")


@pytest.fixture(scope="module")
def api(module_database: DatabaseAddress) -> Iterator[ApiDeployment]:
    """A seeded database, in which each test is a tenant of its own."""
    with deployed(module_database) as made:
        yield made


def _call(operation: Operation, who: Api) -> Any:
    return who.call(
        operation.method,
        operation.sample_path({}),
        body=operation.sample_body(),
        query=operation.sample_query(),
        headers=operation.sample_headers(),
    )


def test_the_published_document_is_the_generated_one() -> None:
    """R9.1: docs/openapi.json is what the code validates against; `make openapi` writes it."""
    assert DOCUMENT_FILE.read_text(encoding="utf-8") == rendered()


def test_the_guides_tables_are_the_generated_ones() -> None:
    """R9.1, R9.2: docs/api.md lists every operation with its scope, and every problem."""
    guide = GUIDE_FILE.read_text(encoding="utf-8")
    assert guide == with_tables(guide)
    assert all(f"| `{code}` |" in guide for code in PROBLEMS)
    scoped = [each for path in document()["paths"].values() for each in path.values() if "x-scope" in each]
    assert guide.count("| `schedule:") == len(scoped)


def test_the_document_is_valid_openapi() -> None:
    """R9.1: any tool that reads OpenAPI 3.1 reads it."""
    OpenAPIV31SpecValidator(document()).validate()
    assert document()["openapi"].startswith("3.1")


def test_every_operation_that_takes_an_id_follows_from_an_answer_that_has_it() -> None:
    """R9.1: a client goes on by links alone, from lists and from what it made; each leads to where the id is."""
    described = {
        each["operationId"]: each for methods in document()["paths"].values() for each in methods.values()
    }
    followed = set()
    for each in described.values():
        for status, told in each["responses"].items():
            for link in told.get("links", {}).values():
                followed.add(link["operationId"])
                assert status.startswith("2")
                for where in link["parameters"].values():
                    _resolve(where, told)
    takes_ids = {
        name
        for name, each in described.items()
        if any(parameter["in"] == "path" for parameter in each.get("parameters", []))
    }
    assert followed == takes_ids


def _resolve(where: str, told: dict[str, Any]) -> None:
    _, is_in_answer, pointer = where.partition("$response.body#/")
    if is_in_answer:
        schema = resolved(told["content"]["application/json"]["schema"])
        for part in pointer.split("/"):
            schema = resolved(schema["items"] if part == "0" else schema["properties"][part])


@pytest.mark.usefixtures("api")
def test_the_served_document_is_the_published_one() -> None:
    """R9.1: it is served to anybody, whole."""
    assert Api(tenant=None).get("/openapi.json").body == document()


def test_every_module_of_the_api_declares_operations_that_are_served() -> None:
    """R9.1: no noun is written and then forgotten."""
    modules = [
        path for path in (REPOSITORY / "functions" / "api").glob("*.py") if "@operation(" in path.read_text()
    ]
    nouns = importlib.import_module("functions.api.app").NOUNS
    assert {path.stem for path in modules} == {noun.__name__.rpartition(".")[2] for noun in nouns}


def test_names_are_unique() -> None:
    """R9.1: an operation's name finds it."""
    names = [operation.name for operation in operations()]
    assert len(names) == len(set(names)) >= len(OPEN) + 10


@every_operation
def test_every_operation_says_what_it_does_and_how_it_refuses(operation: Operation) -> None:
    """R9.1, R9.2: summary, scope, and every status with the problem document and its codes."""
    described = operation.described
    assert described["summary"].endswith(".")
    assert described["tags"]
    assert (operation.scope is None) == (operation.name in OPEN)
    if operation.scope is not None:
        assert operation.scope in set(Scope)
        assert described["security"] == [{"jwt": [operation.scope]}]
    told = {status: each for status, each in described["responses"].items() if status >= "400"}
    wanted = {"400", "422", "500", "503"} | ({"401", "403"} if operation.scope else set())
    wanted |= {"413", "415"} if operation.body else set()
    wanted |= (
        {"404"}
        if operation.of("path") and "Page" not in json.dumps(described["responses"].get("200"))
        else set()
    )
    assert wanted <= set(told)
    for status, each in told.items():
        codes = re.findall(r"`(\w+)`", each["description"])
        assert codes
        assert {str(int(PROBLEMS[code][0])) for code in codes} == {status}
        assert each["content"]["application/problem+json"]["schema"]["$ref"].endswith("/Problem")


@every_operation
def test_reading_needs_one_scope_and_changing_another(operation: Operation) -> None:
    """R9.1: what is good for reading alone changes nothing."""
    if operation.scope == Scope.READ:
        assert operation.method == "GET" or operation.name in {
            "preview_rule",
            "dry_run_policy",
            "backtest_policy",
        }
    elif operation.scope is not None:
        assert operation.method in {"POST", "PUT", "DELETE"}


def test_every_problem_is_one_that_something_answers_with() -> None:
    """R9.2: no code stands in the table that nobody ever sees."""
    text = "".join(
        path.read_text(encoding="utf-8") for folder in _SOURCES for path in Path(folder).rglob("*.py")
    )
    unused = {code for code in PROBLEMS if text.count(f'"{code}"') < 2}
    assert unused == set()


@every_operation
@pytest.mark.usefixtures("api")
def test_its_sample_is_understood(operation: Operation) -> None:
    """R9.1: what the document says an operation takes, it takes, and it answers as it says it does."""
    answered = _call(operation, Api(tenant="newcomer"))
    assert answered.status not in {400, 413, 415, 428}, answered.body
    if answered.status == 422:  # what it names is not a newcomer's; that it is named so is understood
        assert all("there is no such" in error["cause"] for error in answered.body["params"]["errors"]), (
            answered.body
        )
    described = operation.described["responses"][str(answered.status)]
    assert answered.headers["content-type"] in described["content"]
    if answered.code is not None:
        assert f"`{answered.code}`" in described["description"]


@every_operation
@pytest.mark.usefixtures("api")
def test_each_scope_is_good_for_its_own_operations_only(operation: Operation) -> None:
    """R9.1: without its scope an operation is refused before anything is read; no scope includes another."""
    for scope in ["", "schedule", "schedule:", "SCHEDULE:READ", *ALL_SCOPES.split()]:
        answered = _call(operation, Api(tenant="scoped", scopes=scope))
        refused = operation.scope is not None and scope != operation.scope
        assert (answered.code == "insufficient_scope") == refused, (scope, answered.body)
        if refused:
            assert answered.body["params"] == {"scope": operation.scope}


@every_operation
@pytest.mark.usefixtures("api")
def test_nobody_is_let_in(operation: Operation) -> None:
    """R9.1: without a verified token, or with one that names no tenant, has no subject or has expired, there is nothing."""
    nobody = [
        Api(tenant=None),
        Api(expires_in=-1),
        *(
            Api(claims=claims)
            for claims in ({"tenant_id": ""}, {"tenant_id": ["acme"]}, {"tenant_id": "a\x00"})
        ),
        *(
            Api(claims=claims)
            for claims in ({"sub": ""}, {"sub": None}, {"exp": None}, {"exp": "never"}, {"exp": "nan"})
        ),
        Api(claims={"tenant_id": "a" * 201}),
    ]
    for who in nobody:
        answered = _call(operation, who)
        assert (answered.code == "unauthorized") == (operation.scope is not None), (who, answered.body)
