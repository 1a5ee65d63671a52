"""Queues within one process, for `blsflow serve`, the command line and tests: messages wait until somebody drains them.

Losing the process loses the messages, which is allowed: the rows that they speak of are found by the next tick.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


class InlineQueue:
    """Messages in the order in which they were sent."""

    def __init__(self) -> None:
        self._messages: deque[Mapping[str, object]] = deque()

    def send(self, messages: Sequence[Mapping[str, object]]) -> None:
        """Keep the messages."""
        self._messages.extend(messages)

    def drain(self, handle: Callable[[Mapping[str, object]], None]) -> int:
        """Hand over every message, also those that arrive meanwhile; return how many there were."""
        count = 0
        while self._messages:
            handle(self._messages.popleft())
            count += 1
        return count
