"""An input of a decision in one of three states: known, stale or unknown (R2.1).

Only `Known` has a `value`. The other two have no value to compute with, no truth value and no conversion to
a number, so that code that forgets to look at the state fails instead of deciding on a zero.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn, TypeAlias

if TYPE_CHECKING:
    from datetime import datetime


class _NotANumber:
    """Refuses the silent conversion of a whole reading into a truth value."""

    __slots__ = ()

    def __bool__(self) -> NoReturn:
        raise TypeError("a reading is neither true nor false: look at its state")


@dataclass(frozen=True, kw_only=True, slots=True)
class Known(_NotANumber):
    """A usable figure: finite, with the aware time at which it was taken."""

    value: float
    taken_at: datetime

    def __post_init__(self) -> None:
        if not math.isfinite(self.value):
            raise ValueError(f"a known value is finite, not {self.value}")
        if self.taken_at.tzinfo is None:
            raise ValueError(f"a known value was taken at an aware time, not {self.taken_at}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Stale(_NotANumber):
    """A figure that was usable once. `last_value` is for showing and recording, never for computing."""

    last_value: float
    taken_at: datetime
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Unknown(_NotANumber):
    """No usable figure; `reason` is machine-readable."""

    reason: str


Reading: TypeAlias = Known | Stale | Unknown
