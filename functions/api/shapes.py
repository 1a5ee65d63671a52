"""The shapes that all nouns share: parameters, pages, and the base of what is answered."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Annotated, Final, Generic, Self, TypeVar

from aws_lambda_powertools.event_handler.openapi.params import Header, Path, Query
from pydantic import AfterValidator, AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field

from blsflow.documents import located
from blsflow.domain.pages import LARGEST_ID, MOST_ROWS, id_of_cursor
from blsflow.domain.wording import NAME_PATTERN, is_name, is_prose, says_something

if TYPE_CHECKING:
    from collections.abc import Sequence

T = TypeVar("T")

_DECIMALS: Final = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?", re.ASCII)
_INSTANT: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ]", re.ASCII)


def _digits(value: object) -> object:
    """Take an id as its plain digits: no sign, no blanks, no underscores, no digits of other scripts."""
    if isinstance(value, str) and not (value.isascii() and value.isdigit()):
        message = "needs to be digits"
        raise ValueError(message)
    return value


def _decimals(value: object) -> object:
    """Take a number as its plain digits, with a point among them or none."""
    if isinstance(value, str) and not _DECIMALS.fullmatch(value):
        message = "needs to be digits, with a point among them or none"
        raise ValueError(message)
    return value


def _written_out(value: object) -> object:
    """Take an instant as ISO 8601 writes it: a bare number could be seconds, milliseconds or a year."""
    if not isinstance(value, str) or not _INSTANT.match(value):
        message = "needs to be an instant such as 2025-08-01T10:00:00+08:00"
        raise ValueError(message)
    return value


def _named(value: str) -> str:
    """Refuse what no name has, and a name that cannot be seen; none at all is for its length to refuse."""
    if not is_name(value) or (value and not says_something(value)):
        message = "needs to be a name on one line, without control characters and overrides of direction"
        raise ValueError(message)
    return value


def _finite(value: object) -> object:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _said(value: str) -> str:
    if not says_something(value) or not is_prose(value):
        message = "needs to say why, without control characters"
        raise ValueError(message)
    return value


Instant = Annotated[AwareDatetime, BeforeValidator(_written_out)]
Digits = BeforeValidator(_digits)
Decimals = BeforeValidator(_decimals)
PathId = Annotated[int, Digits, Path(ge=1, le=LARGEST_ID)]
QueryId = Annotated[int | None, Digits, Query(ge=1, le=LARGEST_ID)]
Limit = Annotated[int, Digits, Query(ge=1, le=MOST_ROWS, description="how many rows at the most")]
Cursor = Annotated[str | None, Query(max_length=400, description="`next_cursor` of the page before; opaque")]
IfMatch = Annotated[
    str | None, Header(alias="if-match", description="the ETag that was read; without it nothing is changed")
]
IdempotencyKey = Annotated[
    str,
    Header(
        alias="idempotency-key",
        min_length=1,
        max_length=200,
        pattern=r"^[\x21-\x7e]+$",
        description="of the caller's making; the same key and body create once, and are answered with what was created",
    ),
]
Name = Annotated[
    str, Field(max_length=200, json_schema_extra={"pattern": NAME_PATTERN}), AfterValidator(_named)
]
Why = Annotated[
    str,
    Field(
        min_length=1, max_length=500, description="why, for the record", json_schema_extra={"pattern": r"\S"}
    ),
    AfterValidator(_said),
]


Figure = Annotated[float | None, BeforeValidator(_finite)]
"""A measured or computed figure; what is not a number, or infinite, is unknown, and JSON has no other word for that."""


class Answer(BaseModel):
    """A part of an answer, read from the product's own value objects or rows."""

    model_config = ConfigDict(from_attributes=True, frozen=True)


class Texts(Answer):
    """The same in both languages."""

    en: str
    zh: str


class Page(Answer, Generic[T]):
    """Some rows; `next_cursor` begins the next page, null on the last."""

    items: list[T]
    next_cursor: str | None

    @classmethod
    def of(cls, rows: Sequence[object], cursor: str | None, item: type[Answer]) -> Self:
        """Read each row of a page, and where the next one begins."""
        return cls.model_validate(
            {"items": [item.model_validate(row) for row in rows], "next_cursor": cursor}
        )


def id_cursor(of: str, cursor: str | None, *, first: int = 0) -> int:
    """Read a cursor of the list ``of``, in order of ids; ``first`` is where a first page begins."""
    with located("query"):
        return id_of_cursor(of, cursor, first=first)
