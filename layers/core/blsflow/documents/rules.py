"""Rules of schedules, and what a scheduled conversation says, as documents (R8.1, R8.2)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from blsflow.documents import Strict
from blsflow.domain.recurrence_rules import LONGEST_INTERVAL_SEC

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
    at: str = Field(
        description="ISO 8601; without an offset a local time of the zone", examples=["2027-01-01T08:00"]
    )


class IntervalDocument(_RuleDocument):
    """Runs at the anchor and every so many elapsed seconds from then on."""

    kind: Literal["interval"]
    every_sec: Annotated[int, Field(json_schema_extra={"minimum": 1, "maximum": LONGEST_INTERVAL_SEC})]
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
