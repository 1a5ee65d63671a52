"""Batches: what a tick decided or an operator told to move, gathered by action, project and run configuration (R5.2)."""

from __future__ import annotations

import hashlib
import uuid
from typing import TYPE_CHECKING, TypeAlias

from blsflow.ports.decide import NewAttempt

if TYPE_CHECKING:
    from uuid import UUID


Kind: TypeAlias = "tuple[str, int | None, int | None]"
"""Action, project and run configuration."""


class Batches:
    """Gathers machines that are to move into batches of one action, project and run configuration (R5.2)."""

    def __init__(self, source: str, size: int) -> None:
        """Start the batches of ``source`` (a tick, or an operator's command), of at most ``size`` machines each."""
        self._source = source
        self._size = size
        self._open: dict[Kind, tuple[UUID, list[int]]] = {}
        self._full: list[tuple[Kind, UUID, list[int]]] = []

    def place(self, kind: Kind, machine_id: int) -> UUID:
        """Return the attempt of the batch into which the machine goes."""
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
                key=_idempotency_key(self._source, machine_ids),
                action=action,
                project_id=project_id,
                run_config_id=run_config_id,
                machine_ids=machine_ids,
            )
            for (action, project_id, run_config_id), attempt_id, machine_ids in batches
        ]


def _idempotency_key(source: str, machine_ids: list[int]) -> str:
    """Derive the key from the source and the machines: the same decisions always have the same one."""
    digest = hashlib.sha256(f"{source}:{','.join(map(str, sorted(machine_ids)))}".encode())
    return f"{source}-{digest.hexdigest()[:32]}"
