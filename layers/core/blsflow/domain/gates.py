"""What stands between a decision and its execution (R4). Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from blsflow.domain.policy import ExecutionMode

if TYPE_CHECKING:
    from blsflow.domain.policy import Policy


class Withheld(StrEnum):
    """Why a decision to move a machine became ``skip`` although nothing is wrong with the machine."""

    EXECUTE_DISABLED = "execute_disabled"
    EXECUTOR_UNCONFIGURED = "executor_unconfigured"
    LEASE_NOT_HELD = "lease_not_held"
    POLICY_FROZEN = "policy_frozen"
    LOCKED = "locked"


@dataclass(frozen=True, kw_only=True, slots=True)
class Gates:
    """What the deployment allows: the switch, and a device-control service to send to (R4.2, R4.3).

    ``holder`` is how the executor lease names this system; ``conversations_configured`` whether there is an
    execution service.
    """

    execute_enabled: bool
    executor_configured: bool
    conversations_configured: bool = False
    holder: str = "blsflow"


def withheld(policy: Policy, gates: Gates, *, lease_held: bool) -> Withheld | None:
    """Return why an executing policy may not act now, or None: all of the switch, the service and the lease are needed.

    A policy in shadow or dry run is not withheld: it never asks to act.
    """
    if policy.execution_mode is not ExecutionMode.EXECUTE:
        return None
    return closed_gate(gates, lease_held=lease_held)


def closed_gate(gates: Gates, *, lease_held: bool) -> Withheld | None:
    """Return which gate is closed to whatever would move a machine, or None."""
    if not gates.execute_enabled:
        return Withheld.EXECUTE_DISABLED
    if not gates.executor_configured:
        return Withheld.EXECUTOR_UNCONFIGURED
    return None if lease_held else Withheld.LEASE_NOT_HELD
