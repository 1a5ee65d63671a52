"""What a tick concludes for one machine (R3.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from blsflow.domain.reasons import Action

if TYPE_CHECKING:
    from blsflow.domain.machine import Machine
    from blsflow.domain.reasons import Reason

MOVES: Final = frozenset({Action.SWITCH, Action.START, Action.STOP, Action.POWER_OFF})


class Verdict(NamedTuple):
    """An action with its reason and the figures compared, in CNY per day (None: not known, or not looked at).

    ``to_project`` and ``run_config_id`` are given when something is to run. ``benchmark_requests`` are the
    projects that could win on this machine if only they were measured, in candidate order.
    """

    action: Action
    reason: Reason
    from_project: int | None = None
    to_project: int | None = None
    run_config_id: int | None = None
    current_net: float | None = None
    best_net: float | None = None
    benchmark_requests: tuple[int, ...] = ()


class Kept(NamedTuple):
    """Machines of a block, side by side, that stay as they are for one reason; nets in CNY per day.

    ``heads`` are those of their records, ``versions`` those of their benchmarks.
    """

    reason: Reason
    indexes: list[int]
    from_projects: list[int]
    current_nets: list[float]
    best_nets: list[float]
    heads: list[bytes]
    versions: list[int]


def skip(machine: Machine, reason: Reason) -> Verdict:
    """Nothing was decided for the machine."""
    return Verdict(Action.SKIP, reason, machine.project_id or None)


def keep(machine: Machine, reason: Reason) -> Verdict:
    """The machine stays as it is, and no figures were compared."""
    return Verdict(Action.KEEP, reason, machine.project_id or None)
