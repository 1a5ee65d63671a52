from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from local.soak import Sample, judged, plot

if TYPE_CHECKING:
    from pathlib import Path

_AT_REST = Sample(
    at_sec=0.0,
    memory_bytes=50_000_000,
    files=5,
    threads=1,
    connections=1,
    waiting_occurrences=0,
    waiting_attempts=1,
    open_attempts=10,
    live_locks=100,
    unpublished=0,
    ticks=0,
    attempts=0,
    rows=0,
    database_bytes=1,
)


def _over_time(count: int = 120, **growth: float) -> list[Sample]:
    """Samples of which some figures grow by that much in all, evenly."""
    return [
        replace(
            _AT_REST,
            at_sec=10.0 * n,
            ticks=n,
            rows=50 * n,
            **{name: int(getattr(_AT_REST, name) + by * n / count) for name, by in growth.items()},
        )
        for n in range(count)
    ]


def test_what_stays_is_flat() -> None:
    """R11.6: a process whose figures stay has not grown, however many rows its ticks leave."""
    result = judged(_over_time())
    assert result["grown"] == []
    assert (result["ticks"], result["rows_per_tick"]) == (119, 50)


def test_each_leak_is_named() -> None:
    """R11.6: memory, files, connections and whatever waits are each found growing."""
    for name, by in (
        ("memory_bytes", 20_000_000),
        ("files", 20),
        ("connections", 5),
        ("threads", 5),
        ("open_attempts", 200),
        ("live_locks", 2000),
        ("unpublished", 100),
        ("waiting_occurrences", 100),
    ):
        assert judged(_over_time(**{name: by}))["grown"] == [name]


def test_what_comes_and_goes_is_no_leak() -> None:
    """R11.6: connections that are kept while jobs are followed are files, too; only what stays without work leaked."""
    busy = [replace(s, files=5 + 13 * (n % 6 < (2 if n < 80 else 4))) for n, s in enumerate(_over_time())]
    assert judged(busy)["grown"] == []
    leaking = [replace(s, files=s.files + n // 30) for n, s in enumerate(busy)]
    assert judged(leaking)["grown"] == ["files"]


def test_warming_up_is_no_leak() -> None:
    """R11.6: what grows in the first quarter and then stays is a cache that fills."""
    samples = _over_time()
    cold = [replace(sample, memory_bytes=1_000_000) for sample in samples[:30]]
    assert judged(cold + samples[30:])["grown"] == []


def test_the_plot_is_a_picture_of_all_samples(tmp_path: Path) -> None:
    """R11.6: each figure has its own line through all samples, and the same samples give the same picture."""
    plot(_over_time(count=40), tmp_path / "a.svg")
    plot(_over_time(count=40), tmp_path / "b.svg")
    drawn = (tmp_path / "a.svg").read_text()
    assert drawn == (tmp_path / "b.svg").read_text()
    lines = [line for line in re.findall(r'<path d="([^"]*)" clip-path', drawn) if line.count("L") == 39]
    assert len(lines) == 3
