"""Price feeds with believable walks and, on request, every known way of being wrong.

It answers the paths of three feeds at once: our contract (`/v1/profit-snapshot`), minerstat (`/v2/coins`) and
WhatToMine (`/asic.json`, `/coins.json`, `/api/v1/calculate`), and GET, PUT `/sim/faults`.
"""

from __future__ import annotations

import math
import random
import threading
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from local.simulators.faults import FaultSwitch
from local.simulators.web import Answer, Drop, Request, problem
from local.simulators.world import utc_now

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from local.fleet.projects import Coin

STEP = timedelta(seconds=10)
# Each step a price loses this share of its deviation and gains a new one: about 3 % around its level.
REVERSION = 0.005
VOLATILITY = 0.003
MAX_STEPS = 10_000
HOURS_PER_DAY = 24
STALE_BY = timedelta(hours=2)
FUTURE_BY = timedelta(minutes=10)


@dataclass(frozen=True, kw_only=True)
class ProfitFaults:
    """What is wrong with the feed. `keys` says whose figures (comma-separated; empty: everybody's).

    `value` replaces the figures: `nan`, `minus_one` (the sentinel), `zero` or `jump` (a thousandfold).
    """

    outage: bool = False
    value: str = ""
    keys: str = ""
    stale: bool = False
    future: bool = False
    flagged: bool = False
    missing: bool = False

    def __post_init__(self) -> None:
        if self.value not in _VALUES:
            raise ValueError(f"value: {self.value!r} is none of {', '.join(filter(None, _VALUES))}")


_VALUES: Mapping[str, Callable[[float], float]] = {
    "": lambda revenue: revenue,
    "nan": lambda _: math.nan,
    "minus_one": lambda _: -1.0,
    "zero": lambda _: 0.0,
    "jump": lambda revenue: revenue * 1000,
}


class PriceWalk:
    """Each coin's revenue as a seeded walk in logarithms around its level, one step every 10 seconds."""

    def __init__(
        self, coins: Sequence[Coin], *, seed: int = 1, now: Callable[[], datetime] = utc_now
    ) -> None:
        self.coins = tuple(coins)
        self.now = now
        self._random = random.Random(seed)  # noqa: S311 - made-up figures
        self._deviations = dict.fromkeys((coin.key for coin in coins), 0.0)
        self._stepped_at = now()
        self._lock = threading.Lock()

    def revenues(self) -> tuple[datetime, dict[str, float]]:
        """Return when the figures were taken, and USDT per H/s (Sol/s) and day by key."""
        with self._lock:
            for _ in range(min(MAX_STEPS, (self.now() - self._stepped_at) // STEP)):
                self._stepped_at += STEP
                for key, deviation in self._deviations.items():
                    step = self._random.gauss(0.0, VOLATILITY)
                    self._deviations[key] = deviation * (1 - REVERSION) + step
            return self._stepped_at, {
                coin.key: coin.revenue_usdt_per_hs_day * math.exp(self._deviations[coin.key])
                for coin in self.coins
            }


@dataclass(frozen=True, kw_only=True, slots=True)
class _Quote:
    coin: Coin
    revenue: float
    taken_at: datetime
    flagged: bool


class ProfitSimulator:
    """Serves a price walk in the shapes of three feeds, with the faults in force."""

    def __init__(self, walk: PriceWalk) -> None:
        self.faults = FaultSwitch(ProfitFaults())
        self._walk = walk

    def handle(self, request: Request) -> Answer | Drop:
        """Answer by path; no key is asked for."""
        if request.path == ("sim", "faults"):
            return self.faults.handle(request)
        return Drop() if self.faults.profile.outage else self._quote(request)

    def _quote(self, request: Request) -> Answer:
        document: Any
        match request.method, request.path:
            case "GET", ("v1", "profit-snapshot"):
                document = self._snapshot()
            case "GET", ("v2", "coins"):
                document = [_minerstat(quote) for quote in self._quotes()]
            case "GET", ("asic.json",):
                document = {"coins": {quote.coin.name: self._listed(quote) for quote in self._quotes()}}
            case "GET", ("coins.json",):
                # WhatToMine's list of coins that graphics cards mine; ours are all mined by ASICs.
                document = {"coins": {}}
            case "POST", ("api", "v1", "calculate"):
                return self._calculate(request)
            case _:
                return problem(404, "no_such_path", "/".join(request.path))
        return Answer(document=document)

    def _quotes(self) -> list[_Quote]:
        faults = self.faults.profile
        taken_at, revenues = self._walk.revenues()
        shifted = taken_at - STALE_BY * faults.stale + FUTURE_BY * faults.future
        afflicted = {key for key in faults.keys.split(",") if key} or set(revenues)
        quotes = []
        for coin in self._walk.coins:
            if coin.key not in afflicted:
                quote = _Quote(coin=coin, revenue=revenues[coin.key], taken_at=taken_at, flagged=False)
            elif faults.missing:
                continue
            else:
                revenue = _VALUES[faults.value](revenues[coin.key])
                quote = _Quote(coin=coin, revenue=revenue, taken_at=shifted, flagged=faults.flagged)
            quotes.append(quote)
        return quotes

    def _snapshot(self) -> dict[str, Any]:
        return {
            "taken_at": self._walk.revenues()[0].isoformat(),
            "currency": "USDT",
            "flags": [],
            "prices": [
                {
                    "key": quote.coin.key,
                    "algorithm": quote.coin.algorithm,
                    "revenue": quote.revenue,
                    "unit": quote.coin.unit,
                    "taken_at": quote.taken_at.isoformat(),
                    "flags": ["anomalous"] if quote.flagged else [],
                }
                for quote in self._quotes()
            ],
        }

    def _listed(self, quote: _Quote) -> dict[str, Any]:
        """Write a row as WhatToMine does: rates of all but Bitcoin are in BTC, some numbers are strings."""
        coin = quote.coin
        bitcoin_usdt = next(c.price_usdt for c in self._walk.coins if c.key == "BTC")
        rate = coin.price_usdt if coin.key == "BTC" else coin.price_usdt / bitcoin_usdt
        return {
            "tag": coin.key,
            "algorithm": coin.algorithm,
            "block_time": str(coin.block_time_sec),
            "block_reward": coin.block_reward,
            "nethash": coin.nethash_hs(quote.revenue) if quote.revenue else -1,
            "exchange_rate": rate,
            "exchange_rate_curr": "BTC",
            "lagging": quote.flagged,
            "timestamp": int(quote.taken_at.timestamp()),
        }

    def _calculate(self, request: Request) -> Answer:
        try:
            asked = {
                str(row["algorithm"]).replace("-", "").lower(): float(row["hashrate"])
                for row in request.json()["settings"]
            }
        except (KeyError, TypeError, ValueError) as fault:
            return problem(400, "invalid_request", f"settings: {fault}")
        rows = []
        for quote in self._quotes():
            hashrate_hs = asked.get(quote.coin.algorithm.replace("-", "").lower())
            if hashrate_hs is not None:
                revenue = f"{quote.revenue * hashrate_hs:.2f}"
                rows.append({"tag": quote.coin.key, "name": quote.coin.name, "revenue": revenue})
        return Answer(document=rows)


def _minerstat(quote: _Quote) -> dict[str, Any]:
    """Write a row as minerstat does: coins per H/s and hour, and the coin's price in USD."""
    coin, known = quote.coin, quote.revenue != -1
    return {
        "coin": coin.key,
        "name": coin.name,
        "type": "coin",
        "algorithm": coin.algorithm,
        "network_hashrate": coin.nethash_hs(quote.revenue) if quote.revenue > 0 else -1,
        "reward": quote.revenue / HOURS_PER_DAY / coin.price_usdt if known else -1,
        "reward_unit": coin.key,
        "price": coin.price_usdt,
        "updated": int(quote.taken_at.timestamp()),
    }
