"""The quarantine of price jumps: a project's price against its own recent readings (R2.1).

A change of unit looks like a profit a thousand times as high. A reading that jumps is therefore held back
until the new level has held for a while.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class PriceLevel:
    """The price level that is trusted for one project, and the one that has to prove itself.

    `level_at` is when the newest reading was taken that went into this state. `pending_level` is the first
    reading of a jump and `pending_since` its time; both are None while nothing is in quarantine.
    """

    level: float
    level_at: datetime
    pending_level: float | None = None
    pending_since: datetime | None = None


def observe(
    level: PriceLevel | None, value: float, taken_at: datetime, *, jump_factor: float, hold_sec: float
) -> tuple[PriceLevel, bool, float]:
    """Hold one usable reading (finite, above 0) against the trusted level.

    Returns the new state, whether the reading is quarantined, and its jump: how many times it is above or
    below the level it was held against, so at least 1 whichever way it went.

    - The first reading ever sets the level; one within `jump_factor` either way moves the level along and
      ends a quarantine.
    - A reading beyond the factor is quarantined until readings have stayed within the factor of the jump's
      first one for `hold_sec`. The reading that completes it is the new level; its jump is told against the
      level that it confirms.
    - A reading no newer than the state is judged against it and changes nothing: repeats are harmless.

    Raises:
        ValueError: the value is no usable reading, or the factor is not above 1.
    """
    if not (math.isfinite(value) and value > 0 and jump_factor > 1):
        raise ValueError(f"cannot hold a reading of {value} against a level by a factor of {jump_factor}")
    if level is None:
        return PriceLevel(level=value, level_at=taken_at), False, 1.0
    jump = _ratio(value, level.level)
    if taken_at <= level.level_at:
        return level, jump > jump_factor, jump
    if jump <= jump_factor:
        return PriceLevel(level=value, level_at=taken_at), False, jump
    pending, since = level.pending_level, level.pending_since
    if pending is None or since is None or _ratio(value, pending) > jump_factor:
        pending, since = value, taken_at
    if (taken_at - since).total_seconds() >= hold_sec:
        return PriceLevel(level=value, level_at=taken_at), False, _ratio(value, pending)
    held = PriceLevel(level=level.level, level_at=taken_at, pending_level=pending, pending_since=since)
    return held, True, jump


def _ratio(one: float, other: float) -> float:
    return max(one / other, other / one)
