"""Pages of history: a cursor that neither repeats nor loses a row while rows are added (R8.12)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from blsflow.domain.errors import InvalidExecutionRequest
from blsflow.domain.pages import MOST_ROWS, checked_limit, encode_cursor, is_id, place_of_cursor

_LIST: Final = "occurrences"

__all__ = ["MOST_ROWS", "HistoryCursor", "HistoryQuery", "decode_cursor"]


@dataclass(frozen=True, kw_only=True, slots=True)
class HistoryCursor:
    """The last row of a page: the next page begins below its planned time and id, which no new row can change."""

    planned_at: datetime
    occurrence_id: int

    def encode(self) -> str:
        """Return the cursor as an opaque text."""
        return encode_cursor(_LIST, self.planned_at, self.occurrence_id)


def decode_cursor(text: str) -> HistoryCursor:
    """Read a cursor that `HistoryCursor.encode` wrote; anything else is refused."""
    planned_at, occurrence_id = place_of_cursor(_LIST, text)
    return HistoryCursor(planned_at=planned_at, occurrence_id=occurrence_id)


@dataclass(frozen=True, kw_only=True, slots=True)
class HistoryQuery:
    """Which occurrences, newest planned time first; None leaves a filter out, times are half-open."""

    tenant_id: str | None = None
    schedule_id: int | None = None
    kind: str | None = None
    state: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    after: HistoryCursor | None = None
    limit: int = 50

    def __post_init__(self) -> None:
        checked_limit(self.limit)
        for name in ("since", "until"):
            _refuse_edge_of_time(name, getattr(self, name))
        for name in ("tenant_id", "kind", "state"):
            text = getattr(self, name)
            if text is not None and not text.isprintable():
                raise InvalidExecutionRequest(
                    field=name, value=text, cause="has characters that cannot be shown"
                )
        if self.schedule_id is not None and not is_id(self.schedule_id):
            raise InvalidExecutionRequest(field="schedule_id", value=self.schedule_id, cause="is no id")


def _refuse_edge_of_time(name: str, at: datetime | None) -> None:
    try:
        if at is not None:
            at.astimezone(UTC)
    except OverflowError as error:
        raise InvalidExecutionRequest(
            field=name, value=str(at), cause="is at the end of all times"
        ) from error
