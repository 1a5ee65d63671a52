"""The sample tenants' policy groups: whose machines, in which mode, with which windows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from local.fleet.projects import PROJECTS

EVERY_PROJECT = tuple(project.number for project in PROJECTS)


@dataclass(frozen=True, kw_only=True, slots=True)
class Window:
    """A time window in the policy's zone; `project` is the number of what it runs or starts."""

    starts: str
    ends: str
    action: str
    project: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class PolicyGroup:
    """A policy group over clusters, or over the machines of one model in one cluster."""

    name: str
    tenant_id: str
    mode: str
    time_zone: str
    clusters: tuple[int, ...] = ()
    model_in_cluster: tuple[str, int] | None = None
    candidates: tuple[int, ...] = EVERY_PROJECT
    windows: tuple[Window, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)


POLICIES = (
    PolicyGroup(
        name="Profit guard, Minjiang and Brazos",
        tenant_id="north-mining",
        mode="profit_guard",
        time_zone="Asia/Shanghai",
        clusters=(1, 3),
        settings={"negative_profit_action": "stop"},
    ),
    PolicyGroup(
        name="Profit guard, Harbour",
        tenant_id="north-mining",
        mode="profit_guard",
        time_zone="Asia/Taipei",
        clusters=(2,),
        settings={"negative_profit_action": "power_off"},
    ),
    PolicyGroup(
        name="Litecoin by day, Harbour",
        tenant_id="north-mining",
        mode="time_window",
        time_zone="Asia/Taipei",
        model_in_cluster=("Antminer L7", 2),
        candidates=(),
        windows=(
            Window(starts="08:00", ends="20:00", action="run_project", project=5),
            Window(starts="20:00", ends="08:00", action="run_project", project=6),
        ),
        settings={"priority": 10},
    ),
    PolicyGroup(
        name="Profit guard, Wind park",
        tenant_id="lakeside",
        mode="profit_guard",
        time_zone="Europe/Berlin",
        clusters=(4,),
        settings={"negative_profit_action": "keep"},
    ),
    PolicyGroup(
        name="Quiet evenings, Wind park",
        tenant_id="lakeside",
        mode="time_window",
        time_zone="Europe/Berlin",
        model_in_cluster=("Antminer E9 Pro", 4),
        candidates=(),
        windows=(
            Window(starts="17:30", ends="20:30", action="power_off"),
            Window(starts="20:30", ends="17:30", action="start", project=10),
        ),
    ),
)
