"""Prices as feeds send them, which of them may be used, and what those are worth in CNY (R2.1).

A price is revenue in USDT per unit of hashrate per day. What cannot be used becomes `Stale` or `Unknown` with
a `PriceFault`; it never becomes 0. USD counts as USDT, one for one (the drift of the peg is far below any
policy's threshold); every other currency is refused as `exchange_rate_unknown`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from blsflow.domain.errors import BlsflowError, InvalidDocument
from blsflow.domain.reading import Known, Stale, Unknown
from blsflow.domain.units import hashrate_unit

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from blsflow.domain.reading import Reading
    from blsflow.domain.units import HashFamily

FUTURE_TOLERANCE_SEC = 30.0
# What public feeds write for "no data".
SENTINEL = -1.0
# A flag by which a source says that its own figure is behind: stale, where any other flag is an anomaly.
LAGGING = "lagging"

_USDT_LIKE = frozenset({"USDT", "USD"})


class PriceFault(StrEnum):
    """Why a price cannot be used."""

    MISSING = "missing"
    STALE = "stale"
    FROM_FUTURE = "from_future"
    SENTINEL = "sentinel"
    ZERO = "zero"
    NEGATIVE = "negative"
    NOT_FINITE = "not_finite"
    FLAGGED_ANOMALOUS = "flagged_anomalous"
    UNIT_MISMATCH = "unit_mismatch"
    ALGORITHM_MISMATCH = "algorithm_mismatch"
    QUARANTINED = "quarantined"
    EXCHANGE_RATE_UNKNOWN = "exchange_rate_unknown"


class FeedFault(StrEnum):
    """Why a price feed gave no snapshot at all."""

    TIMEOUT = "timeout"
    CONNECTION = "connection"
    HTTP_STATUS = "http_status"
    TOO_LARGE = "too_large"
    NOT_JSON = "not_json"
    WRONG_SHAPE = "wrong_shape"
    REDIRECTED = "redirected"
    QUOTA_EXHAUSTED = "quota_exhausted"
    UNAUTHORIZED = "unauthorized"


class FeedUnavailable(BlsflowError):
    """A feed gave no snapshot: every price of it is unknown, and the tick counts a failure."""

    def __init__(self, reason: FeedFault, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


@dataclass(frozen=True, kw_only=True, slots=True)
class RawPrice:
    """One row of a feed as it was sent: `revenue` may be a sentinel, NaN or worse, and is judged later.

    `revenue` is in `currency` per `unit` of hashrate per day; `taken_at` is aware; `flags` are the source's
    own anomaly flags, those of its whole snapshot included. `algorithm` is None where the feed names none.
    """

    key: str
    algorithm: str | None
    revenue: float
    unit: str
    currency: str
    taken_at: datetime
    flags: tuple[str, ...] = ()


class PriceReading(NamedTuple):
    """A price as the feed sent it, and when it could first be decided on."""

    received_at: datetime
    project_id: int
    raw: RawPrice


@dataclass(frozen=True, kw_only=True, slots=True)
class RejectedRow:
    """A row that could not be read; `field` and `cause` say why, the other rows stand."""

    key: str
    field: str
    cause: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ProfitSnapshot:
    """One answer of a feed: no key twice in `prices`; `taken_at` is None where only the rows have times."""

    source: str
    taken_at: datetime | None
    prices: tuple[RawPrice, ...]
    flags: tuple[str, ...] = ()
    rejected: tuple[RejectedRow, ...] = ()


def judge_price(  # noqa: PLR0913 - each is one of the policy's or the project's own terms
    raw: RawPrice | None,
    *,
    now: datetime,
    max_age_sec: float,
    expected_algorithm: str | None,
    expected_family: HashFamily,
    future_tolerance_sec: float = FUTURE_TOLERANCE_SEC,
) -> Reading:
    """Return the revenue in USDT per base unit of hashrate (H/s, Sol/s, g/s) per day, above 0, or why not.

    An age of exactly `max_age_sec` is still fresh, a lead of exactly `future_tolerance_sec` still drift of
    clocks. Algorithms are compared without case and punctuation; where feed or project names none, they are
    not compared.
    """
    if raw is None:
        return Unknown(reason=PriceFault.MISSING)
    fault = _fault(raw.revenue) or _identity_fault(raw, expected_algorithm)
    if fault is not None:
        return Unknown(reason=fault)
    try:
        unit = hashrate_unit(raw.unit, expected_family=expected_family)
    except InvalidDocument:
        return Unknown(reason=PriceFault.UNIT_MISMATCH)
    value = raw.revenue / unit.scale
    fault = _fault(value)
    age_sec = (now - raw.taken_at).total_seconds()
    if fault is None and age_sec < -future_tolerance_sec:
        fault = PriceFault.FROM_FUTURE
    if fault is not None:
        return Unknown(reason=fault)
    if age_sec > max_age_sec or LAGGING in raw.flags:
        return Stale(last_value=value, taken_at=raw.taken_at, reason=PriceFault.STALE)
    return Known(value=value, taken_at=raw.taken_at)


def to_cny(reading: Reading, rate: float | None) -> Reading:
    """Turn a reading in USDT into CNY by `rate` (CNY per USDT).

    Without a usable rate (missing, not finite, zero or negative) every value is unknown, known ones too.
    """
    if rate is None or _fault(rate) is not None:
        return Unknown(reason=PriceFault.EXCHANGE_RATE_UNKNOWN)
    if isinstance(reading, Unknown):
        return reading
    converted = (reading.value if isinstance(reading, Known) else reading.last_value) * rate
    fault = _fault(converted)
    if fault is not None:
        return Unknown(reason=fault)
    if isinstance(reading, Stale):
        return replace(reading, last_value=converted)
    return replace(reading, value=converted)


def resolve_key(key: str, aliases: Mapping[str, str]) -> str:
    """Return the canonical price key, trimmed and in upper case, so that equal keys compare equal (P12).

    `aliases` maps the names that feeds use (``Ravencoin``) to canonical keys (``RVN``), in one step. Case and
    surrounding space do not matter on either side.
    """
    wanted = _canonical(key)
    return next(
        (_canonical(target) for alias, target in aliases.items() if _canonical(alias) == wanted), wanted
    )


def _identity_fault(raw: RawPrice, expected_algorithm: str | None) -> PriceFault | None:
    if any(flag != LAGGING for flag in raw.flags):
        return PriceFault.FLAGGED_ANOMALOUS
    if raw.currency not in _USDT_LIKE:
        return PriceFault.EXCHANGE_RATE_UNKNOWN
    if raw.algorithm is not None and expected_algorithm is not None:
        same = _letters(raw.algorithm) == _letters(expected_algorithm)
        return None if same else PriceFault.ALGORITHM_MISMATCH
    return None


def _fault(figure: float) -> PriceFault | None:
    if not math.isfinite(figure):
        return PriceFault.NOT_FINITE
    if figure == SENTINEL:
        return PriceFault.SENTINEL
    if figure == 0:
        return PriceFault.ZERO
    return PriceFault.NEGATIVE if figure < 0 else None


def _canonical(key: str) -> str:
    return key.strip().upper()


def _letters(algorithm: str) -> str:
    return "".join(character for character in algorithm.casefold() if character.isalnum())
