"""The shapes of documents that people write, wherever they hand them in: a file, or a request to the API."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from blsflow.domain.errors import InvalidDocument

if TYPE_CHECKING:
    from collections.abc import Iterator


class Strict(BaseModel):
    """A part of a document: nothing unknown in it, no type guessed."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


# What the domain refuses is published here, and not checked twice: one place says what is wrong, in its own words.
_CLOCK = {"pattern": r"^([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9])?$"}
TimeOfDay = Annotated[
    str, Field(description="local, HH:MM or HH:MM:SS", examples=["08:00"], json_schema_extra=_CLOCK)
]


class _RuleDocument(Strict):
    time_zone: str = Field(description="IANA name", examples=["Asia/Shanghai"])


class OnceDocument(_RuleDocument):
    """One run."""

    kind: Literal["once"]
    at: str = Field(description="ISO 8601; without an offset a local time of the zone")


class IntervalDocument(_RuleDocument):
    """Runs at the anchor and every so many elapsed seconds from then on."""

    kind: Literal["interval"]
    every_sec: Annotated[int, Field(json_schema_extra={"minimum": 1})]
    anchor: str = Field(default="1970-01-01T00:00:00Z", description="ISO 8601 with an offset")


class DailyDocument(_RuleDocument):
    """Runs every day."""

    kind: Literal["daily"]
    time_of_day: TimeOfDay


class WeeklyDocument(_RuleDocument):
    """Runs on some days of the week."""

    kind: Literal["weekly"]
    weekdays: list[Annotated[int, Field(json_schema_extra={"minimum": 1, "maximum": 7})]] = Field(
        description="ISO, 1 is Monday", json_schema_extra={"minItems": 1}
    )
    time_of_day: TimeOfDay


class MonthlyDocument(_RuleDocument):
    """Runs on one day of the month."""

    kind: Literal["monthly"]
    day: Annotated[int, Field(json_schema_extra={"minimum": 1, "maximum": 31})] | Literal["last"]
    time_of_day: TimeOfDay


class CronDocument(_RuleDocument):
    """Runs whenever five cron fields match the local time."""

    kind: Literal["cron"]
    expression: str = Field(examples=["*/15 8-18 * * 1-5"])


RuleDocument = Annotated[
    OnceDocument | IntervalDocument | DailyDocument | WeeklyDocument | MonthlyDocument | CronDocument,
    Field(discriminator="kind"),
]


class WorkDocument(Strict):
    """What a run does: it sends a prompt to a conversation of the execution service."""

    target: str = Field(
        description="who answers, by the service's catalogue",
        examples=["analyst"],
        json_schema_extra={"minLength": 1, "maxLength": 200},
    )
    conversation_id: Annotated[str, Field(json_schema_extra={"minLength": 1, "maxLength": 200})]
    prompt: Annotated[str, Field(json_schema_extra={"minLength": 1, "maxLength": 100_000})]


@contextmanager
def located(path: str) -> Iterator[None]:
    """Put a path in front of the field that a refusal inside names."""
    try:
        yield
    except InvalidDocument as error:
        raise type(error)(field=f"{path}.{error.field}", value=error.value, cause=error.cause) from error
