"""The API's operations as its document declares them, and a request that each of them takes.

What tests say of every operation they say by this, so that an operation which is added is held without a word about it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from local.openapi import DOCUMENT_FILE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

UUID: Final = "7b1e2f30-4a5b-4c6d-8e7f-90a1b2c3d4e5"
_OF_FORMAT: Final = {"date-time": "2027-01-01T00:00:00Z", "date": "2027-01-01", "uuid": UUID}


IDS_OF: Final = {
    "policy_id": "select min(id) from smart_schedule_policy_groups where tenant_id = '{tenant}'",
    "schedule_id": "select min(id) from smart_schedule_schedules where tenant_id = '{tenant}'",
    "occurrence_id": "select min(id) from smart_schedule_occurrences where tenant_id = '{tenant}'",
    "tick_id": "select min(id) from smart_schedule_ticks where tenant_id = '{tenant}'",
    "machine_id": "select min(id) from machines where tenant_id = '{tenant}'",
    "project_id": "select min(id) from projects where tenant_id = '{tenant}'",
    "notification_id": "select min(id) from smart_schedule_outbox where tenant_id = '{tenant}'",
    "job_id": "select min(id::text) from smart_schedule_attempts where tenant_id = '{tenant}'",
    "attempt_id": "select min(id::text) from smart_schedule_attempts where tenant_id = '{tenant}'",
    "command_id": "select min(id::text) from smart_schedule_commands where tenant_id = '{tenant}'",
    "run_id": "select min(id::text) from smart_schedule_benchmark_runs where tenant_id = '{tenant}'",
}
"""By path parameter, where an id of a tenant's own is found."""


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One operation; ``path`` has its parameters in braces, ``body`` is the schema of its body, if it takes one."""

    name: str
    method: str
    path: str
    scope: str | None
    parameters: tuple[Mapping[str, Any], ...]
    body: Mapping[str, Any] | None
    described: Mapping[str, Any]

    def __str__(self) -> str:
        return self.name

    def of(self, place: str) -> list[Mapping[str, Any]]:
        """The parameters in the path, the query or the headers."""
        return [parameter for parameter in self.parameters if parameter["in"] == place]

    def sample_path(self, ids: Mapping[str, object]) -> str:
        """The path with ids in it; a parameter that is not among them gets a sample."""
        path = self.path
        for parameter in self.of("path"):
            name = parameter["name"]
            path = path.replace(f"{{{name}}}", str(ids.get(name, sample(parameter["schema"]))))
        return path

    def sample_headers(self) -> dict[str, str]:
        """The headers that have to be there."""
        return {each["name"]: str(sample(each["schema"])) for each in self.of("header") if each["required"]}

    def sample_query(self) -> dict[str, object]:
        """The query parameters that have to be there."""
        return {each["name"]: sample(each["schema"]) for each in self.of("query") if each["required"]}

    def sample_body(self) -> Any:
        """A body with everything that it may have; None if it takes none."""
        return None if self.body is None else sample(self.body)


@cache
def document() -> dict[str, Any]:
    """The published document."""
    found: dict[str, Any] = json.loads(DOCUMENT_FILE.read_text(encoding="utf-8"))
    return found


def operations() -> list[Operation]:
    """Every operation that the API's own function answers, in the document's order."""
    return [operation for operation in _operations() if "x-function" not in operation.described]


def _operations() -> Iterator[Operation]:
    for path, methods in document()["paths"].items():
        for method, described in methods.items():
            content = described.get("requestBody", {}).get("content", {})
            yield Operation(
                name=described["operationId"],
                method=method.upper(),
                path=path,
                scope=described.get("x-scope"),
                parameters=tuple(described.get("parameters", ())),
                body=content.get("application/json", {}).get("schema"),
                described=described,
            )


def owned_ids(operation: Operation, tenant: str, ask: Callable[[str], object]) -> dict[str, object]:
    """An id of a tenant's own for each of an operation's path parameters, or one of nobody's where it has none."""
    names = [parameter["name"] for parameter in operation.of("path")]
    return {name: ask(IDS_OF[name].format(tenant=tenant)) or unowned_id(name) for name in names}


def unowned_id(name: str) -> object:
    """An id that nobody has."""
    return UUID if "::text" in IDS_OF[name] else 987_654_321


def resolved(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """A schema with its reference followed, and of alternatives the first that is not null."""
    while True:
        if "$ref" in schema:
            schema = document()["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        elif "oneOf" in schema or "anyOf" in schema:
            told = {
                name: value
                for name, value in schema.items()
                if name not in {"oneOf", "anyOf", "discriminator"} and value is not None
            }
            choices = schema.get("oneOf") or schema["anyOf"]
            schema = {**next(each for each in choices if each.get("type") != "null"), **told}
        else:
            return schema


def is_nullable(schema: Mapping[str, Any]) -> bool:
    """Whether null is among its alternatives."""
    choices = schema.get("anyOf", ()) or schema.get("oneOf", ())
    return any(each.get("type") == "null" for each in choices)


def sample(schema: Mapping[str, Any]) -> Any:
    """A value that the schema allows, by its own examples where a schema cannot say what is meant."""
    schema = resolved(schema)
    for told in ("examples", "enum"):
        if schema.get(told):
            return schema[told][0]
    return schema["const"] if "const" in schema else _of_kind(schema)


def _of_kind(schema: Mapping[str, Any]) -> Any:
    match schema.get("type"):
        case "object":
            return {name: sample(each) for name, each in schema.get("properties", {}).items()}
        case "array":
            return [sample(schema["items"])] * max(1, schema.get("minItems", 0))
        case "integer" | "number":
            if schema.get("default") is not None:
                return schema["default"]
            least = max(1, schema.get("minimum", schema.get("exclusiveMinimum", 0) + 1))
            return min(least, schema.get("maximum", least))
        case "boolean":
            return True
    letters = "a" * max(1, schema.get("minLength", 1))
    return schema.get("default") or _OF_FORMAT.get(schema.get("format", ""), letters)
