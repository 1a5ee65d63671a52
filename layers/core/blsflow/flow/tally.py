"""Tally: what a tick came to, counted as its machines go by."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from blsflow.domain.gates import Withheld
from blsflow.domain.reasons import Action
from blsflow.domain.sampling import BenchmarkRequest, possible_gain
from blsflow.domain.verdict import MOVES

if TYPE_CHECKING:
    from blsflow.domain.machine import Machine
    from blsflow.domain.market import Market
    from blsflow.domain.verdict import Kept, Verdict

_REQUESTS_PER_CLASS: Final = 10
"""Benchmarks asked for per class, project and tick: enough to learn a model, few enough not to sample a whole fleet."""


class Tally:
    """Counts what a tick decided, and collects the benchmarks it asks for."""

    def __init__(self) -> None:
        self.machines = 0
        self.moves = 0
        self.gain_cny_per_day = 0.0
        self._counts: Counter[tuple[str, str]] = Counter()
        self._asked: Counter[tuple[int, int]] = Counter()
        self.requests: list[BenchmarkRequest] = []

    def add(self, verdict: Verdict, action: str, reason: str) -> None:
        """Count one machine, with what was made of its verdict."""
        self.machines += 1
        self._counts[action, reason] += 1
        if verdict.action in MOVES:
            self.moves += 1
            if action != Action.SKIP:
                self.gain_cny_per_day += gain_cny_per_day(verdict)

    def keep(self, kept: Kept) -> None:
        """Count machines that stay as they are."""
        self.machines += len(kept.heads)
        self._counts[Action.KEEP, kept.reason] += len(kept.heads)

    def ask(self, machine: Machine, verdict: Verdict, market: Market) -> None:
        """Ask for the benchmarks that a verdict misses, within what a class of machines needs."""
        for project_id in verdict.benchmark_requests:
            asked = machine.class_index, project_id
            if self._asked[asked] < _REQUESTS_PER_CLASS:
                self._asked[asked] += 1
                value = possible_gain(machine, project_id, verdict, market)
                self.requests.append(
                    BenchmarkRequest(machine.machine_id, project_id, value, verdict.current_net)
                )

    def counts(self) -> dict[str, int]:
        """Return machines by "action/reason"."""
        return {f"{action}/{reason}": count for (action, reason), count in sorted((+self._counts).items())}

    def lose(self, action: str, reason: str, machines: int, gain_cny_per_day: float) -> None:
        """Count moves as skipped because somebody else took their locks."""
        self._counts[action, reason] -= machines
        self._counts = +self._counts
        self._counts["skip", str(Withheld.LOCKED)] += machines
        self.gain_cny_per_day -= gain_cny_per_day

    def withhold(self, reason: str) -> None:
        """Count every move as skipped for this reason."""
        moved = [key for key in self._counts if key[0] in MOVES]
        for key in moved:
            self._counts["skip", reason] += self._counts.pop(key)
        self.gain_cny_per_day = 0.0


def gain_cny_per_day(verdict: Verdict) -> float:
    """Return what a move is worth in CNY per day against staying; a stop saves what the machine loses."""
    if verdict.action in {Action.STOP, Action.POWER_OFF}:
        return 0.0 if verdict.current_net is None else -verdict.current_net
    if verdict.best_net is None:
        return 0.0
    return (
        verdict.best_net - (verdict.current_net or 0.0)
        if verdict.action is Action.SWITCH
        else verdict.best_net
    )
