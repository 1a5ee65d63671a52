"""Local wall clocks and UTC: the one place that knows what zones skip and repeat (R2.2, R8.2).

A *wall* is a naive ``datetime``: what a clock on the wall of a site shows. An *instant* is aware and UTC.
Zones are IANA names. A zone moves its clock for more reasons than DST (Pacific/Apia skipped a whole day), and
not always by an hour (Australia/Lord_Howe: half of one); nothing here assumes otherwise.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING, Literal, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterator

WallMark = Literal["exact", "moved", "repeated"]

# In the zone database, but no place's civil time: host-dependent, a placeholder, or counting leap seconds.
_NOT_A_PLACE = frozenset({"Factory", "localtime", "posixrules"})
_NOT_A_PLACE_PREFIX = ("posix/", "right/")
_ONE_DAY = timedelta(days=1)


class UnknownZone(ValueError):
    """Not a zone of the IANA database."""


class WallInstant(NamedTuple):
    """When a wall time comes: ``moved`` if the zone skips it, ``repeated`` if it comes twice."""

    at: datetime
    mark: WallMark


def load_zone(name: object) -> ZoneInfo:
    """The zone of that IANA name; raises `UnknownZone` for anything else, whatever its type."""
    if not isinstance(name, str) or name in _NOT_A_PLACE or name.startswith(_NOT_A_PLACE_PREFIX):
        raise UnknownZone(name)
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        # A folder of the database ("Europe") and a path out of it surface as OSError and ValueError.
        raise UnknownZone(name) from error


def resolve_wall(wall: datetime, zone: ZoneInfo) -> WallInstant:
    """The one instant at which something planned for `wall` happens.

    A repeated wall means its first pass; a skipped one means the first instant after the gap. The result
    never decreases as `wall` grows, so plans keep their order.
    """
    early = _offset_of_wall(wall, zone, fold=0)
    late = _offset_of_wall(wall, zone, fold=1)
    at = (wall - early).replace(tzinfo=UTC)
    if early == late:
        return WallInstant(at, "exact")
    if early > late:
        return WallInstant(at, "repeated")
    return WallInstant(clock_change_between((wall - late).replace(tzinfo=UTC), at, zone), "moved")


def instants_of_wall(wall: datetime, zone: ZoneInfo) -> tuple[datetime, ...]:
    """Every instant at which a clock in `zone` reaches `wall`: two if repeated, the gap's end if skipped."""
    first = resolve_wall(wall, zone)
    if first.mark != "repeated":
        return (first.at,)
    return (first.at, (wall - _offset_of_wall(wall, zone, fold=1)).replace(tzinfo=UTC))


def latest_settled_wall(at: datetime, zone: ZoneInfo) -> datetime:
    """The latest wall whose planned instant (`resolve_wall`) is not after `at`.

    That is what the clock shows, except in the second pass of a repeated stretch: by then every wall of the
    stretch has had its instant, so the answer is the stretch's last microsecond.
    """
    local = at.astimezone(zone)
    wall = local.replace(tzinfo=None, fold=0)
    if not local.fold:
        return wall
    first = resolve_wall(wall, zone).at
    change = clock_change_between(first, at, zone).replace(tzinfo=None)
    return change + _offset_at(first, zone) - datetime.resolution


def is_repeated(at: datetime, zone: ZoneInfo) -> bool:
    """Whether the wall that `zone` shows at `at` comes twice."""
    return resolve_wall(at.astimezone(zone).replace(tzinfo=None, fold=0), zone).mark == "repeated"


def local_day(day: date, zone: ZoneInfo) -> tuple[datetime, datetime]:
    """Start and end (exclusive) of a local day: 23, 24 or 25 hours apart, 0 for a day that was skipped."""
    midnight = datetime.combine(day, time())
    return resolve_wall(midnight, zone).at, resolve_wall(midnight + _ONE_DAY, zone).at


def clock_changes(start: datetime, end: datetime, zone: ZoneInfo) -> Iterator[datetime]:
    """The instants in (start, end] at which `zone` moves its clock, provided they are a day apart."""
    low = start
    while low < end:
        high = min(low + _ONE_DAY, end)
        if _offset_at(low, zone) != _offset_at(high, zone):
            yield clock_change_between(low, high, zone)
        low = high


def clock_change_between(before: datetime, after: datetime, zone: ZoneInfo) -> datetime:
    """The instant in (before, after] at which `zone` moved its clock; the two must differ in their offset."""
    target = _offset_at(after, zone)
    low, high = int(before.timestamp()), int(after.timestamp())
    while high - low > 1:
        middle = (low + high) // 2
        if _offset_at(datetime.fromtimestamp(middle, UTC), zone) == target:
            high = middle
        else:
            low = middle
    return datetime.fromtimestamp(high, UTC)


def _offset_at(at: datetime, zone: ZoneInfo) -> timedelta:
    return at.astimezone(zone).utcoffset() or timedelta()


def _offset_of_wall(wall: datetime, zone: ZoneInfo, *, fold: int) -> timedelta:
    return wall.replace(tzinfo=zone, fold=fold).utcoffset() or timedelta()
