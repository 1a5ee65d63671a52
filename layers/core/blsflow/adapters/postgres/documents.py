"""From rows and JSON documents of the database to the domain's policies.

PostgreSQL writes numbers and times that JSON does not have as text: "NaN", "Infinity", "-infinity".
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

from blsflow.domain.errors import InvalidDocument
from blsflow.domain.policy import ExecutionMode, Mode, NegativeProfitAction, Policy, Window, WindowAction
from blsflow.domain.price_level import PriceLevel

Row = Mapping[str, Any]

_POLICY_FIELDS = {field.name for field in fields(Policy)}


def policy_of(row: Row, candidates: Sequence[Row], windows: Sequence[Row]) -> Policy:
    """Read a policy; `InvalidDocument` names what cannot be meant."""
    values = {name: value for name, value in row.items() if name in _POLICY_FIELDS}
    with meant("policy", row.get("name")):
        values.update(
            mode=Mode(row["mode"]),
            execution_mode=ExecutionMode(row["execution_mode"]),
            negative_profit_action=NegativeProfitAction(row["negative_profit_action"]),
            candidates=tuple(candidate["project_id"] for candidate in candidates),
            windows=tuple(_window_of(window) for window in windows),
        )
        return Policy(**values)


def levels_of(candidates: Sequence[Row]) -> dict[int, PriceLevel]:
    """Read the accepted price levels of a policy's candidates; one that cannot be meant is forgotten."""
    levels: dict[int, PriceLevel] = {}
    for row in candidates:
        level, level_at = _price(row["price_level"]), moment(row["price_level_at"])
        pending, since = _price(row["price_pending_level"]), moment(row["price_pending_since"])
        if level is not None and level_at is not None:
            on_trial = pending is not None and since is not None
            levels[row["project_id"]] = PriceLevel(
                level=level,
                level_at=level_at,
                pending_level=pending if on_trial else None,
                pending_since=since if on_trial else None,
            )
    return levels


def instant(value: Any) -> Any:  # noqa: ANN401 - a timestamp comes as text inside JSON and as itself elsewhere
    """Read a timestamp from JSON; None stays None."""
    return datetime.fromisoformat(value) if isinstance(value, str) else value


def moment(value: Any) -> datetime | None:  # noqa: ANN401 - as above
    """Read a timestamp that may be none: infinity, and what lies outside of the calendar, is."""
    try:
        moment = instant(value)
        return moment.astimezone(UTC) if isinstance(moment, datetime) else None
    except (ValueError, OverflowError):
        return None


@contextmanager
def meant(field: str, value: object) -> Iterator[None]:
    """Refuse what a constructor stumbles over as what it is: a document that cannot be meant."""
    try:
        yield
    except InvalidDocument:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidDocument(field=field, value=value, cause=str(error)) from error


def _price(value: Any) -> float | None:  # noqa: ANN401 - JSON has NaN as text
    figure = value if isinstance(value, int | float) and not isinstance(value, bool) else math.nan
    return float(figure) if math.isfinite(figure) and figure > 0 else None


def _window_of(row: Row) -> Window:
    weekdays = row["weekdays"]
    return Window(
        id=row["id"],
        priority=row["priority"],
        starts=row["starts"],
        ends=row["ends"],
        weekdays=None if weekdays is None else frozenset(weekdays),
        action=WindowAction(row["action"]),
        project_id=row["project_id"],
    )
