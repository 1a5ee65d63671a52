"""How offline commands read a document: strictly, and with every refusal naming field, value and cause."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from blsflow.domain.errors import BlsflowError, InvalidDocument

if TYPE_CHECKING:
    from collections.abc import Iterator

STDIN = Path("-")
# Pydantic's words for the mistakes that people make, in ours.
_CAUSES = {
    "missing": "is missing",
    "extra_forbidden": "is no field of this document",
    "timezone_aware": "needs a UTC offset, such as 2025-08-01T10:00:00+08:00",
}
_T = TypeVar("_T")


class Strict(BaseModel):
    """A part of a document: nothing unknown in it, no type guessed."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class UnreadableFile(BlsflowError):
    """The document's file cannot be read at all."""


class RefusedDocument(BlsflowError):
    """A document of the wrong shape; ``problems`` has a line for each thing that is wrong with it."""

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
        raise RefusedDocument([_problem(dict(each)) for each in error.errors()]) from error


def json_schema(shape: Any) -> dict[str, Any]:  # noqa: ANN401 - as above
    """The published shape of a document, as JSON Schema (2020-12)."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | TypeAdapter(shape).json_schema()


@contextmanager
def located(path: str) -> Iterator[None]:
    """Put a path in front of the field that a refusal inside names."""
    try:
        yield
    except InvalidDocument as error:
        raise InvalidDocument(field=f"{path}.{error.field}", value=error.value, cause=error.cause) from error


def _problem(error: dict[str, Any]) -> str:
    path = ""
    for part in error["loc"]:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else str(part)
    if error["type"] == "json_invalid":
        return f"the document is not JSON: {error['ctx']['error']}"
    cause = _CAUSES.get(error["type"], str(error["msg"]).lower())
    if error["type"] == "missing":
        return f"{path}: {cause}"
    return str(InvalidDocument(field=path or "document", value=_short(error["input"]), cause=cause))


def _short(value: object) -> object:
    """A value that fits a line; whole objects are told by their kind."""
    if isinstance(value, dict | list | bytes):
        return f"{type(value).__name__} of {len(value)}"
    return value
