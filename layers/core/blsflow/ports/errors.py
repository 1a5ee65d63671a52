"""What can go wrong on the other side of a port; the tree is drawn in the package's docstring."""

from __future__ import annotations

from typing import ClassVar

from blsflow.domain.errors import BlsflowError


class StoreError(BlsflowError):
    """The database refused or did not answer; the transaction is rolled back. ``sqlstate`` is its code, if it gave one."""

    retryable: ClassVar[bool] = False

    def __init__(self, message: str, *, sqlstate: str = "") -> None:
        super().__init__(message)
        self.sqlstate = sqlstate


class StoreUnavailable(StoreError):
    """No connection, a fail-over or a time-out."""

    retryable = True


class SecretUnreadable(StoreUnavailable):
    """A secret that the settings name was not to be had, the database's or a service's token; it may be later."""


class StoreConflict(StoreError):
    """A race was lost: serialization failure, deadlock or lock time-out."""

    retryable = True


class InvariantBroken(StoreError):
    """A constraint said no; ``constraint`` names it."""

    def __init__(self, message: str, *, constraint: str | None) -> None:
        super().__init__(message)
        self.constraint = constraint


class EnqueueFailed(BlsflowError):
    """A queue did not take all the messages."""


class WorkflowUnavailable(BlsflowError):
    """The state machine's service did not take a request; the rows are found and handed over again."""


class PublishFailed(BlsflowError):
    """A notification did not go out."""
