"""The tariff document: a cluster's tariff as people write it down (R2.2, R3.4)."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Literal

from pydantic import AwareDatetime, Discriminator, Field, FiniteFloat, Tag

from blsflow.documents import Clock, Strict, located
from blsflow.domain.errors import InvalidDocument
from blsflow.domain.tariff import CNY, Tariff
from blsflow.domain.tariff_calendar import DAY_TYPES, Season, seconds_of_day
from blsflow.domain.tariff_period import ALL_MONTHS, ALL_WEEKDAYS, TariffPeriod, close_document_gaps

MonthDay = Annotated[str, Field(pattern=r"^[0-9]{2}-[0-9]{2}$", examples=["07-01"])]


class SeasonDocument(Strict):
    """A part of the year, both days included; it may cross the year's end."""

    first: MonthDay
    last: MonthDay

    def season(self) -> Season:
        """The season that is meant."""
        return Season(first=_month_day(self.first), last=_month_day(self.last))


class HoursDocument(Strict):
    """A part of the day, the end excluded; it may cross midnight, and 24:00 is the day's end."""

    starts: Clock = "00:00"
    ends: Clock = "24:00"


class PeriodDocument(Strict):
    """A band of the tariff. Of the bands that cover an instant, the highest priority prices it."""

    name: str = Field(min_length=1)
    price_per_kwh: FiniteFloat = Field(description="in the tariff's currency; a negative price is income")
    priority: int = 0
    hours: tuple[HoursDocument, ...] = (HoursDocument(),)
    weekdays: tuple[int, ...] = Field(default=tuple(sorted(ALL_WEEKDAYS)), description="ISO, 1 is Monday")
    day_types: tuple[Literal["workday", "weekend", "holiday"], ...] = tuple(sorted(DAY_TYPES))
    months: tuple[int, ...] = tuple(sorted(ALL_MONTHS))
    seasons: tuple[SeasonDocument, ...] = Field(default=(), description="none means all year")

    def periods(self) -> list[TariffPeriod]:
        """One period for each range of hours."""
        if not self.hours:
            raise InvalidDocument(field="hours", value=[], cause="a period needs hours; left out: all day")
        found = []
        for position, hours in enumerate(self.hours):
            with located(f"hours[{position}]"):
                start = seconds_of_day(hours.starts, field="starts")
                end = seconds_of_day(hours.ends, field="ends")
            found.append(
                TariffPeriod(
                    name=self.name,
                    price_per_kwh=self.price_per_kwh,
                    start_sec=start,
                    end_sec=end,
                    weekdays=frozenset(self.weekdays),
                    months=frozenset(self.months),
                    seasons=tuple(season.season() for season in self.seasons),
                    day_types=frozenset(self.day_types),
                    priority=self.priority,
                )
            )
        return found


class TariffDocument(Strict):
    """A tariff of one cluster, in force from `valid_from` to `valid_to` (excluded); left out: open."""

    name: str = Field(min_length=1)
    time_zone: str = Field(description="IANA name of the cluster's zone", examples=["Asia/Shanghai"])
    currency: str = CNY
    cny_rate: FiniteFloat | None = Field(default=None, description="CNY per unit of another currency")
    valid_from: AwareDatetime | None = None
    valid_to: AwareDatetime | None = None
    holidays: tuple[date, ...] = ()
    make_up_workdays: tuple[date, ...] = Field(default=(), description="weekend days that are worked")
    periods: tuple[PeriodDocument, ...]

    def tariff(self) -> Tariff:
        """The tariff that is meant; `InvalidDocument` names what cannot be."""
        periods: list[TariffPeriod] = []
        for position, period in enumerate(self.periods):
            with located(f"periods[{position}]"):
                periods += period.periods()
        return Tariff(
            name=self.name,
            zone=self.time_zone,
            periods=close_document_gaps(periods),
            valid_from=self.valid_from,
            valid_to=self.valid_to,
            holidays=frozenset(self.holidays),
            make_up_workdays=frozenset(self.make_up_workdays),
            currency=self.currency,
            cny_rate=self.cny_rate,
        )


# Either one tariff, or all of a cluster's over time.
TariffsDocument = Annotated[
    Annotated[TariffDocument, Tag("one")] | Annotated[tuple[TariffDocument, ...], Tag("several")],
    Discriminator(lambda document: "several" if isinstance(document, list | tuple) else "one"),
]


def tariffs_of(document: TariffDocument | tuple[TariffDocument, ...]) -> tuple[Tariff, ...]:
    """All tariffs of a document."""
    if isinstance(document, TariffDocument):
        return (document.tariff(),)
    if not document:
        raise InvalidDocument(field="document", value=[], cause="holds no tariff")
    found = []
    for position, each in enumerate(document):
        with located(f"[{position}]"):
            found.append(each.tariff())
    return tuple(found)


def _month_day(text: str) -> tuple[int, int]:
    month, day = text.split("-")
    return int(month), int(day)
