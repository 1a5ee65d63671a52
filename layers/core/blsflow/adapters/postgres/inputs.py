"""From rows and JSON documents of the database to what the machines of a tick share: prices, tariffs, classes, scopes."""

from __future__ import annotations

import math
from collections import defaultdict
from datetime import date
from typing import TYPE_CHECKING, Any

from blsflow.adapters.postgres.documents import Row, instant, meant, moment, policy_of
from blsflow.domain.errors import InvalidDocument
from blsflow.domain.inputs import ClusterInput, OtherPolicy, ProjectInput, Scope
from blsflow.domain.market import MachineClass
from blsflow.domain.prices import RawPrice
from blsflow.domain.tariff import Tariff
from blsflow.domain.tariff_calendar import DAY_TYPES, Season, seconds_of_day
from blsflow.domain.tariff_period import ALL_MONTHS, ALL_WEEKDAYS, TariffPeriod

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


def project_of(row: Row) -> ProjectInput:
    """Read a project with its newest reading."""
    reading = row["reading"]
    raw = None if reading is None else raw_price_of(row["price_key"], reading)
    return ProjectInput(project_id=row["id"], name=row["name"], algorithm=row["algorithm"], raw=raw)


def raw_price_of(key: str, reading: Row) -> RawPrice | None:
    """Read a price as it was sent; one of no time that can be meant is none."""
    taken_at = moment(reading["taken_at"])
    if taken_at is None:
        return None
    revenue = reading["revenue"]
    return RawPrice(
        key=key,
        algorithm=reading["algorithm"],
        revenue=math.nan if revenue is None else float(revenue),
        unit=reading["unit"],
        currency=reading["currency"],
        taken_at=taken_at,
        flags=tuple(reading["flags"]),
    )


def cluster_of(row: Row) -> ClusterInput:
    """Read a cluster's tariffs; one that cannot be meant makes this cluster's price unknown and no other's."""
    try:
        tariffs = tuple(_tariff_of(tariff, row["time_zone"]) for tariff in row["tariffs"])
    except InvalidDocument as error:
        return ClusterInput(cluster_id=row["id"], tariffs=(), fault=f"{error.field}: {error.cause}")
    return ClusterInput(cluster_id=row["id"], tariffs=tariffs)


def classes_of(
    classes: Sequence[Row], models: Mapping[str, Row], eligibilities: Iterable[Sequence[Any]]
) -> tuple[MachineClass, ...]:
    """Read the classes of machines; each eligibility is (cluster or model, which one, allowed or denied, project)."""
    projects: defaultdict[tuple[str, str, bool], set[int]] = defaultdict(set)
    for resource_type, resource_id, allowed, project_id in eligibilities:
        projects[resource_type, resource_id, allowed].add(project_id)

    def eligible(row: Row, *, allowed: bool) -> frozenset[int]:
        of_cluster, of_model = ("cluster", str(row["cluster_id"]), allowed), ("model", row["model"], allowed)
        return frozenset(projects[of_cluster] | projects[of_model])

    return tuple(
        MachineClass(
            index=index,
            cluster_id=row["cluster_id"],
            model=row["model"],
            nameplate_hashrate_hs=_known(models[row["model"]]["nameplate_hashrate_hs"]),
            nameplate_power_w=_known(models[row["model"]]["nameplate_power_w"]),
            run_configs={
                int(project): config for project, config in models[row["model"]]["run_configs"].items()
            },
            allowed=eligible(row, allowed=True),
            denied=eligible(row, allowed=False),
        )
        for index, row in enumerate(classes)
    )


def scope_of(rows: Sequence[Row]) -> Scope:
    """Read a policy's scope."""

    def named(resource_type: str) -> list[str]:
        return [row["resource_id"] for row in rows if row["resource_type"] == resource_type]

    return Scope(
        everything=bool(named("tenant")),
        cluster_ids=frozenset(map(int, named("cluster"))),
        models=frozenset(named("model")),
        machine_ids=frozenset(map(int, named("machine"))),
    )


def other_policy_of(row: Row) -> OtherPolicy:
    """Read another policy of the tenant, as far as ranking needs it."""
    return OtherPolicy(policy=policy_of(row, (), row["windows"]), scope=scope_of(row["scopes"]))


def _tariff_of(row: Row, zone: str) -> Tariff:
    with meant("tariff", row["name"]):
        return Tariff(
            name=row["name"],
            zone=zone,
            currency=row["currency"],
            valid_from=instant(None if row["valid_from"] == "-infinity" else row["valid_from"]),
            valid_to=instant(None if row["valid_to"] == "infinity" else row["valid_to"]),
            holidays=frozenset(map(date.fromisoformat, row["holidays"])),
            make_up_workdays=frozenset(map(date.fromisoformat, row["make_up_workdays"])),
            periods=tuple(_period_of(period) for period in row["periods"]),
        )


def _period_of(row: Row) -> TariffPeriod:
    seasons: tuple[Season, ...] = ()
    if row["season_start"] is not None or row["season_end"] is not None:
        seasons = (Season(first=_month_day(row["season_start"]), last=_month_day(row["season_end"])),)
    return TariffPeriod(
        name=row["name"],
        price_per_kwh=float(row["price_per_kwh"]),
        start_sec=seconds_of_day(row["starts"], field="starts"),
        end_sec=seconds_of_day(row["ends"], field="ends"),
        weekdays=ALL_WEEKDAYS if row["weekdays"] is None else frozenset(row["weekdays"]),
        months=ALL_MONTHS if row["months"] is None else frozenset(row["months"]),
        seasons=seasons,
        day_types=DAY_TYPES if row["day_types"] is None else frozenset(row["day_types"]),
        priority=row["priority"],
    )


def _known(figure: float | str | None) -> float | None:
    """Read a figure; one that is no finite number is not known."""
    value = math.nan if figure is None else float(figure)
    return value if math.isfinite(value) else None


def _month_day(text: str | None) -> tuple[int, int]:
    try:
        month, day = (text or "").split("-")
        return int(month), int(day)
    except ValueError as error:
        raise InvalidDocument(
            field="season", value=text, cause="not a month and day such as 10-16"
        ) from error
