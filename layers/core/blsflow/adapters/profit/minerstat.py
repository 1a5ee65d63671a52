"""minerstat's coins API, https://api.minerstat.com/docs-coins/documentation.

``reward`` is in coins for 1 H/s (for Equihash 1 Sol/s) and one *hour*, ``price`` in USD per coin, -1 is
"no data". Rows of type ``pool`` are multipools under composite keys (``2MINERS ZEC``).
401 and 403 mean the key, 402 the month's quota, 429 more than about 12 requests a minute.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from blsflow.adapters.http import JsonHttp
from blsflow.adapters.profit.rows import FeedModel, UnixInstant, ask, read_rows, row_name, wrong_shape
from blsflow.domain.prices import ProfitSnapshot, RawPrice
from blsflow.domain.units import family_of

_HOURS_PER_DAY = 24


class _Coin(FeedModel):
    coin: Annotated[str, Field(min_length=1)]
    algorithm: Annotated[str, Field(min_length=1)]
    reward: float
    price: float
    updated: UnixInstant


class MinerstatFeed:
    """Asks ``GET {base_url}/v2/coins`` with the key in X-API-Key; each call counts on the monthly quota."""

    PUBLIC_URL = "https://api.minerstat.com"
    source = "minerstat"

    def __init__(
        self, base_url: str, api_key: str | None, timeout_sec: float, *, min_interval_sec: float
    ) -> None:
        headers = {} if api_key is None else {"X-API-Key": api_key}
        self._http = JsonHttp(base_url, timeout_sec=timeout_sec, headers=headers, admit_nan=True)
        self.min_interval_sec = min_interval_sec

    def fetch(self) -> ProfitSnapshot:
        """Return all coins and multipools, each with its own time."""
        coins = ask(self._http, "GET", "/v2/coins").body
        if not isinstance(coins, list):
            raise wrong_shape("the answer is not a list of coins")
        named = ((row_name(row, "coin", position), row) for position, row in enumerate(coins))
        prices, rejected = read_rows(named, _Coin, _price)
        return ProfitSnapshot(source=self.source, taken_at=None, prices=prices, rejected=rejected)


def _price(_name: str, row: _Coin) -> RawPrice:
    # A sentinel stays one: multiplied, -1 would be an ordinary negative figure, and two of them a profit.
    worst = min(row.reward, row.price)
    revenue = worst if worst < 0 else row.reward * _HOURS_PER_DAY * row.price
    return RawPrice(
        key=row.coin,
        algorithm=row.algorithm,
        revenue=revenue,
        unit=f"{family_of(row.algorithm)}/s",
        currency="USD",
        taken_at=row.updated,
    )
