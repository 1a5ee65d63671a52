"""Errors of the scheduler that a caller can act on; decided on by type and attributes, never by message.

::

    BlsflowError
    └── InvalidDocument              what came in cannot be meant: names the field, its value and the cause
        ├── InvalidTariff            a tariff or one of its periods
        └── InvalidExecutionRequest  a schedule's rule, or a request to run something
"""

from __future__ import annotations

from typing import ClassVar


class BlsflowError(Exception):
    """Root of every error that this product raises on purpose."""


class InvalidDocument(BlsflowError):
    """A value from outside was refused.

    ``field`` is the path of the value in its document (``periods[2].end_sec``), ``value`` the value as it
    came, and ``cause`` says what is wrong with it and what would be right. ``code`` is stable.
    """

    code: ClassVar[str] = "invalid_document"

    def __init__(self, *, field: str, value: object, cause: str) -> None:
        super().__init__(f"{field}: {cause}" + ("" if value is None else f" (got {value!r})"))
        self.field = field
        self.value = value
        self.cause = cause


class InvalidTariff(InvalidDocument):
    """A tariff that cannot be meant: nothing is priced by it."""

    code = "invalid_tariff"


class InvalidExecutionRequest(InvalidDocument):
    """A rule or a request to run something that cannot be meant: nothing is recorded for it (R8.2)."""

    code = "invalid_execution_request"
