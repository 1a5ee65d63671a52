"""Electricity tariffs: which price a kilowatt hour has at an instant, and what that costs (R2.2)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from blsflow.domain.errors import InvalidTariff
from blsflow.domain.local_time import UnknownZone, load_zone
from blsflow.domain.tariff_calendar import day_type
from blsflow.domain.tariff_period import is_finite
from blsflow.domain.units import energy_kwh

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date, datetime

    from blsflow.domain.tariff_period import TariffPeriod

CNY = "CNY"

TariffProblemKind = Literal["tariff_gap", "tariff_overlap", "tariff_currency"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Tariff:
    """A cluster's tariff, in force from ``valid_from`` to ``valid_to`` (exclusive); None leaves a side open.

    ``cny_rate`` is CNY per unit of ``currency``, None if unknown; prices in CNY need none. Holidays outrank
    weekdays, make-up workdays outrank weekends, and a date cannot be both.
    """

    name: str
    zone: str
    periods: tuple[TariffPeriod, ...]
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    holidays: frozenset[date] = frozenset()
    make_up_workdays: frozenset[date] = frozenset()
    currency: str = CNY
    cny_rate: float | None = None

    def __post_init__(self) -> None:
        try:
            load_zone(self.zone)
        except UnknownZone as error:
            raise InvalidTariff(
                field="zone", value=self.zone, cause="not an IANA zone, such as Asia/Shanghai"
            ) from error
        both = sorted(str(day) for day in self.holidays & self.make_up_workdays)
        rate = self.cny_rate
        checks = (
            ("name", self.name, bool(self.name), "a tariff needs a name"),
            ("valid_from", self.valid_from, _is_open_or_aware(self.valid_from), "needs a UTC offset"),
            ("valid_to", self.valid_to, _is_open_or_aware(self.valid_to), "needs a UTC offset"),
            ("make_up_workdays", both, not both, "days that are also named as holidays"),
            ("currency", self.currency, bool(self.currency), "a tariff needs a currency, such as CNY"),
            ("cny_rate", rate, rate is None or (is_finite(rate) and rate > 0), "not a positive number"),
            ("cny_rate", rate, self.currency != CNY or rate in {None, 1}, "CNY needs no other rate than 1"),
        )
        for field_name, value, ok, cause in checks:
            if not ok:
                raise InvalidTariff(field=field_name, value=value, cause=cause)
        if self.valid_from is not None and self.valid_to is not None and self.valid_to <= self.valid_from:
            raise InvalidTariff(field="valid_to", value=self.valid_to, cause="not after valid_from")

    def in_force(self, at: datetime) -> bool:
        """Whether `at` lies in the half-open validity."""
        return (self.valid_from is None or self.valid_from <= at) and (
            self.valid_to is None or at < self.valid_to
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class TariffPrice:
    """A known price and the period that set it; two are equal if these are, whatever the tariff."""

    tariff: str = field(compare=False)
    period: str
    price_cny_per_kwh: float


@dataclass(frozen=True, kw_only=True, slots=True)
class TariffProblem:
    """Why the price is unknown; it is never to be taken for 0 or for the price before.

    ``tariff_gap``: ``names`` is empty if no tariff is in force, else the tariff that has no period for the
    instant. ``tariff_overlap``: the tariffs in force at once, or the periods of equal and highest priority.
    ``tariff_currency``: the currency without a rate.
    """

    kind: TariffProblemKind
    names: tuple[str, ...] = ()


def tariff_in_force(tariffs: Sequence[Tariff], at: datetime) -> Tariff | TariffProblem:
    """The one tariff in force at `at`; none is a gap, several are an overlap."""
    found = [tariff for tariff in tariffs if tariff.in_force(at)]
    if not found:
        return TariffProblem(kind="tariff_gap")
    if len(found) > 1:
        return TariffProblem(kind="tariff_overlap", names=tuple(sorted(tariff.name for tariff in found)))
    return found[0]


def price_at(tariff: Tariff, at: datetime) -> TariffPrice | TariffProblem:
    """The price of a kilowatt hour at `at` by one tariff, in CNY, or why it is unknown."""
    if not tariff.in_force(at):
        return TariffProblem(kind="tariff_gap")
    local = at.astimezone(load_zone(tariff.zone))
    day, second = local.date(), local.hour * 3600 + local.minute * 60 + local.second
    kind = day_type(day, holidays=tariff.holidays, make_up_workdays=tariff.make_up_workdays)
    found = [period for period in tariff.periods if period.covers(second) and period.applies_on(day, kind)]
    if not found:
        return TariffProblem(kind="tariff_gap", names=(tariff.name,))
    highest = max(period.priority for period in found)
    top = [period for period in found if period.priority == highest]
    if len(top) > 1:
        return TariffProblem(kind="tariff_overlap", names=tuple(sorted(period.name for period in top)))
    rate = 1.0 if tariff.currency == CNY else tariff.cny_rate
    if rate is None:
        return TariffProblem(kind="tariff_currency", names=(tariff.currency,))
    return TariffPrice(
        tariff=tariff.name, period=top[0].name, price_cny_per_kwh=float(top[0].price_per_kwh) * rate
    )


def price_in_force(tariffs: Sequence[Tariff], at: datetime) -> TariffPrice | TariffProblem:
    """The price at `at` by whichever of a cluster's tariffs is in force, or why it is unknown."""
    tariff = tariff_in_force(tariffs, at)
    return tariff if isinstance(tariff, TariffProblem) else price_at(tariff, at)


def energy_cost_cny(power_w: float, hours: float, price_cny_per_kwh: float) -> float:
    """What a constant draw costs: W / 1000 x h x CNY/kWh. Negative is income."""
    return energy_kwh(power_w, hours) * price_cny_per_kwh


def daily_cost_cny(power_w: float, price_cny_per_kwh: float) -> float:
    """What a constant draw costs in 24 hours at one price (R2.2). Negative is income."""
    return energy_cost_cny(power_w, 24, price_cny_per_kwh)


def _is_open_or_aware(bound: datetime | None) -> bool:
    return bound is None or bound.utcoffset() is not None
