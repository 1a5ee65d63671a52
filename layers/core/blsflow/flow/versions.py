"""Versions: a change names the one that was read, and is refused once somebody else's came first (R9.1)."""

from __future__ import annotations

from blsflow.domain.errors import BlsflowError


class VersionConflict(BlsflowError):
    """A policy or schedule (``what``) has changed since it was read; ``current`` is its version now."""

    def __init__(self, what: str, key: int, version: int, current: int) -> None:
        super().__init__(
            f"{what} {key} is at version {current} and no longer at {version}: read it again, then change it"
        )
        self.what = what
        self.key = key
        self.version = version
        self.current = current
