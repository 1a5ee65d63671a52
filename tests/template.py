"""The template as data: YAML with CloudFormation's short forms spelt out, `!Ref X` as `{"Ref": "X"}`."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import yaml

TEMPLATE = Path(__file__).parents[1] / "template.yaml"


class _Loader(yaml.SafeLoader):
    """Knows the short forms."""


def _short_form(loader: _Loader, name: str, node: yaml.Node) -> dict[str, Any]:
    key = name if name in {"Ref", "Condition"} else f"Fn::{name}"
    if isinstance(node, yaml.ScalarNode):
        return {key: loader.construct_scalar(node)}
    if isinstance(node, yaml.SequenceNode):
        return {key: loader.construct_sequence(node, deep=True)}
    assert isinstance(node, yaml.MappingNode)
    return {key: loader.construct_mapping(node, deep=True)}


_Loader.add_multi_constructor("!", _short_form)


@cache
def template() -> dict[str, Any]:
    """Return the whole template."""
    read: dict[str, Any] = yaml.load(TEMPLATE.read_text(), _Loader)  # noqa: S506 - a SafeLoader
    return read


def properties(logical_id: str) -> dict[str, Any]:
    """Return the properties of a resource."""
    found: dict[str, Any] = template()["Resources"][logical_id]["Properties"]
    return found


def of_type(kind: str) -> list[str]:
    """Return the logical ids of all resources of a kind, in the template's order."""
    return [name for name, resource in template()["Resources"].items() if resource["Type"] == kind]


def as_list(value: object) -> list[Any]:
    """Return what may be written as one thing or as a list of them as a list."""
    return value if isinstance(value, list) else [value]
