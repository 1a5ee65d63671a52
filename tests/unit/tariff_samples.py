"""Tariffs written briefly, and asked at local times."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from blsflow.domain.tariff import Tariff, TariffPrice, price_at
from blsflow.domain.tariff_calendar import DayType, seconds_of_day
from blsflow.domain.tariff_period import TariffPeriod

WORKDAY: frozenset[DayType] = frozenset({"workday"})
REST: frozenset[DayType] = frozenset({"weekend", "holiday"})


def sec(text: str) -> int:
    """Seconds of the day of a text."""
    return seconds_of_day(text, field="time")


def band(name: str, start: str, end: str, price: float = 0.5, **more: object) -> TariffPeriod:
    """A period from texts."""
    return TariffPeriod(name=name, start_sec=sec(start), end_sec=sec(end), price_per_kwh=price, **more)  # type: ignore[arg-type]


def tariff(*periods: TariffPeriod, zone: str = "Asia/Shanghai", **more: object) -> Tariff:
    """A tariff of these periods."""
    return Tariff(name="t", zone=zone, periods=periods, **more)  # type: ignore[arg-type]


def known(given: Tariff, local: str) -> float | str:
    """The price at a local time of the tariff's zone, or the kind of its problem."""
    result = price_at(
        given, datetime.fromisoformat(local).replace(tzinfo=ZoneInfo(given.zone)).astimezone(UTC)
    )
    return result.price_cny_per_kwh if isinstance(result, TariffPrice) else result.kind


def name_at(given: Tariff, local: str) -> str:
    """The period at a local time of the tariff's zone."""
    result = price_at(
        given, datetime.fromisoformat(local).replace(tzinfo=ZoneInfo(given.zone)).astimezone(UTC)
    )
    assert isinstance(result, TariffPrice), result
    return result.period
