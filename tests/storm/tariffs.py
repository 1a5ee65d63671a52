"""The tariffs that the storm's site may have, and what a kilowatt hour then really costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime, time

ZONE: Final = "Asia/Shanghai"


@dataclass(frozen=True, kw_only=True)
class Band:
    """Hours of the site's day at a price in CNY per kWh; they end on the next day where ``to`` is before ``since``."""

    since: str = "00:00"
    to: str = "24:00"
    priority: int = 0
    price: float

    def covers(self, clock: time) -> bool:
        """Whether it is in force at that time of the site's day."""
        since, now, to = self.since, f"{clock:%H:%M}", self.to
        return since <= now < to if since < to else now >= since or now < to


TARIFFS: Final[Mapping[str, Sequence[Band]]] = {
    "flat": (Band(price=0.3),),
    "dear": (Band(price=1.4),),
    "negative": (Band(price=-0.2),),
    "peak": (Band(price=0.25), Band(since="08:00", to="20:00", priority=1, price=1.2)),
    "at night only": (Band(since="20:00", to="08:00", price=0.2),),
    "overlapping": (Band(price=0.3), Band(since="06:00", to="18:00", price=0.4)),
    "none": (),
}
"""By their names; where two bands of one priority meet, and where there is none, the price is unknown."""


def price_at(name: str, at: datetime) -> float | None:
    """CNY per kWh under that tariff, None if it is unknown."""
    clock = at.astimezone(ZoneInfo(ZONE)).time()
    bands = [band for band in TARIFFS[name] if band.covers(clock)]
    first = max((band.priority for band in bands), default=0)
    prices = [band.price for band in bands if band.priority == first]
    return prices[0] if len(prices) == 1 else None


def periods(name: str) -> str:
    """SQL that puts it in the place of the one before."""
    rows = ", ".join(
        f"({n}, 1, 'band {n}', {band.priority}, '{band.since}', '{band.to}', {band.price})"
        for n, band in enumerate(TARIFFS[name], 1)
    )
    columns = "id, tariff_id, name, priority, starts, ends, price_per_kwh"
    insert = f"; insert into cluster_tariff_periods ({columns}) values {rows}" if rows else ""
    return f"delete from cluster_tariff_periods{insert}"
