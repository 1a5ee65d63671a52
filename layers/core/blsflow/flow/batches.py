"""Batches: what a tick decided to move, gathered by action, project and run configuration (R5.2)."""

from __future__ import annotations

import hashlib
import uuid
from typing import TYPE_CHECKING

from blsflow.ports import NewAttempt

if TYPE_CHECKING:
    from uuid import UUID

    from blsflow.domain.verdict import Verdict


class Batches:
    """Gathers deciding machines into batches of one action, project and run configuration (R5.2)."""

    def __init__(self, tick_id: int, size: int) -> None:
        """Start a tick's batches of at most ``size`` machines."""
        self._tick_id = tick_id
        self._size = size
        self._open: dict[tuple[str, int | None, int | None], tuple[UUID, list[int]]] = {}
        self._full: list[tuple[tuple[str, int | None, int | None], UUID, list[int]]] = []

    def place(self, verdict: Verdict, machine_id: int) -> UUID:
        """Return the attempt of the batch into which the machine goes."""
        kind = (str(verdict.action), verdict.to_project, verdict.run_config_id)
        batch = self._open.get(kind)
        if batch is None:
            batch = self._open[kind] = (uuid.uuid4(), [])
        attempt_id, machine_ids = batch
        machine_ids.append(machine_id)
        if len(machine_ids) >= self._size:
            del self._open[kind]
            self._full.append((kind, attempt_id, machine_ids))
        return attempt_id

    def attempts(self) -> list[NewAttempt]:
        """Return an attempt per batch, each under a key derived from its decisions."""
        batches = [*self._full, *((kind, *batch) for kind, batch in self._open.items())]
        return [
            NewAttempt(
                attempt_id=attempt_id,
                key=_idempotency_key(self._tick_id, machine_ids),
                action=action,
                project_id=project_id,
                run_config_id=run_config_id,
                machines=len(machine_ids),
            )
            for (action, project_id, run_config_id), attempt_id, machine_ids in batches
        ]


def _idempotency_key(tick_id: int, machine_ids: list[int]) -> str:
    """Derive the key from the decisions' own keys, (tick, machine): the same decisions always have the same one."""
    digest = hashlib.sha256(f"{tick_id}:{','.join(map(str, sorted(machine_ids)))}".encode())
    return f"tick-{tick_id}-{digest.hexdigest()[:32]}"
