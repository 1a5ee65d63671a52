"""One machine as a tick sees it. Named tuples of plain numbers: a tick holds a hundred thousand of them.

Times are seconds since 1970 UTC. NaN is *unknown* wherever a float stands: every rule is written so that a
comparison with NaN, which is always false, holds the machine.
"""

from __future__ import annotations

import math
from enum import IntEnum
from typing import Final, NamedTuple

UNKNOWN: Final = math.nan
NO_PROJECT: Final = 0
NOBODY: Final = 0

# Bits of `Machine.flags`. Plain integers: testing an enum.Flag costs more than the decision around it.
OPERATOR_HOLD: Final = 1  # a human asked that automation keep its hands off
LOCKED: Final = 2  # somebody acts on it at this moment
UNDER_BENCHMARK: Final = 4
FOREIGN: Final = 8  # found doing something that nobody here asked for
STOPPED_BY_SCHEDULER: Final = 16
STOPPED_BY_HUMAN: Final = 32
RETRY_BACKOFF: Final = 64  # its last action failed, and it is too early for another
MACHINE_FLAGS: Final = {
    "operator_hold": OPERATOR_HOLD,
    "locked": LOCKED,
    "under_benchmark": UNDER_BENCHMARK,
    "foreign": FOREIGN,
    "stopped_by_scheduler": STOPPED_BY_SCHEDULER,
    "stopped_by_human": STOPPED_BY_HUMAN,
    "retry_backoff": RETRY_BACKOFF,
}

# Bits of `Benchmark.flags`.
ESTIMATED: Final = 1  # its power is the model's nameplate
SHARED: Final = 2  # measured on another machine of the model
FLAGGED: Final = 4  # monitoring says not to rely on it
BENCHMARK_FLAGS: Final = {"estimated": ESTIMATED, "shared": SHARED, "flagged": FLAGGED}


class Status(IntEnum):
    """What a machine reports to be doing; a word that is not one of these is UNKNOWN."""

    UNKNOWN = 0
    MINING = 1
    STOPPED = 2
    OFF = 3


class Benchmark(NamedTuple):
    """Measured hashrate and power of a machine on one project."""

    project_id: int
    hashrate_hs: float
    power_w: float
    sampled_at: float
    flags: int = 0


class Machine(NamedTuple):
    """A machine's own inputs of a tick.

    ``allow_bits`` and ``deny_bits`` are its own eligibilities, bit i for the i-th of the policy's
    `considered_projects`. ``overridden_by`` is the policy that outranks the deciding one for it.
    ``foreign_changes`` counts up to 255.
    """

    machine_id: int
    class_index: int
    status: int
    project_id: int = NO_PROJECT
    hashrate_hs: float = UNKNOWN
    power_w: float = UNKNOWN
    project_since: float = UNKNOWN
    reported_at: float = UNKNOWN
    flags: int = 0
    foreign_changes: int = 0
    overridden_by: int = NOBODY
    allow_bits: int = 0
    deny_bits: int = 0
    benchmarks: tuple[Benchmark, ...] = ()
