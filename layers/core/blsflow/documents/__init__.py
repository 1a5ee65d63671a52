"""The shapes of documents that people write, wherever they hand them in: a file, or a request to the API.

What the domain refuses by itself is only published here (``json_schema_extra``): one place says what is wrong, in its words.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field

from blsflow.domain.errors import InvalidDocument
from blsflow.domain.pages import LARGEST_ID

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_CAUSES: Final = {
    "extra_forbidden": "is no field of this document",
    "timezone_aware": "needs a UTC offset, such as 2025-08-01T10:00:00+08:00",
    "int_type": "is not a whole number",
    "int_parsing": "is not a whole number",
    "int_from_float": "is not a whole number",
    "float_type": "is not a number",
    "float_parsing": "is not a number",
    "string_type": "is not a text",
    "bool_type": "is neither true nor false",
    "bool_parsing": "is neither true nor false",
    "dict_type": "is not an object",
    "model_type": "is not an object",
    "list_type": "is not a list",
    "missing": "is missing",
}
Id = Annotated[int, Field(ge=1, le=LARGEST_ID)]
Clock = Annotated[str, Field(description="local time of day, HH:MM or HH:MM:SS", examples=["08:00"])]


class Strict(BaseModel):
    """A part of a document: nothing unknown in it, no type guessed."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


@contextmanager
def located(path: str) -> Iterator[None]:
    """Put a path in front of the field that a refusal inside names."""
    try:
        yield
    except InvalidDocument as error:
        raise type(error)(field=f"{path}.{error.field}", value=error.value, cause=error.cause) from error


def cause_of(error: Mapping[str, Any]) -> str:
    """Say what is wrong with a part of a document in our words, for the mistakes that people make; else in Pydantic's."""
    kind, expected = error["type"], error.get("ctx", {}).get("expected")
    if kind in {"enum", "literal_error"}:
        return f"is not one of {expected}"
    if kind == "union_tag_invalid":
        return f"is not one of {error['ctx']['expected_tags']}"
    return _CAUSES.get(kind) or str(error["msg"]).removeprefix("Value error, ")
