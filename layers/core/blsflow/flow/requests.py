"""Requests that create: asked twice under the same key, they create once and get the same answer (R8.8).

The key, a fingerprint of what was asked, and the answer are one row, written in the transaction that creates. Rows are kept
for a week; a key is its tenant's own.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from blsflow.domain.errors import BlsflowError, InvalidExecutionRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from blsflow.ports.store import Transaction

LONGEST_KEY: Final = 200


class KeyConflict(BlsflowError):
    """A request key that was used for another request before."""

    def __init__(self, key: str) -> None:
        super().__init__(f"request id {key!r} was used for another request: use a new id for a new request")
        self.key = key


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What a request came to, as it was stored; ``is_new`` tells whether this call created it."""

    document: Mapping[str, Any]
    is_new: bool


def fingerprint(route: str, body: Mapping[str, object]) -> str:
    """Return what tells one request from another under the same key: what was asked for, whatever the order of its fields."""
    text = json.dumps([route, body], sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def once(  # noqa: PLR0913 - a request, whose it is, and what it does
    tx: Transaction,
    *,
    tenant_id: str,
    key: str,
    fingerprint: str,
    by: str,
    make: Callable[[], Mapping[str, Any]],
) -> Answer:
    """Do what a request asks, unless one under the same key did it before; then return that one's answer.

    A twin under way is waited for. ``make`` returns a JSON document and works in this same transaction: if it raises,
    nothing is kept and the key is free again. `KeyConflict` says that the key stands for another request,
    `InvalidExecutionRequest` that it is no key.
    """
    if not 1 <= len(key) <= LONGEST_KEY or not key.isprintable():
        raise InvalidExecutionRequest(
            field="requestId", value=key, cause=f"use 1 to {LONGEST_KEY} characters that can be shown"
        )
    earlier = tx.claim_request(tenant_id, key, fingerprint=fingerprint, by=by)
    if earlier is None:
        return Answer(document=tx.answer_request(tenant_id, key, make()), is_new=True)
    if earlier.fingerprint != fingerprint:
        raise KeyConflict(key)
    return Answer(document=earlier.answer, is_new=False)
