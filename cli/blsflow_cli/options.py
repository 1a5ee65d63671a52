"""Arguments and options that commands on a deployment share, and rows as they are printed."""

from __future__ import annotations

import getpass
from datetime import UTC, date, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from blsflow.domain.pages import MOST_ROWS
from blsflow.domain.wording import is_prose, says_something

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def _said(text: str) -> str:
    """Refuse an empty reason: a record without one is none."""
    if not says_something(text) or not is_prose(text):
        raise typer.BadParameter("say why, without control characters; it is kept on the record")
    return text.strip()


class Lang(StrEnum):
    """The languages that texts exist in."""

    EN = "en"
    ZH = "zh"


Language = Annotated[Lang, typer.Option("--lang", help="The language of the texts.")]
PolicyArgument = Annotated[int, typer.Argument(metavar="POLICY", help="The policy's id.", min=1)]
OptionalPolicy = Annotated[
    int | None, typer.Argument(metavar="[POLICY]", help="Only this policy, by its id.", min=1)
]
Reason = Annotated[str, typer.Option("--reason", help="Why, for the record.", callback=_said)]
By = Annotated[
    str,
    typer.Option("--by", help="Who, for the record.", default_factory=getpass.getuser, show_default="you"),
]

Cursor = Annotated[str | None, typer.Option(help="Where the page before ended.")]
Limit = Annotated[int, typer.Option(min=1, max=MOST_ROWS, help="Rows of a page.")]


def plain(value: Any) -> Any:  # noqa: ANN401 - any value of a row
    """Return what JSON can hold of it; times in ISO 8601."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case datetime() | date():
            return value.isoformat()
        case dict():
            return {str(key): plain(each) for key, each in value.items()}
        case list() | tuple():
            return [plain(each) for each in value]
        case _:
            return str(value)


def plain_rows(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return rows as JSON objects."""
    return [plain(dict(row)) for row in rows]


def moment(at: datetime | None) -> str:
    """Show an instant to the second, in UTC."""
    return "-" if at is None else f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z"


def counted(counts: Mapping[str, int] | None) -> str:
    """Show decisions by action and reason, the most frequent first."""
    ordered = sorted((counts or {}).items(), key=lambda each: (-each[1], each[0]))
    return ", ".join(f"{count} {name}" for name, count in ordered)


def figures(params: Mapping[str, Any]) -> str:
    """Show parameters by name, those that say something."""
    return ", ".join(f"{name} {plain(value)}" for name, value in params.items() if value is not None)
