"""What a tick can conclude for a machine, and why: the closed lists of decisions, logs and counts (R3.2)."""

from __future__ import annotations

from enum import StrEnum
from typing import Self


class Action(StrEnum):
    """What is to happen to a machine. KEEP was decided on its figures; SKIP says that nothing was decided."""

    KEEP = "keep"
    SWITCH = "switch"
    START = "start"
    STOP = "stop"
    POWER_OFF = "power_off"
    BENCHMARK_REQUIRED = "benchmark_required"
    SKIP = "skip"


class Reason(StrEnum):
    """Why. Each carries its ``meaning``, one English sentence for people."""

    meaning: str

    def __new__(cls, code: str, meaning: str) -> Self:
        """Make a string of the code, with the meaning beside it."""
        member = str.__new__(cls, code)
        member._value_ = code
        member.meaning = meaning
        return member

    # skipped: somebody else's turn, or not the time
    OVERRIDDEN = "overridden", "another policy outranks this one for the machine"
    OPERATOR_HOLD = "operator_hold", "an operator asked automation to keep its hands off the machine"
    UNDER_BENCHMARK = "under_benchmark", "the machine is being measured"
    LOCKED = "locked", "another action on the machine is not over yet"
    OFFLINE = "offline", "the machine's last report is missing, too old, or from the future"
    RETRY_BACKOFF = "retry_backoff", "the machine's last action failed, and it is too early for another"
    FOREIGN_CONTROL = (
        "foreign_control",
        "somebody else keeps changing what the machine does; it is left to them",
    )
    NOT_ELIGIBLE = "not_eligible", "the configuration service does not allow the window's project here"
    NO_RUN_CONFIGURATION = "no_run_configuration", "the window's project has no runnable configuration here"

    # held: the machine's own state leaves nothing to do, or is not known
    STATUS_UNKNOWN = "status_unknown", "the report does not say whether the machine mines"
    STOPPED_BY_HUMAN = "stopped_by_human", "a human stopped the machine, and it stays stopped"
    NOT_OURS_TO_START = "not_ours_to_start", "the machine does not mine, and this scheduler did not stop it"
    RUNNING_PROJECT_UNKNOWN = "running_project_unknown", "the report does not say what the machine mines"

    # held: an input is unknown or stale, which is never an action
    TARIFF_GAP = "tariff_gap", "no tariff period covers this instant, so electricity has no known price"
    TARIFF_OVERLAP = "tariff_overlap", "two tariffs or periods claim this instant, so the price is not known"
    TARIFF_CURRENCY = (
        "tariff_currency",
        "the tariff's currency has no exchange rate, so the price is not known",
    )
    PRICE_UNKNOWN = "price_unknown", "what the running project earns is not known"
    PRICE_STALE = "price_stale", "what the running project earns was read too long ago"
    PRICE_QUARANTINED = (
        "price_quarantined",
        "the running project's price jumped and has not proved itself yet",
    )
    NO_PRICE_KNOWN = "no_price_known", "no project that the machine may run has a known price"
    CANDIDATE_PRICE_UNKNOWN = (
        "candidate_price_unknown",
        "all known projects lose money, but a measured one has no known price and might not",
    )
    CURRENT_NET_UNKNOWN = "current_net_unknown", "the running project is neither measured nor can it be"
    NO_CANDIDATE = "no_candidate", "no candidate is both eligible and runnable on the machine"

    # benchmark required
    CURRENT_BENCHMARK_MISSING = "current_benchmark_missing", "the running project was never measured here"
    CURRENT_BENCHMARK_EXPIRED = "current_benchmark_expired", "the running project was measured too long ago"
    CURRENT_BENCHMARK_INVALID = (
        "current_benchmark_invalid",
        "the running project's benchmark is not plausible",
    )
    CANDIDATE_BENCHMARK_MISSING = "candidate_benchmark_missing", "no candidate was ever measured here"
    CANDIDATE_BENCHMARK_EXPIRED = "candidate_benchmark_expired", "the candidates were measured too long ago"
    CANDIDATE_BENCHMARK_INVALID = (
        "candidate_benchmark_invalid",
        "the candidates' benchmarks are not plausible",
    )

    # profit decides
    ALREADY_BEST = "already_best", "no candidate nets more than what the machine runs"
    BETTER_NET = "better_net", "another project nets more, by enough and for long enough"
    MIN_DWELL = "min_dwell", "a better project exists, but the machine changed too recently"
    GAIN_BELOW_ABSOLUTE = "gain_below_absolute", "a better project exists, but gains too little per day"
    GAIN_BELOW_RATIO = "gain_below_ratio", "a better project exists, but gains too small a share"
    SWITCH_COST_NOT_RECOVERED = (
        "switch_cost_not_recovered",
        "a better project exists, but the change costs more than it gains in the time it can count on",
    )
    NEGATIVE_PROFIT = "negative_profit", "every project the machine could run loses money"
    BELOW_RESTART_THRESHOLD = "below_restart_threshold", "the best project nets too little to start again"
    TARIFF_CHANGE_AHEAD = "tariff_change_ahead", "the tariff changes before a start would have paid off"
    RESTART_THRESHOLD_CLEARED = "restart_threshold_cleared", "the best project nets enough to start again"

    # time windows decide
    WINDOW = "window", "the active time window asks for it"
    WINDOW_SATISFIED = "window_satisfied", "the machine already does what the active time window asks for"
    OUTSIDE_WINDOWS = "outside_windows", "no time window is active, and the machine is left as it is"
