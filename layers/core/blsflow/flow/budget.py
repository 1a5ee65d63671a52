"""Time budgets: what one step may take of an invocation's time, by the monotonic clock."""

from __future__ import annotations

import time


class Budget:
    """So many seconds from now on."""

    def __init__(self, seconds: float) -> None:
        """Start the clock."""
        self._ends = time.monotonic() + seconds

    def left_sec(self) -> float:
        """Return the seconds that are left, never below 0."""
        return max(0.0, self._ends - time.monotonic())

    def is_left(self) -> bool:
        """Whether there is any time left."""
        return self.left_sec() > 0

    def share(self, part: float) -> Budget:
        """Return a budget of its own of that part of what is left now."""
        return Budget(self.left_sec() * part)
