"""The states of occurrences and attempts, and how they follow from one another (R8.7). Pure.

SQL changes them by compare-and-set, `migrations/0002_scheduler.sql` constrains them, and tests hold both to this module.

An occurrence; the ends are final, and it holds its schedule's slot while it is *active*::

    (scan, manual run) ──> recorded ──> running ──> succeeded, failed, cancelled, interrupted, skipped
    (scan) ──> skipped        │          │   ^ │
      missed,                 │   unclear│   │ └── cancel ─────────> cancelling ──> any end
      previous_unfinished     │          v   │found                     ^
                              │       reconciling ──> any end           │
                              │          └───────── cancel ─────────────┘
                              ├──> skipped: frozen, paused, config_changed, previous_unfinished,
                              │             execution_not_started, execution_target_unavailable
                              └──> cancelled: before it was begun

A policy's tick takes `running -> succeeded` (or `cancelling -> cancelled`) when none of its attempts waits to be sent; a
conversation's occurrence ends with its attempt, as its attempt does.

An attempt; `dispatching` is committed before the call, and what left it is never sent again::

    (decide) ──> prepared ──> skipped: expired, or not allowed any more
                    v
    (converse) ─> dispatching ──> running ──> succeeded, failed, cancelled, interrupted
                    │   │          ^   └── cancel ──────────────> cancelling ──> any end
                    │   └ unclear, │found                            ^
                    │     or the   │                                 │
                    │     sender ─> reconciling ─── cancel ──────────┤
                    │     is lost       └──> any end                 │
                    ├── answered after a cancel ─────────────────────┘
                    └──> skipped (busy, execution_target_unavailable), failed (rejected), interrupted (by an operator)
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping


class ScheduleKind(StrEnum):
    """The kinds of scheduled work (R8.1)."""

    POLICY_TICK = "policy_tick"
    CONVERSATION = "conversation"


class OccurrenceState(StrEnum):
    """Where an occurrence stands."""

    RECORDED = "recorded"
    RUNNING = "running"
    RECONCILING = "reconciling"
    CANCELLING = "cancelling"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"
    SKIPPED = "skipped"

    @property
    def is_end(self) -> bool:
        """Whether it never changes again."""
        return not OCCURRENCE_STEPS[self]

    @property
    def is_active(self) -> bool:
        """Whether it holds its schedule's slot."""
        return not self.is_end and self is not OccurrenceState.RECORDED


class AttemptState(StrEnum):
    """Where an attempt stands."""

    PREPARED = "prepared"
    DISPATCHING = "dispatching"
    RUNNING = "running"
    RECONCILING = "reconciling"
    CANCELLING = "cancelling"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"
    SKIPPED = "skipped"

    @property
    def is_end(self) -> bool:
        """Whether it never changes again."""
        return not ATTEMPT_STEPS[self]


_O = OccurrenceState
_A = AttemptState
_O_ENDS: Final = frozenset({_O.SUCCEEDED, _O.FAILED, _O.CANCELLED, _O.INTERRUPTED, _O.SKIPPED})
_A_ENDS: Final = frozenset({_A.SUCCEEDED, _A.FAILED, _A.CANCELLED, _A.INTERRUPTED, _A.SKIPPED})

OCCURRENCE_STEPS: Final[Mapping[OccurrenceState, frozenset[OccurrenceState]]] = {
    _O.RECORDED: frozenset({_O.RUNNING, _O.SKIPPED, _O.CANCELLED}),
    _O.RUNNING: _O_ENDS | {_O.RECONCILING, _O.CANCELLING},
    _O.RECONCILING: _O_ENDS | {_O.RUNNING, _O.CANCELLING},
    _O.CANCELLING: _O_ENDS,
    **{end: frozenset() for end in _O_ENDS},
}
"""The steps that an occurrence can take."""

ATTEMPT_STEPS: Final[Mapping[AttemptState, frozenset[AttemptState]]] = {
    _A.PREPARED: frozenset({_A.DISPATCHING, _A.SKIPPED}),
    _A.DISPATCHING: frozenset(
        {_A.RUNNING, _A.RECONCILING, _A.CANCELLING, _A.SKIPPED, _A.FAILED, _A.INTERRUPTED}
    ),
    _A.RUNNING: (_A_ENDS - {_A.SKIPPED}) | {_A.CANCELLING},
    _A.RECONCILING: _A_ENDS | {_A.RUNNING, _A.CANCELLING},
    _A.CANCELLING: _A_ENDS,
    **{end: frozenset() for end in _A_ENDS},
}
"""The steps that an attempt can take."""
