"""Whether a machine does what it was told, judged by what it is measured to do (R5.6). Pure.

A success flag of the service and a status word of the firmware are claims: firmwares keep saying "mining"
after a stop, and say yes to commands that they ignore. So only project, hashrate and power count, and only
readings taken after the command was sent. An absent, stale or impossible reading is waited out: it never
confirms and never contradicts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime, timedelta

from blsflow.domain.execution import CommandKind
from blsflow.domain.units import MIN_HASHING_POWER_W

STOPPED_MAX_NAMEPLATE_SHARE = 0.3
STOPPED_MAX_POWER_W = 100.0
"""What a stopped machine's fans and controller may draw where the nameplate is unknown."""
OFF_MAX_POWER_W = 20.0
SILENT_WITHOUT_POWER = timedelta(seconds=60)
"""How much younger than a machine's last report the meter's reading must be to outweigh it."""
CLOCK_SKEW = timedelta(seconds=30)
"""How far ahead of ours a reading's clock may be."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Observed:
    """A machine's newest report and newest power reading; None or NaN is unknown.

    `status` is the firmware's word for it, kept for the record and never judged.
    """

    project_id: int | None
    status: str | None
    hashrate_hs: float | None
    reported_at: datetime | None
    power_w: float | None
    power_at: datetime | None
    nameplate_power_w: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Confirmed:
    """The machine does what it was told."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Contradicted:
    """The machine does something else, by a reading taken at `seen_at`. It may still be on its way."""

    reason: str
    seen_at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class Waiting:
    """Not known yet; `reason` names the reading that is missing."""

    reason: str


Confirmation = Confirmed | Contradicted | Waiting


@dataclass(frozen=True, kw_only=True, slots=True)
class _Readings:
    """The readings that count; a figure is None, like its time, if it was unusable."""

    project_id: int | None
    hashrate_hs: float | None
    reported_at: datetime
    power_w: float | None
    power_at: datetime
    nameplate_power_w: float | None


def confirm(  # noqa: PLR0913 - every reading and every clock is an argument
    kind: CommandKind,
    target_project_id: int | None,
    observed: Observed | None,
    *,
    not_before: datetime,
    now: datetime,
    report_max_age_sec: float,
) -> Confirmation:
    """Judge the newest readings of a machine that was sent a command at `not_before`.

    A switch or start is confirmed by hashing on the target project while drawing at least 10 W; a stop by a
    hashrate of 0 and a draw below 30 % of the nameplate (100 W if that is unknown); a power-off by a draw
    below 20 W, unless it reported to be hashing within a minute of that. Readings count if taken after
    `not_before`, at most `report_max_age_sec` ago and at most 30 s ahead.
    """
    if observed is None:
        return Waiting(reason="no_report")
    oldest = max(not_before, now - timedelta(seconds=report_max_age_sec))
    reported = _counts(observed.reported_at, not_before, oldest, now)
    measured = _counts(observed.power_at, not_before, oldest, now)
    readings = _Readings(
        project_id=observed.project_id if reported else None,
        hashrate_hs=_figure(observed.hashrate_hs) if reported else None,
        reported_at=observed.reported_at or not_before,
        power_w=_figure(observed.power_w) if measured else None,
        power_at=observed.power_at or not_before,
        nameplate_power_w=_figure(observed.nameplate_power_w) or None,
    )
    match kind:
        case CommandKind.SWITCH | CommandKind.START:
            return _mining(readings, target_project_id)
        case CommandKind.STOP:
            return _stopped(readings)
        case CommandKind.POWER_OFF:
            return _off(readings)


def _mining(readings: _Readings, target_project_id: int | None) -> Confirmation:
    if readings.hashrate_hs is None:
        return Waiting(reason="no_hashrate")
    if readings.hashrate_hs == 0:
        return Contradicted(reason="not_hashing", seen_at=readings.reported_at)
    if readings.project_id is None or target_project_id is None:
        return Waiting(reason="no_project")
    if readings.project_id != target_project_id:
        return Contradicted(reason="another_project", seen_at=readings.reported_at)
    if readings.power_w is None or readings.power_w < MIN_HASHING_POWER_W:
        return Waiting(reason="no_power")
    return Confirmed()


def _stopped(readings: _Readings) -> Confirmation:
    if readings.hashrate_hs is None:
        return Waiting(reason="no_hashrate")
    if readings.hashrate_hs > 0:
        return Contradicted(reason="still_hashing", seen_at=readings.reported_at)
    if readings.power_w is None:
        return Waiting(reason="no_power")
    nameplate_w = readings.nameplate_power_w
    limit_w = STOPPED_MAX_POWER_W if nameplate_w is None else STOPPED_MAX_NAMEPLATE_SHARE * nameplate_w
    if readings.power_w >= limit_w:
        return Contradicted(reason="still_drawing_power", seen_at=readings.power_at)
    return Confirmed()


def _off(readings: _Readings) -> Confirmation:
    """Judge by the meter, since a machine without power reports nothing; but one that hashes is not off.

    Its last words may have been of hashing: they stop to count once the meter has shown no draw for a while longer
    than machines are silent.
    """
    hashing = readings.hashrate_hs is not None and readings.hashrate_hs > 0
    if readings.power_w is None:
        if hashing:
            return Contradicted(reason="still_hashing", seen_at=readings.reported_at)
        return Waiting(reason="no_power")
    if readings.power_w >= OFF_MAX_POWER_W:
        return Contradicted(reason="still_drawing_power", seen_at=readings.power_at)
    if hashing and readings.power_at - readings.reported_at < SILENT_WITHOUT_POWER:
        return Contradicted(reason="still_hashing", seen_at=readings.reported_at)
    return Confirmed()


def _counts(at: datetime | None, not_before: datetime, oldest: datetime, now: datetime) -> bool:
    return at is not None and at > not_before and oldest <= at <= now + CLOCK_SKEW


def _figure(value: float | None) -> float | None:
    """Return the figure unless it is unknown or impossible (NaN, infinite, negative)."""
    return value if value is not None and math.isfinite(value) and value >= 0 else None
