"""The published contracts are valid OpenAPI documents, and their examples keep their own schemas."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import openapi_spec_validator
import pytest
import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator

CONTRACTS = sorted((Path(__file__).parents[2] / "docs/contracts").glob("*.openapi.yaml"))


def examples(contract: dict[str, Any]) -> Iterator[tuple[dict[str, Any], Any]]:
    """Yield each schema with an example of it, from requests and responses."""
    for path in contract["paths"].values():
        for operation in (value for method, value in path.items() if method != "parameters"):
            bodies = [operation.get("requestBody", {}), *operation["responses"].values()]
            shared = [body["$ref"].rsplit("/", 1)[1] for body in bodies if "$ref" in body]
            bodies += [contract["components"]["responses"][name] for name in shared]
            for media in (media for body in bodies for media in body.get("content", {}).values()):
                for example in media.get("examples", {}).values():
                    yield media["schema"], example["value"]
                if "example" in media:
                    yield media["schema"], media["example"]


@pytest.mark.parametrize("path", CONTRACTS, ids=lambda path: path.name.split(".")[0])
def test_a_contract_is_valid_and_shows_what_it_says(path: Path) -> None:
    """R1.1: what this product asks of the services around it is published, machine-readable and consistent."""
    contract = yaml.safe_load(path.read_text("utf-8"))
    assert contract["openapi"].startswith("3.1")
    openapi_spec_validator.validate(contract)
    shown = list(examples(contract))
    assert shown
    for schema, example in shown:
        jsonschema.validate(
            example, schema | {"components": contract["components"]}, cls=jsonschema.Draft202012Validator
        )


def test_each_outside_service_has_a_contract() -> None:
    """R1.1: the three services outside are the profit, device-control and execution services."""
    assert [path.name.split(".")[0] for path in CONTRACTS] == [
        "device_control",
        "execution_service",
        "profit_service",
    ]
