"""How offline commands read a document: strictly, and with every refusal naming field, value and cause."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from pydantic import TypeAdapter, ValidationError

from blsflow.documents import cause_of
from blsflow.domain.errors import BlsflowError, InvalidDocument

STDIN = Path("-")
_T = TypeVar("_T")


class UnreadableFile(BlsflowError):
    """The document's file cannot be read at all."""


class RefusedDocument(BlsflowError):
    """A document of the wrong shape; ``problems`` has a line for each thing that is wrong with it. ``code`` is stable."""

    code: ClassVar[str] = InvalidDocument.code

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


def read(path: Path, shape: type[_T] | Any) -> _T:  # noqa: ANN401 - also a union of models, which is no class
    """The document in a file, or on standard input for ``-``.

    Raises:
        UnreadableFile: there is no such file, or it may not be read.
        RefusedDocument: its shape is wrong.
    """
    try:
        text = sys.stdin.buffer.read() if path == STDIN else path.read_bytes()
    except OSError as error:
        raise UnreadableFile(f"{path}: {error.strerror}") from error
    adapter: TypeAdapter[_T] = TypeAdapter(shape)
    try:
        return adapter.validate_json(text)
    except ValidationError as error:
        raise RefusedDocument([_problem(dict(each), text) for each in error.errors()]) from error


def json_schema(shape: Any) -> dict[str, Any]:  # noqa: ANN401 - as above
    """The published shape of a document, as JSON Schema (2020-12)."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | TypeAdapter(shape).json_schema()


def _problem(error: dict[str, Any], text: bytes) -> str:
    if error["type"] == "json_invalid":
        return f"the document is not JSON: {error['ctx']['error']}"
    path = _path(error["loc"], json.loads(text))
    if error["type"] == "missing":
        return f"{path}: is missing"
    if error["type"] in {"union_tag_invalid", "union_tag_not_found"}:
        # the discriminator itself is at fault, not the object that holds it
        name = str(error["ctx"]["discriminator"]).strip("'")
        path, error["input"] = f"{path}.{name}".lstrip("."), error["ctx"].get("tag")
        known = error["ctx"].get("expected_tags")
        error["msg"] = "is missing" if known is None else f"is not one of {known}"
    cause = cause_of(error)
    cause = cause[:1].lower() + cause[1:]
    return str(InvalidDocument(field=path or "document", value=_short(error["input"]), cause=cause))


def _path(location: tuple[int | str, ...], document: Any) -> str:  # noqa: ANN401 - any JSON value
    """The path as the document's author sees it: without the names of the shapes that a part was held against."""
    path, last = "", len(location) - 1
    for position, part in enumerate(location):
        if isinstance(part, int) and isinstance(document, list) and part < len(document):
            path, document = f"{path}[{part}]", document[part]
        elif isinstance(document, dict) and (part in document or position == last):
            path, document = f"{path}.{part}".lstrip("."), document.get(part)
    return path


def _short(value: object) -> object:
    """A value that fits a line; whole objects are told by their kind."""
    match value:
        case dict():
            return _Kind(f"an object of {len(value)} fields")
        case list():
            return _Kind(f"a list of {len(value)}")
        case bytes():
            return _Kind(f"{len(value)} bytes")
        case _:
            return value


class _Kind(str):
    """What stands for a value: no text of the document, and thus not quoted."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)
