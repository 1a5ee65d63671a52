"""EventBridge Scheduler calls this every minute: follow open attempts to their confirmed end."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from blsflow.bootstrap import application
from blsflow.observability import count, gauge, summarized

if TYPE_CHECKING:
    from blsflow.flow.sampling import SamplingReport

_BUDGET_SEC = 45
_PAUSE_SEC = 3
_SAMPLING_BUDGET_SEC = 15
_SETTLING_IN_SEC = 15
"""A tick of the same minute takes this long to have its batches sent: looking away sooner costs them a whole minute."""


def handler(_event: dict[str, Any], context: object) -> dict[str, object]:
    """Look again and again, with pauses, while anything is open and until the next call is near."""
    with summarized("reconcile", context) as line:
        began = time.monotonic()
        ends = began + _BUDGET_SEC
        app = application()
        ended = settled = looked_at = alerts = lost = 0
        frozen: list[int] = []
        sampled: SamplingReport | None = None
        failures: dict[str, str] = {}
        while (left := ends - time.monotonic()) > 0:
            report = app.reconcile(budget_sec=left)
            ended, settled = ended + report.ended, settled + report.machines_settled
            looked_at, alerts, lost = (
                looked_at + report.looked_at,
                alerts + report.alerts,
                lost + report.senders_lost,
            )
            frozen += report.frozen
            failures |= {step: str(error) for step, error in report.failures.items()}
            settled_in = time.monotonic() - began > _SETTLING_IN_SEC
            if settled_in and sampled is None:  # what this minute's tick asked for is written by now
                sampled = app.sampling(budget_sec=_SAMPLING_BUDGET_SEC)
            if settled_in and not report.open_attempts and report.oldest_lock_sec == 0:
                break
            time.sleep(min(_PAUSE_SEC, max(0.0, ends - time.monotonic())))
        sampled = sampled or app.sampling(budget_sec=_SAMPLING_BUDGET_SEC)
        failures |= {f"benchmarks: {step}": str(error) for step, error in sampled.failures.items()}
        line |= {
            "looked_at": looked_at,
            "ended": ended,
            "machines_settled": settled,
            "alerts": alerts,
            "senders_lost": lost,
            "open_attempts": report.open_attempts,
            "oldest_open_sec": round(report.oldest_open_sec, 1),
            "oldest_lock_sec": round(report.oldest_lock_sec, 1),
            "frozen": frozen,
            "benchmarks_begun": sampled.begun,
            "benchmarks_rescued": sampled.rescued,
            "benchmarks_dropped": sampled.dropped,
            "benchmarks_drifted": sampled.drifted,
            "failures": failures,
        }
        gauge("ReconcilingAgeSeconds", report.oldest_open_sec)
        gauge("LockAgeSeconds", report.oldest_lock_sec)
        if alerts:
            count("AttemptsUnresolved", alerts)
        if "maintain" in failures:
            count("MaintenanceFailed", 1)
        if sampled.alerts:
            count("BenchmarksNotRestored", sampled.alerts)
        if frozen:
            count("PolicyFrozen", len(frozen))
    return {"ended": ended, "open_attempts": report.open_attempts}
