"""Requests that create, under the keys that their callers gave them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from blsflow.adapters.postgres.part import Part
from blsflow.adapters.postgres.statements import as_json
from blsflow.ports.people import StoredRequest

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


class RequestQueries(Part):
    """The part of a transaction that keeps a request from being carried out twice."""

    def claim_request(self, tenant_id: str, key: str, *, fingerprint: str, by: str) -> StoredRequest | None:
        """Take a key for a request, or return the one that has it; one that is being carried out is waited for."""
        asked = {"tenant_id": tenant_id, "key": key, "fingerprint": fingerprint, "by": by}
        # What another transaction inserted meanwhile is waited for, and seen only by the next statement.
        while not (rows := self._session.query("claim_request", **asked)):
            continue
        row = rows[0]
        return None if row["is_ours"] else StoredRequest(fingerprint=row["fingerprint"], answer=row["answer"])

    def answer_request(self, tenant_id: str, key: str, answer: Mapping[str, Any]) -> Mapping[str, Any]:
        """Keep what a request that was taken came to; return it as it was stored."""
        rows = self._session.query("answer_request", tenant_id=tenant_id, key=key, answer=as_json(answer))
        stored: Mapping[str, Any] = rows[0]["answer"]
        return stored
