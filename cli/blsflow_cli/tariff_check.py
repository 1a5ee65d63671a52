"""What a tariff document says over a year: prices, gaps, overlaps, and the days on which the clock moves (R3.4)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

from blsflow.domain.errors import InvalidDocument
from blsflow.domain.local_time import clock_changes, load_zone, local_day, resolve_wall
from blsflow.domain.tariff import TariffPrice, TariffProblem, price_in_force
from blsflow.domain.tariff_survey import TariffSegment, next_change, survey
from blsflow_cli.output import table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from zoneinfo import ZoneInfo

    from rich.console import Console

    from blsflow.domain.tariff import Tariff

_LOOK_AHEAD = timedelta(days=366)


@dataclass(frozen=True, kw_only=True, slots=True)
class AskedPrice:
    """What an instant costs; ``mark`` tells a wall that its zone skips (``moved``) or repeats."""

    asked: str
    at: datetime
    mark: str
    status: TariffPrice | TariffProblem
    next_change_at: datetime | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ClockDay:
    """A local day of 23, 25 or another odd number of hours, with its prices."""

    day: date
    segments: tuple[TariffSegment, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class TariffCheck:
    """What was found in that part of the year in which the tariffs are in force."""

    zone: ZoneInfo
    year: int
    segments: tuple[TariffSegment, ...]
    clock_days: tuple[ClockDay, ...]
    asked: tuple[AskedPrice, ...]

    @property
    def problems(self) -> list[TariffSegment]:
        """Stretches without a known price."""
        return [segment for segment in self.segments if isinstance(segment.status, TariffProblem)]

    @property
    def has_finding(self) -> bool:
        """Whether no tariff is in force in that year, or a stretch of it or an instant asked for has no known price."""
        unknown = any(isinstance(each.status, TariffProblem) for each in self.asked)
        return not self.segments or bool(self.problems) or unknown

    def hours(self) -> Counter[tuple[str, float]]:
        """Hours of the year by period and price."""
        found: Counter[tuple[str, float]] = Counter()
        for segment in self.segments:
            if isinstance(segment.status, TariffPrice):
                found[segment.status.period, segment.status.price_cny_per_kwh] += segment.hours  # type: ignore[assignment]
        return found


def check(tariffs: Sequence[Tariff], year: int, instants: Sequence[str]) -> TariffCheck:
    """Survey a year of the first tariff's zone, and price instants (ISO; without an offset: in that zone).

    Before the first tariff's validity and after the last one's nothing is a gap; between two of them it is.
    """
    zone = load_zone(tariffs[0].zone)
    start, _ = local_day(date(year, 1, 1), zone)
    end, _ = local_day(date(year + 1, 1, 1), zone)
    if all(tariff.valid_from is not None for tariff in tariffs):
        start = max(start, min(tariff.valid_from for tariff in tariffs if tariff.valid_from is not None))
    if all(tariff.valid_to is not None for tariff in tariffs):
        end = min(end, max(tariff.valid_to for tariff in tariffs if tariff.valid_to is not None))
    changes = list(clock_changes(start, end, zone)) if start < end else []
    return TariffCheck(
        zone=zone,
        year=year,
        segments=tuple(survey(tariffs, start, end)),
        clock_days=tuple(_clock_day(tariffs, change, zone) for change in changes),
        asked=tuple(_asked(tariffs, text, zone) for text in instants),
    )


def as_json(found: TariffCheck) -> dict[str, Any]:
    """The published shape of the answer; times are local, with their offset."""
    return {
        "time_zone": found.zone.key,
        "year": found.year,
        "ok": not found.has_finding,
        "hours": [
            {"period": period, "price_cny_per_kwh": price, "hours": hours}
            for (period, price), hours in sorted(found.hours().items())
        ],
        "problems": [_segment(each, found.zone) for each in found.problems],
        "clock_days": [
            {
                "day": each.day.isoformat(),
                "hours": sum(segment.hours for segment in each.segments),
                "segments": [_segment(segment, found.zone) for segment in each.segments],
            }
            for each in found.clock_days
        ],
        "prices": [
            {"asked": each.asked, "at": _local(each.at, found.zone), "clock": each.mark}
            | _status(each.status)
            | {"next_change_at": each.next_change_at and _local(each.next_change_at, found.zone)}
            for each in found.asked
        ],
    }


def show(found: TariffCheck, console: Console) -> None:
    """Print hours per price, every problem, the days on which the clock moves, and the prices asked for."""
    zone = found.zone
    title = f"{found.year}, {zone.key}, while in force"
    rows = [(period, f"{price:g}", f"{hours:g}") for (period, price), hours in sorted(found.hours().items())]
    console.print(table(title, ["period", "price (CNY/kWh)", "hours (h)"], rows))
    for each in found.problems:
        console.print(f"[red]{_line(each, zone)}[/red]")
    if not found.segments:
        console.print(
            f"[red]Not in force at any time of {found.year}: ask for another year with --year.[/red]"
        )
    elif not found.problems:
        console.print("No gaps and no overlaps.")
    for day in found.clock_days:
        hours = sum(segment.hours for segment in day.segments)
        console.print(f"\nThe clock moves on {day.day.isoformat()}, a day of {hours:g} hours:")
        for segment in day.segments:
            console.print("  " + _line(segment, zone))
    if found.asked:
        console.print()
        columns = ["asked", "at", "clock", "period", "price (CNY/kWh)", "next change"]
        asked = [
            (each.asked, _local(each.at, zone), each.mark, *_cells(each.status),
             each.next_change_at and _local(each.next_change_at, zone))
            for each in found.asked
        ]  # fmt: skip
        console.print(table("Prices", columns, asked))


def _clock_day(tariffs: Sequence[Tariff], change: datetime, zone: ZoneInfo) -> ClockDay:
    day = change.astimezone(zone).date()
    return ClockDay(day=day, segments=tuple(survey(tariffs, *local_day(day, zone))))


def _asked(tariffs: Sequence[Tariff], text: str, zone: ZoneInfo) -> AskedPrice:
    try:
        given = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidDocument(
            field="--at", value=text, cause="is no instant such as 2025-08-01T10:00 or 2025-08-01T02:00Z"
        ) from error
    at, mark = (given.astimezone(UTC), "exact") if given.tzinfo else resolve_wall(given, zone)
    return AskedPrice(
        asked=text,
        at=at,
        mark=mark,
        status=price_in_force(tariffs, at),
        next_change_at=next_change(tariffs, at, _LOOK_AHEAD),
    )


def _segment(segment: TariffSegment, zone: ZoneInfo) -> dict[str, Any]:
    bounds = {"start": _local(segment.start, zone), "end": _local(segment.end, zone), "hours": segment.hours}
    return bounds | _status(segment.status)


def _status(status: TariffPrice | TariffProblem) -> dict[str, Any]:
    if isinstance(status, TariffPrice):
        return {"period": status.period, "price_cny_per_kwh": status.price_cny_per_kwh}
    return {"problem": status.kind, "names": list(status.names)}


def _cells(status: TariffPrice | TariffProblem) -> tuple[str, str]:
    if isinstance(status, TariffPrice):
        return status.period, f"{status.price_cny_per_kwh:g}"
    return " ".join((status.kind, *status.names)), "-"


def _line(segment: TariffSegment, zone: ZoneInfo) -> str:
    what, price = _cells(segment.status)
    return f"{_local(segment.start, zone)} to {_local(segment.end, zone)}: {what} {price}"


def _local(at: datetime, zone: ZoneInfo) -> str:
    return at.astimezone(zone).isoformat(timespec="seconds")
