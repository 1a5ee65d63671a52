"""When a policy freezes, and when a tick counts as a failure towards that (R6.1, R6.4)."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from blsflow.domain.policy import Mode
from blsflow.domain.reading import Known
from blsflow.domain.tariff import TariffPrice

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from blsflow.domain.market import Market
    from blsflow.domain.policy import Policy

# A factor that is beyond all measure is told as this one.
_SHOWN_FACTOR: Final = 1e12
# One machine that moves is what policies are for, whatever share of a small fleet it is.
_FEWEST_MOVES: Final = 2
# A share of fewer jobs than this says nothing.
_FEWEST_FINISHED: Final = 5


class FreezeCause(StrEnum):
    """Why a whole policy stopped acting."""

    PROFIT_UNUSABLE = "profit_unusable"
    ANOMALY_FLAGGED = "anomaly_flagged"
    PRICE_JUMP = "price_jump"
    FAILED_SHARE = "failed_share"
    MOVE_SHARE = "move_share"
    MANUAL = "manual"


@dataclass(frozen=True, kw_only=True, slots=True)
class Freeze:
    """A reason to freeze now, with the figures that crossed their limit."""

    cause: FreezeCause
    detail: Mapping[str, object] = field(default_factory=dict)


class TickFailure(StrEnum):
    """Why a tick had nothing usable to decide on."""

    NO_PRICE_KNOWN = "no_price_known"
    NO_TARIFF_KNOWN = "no_tariff_known"


def tick_failure(policy: Policy, market: Market) -> TickFailure | None:
    """Why the tick counts as a failure: no candidate has a known price, or no cluster a known tariff.

    Only profit makes a tick fail; windows need neither. None is also what resets the count of failures.
    """
    if policy.mode is not Mode.PROFIT_GUARD:
        return None
    candidates = [market.projects.get(project) for project in policy.candidates]
    if candidates and not any(
        candidate is not None and isinstance(candidate.revenue, Known) for candidate in candidates
    ):
        return TickFailure.NO_PRICE_KNOWN
    clusters = [market.clusters.get(cluster) for cluster in {each.cluster_id for each in market.classes}]
    if clusters and not any(
        cluster is not None and isinstance(cluster.tariff, TariffPrice) for cluster in clusters
    ):
        return TickFailure.NO_TARIFF_KNOWN
    return None


def freeze_for(  # noqa: PLR0913 - each figure has a limit of its own in the policy
    policy: Policy,
    *,
    consecutive_failures: int = 0,
    flagged: Collection[str] = (),
    worst_jump: float = 1.0,
    moves: int = 0,
    machines: int = 0,
    failed: int = 0,
    finished: int = 0,
) -> Freeze | None:
    """The first cause to freeze, most telling first, or None.

    Args:
        policy: its limits.
        consecutive_failures: failed ticks in a row, this one included.
        flagged: the anomalies that monitoring reports.
        worst_jump: how many times the price of any candidate rose or fell against its own level; 1 is none.
        moves: machines of this tick that would be switched, started, stopped or powered off.
        machines: machines of this tick.
        failed: commands that failed, per machine, within the policy's window.
        finished: commands that ended in it, the failed ones included.
    """
    if consecutive_failures >= policy.freeze_after_failures:
        return Freeze(
            cause=FreezeCause.PROFIT_UNUSABLE, detail={"consecutive_failures": consecutive_failures}
        )
    if flagged:
        return Freeze(cause=FreezeCause.ANOMALY_FLAGGED, detail={"flags": sorted(flagged)})
    if policy.freeze_jump_factor is not None and worst_jump > policy.freeze_jump_factor:
        return Freeze(cause=FreezeCause.PRICE_JUMP, detail={"factor": min(worst_jump, _SHOWN_FACTOR)})
    if (
        policy.max_move_share is not None
        and moves >= _FEWEST_MOVES
        and moves > policy.max_move_share * machines
    ):
        return Freeze(cause=FreezeCause.MOVE_SHARE, detail={"moves": moves, "machines": machines})
    if finished >= _FEWEST_FINISHED and failed > policy.max_failed_share * finished:
        return Freeze(cause=FreezeCause.FAILED_SHARE, detail={"failed": failed, "finished": finished})
    return None
