"""Opaque texts that name a place in a list, for whoever asks for the next page."""

from __future__ import annotations

import base64
import binascii
import json
from typing import TYPE_CHECKING, Any

from blsflow.domain.errors import InvalidExecutionRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

LARGEST_ID = 2**63 - 1
"""The largest id that the database has."""


def encode(place: Sequence[object]) -> str:
    """Return a place as a text."""
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode().rstrip("=")


def decode(text: str) -> Any:  # noqa: ANN401 - any JSON value: a caller may have sent anything
    """Return what a text stands for, not yet to be trusted; what `encode` could not have written is refused."""
    try:
        return json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (ValueError, RecursionError, binascii.Error) as error:
        raise not_ours(text) from error


def not_ours(text: str) -> InvalidExecutionRequest:
    """Return the error for a cursor that was never given out."""
    return InvalidExecutionRequest(field="cursor", value=text, cause="not a cursor of ours")


def is_id(value: object) -> bool:
    """Whether a value can be an id of the database."""
    return type(value) is int and 0 <= value <= LARGEST_ID
