"""Batch commands that operators send themselves: what can be asked for, and why a machine is passed over (R5.8). Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from blsflow.domain.errors import InvalidDocument
from blsflow.domain.execution import CommandKind
from blsflow.domain.pages import LARGEST_ID
from blsflow.domain.wording import is_prose, says_something

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_MACHINES: Final = 10_000
LONGEST_REASON: Final = 1_000


class PassedOver(StrEnum):
    """Why a command leaves a machine as it is; the first that holds."""

    UNKNOWN_MACHINE = "unknown_machine"
    UNDER_BENCHMARK = "under_benchmark"
    LOCKED = "locked"
    NOT_ELIGIBLE = "not_eligible"
    NO_RUN_CONFIGURATION = "no_run_configuration"
    ALREADY_SO = "already_so"
    NOT_RUNNING = "not_running"
    ALREADY_RUNNING = "already_running"


@dataclass(frozen=True, kw_only=True, slots=True)
class CommandRequest:
    """What an operator asks for; ``machine_ids`` are in order, each once."""

    action: CommandKind
    project_id: int | None
    machine_ids: tuple[int, ...]
    why: str

    @property
    def body(self) -> dict[str, Any]:
        """What tells this request from another."""
        return {
            "action": str(self.action),
            "project_id": self.project_id,
            "machine_ids": list(self.machine_ids),
            "why": self.why,
        }


def command_request(
    *, action: str, machine_ids: Sequence[int], project_id: int | None, why: str
) -> CommandRequest:
    """Return a request that can be meant; `InvalidDocument` names what cannot. Repeated machines count once."""
    try:
        kind = CommandKind(action)
    except ValueError as error:
        known = ", ".join(CommandKind)
        raise InvalidDocument(field="action", value=action, cause=f"use one of {known}") from error
    mines = kind in {CommandKind.SWITCH, CommandKind.START}
    if mines != (project_id is not None):
        cause = "say to which project" if mines else "a stop names no project"
        raise InvalidDocument(field="project_id", value=project_id, cause=cause)
    if project_id is not None and not 0 < project_id <= LARGEST_ID:
        raise InvalidDocument(field="project_id", value=project_id, cause="is no id")
    wanted = sorted(set(machine_ids))
    if not 1 <= len(wanted) <= MOST_MACHINES:
        raise InvalidDocument(
            field="machine_ids", value=len(wanted), cause=f"name 1 to {MOST_MACHINES} machines"
        )
    for edge in (wanted[0], wanted[-1]):
        if not 0 < edge <= LARGEST_ID:
            raise InvalidDocument(field="machine_ids", value=edge, cause="is no id")
    if not says_something(why) or len(why) > LONGEST_REASON or not is_prose(why):
        raise InvalidDocument(
            field="reason",
            value=why,
            cause=f"say why, in at most {LONGEST_REASON} characters without controls",
        )
    return CommandRequest(action=kind, project_id=project_id, machine_ids=tuple(wanted), why=why.strip())
