"""Four clusters and their tariffs: made-up prices in CNY per kWh, structures as real suppliers have them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

FLAT, VALLEY, PEAK, SHARP, DEEP = range(5)
SUMMER = ("05-16", "10-15")
NON_SUMMER = ("10-16", "05-15")
SATURDAY, SUNDAY = 6, 7
YEARS = range(2025, 2031)


@dataclass(frozen=True, kw_only=True, slots=True)
class Period:
    """A band of a tariff, in the columns of its table; None is every day, type, month or season."""

    name: str
    price: float
    starts: str = "00:00"
    ends: str = "24:00"
    priority: int = FLAT
    weekdays: tuple[int, ...] | None = None
    day_types: tuple[str, ...] | None = None
    months: tuple[int, ...] | None = None
    season: tuple[str, str] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Cluster:
    """A cluster of a tenant, with its one tariff and the share of the fleet that stands in it."""

    id: int
    tenant_id: str
    name: str
    time_zone: str
    tariff: str
    periods: tuple[Period, ...]
    share: float
    holidays: tuple[date, ...] = ()
    make_up_workdays: tuple[date, ...] = ()


# Layered as Chinese provinces publish them: a flat price, overridden by valley, peak, sharp, and deep valley.
LAYERED = (
    Period(name="flat", price=0.52),
    Period(name="valley", price=0.27, starts="23:00", ends="07:00", priority=VALLEY),
    Period(name="peak morning", price=0.79, starts="10:00", ends="12:00", priority=PEAK),
    Period(name="peak evening", price=0.79, starts="15:00", ends="21:00", priority=PEAK),
    Period(name="sharp noon", price=0.95, starts="11:00", ends="12:00", priority=SHARP, months=(7, 8, 9)),
    Period(name="sharp evening", price=0.95, starts="17:00", ends="18:00", priority=SHARP, months=(7, 8, 9)),
    Period(name="deep valley", price=0.21, starts="02:00", ends="05:00", priority=DEEP, months=(1, 2, 12)),
)


# name, season, starts, ends, price on workdays, price on Saturdays
_STAGES = (
    ("summer off-peak", SUMMER, "00:00", "09:00", 0.31, 0.33),
    ("summer half-peak", SUMMER, "09:00", "16:00", 0.57, 0.38),
    ("summer peak", SUMMER, "16:00", "22:00", 0.91, 0.38),
    ("summer late half-peak", SUMMER, "22:00", "24:00", 0.57, 0.38),
    ("winter night off-peak", NON_SUMMER, "00:00", "06:00", 0.28, 0.33),
    ("winter morning half-peak", NON_SUMMER, "06:00", "11:00", 0.53, 0.38),
    ("winter noon off-peak", NON_SUMMER, "11:00", "14:00", 0.28, 0.33),
    ("winter half-peak", NON_SUMMER, "14:00", "24:00", 0.53, 0.38),
)

# Seasons and kinds of day as in Taiwan's three-stage tariff: a partition without layers.
SEASONAL = (
    *(
        Period(name=name, price=workday, starts=starts, ends=ends, season=season, day_types=("workday",))
        for name, season, starts, ends, workday, _ in _STAGES
    ),
    *(
        Period(
            name=f"saturday {name}",
            price=saturday,
            starts=starts,
            ends=ends,
            season=season,
            day_types=("weekend",),
            weekdays=(SATURDAY,),
        )
        for name, season, starts, ends, _, saturday in _STAGES
    ),
    Period(name="sunday off-peak", price=0.30, day_types=("weekend",), weekdays=(SUNDAY,)),
    Period(name="holiday off-peak", price=0.30, day_types=("holiday",)),
)

CLUSTERS = (
    Cluster(
        id=1,
        tenant_id="north-mining",
        name="Minjiang",
        time_zone="Asia/Shanghai",
        tariff="industrial, layered",
        periods=LAYERED,
        share=0.35,
    ),
    Cluster(
        id=2,
        tenant_id="north-mining",
        name="Harbour",
        time_zone="Asia/Taipei",
        tariff="high voltage, three stages",
        periods=SEASONAL,
        share=0.25,
        # fixed holidays of each year, and the lunar new year of 2026 with the Saturday worked for it
        holidays=tuple(
            sorted(
                {date(year, *day) for year in YEARS for day in ((1, 1), (2, 28), (4, 4), (5, 1), (10, 10))}
                | {date(2026, 2, day) for day in range(16, 21)}
            )
        ),
        make_up_workdays=(date(2026, 2, 7),),
    ),
    Cluster(
        id=3,
        tenant_id="north-mining",
        name="Brazos",
        time_zone="America/Chicago",
        tariff="time of use",
        periods=(
            Period(name="day", price=0.39),
            Period(name="night", price=0.29, starts="21:30", ends="06:30", priority=VALLEY),
            Period(
                name="summer peak",
                price=0.93,
                starts="14:30",
                ends="19:30",
                priority=PEAK,
                weekdays=(1, 2, 3, 4, 5),
                months=(6, 7, 8, 9),
            ),
        ),
        share=0.2,
    ),
    Cluster(
        id=4,
        tenant_id="lakeside",
        name="Wind park",
        time_zone="Europe/Berlin",
        tariff="surplus wind and sun",
        periods=(
            Period(name="base", price=0.33),
            Period(name="night wind", price=-0.03, starts="23:30", ends="05:30", priority=VALLEY),
            Period(name="noon", price=-0.08, starts="11:30", ends="14:30", priority=VALLEY),
            Period(name="evening", price=0.72, starts="17:30", ends="20:30", priority=PEAK),
        ),
        share=0.2,
    ),
)
