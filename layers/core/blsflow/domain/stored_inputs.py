"""A tick's shared inputs as one JSON document: with a machine's record, all that a decision came from (R3.2).

``load(dump(policy, market))`` gives back equal inputs, so that a stored decision can be recomputed.
"""

from __future__ import annotations

from dataclasses import fields
from datetime import datetime
from typing import Any

from blsflow.domain.market import ClusterMarket, MachineClass, Market, ProjectMarket
from blsflow.domain.policy import (
    ExecutionMode,
    Mode,
    NegativeProfitAction,
    Policy,
    Window,
    WindowAction,
)
from blsflow.domain.reading import Known, Reading, Stale, Unknown
from blsflow.domain.record import LAYOUT, LAYOUTS
from blsflow.domain.tariff import TariffPrice, TariffProblem


class UnreadableInputs(ValueError):
    """The stored inputs belong to another layout of records, or are none."""


def dump(policy: Policy, market: Market) -> dict[str, Any]:
    """Plain JSON values only; times in ISO 8601 with an offset."""
    return {
        "layout": LAYOUT,
        "policy": _values(policy) | {"windows": [_dump_window(window) for window in policy.windows]},
        "now": market.now.isoformat(),
        "projects": [
            {"id": project.project_id, "name": project.name, "revenue": _dump_reading(project.revenue)}
            for project in market.projects.values()
        ],
        "clusters": [
            {
                "id": cluster.cluster_id,
                "tariff": _dump_tariff(cluster.tariff),
                "next_change_at": cluster.next_change_at and cluster.next_change_at.isoformat(),
            }
            for cluster in market.clusters.values()
        ],
        "classes": [_dump_class(machines) for machines in market.classes],
    }


def load(document: dict[str, Any]) -> tuple[Policy, Market]:
    """The inputs that were dumped; `UnreadableInputs` for those of another layout."""
    if document.get("layout") not in LAYOUTS:
        read = " and ".join(map(str, sorted(LAYOUTS)))
        raise UnreadableInputs(f"inputs have layout {document.get('layout')!r}, this program reads {read}")
    market = Market(
        now=datetime.fromisoformat(document["now"]),
        projects={
            each["id"]: ProjectMarket(
                project_id=each["id"], name=each["name"], revenue=_load_reading(each["revenue"])
            )
            for each in document["projects"]
        },
        clusters={
            each["id"]: ClusterMarket(
                cluster_id=each["id"],
                tariff=_load_tariff(each["tariff"]),
                next_change_at=each["next_change_at"] and datetime.fromisoformat(each["next_change_at"]),
            )
            for each in document["clusters"]
        },
        classes=tuple(_load_class(index, each) for index, each in enumerate(document["classes"])),
    )
    return _load_policy(document["policy"]), market


def _values(flat: Policy | Window | TariffPrice) -> dict[str, Any]:
    """The fields of a dataclass with their values: `asdict` would copy each of these, at many times the cost."""
    return {field.name: getattr(flat, field.name) for field in fields(flat)}


def _load_policy(document: dict[str, Any]) -> Policy:
    return Policy(
        **document
        | {
            "mode": Mode(document["mode"]),
            "execution_mode": ExecutionMode(document["execution_mode"]),
            "negative_profit_action": NegativeProfitAction(document["negative_profit_action"]),
            "candidates": tuple(document["candidates"]),
            "windows": tuple(_load_window(window) for window in document["windows"]),
        }
    )


def _dump_window(window: Window) -> dict[str, Any]:
    return _values(window) | {"weekdays": window.weekdays and sorted(window.weekdays)}


def _load_window(document: dict[str, Any]) -> Window:
    weekdays = document["weekdays"]
    return Window(
        **document
        | {
            "action": WindowAction(document["action"]),
            "weekdays": None if weekdays is None else frozenset(weekdays),
        }
    )


def _dump_reading(reading: Reading) -> dict[str, Any]:
    match reading:
        case Known(value=value, taken_at=taken_at):
            return {"known": value, "taken_at": taken_at.isoformat()}
        case Stale(last_value=value, taken_at=taken_at, reason=reason):
            return {"stale": value, "taken_at": taken_at.isoformat(), "reason": reason}
        case Unknown(reason=reason):
            return {"unknown": reason}


def _load_reading(document: dict[str, Any]) -> Reading:
    if "known" in document:
        return Known(value=document["known"], taken_at=datetime.fromisoformat(document["taken_at"]))
    if "stale" in document:
        return Stale(
            last_value=document["stale"],
            taken_at=datetime.fromisoformat(document["taken_at"]),
            reason=document["reason"],
        )
    return Unknown(reason=document["unknown"])


def _dump_tariff(tariff: TariffPrice | TariffProblem) -> dict[str, Any]:
    if isinstance(tariff, TariffPrice):
        return _values(tariff)
    return {"problem": tariff.kind, "names": list(tariff.names)}


def _load_tariff(document: dict[str, Any]) -> TariffPrice | TariffProblem:
    if "problem" in document:
        return TariffProblem(kind=document["problem"], names=tuple(document["names"]))
    return TariffPrice(**document)


def _dump_class(machines: MachineClass) -> dict[str, Any]:
    return {
        "cluster_id": machines.cluster_id,
        "model": machines.model,
        "nameplate_hashrate_hs": machines.nameplate_hashrate_hs,
        "nameplate_power_w": machines.nameplate_power_w,
        # JSON has no integer keys
        "run_configs": sorted(machines.run_configs.items()),
        "allowed": sorted(machines.allowed),
        "denied": sorted(machines.denied),
    }


def _load_class(index: int, document: dict[str, Any]) -> MachineClass:
    return MachineClass(
        index=index,
        **document
        | {
            "run_configs": dict(document["run_configs"]),
            "allowed": frozenset(document["allowed"]),
            "denied": frozenset(document["denied"]),
        },
    )
