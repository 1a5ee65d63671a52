"""What a tick can conclude for a machine, and why: the closed lists of decisions, logs and counts (R3.2)."""

from __future__ import annotations

from enum import StrEnum


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
    """Why. What each means is said in `texts.toml`."""

    # skipped: somebody else's turn, or not the time
    OVERRIDDEN = "overridden"
    OPERATOR_HOLD = "operator_hold"
    UNDER_BENCHMARK = "under_benchmark"
    LOCKED = "locked"
    OFFLINE = "offline"
    RETRY_BACKOFF = "retry_backoff"
    FOREIGN_CONTROL = "foreign_control"
    NOT_ELIGIBLE = "not_eligible"
    NO_RUN_CONFIGURATION = "no_run_configuration"

    # held: the machine's own state leaves nothing to do, or is not known
    STATUS_UNKNOWN = "status_unknown"
    STOPPED_BY_HUMAN = "stopped_by_human"
    NOT_OURS_TO_START = "not_ours_to_start"
    RUNNING_PROJECT_UNKNOWN = "running_project_unknown"

    # held: an input is unknown or stale, which is never an action
    TARIFF_GAP = "tariff_gap"
    TARIFF_OVERLAP = "tariff_overlap"
    TARIFF_CURRENCY = "tariff_currency"
    PRICE_UNKNOWN = "price_unknown"
    PRICE_STALE = "price_stale"
    PRICE_QUARANTINED = "price_quarantined"
    NO_PRICE_KNOWN = "no_price_known"
    CANDIDATE_PRICE_UNKNOWN = "candidate_price_unknown"
    CURRENT_NET_UNKNOWN = "current_net_unknown"
    NO_CANDIDATE = "no_candidate"

    # benchmark required
    CURRENT_BENCHMARK_MISSING = "current_benchmark_missing"
    CURRENT_BENCHMARK_EXPIRED = "current_benchmark_expired"
    CURRENT_BENCHMARK_INVALID = "current_benchmark_invalid"
    CANDIDATE_BENCHMARK_MISSING = "candidate_benchmark_missing"
    CANDIDATE_BENCHMARK_EXPIRED = "candidate_benchmark_expired"
    CANDIDATE_BENCHMARK_INVALID = "candidate_benchmark_invalid"

    # profit decides
    ALREADY_BEST = "already_best"
    BETTER_NET = "better_net"
    MIN_DWELL = "min_dwell"
    GAIN_BELOW_ABSOLUTE = "gain_below_absolute"
    GAIN_BELOW_RATIO = "gain_below_ratio"
    SWITCH_COST_NOT_RECOVERED = "switch_cost_not_recovered"
    NEGATIVE_PROFIT = "negative_profit"
    BELOW_RESTART_THRESHOLD = "below_restart_threshold"
    TARIFF_CHANGE_AHEAD = "tariff_change_ahead"
    RESTART_THRESHOLD_CLEARED = "restart_threshold_cleared"

    # time windows decide
    WINDOW = "window"
    WINDOW_SATISFIED = "window_satisfied"
    OUTSIDE_WINDOWS = "outside_windows"
