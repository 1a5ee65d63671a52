"""What a storm is there to go through: each kind of event, and by which counters it shows that it really happened."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Mapping, Sequence

KINDS: Final[Mapping[str, Sequence[str]]] = {
    "crashes": ("processes killed",),
    "broken connections": ("connections lost",),
    "duplicates": ("event: all messages twice",),
    "reordering": ("event: all messages in another order",),
    "delays": ("event: a late message", "event: nobody follows for a while"),
    "lost messages": ("event: messages are lost", "logged: runs_missed"),
    "device control is busy": ("logged: batch_busy, busy",),
    "the execution service is busy": ("logged: run_not_started, busy",),
    "machines refused": ("machines refused",),
    "machines failed": ("machines failed",),
    "machines that do nothing": ("device control: does_nothing_rate", "logged: job_ended, unconfirmed"),
    "prompts refused": (
        "logged: run_not_started, forbidden",
        "logged: run_not_started, execution_target_unavailable",
    ),
    "time-outs before effect": (
        "device control: timeout_before_effect_rate",
        "execution service: timeout_before_effect_rate",
        "logged: job_ended, not_received",
        "logged: run_ended, not_received",
    ),
    "time-outs after effect": (
        "device control: timeout_after_effect_rate",
        "execution service: timeout_after_effect_rate",
        "logged: batch_unclear",
        "logged: run_unclear",
    ),
    "feed outages": ("feed: outage", "feed: stale", "decided: keep, price_stale"),
    "nonsense prices": ("feed: value", "feed: future", "feed: flagged", "decided: keep, price_unknown"),
    "price jumps": ("decided: keep, price_quarantined",),
    "clock jumps": ("event: the clock jumps",),
    "tariffs that change": (
        "event: the tariff changes",
        "decided: keep, tariff_gap",
        "decided: keep, tariff_overlap",
    ),
    "losses": ("decided: stop, negative_profit", "decided: power_off, negative_profit"),
    "freezes": ("event: a freeze by hand", "logged: policy_frozen"),
    "manual runs": ("event: a policy is run by hand", "logged: run_requested"),
    "cancels": ("logged: cancel_requested", "logged: run_ended, run_cancelled"),
    "operators' commands": ("logged: command_requested",),
    "leases": ("logged: executor_lease_changed",),
    "closed by operators": ("logged: attempt_closed_by_operator",),
    "foreign commands": ("event: a foreign command",),
    "conversations": ("prompts sent", "logged: run_ended, succeeded"),
    "two policies over one machine": ("decided: skip, overridden", "decided: stop, window"),
    "benchmark runs": (
        "logged: benchmark_ended, succeeded",
        "logged: benchmark_rescued",
        "decided: skip, under_benchmark",
    ),
    "notifications": ("notifications", "event: publishing changes"),
}
"""Each of the counters is to be above 0."""
OFTEN: Final = 4000
"""A fault point that was passed so often was died at, too."""
ENOUGH_SEQUENCES: Final = 1500
"""Of so many sequences each kind is a part."""


def missing(happened: Counter[str]) -> list[str]:
    """What never happened, and fault points at which no process ever died; a rollback is what follows a fault."""
    never = [f"{kind} ({what})" for kind, whats in KINDS.items() for what in whats if not happened[what]]
    return never + [
        f"death at {point!r}"
        for point, times in passed(happened).items()
        if times >= OFTEN and point != "rollback"
    ]


def passed(happened: Counter[str]) -> dict[str, int]:
    """Fault points at which no process died, and how often they were passed."""
    points = {
        name.removeprefix("passed: "): times
        for name, times in happened.items()
        if name.startswith("passed: ")
    }
    return {point: times for point, times in points.items() if not happened[f"died at: {point}"]}


def summary(happened: Counter[str]) -> str:
    """A line for each kind, and one for the fault points."""
    points = sum(name.startswith("passed: ") for name in happened)
    lines = [
        f"{kind}: " + ", ".join(f"{happened[what]:,} {what.split(': ', 1)[-1]}" for what in whats)
        for kind, whats in KINDS.items()
    ]
    return "\n".join([*lines, f"fault points: {points}, died at {points - len(passed(happened))}"])
