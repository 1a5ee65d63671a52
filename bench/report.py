"""The figures of each part, kept in ``bench/results.json``, and docs/performance.md, which is written from them."""

from __future__ import annotations

import json
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from local.plots import Plot, draw
from local.stack.postgres import installed_binaries

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bench.measuring import Row

_REPOSITORY: Final = Path(__file__).resolve().parents[1]
_RESULTS: Final = Path(__file__).with_name("results.json")
_DOCUMENT: Final = _REPOSITORY / "docs" / "performance.md"
_PICTURES: Final = Path(__file__).with_name("results")
_SOAK: Final = _PICTURES / "soak.json"
_NOTES: Final = Path(__file__).with_name("notes.md")
_HEAD: Final = """\
# Performance

Written by `make bench`; `make bench PARTS="tick locks"` renews those parts only. Every figure stands beside a yardstick
that was measured in the same run, in rounds that alternate: trust the ratios, not the seconds. The yardsticks are in
`bench/yardsticks/`: each is the quickest way found to do the bare work alone. Shown are the medians of at least five
rounds after one that is thrown away, and in brackets the least and the most.

"""
_SOAK_TEXT: Final = """\

## Soak

`make soak`: `blsflow serve` with PostgreSQL and the simulators, each in a process of its own, {machines:,} machines, a scan
every {scan_every_sec} s, tariffs that turn every half minute. {minutes:g} minutes on {at} ({cores} cores): {ticks:,} ticks,
{attempts:,} attempts. Of what is to be flat, the mean of memory and the least of the others were compared between the
second and the last third of the time after warming up, what waits between the first and the last. {verdict}

| | before | after |
|---|---|---|
{seen}

![memory, open attempts, connections](../bench/results/soak.svg)
"""


def keep(part: str, rows: Sequence[Row]) -> None:
    """Put a part's rows in the place of its earlier ones."""
    results = _read()
    results[part] = {
        "measured_at": datetime.now(UTC).isoformat(timespec="minutes"),
        "environment": _environment(),
        "rows": [row.as_document() for row in rows],
    }
    _RESULTS.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")


def write(order: Sequence[str]) -> None:
    """Write the document from what is kept, in the order of the parts."""
    kept = _read()
    results = {part: kept[part] for part in order if part in kept}
    lines = ["| work | yardstick | to reach | measured | |", "|---|---|---|---|---|"]
    for part in results.values():
        lines += [_line(row) for row in part["rows"]]
    notes = [
        f"| {row['work']} | {row['yardstick']} | {'; '.join(f'{k}: {v}' for k, v in row['figures'].items())} |"
        for part in results.values()
        for row in part["rows"]
        if row["figures"]
    ]
    measured = [
        f"| {name} | {part['measured_at']} | {', '.join(f'{k} {v}' for k, v in part['environment'].items())} |"
        for name, part in results.items()
    ]
    _DOCUMENT.write_text(
        _HEAD
        + "\n".join(lines)
        + "\n\n## What the ratios are made of\n\n| work | yardstick | figures |\n|---|---|---|\n"
        + "\n".join(notes)
        + "\n\n## Where and when\n\n| part | at | on |\n|---|---|---|\n"
        + "\n".join(measured)
        + "\n"
        + (f"\n{remarks}" if (remarks := _NOTES.read_text()) else "")
        + _pictures(row["plot"] for part in results.values() for row in part["rows"] if row.get("plot"))
        + _soak()
    )


def _pictures(plots: Iterable[dict[str, Any]]) -> str:
    """Draw each and show it."""
    lines = []
    for document in plots:
        plot = Plot(**document)
        draw(plot, _PICTURES / f"{plot.name}.svg")
        lines.append(f"![{plot.label}](../bench/results/{plot.name}.svg)\n")
    return "\n## In pictures\n\n" + "\n".join(lines) if lines else ""


def _soak() -> str:
    """What the last soak came to."""
    if not _SOAK.exists():
        return ""
    result = json.loads(_SOAK.read_text())
    wrong = [*result["grown"], *result["doctor"], *(["exit code"] if result["exit_code"] else [])]
    verdict = f"**Wrong: {', '.join(map(str, wrong))}.**" if wrong else "Nothing grew; `doctor` was clean."
    seen = [
        f"| {name.replace('_', ' ')} | {s['before']:,} | {s['after']:,} |"
        for name, s in result["seen"].items()
    ]
    return _SOAK_TEXT.format(**(result | {"verdict": verdict, "seen": "\n".join(seen)}))


def _line(row: dict[str, Any]) -> str:
    bound = row["bound"]
    reach = (
        "-"
        if bound is None
        else f"at {'least' if bound['at_least'] else 'most'} {bound['limit']:g} {row['unit']}"
    )
    met = "" if bound is None else "yes" if row["met"] else "**no**"
    value = f"{row['value']:.3g} {row['unit']} ({row['low']:.3g} - {row['high']:.3g})"
    return f"| {row['work']} | {row['yardstick']} | {reach} | {value} | {met} |"


def _read() -> dict[str, Any]:
    results: dict[str, Any] = json.loads(_RESULTS.read_text()) if _RESULTS.exists() else {}
    return results


def _environment() -> dict[str, str]:
    postgres = subprocess.run(
        [str(installed_binaries() / "postgres"), "--version"], capture_output=True, text=True, check=True
    )
    return {
        "processor": _processor(),
        "Python": platform.python_version(),
        "PostgreSQL": postgres.stdout.split()[-1],
        "pg8000": version("pg8000"),
        "psycopg": version("psycopg"),
    }


def _processor() -> str:
    """Its model and how many cores there are, as Linux says."""
    info = Path("/proc/cpuinfo")
    text = info.read_text() if info.exists() else ""
    models = [line.split(":", 1)[1].strip() for line in text.splitlines() if line.startswith("model name")]
    return f"{models[0] if models else platform.machine()} x {len(models) or 1}"
