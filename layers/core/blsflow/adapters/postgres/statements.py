"""The named statements of the ``sql`` folder, and how values are written for them."""

from __future__ import annotations

import json
import re
from functools import cache
from importlib.resources import files
from itertools import chain, repeat, takewhile
from typing import TYPE_CHECKING

import pg8000.native
from pg8000.converters import array_out

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

_PLACEHOLDER = re.compile(r"(?<![:\w]):([a-z_]+)")
_STATEMENT = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


@cache
def statements() -> Mapping[str, str]:
    """Return every named statement of the ``sql`` folder; a name used twice is a fault of the build."""
    return {name: _without_comments(text) for name, text in _named_texts().items()}


@cache
def purposes() -> Mapping[str, str]:
    """Return what every named statement is for: the comment under its name."""
    return {
        name: " ".join(line.removeprefix("--").strip() for line in takewhile(_is_comment, text.splitlines()))
        for name, text in _named_texts().items()
    }


@cache
def _named_texts() -> Mapping[str, str]:
    found: dict[str, str] = {}
    for resource in sorted(files(__package__).joinpath("sql").iterdir(), key=lambda entry: entry.name):
        parts = _STATEMENT.split(resource.read_text(encoding="utf-8"))
        for name, text in zip(parts[1::2], parts[2::2], strict=True):
            if name in found:
                message = f"two statements are named {name}"
                raise ValueError(message)
            found[name] = text
    return found


def _is_comment(line: str) -> bool:
    return line.startswith("--")


def _without_comments(text: str) -> str:
    """Drop comment lines: the driver's placeholder parser may misread a colon in one."""
    return (
        "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("--"))
        .strip()
        .rstrip(";")
    )


def as_json(document: object) -> str:
    """Encode for a ``::json`` or ``::jsonb`` parameter; NaN has no JSON form and is refused."""
    return json.dumps(document, separators=(",", ":"), allow_nan=False, default=str)


def as_array(values: Iterable[int | datetime | None], times: Iterable[int] = repeat(1)) -> str:
    """Encode for a ``::bigint[]`` or ``::timestamptz[]`` parameter, each value so many ``times``.

    As `as_list` does, but of one kind each, so that no value is asked what it is: a scan has tens of thousands.
    """
    texts = ("null" if value is None else str(value).replace(" ", "T") for value in values)
    return f"{{{','.join(chain.from_iterable(map(repeat, texts, times)))}}}"


def as_list(values: list[object]) -> str:
    """Encode for an array parameter of any type, each text quoted.

    The driver leaves a text unquoted that looks harmless to it, and PostgreSQL takes a bare ``null`` for no value.
    """
    return f"{{{','.join(map(_element, values))}}}"


def _element(value: object) -> str:
    if isinstance(value, list):
        return as_list(value)
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    text: str = array_out(value)
    return text


def literal(value: object) -> str:
    """Quote a value for statements that take no parameters (COPY of a query)."""
    text: str = pg8000.native.literal(as_list(value) if isinstance(value, list) else value)
    return text


def inlined(statement: str, /, **params: object) -> str:
    """Put quoted literals in the places of a named statement's parameters: COPY of a query takes none."""
    return _PLACEHOLDER.sub(lambda match: literal(params[match.group(1)]), statements()[statement])
