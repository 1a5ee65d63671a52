"""The shapes of documents that people write, wherever they hand them in: a file, or a request to the API.

What the domain refuses by itself is only published here (``json_schema_extra``): one place says what is wrong, in its words.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, ConfigDict, Field

from blsflow.domain.errors import InvalidDocument

if TYPE_CHECKING:
    from collections.abc import Iterator

Id = Annotated[int, Field(gt=0)]
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
