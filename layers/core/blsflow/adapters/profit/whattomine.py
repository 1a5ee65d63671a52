"""WhatToMine: its public coin lists, and its API with a key (https://whattomine.com/api-docs).

In both, numbers come now as numbers, now as strings. A coin is known by its tag; coins that share one (DGB
is mined on several algorithms) by their names.
"""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from blsflow.adapters.http import JsonHttp
from blsflow.adapters.profit.rows import (
    FeedModel,
    NumberOrString,
    UnixInstant,
    ask,
    read_document,
    read_rows,
    row_name,
    wrong_shape,
)
from blsflow.domain.errors import InvalidDocument
from blsflow.domain.prices import (
    FUTURE_TOLERANCE_SEC,
    LAGGING,
    FeedUnavailable,
    ProfitSnapshot,
    RawPrice,
)
from blsflow.domain.units import family_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from blsflow.adapters.http import HttpAnswer

_SECONDS_PER_DAY = 86_400
_CLOCK_DRIFT = timedelta(seconds=FUTURE_TOLERANCE_SEC)
_LISTS = ("/asic.json", "/coins.json")
# Rows of a market, not a coin: the block figures are placeholders and the price is per an unsaid unit.
_NO_COIN = "NICEHASH"
_BITCOIN = "BTC"
# Large, because the API rounds revenue to cents; revenue is linear in it.
_ASKED_HASHRATE_HS = 10**18

_Name = Annotated[str, Field(min_length=1)]


class _Lists(FeedModel):
    coins: dict[str, object]


class _Coin(FeedModel):
    tag: _Name
    algorithm: _Name
    block_time: NumberOrString
    block_reward: NumberOrString
    nethash: NumberOrString
    exchange_rate: NumberOrString
    exchange_rate_curr: _Name
    lagging: bool
    timestamp: UnixInstant


class _Calculated(FeedModel):
    tag: _Name
    name: _Name
    revenue: NumberOrString


class WhatToMineFeed:
    """Asks ``GET {base_url}/asic.json`` and ``/coins.json``; the former has Bitcoin's price.

    Revenue per H/s and day = 86400 / block_time x block_reward / nethash x exchange_rate: blocks a day times
    coins a block times one H/s's share of the network, which reproduces the lists' own btc_revenue. The
    exchange rate is in BTC, except that Bitcoin's own is in USD (though exchange_rate_curr says BTC there
    too); by it all others become USD. Without Bitcoin's price they stay in BTC, which makes them unknown to
    whoever judges them, and not 0 (P01).
    """

    PUBLIC_URL = "https://whattomine.com"
    source = "whattomine"

    def __init__(
        self, base_url: str, api_key: str | None, timeout_sec: float, *, min_interval_sec: float
    ) -> None:
        self._http = _client(base_url, api_key, timeout_sec)
        self.min_interval_sec = min_interval_sec

    def fetch(self) -> ProfitSnapshot:
        """Return the coins of both lists, each with its own time; coins that lag behind say so."""
        coins: dict[str, object] = {}
        latest = datetime.max.replace(tzinfo=UTC)
        for path in _LISTS:
            answer = ask(self._http, "GET", path)
            coins |= read_document(_Lists, answer.body).coins
            latest = min(latest, _answered_at(answer) + _CLOCK_DRIFT)
        keys = _keys({name: row_name(row, "tag", 0) for name, row in coins.items()})
        bitcoin = _bitcoin(coins.values())

        def price(name: str, row: _Coin) -> RawPrice:
            return _list_price(keys[name], row, bitcoin, latest)

        prices, rejected = read_rows(coins.items(), _Coin, price)
        return ProfitSnapshot(source=self.source, taken_at=None, prices=prices, rejected=rejected)


class WhatToMineCalculateFeed:
    """Asks ``POST {base_url}/api/v1/calculate`` once per algorithm, since its rows name none.

    Each call counts against the key's monthly quota; 429 means that it is used up until the month ends.
    """

    source = "whattomine"

    def __init__(
        self,
        base_url: str,
        api_key: str | None,
        timeout_sec: float,
        *,
        min_interval_sec: float,
        algorithms: Sequence[str],
    ) -> None:
        self._http = _client(base_url, api_key, timeout_sec)
        self._algorithms = tuple(algorithms)
        self.min_interval_sec = min_interval_sec

    def fetch(self) -> ProfitSnapshot:
        """Return every coin of the algorithms, as of the time in the answers' Date headers."""
        rows: dict[str, tuple[str, datetime, object]] = {}
        for algorithm in self._algorithms:
            answer = ask(self._http, "POST", "/api/v1/calculate", body=_question(algorithm))
            if not isinstance(answer.body, list):
                raise wrong_shape(f"the answer for {algorithm} is not a list of coins")
            taken_at = _answered_at(answer)
            for position, row in enumerate(answer.body):
                rows[f"{row_name(row, 'name', position)} {algorithm}"] = (algorithm, taken_at, row)
        keys = _keys({name: row_name(row, "tag", 0) for name, (_, _, row) in rows.items()})

        def price(name: str, row: _Calculated) -> RawPrice:
            algorithm, taken_at, _ = rows[name]
            return RawPrice(
                key=keys[name],
                algorithm=algorithm,
                revenue=row.revenue,
                unit=f"E{family_of(algorithm)}/s",
                currency="USD",
                taken_at=taken_at,
            )

        named = ((name, row) for name, (_, _, row) in rows.items())
        prices, rejected = read_rows(named, _Calculated, price)
        oldest = min((found.taken_at for found in prices), default=None)
        return ProfitSnapshot(source=self.source, taken_at=oldest, prices=prices, rejected=rejected)


def _client(base_url: str, api_key: str | None, timeout_sec: float) -> JsonHttp:
    headers = {} if api_key is None else {"Authorization": f"Token {api_key}"}
    return JsonHttp(base_url, timeout_sec=timeout_sec, headers=headers, admit_nan=True)


def _keys(tags: Mapping[str, str]) -> dict[str, str]:
    """The key of each row by its name: the tag where only this row has it."""
    rows_of = Counter(tags.values())
    return {name: tag if rows_of[tag] == 1 else name for name, tag in tags.items()}


def _bitcoin(documents: Iterable[object]) -> _Coin | None:
    """Bitcoin's own row, if its price in USD can be used."""
    for document in documents:
        if row_name(document, "tag", 0) != _BITCOIN:
            continue
        try:
            row = read_document(_Coin, document)
        except (FeedUnavailable, InvalidDocument):
            return None
        return row if row.exchange_rate > 0 else None
    return None


def _list_price(key: str, row: _Coin, bitcoin: _Coin | None, latest: datetime) -> RawPrice:
    if row.tag == _NO_COIN:
        raise InvalidDocument(field="tag", value=row.tag, cause="is a market's placeholder, not a coin")
    for field in ("block_time", "block_reward", "nethash"):
        if not getattr(row, field) > 0:
            raise InvalidDocument(field=field, value=getattr(row, field), cause="is not above 0")
    coins_per_day = _SECONDS_PER_DAY / row.block_time * row.block_reward / row.nethash
    revenue, currency, taken_at, lagging = (
        coins_per_day * row.exchange_rate,
        row.exchange_rate_curr,
        row.timestamp,
        row.lagging,
    )
    if row.tag == _BITCOIN:
        currency = "USD"
    elif currency == _BITCOIN and bitcoin is not None:
        # A product of two figures is as old as the older one, and lags if either does. A time that was still
        # to come when the service answered must show, whichever of the two has it.
        revenue, currency = revenue * bitcoin.exchange_rate, "USD"
        older, newer = sorted((taken_at, bitcoin.timestamp))
        taken_at, lagging = newer if newer > latest else older, lagging or bitcoin.lagging
    return RawPrice(
        key=key,
        algorithm=row.algorithm,
        revenue=revenue,
        unit=f"{family_of(row.algorithm)}/s",
        currency=currency,
        taken_at=taken_at,
        flags=(LAGGING,) if lagging else (),
    )


def _question(algorithm: str) -> dict[str, object]:
    return {"cost": 0, "settings": [{"algorithm": algorithm, "power": 1, "hashrate": _ASKED_HASHRATE_HS}]}


def _answered_at(answer: HttpAnswer) -> datetime:
    try:
        return parsedate_to_datetime(answer.headers.get("date", "")).replace(
            tzinfo=UTC
        )  # RFC 9110: always GMT
    except ValueError as error:
        raise wrong_shape("the answer has no Date header") from error
