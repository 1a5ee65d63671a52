"""The profit service of our own contract, docs/contracts/profit_service.openapi.yaml."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from blsflow.adapters.answers import words
from blsflow.adapters.http import JsonHttp
from blsflow.adapters.profit.rows import FeedModel, IsoInstant, ask, read_document, read_rows, row_name
from blsflow.domain.prices import ProfitSnapshot, RawPrice

_Name = Annotated[str, Field(min_length=1)]


class _Snapshot(FeedModel):
    taken_at: IsoInstant
    currency: _Name
    flags: list[str]
    prices: list[object]


class _Price(FeedModel):
    key: _Name
    algorithm: str | None
    revenue: float
    unit: str
    taken_at: IsoInstant | None = None
    flags: list[str]


class ContractFeed:
    """Asks ``GET {base_url}/v1/profit-snapshot``, with the key as a bearer token."""

    source = "contract"

    def __init__(
        self, base_url: str, api_key: str | None, timeout_sec: float, *, min_interval_sec: float
    ) -> None:
        headers = {} if api_key is None else {"Authorization": f"Bearer {api_key}"}
        self._http = JsonHttp(base_url, timeout_sec=timeout_sec, headers=headers, admit_nan=True)
        self.min_interval_sec = min_interval_sec

    def fetch(self) -> ProfitSnapshot:
        """Return the service's snapshot; its anomaly flags also stand on each of its prices."""
        snapshot = read_document(_Snapshot, ask(self._http, "GET", "/v1/profit-snapshot").body)
        flags = tuple(map(_named, snapshot.flags))

        def price(_name: str, row: _Price) -> RawPrice:
            return RawPrice(
                key=row.key,
                algorithm=row.algorithm,
                revenue=row.revenue,
                unit=row.unit,
                currency=snapshot.currency,
                taken_at=row.taken_at or snapshot.taken_at,
                flags=tuple(dict.fromkeys([*flags, *map(_named, row.flags)])),
            )

        named = ((row_name(row, "key", position), row) for position, row in enumerate(snapshot.prices))
        prices, rejected = read_rows(named, _Price, price)
        return ProfitSnapshot(
            source=self.source,
            taken_at=snapshot.taken_at,
            prices=prices,
            flags=flags,
            rejected=rejected,
        )


def _named(flag: str) -> str:
    """Return a flag's name; one that cannot be shown is a flag all the same."""
    return words(flag) or "unnamed"
