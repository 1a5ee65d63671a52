"""What `blsflow serve` says: a line per round for people, or a JSON object per line for programs."""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from blsflow_cli.options import counted, moment, plain
from blsflow_cli.work import prices_line, reconcile_document, scan_document

if TYPE_CHECKING:
    from collections.abc import Mapping

    from blsflow.domain.catalogue import Language
    from blsflow.flow.converse import ConverseReport
    from blsflow.flow.execute import ExecuteReport
    from blsflow.flow.reconcile import ReconcileReport
    from blsflow.flow.tick import TickReport
    from blsflow.ports.services import NotificationMessage
    from blsflow_cli.work import DecidedTick


@dataclass(kw_only=True, slots=True)
class Round:
    """What one round did; ``scan`` is None when it only followed open work."""

    scan: TickReport | None = None
    ticks: list[DecidedTick] = field(default_factory=list)
    sent: list[ExecuteReport | ConverseReport] = field(default_factory=list)
    followed: ReconcileReport | None = None

    @property
    def is_news(self) -> bool:
        """Whether anything happened that is worth a line."""
        followed = self.followed
        moved = followed is not None and (
            followed.machines_settled
            or followed.ended
            or followed.alerts
            or followed.frozen
            or followed.failures
        )
        return self.scan is not None or bool(self.ticks or self.sent or moved)


class Voice:
    """Writes to standard output, each line at once."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json

    def say(self, event: str, line: str, **fields: object) -> None:
        """Say one thing: the line to people, the event with its fields to programs."""
        now = datetime.now(UTC)
        if self._as_json:
            text = json.dumps({"event": event, "at": now.isoformat()} | plain(fields), ensure_ascii=False)
        else:
            text = f"{moment(now)} {line}"
        sys.stdout.write(text + "\n")
        sys.stdout.flush()

    def round(self, done: Round) -> None:
        """Tell of a round in which anything happened."""
        if not done.is_news:
            return
        scan, followed = done.scan, done.followed
        self.say(
            "round",
            _round_line(done),
            scan=None if scan is None else scan_document(scan),
            ticks=[tick.document() for tick in done.ticks],
            sent=[asdict(each) for each in done.sent],
            followed=None if followed is None else reconcile_document(followed),
        )
        failures = [] if scan is None else list(scan.failures.items())
        for step, error in failures + ([] if followed is None else list(followed.failures.items())):
            self.failed(step, error)

    def failed(self, what: str, error: Exception) -> None:
        """Tell of one thing that failed; the rest went on."""
        cause = f"{type(error).__name__}: {error}"
        self.say("failed", f"{what} failed: {cause}", what=what, cause=cause)


class PrintingPublisher:
    """Notifications go to standard output: the publisher of a deployment without a topic."""

    def __init__(self, voice: Voice, language: Language) -> None:
        self._voice = voice
        self._language = language

    def publish(self, message: NotificationMessage) -> None:
        """Print one."""
        said = message.document["texts"][self._language]  # type: ignore[index] # as notify wrote it
        line = f"NOTIFICATION {message.notification_id} of {message.tenant_id}: {said} ({message.code})"
        body = dict(message.document)
        self._voice.say("notification", line, notification_id=message.notification_id, body=body)


def _round_line(done: Round) -> str:
    parts = []
    if done.scan is not None:
        parts.append(f"prices {prices_line(done.scan)}, {done.scan.recorded} due")
    if done.ticks:
        counts: Counter[str] = Counter()
        for tick in done.ticks:
            counts.update(_by_action(tick.report.counts))
        if counts:
            decided = sum(tick.report.machines for tick in done.ticks)
            parts.append(f"decided {decided} machines: {counted(counts)}")
        undecided = Counter(tick.report.outcome for tick in done.ticks if not tick.report.counts)
        if undecided:
            parts.append(f"ticks without decisions: {counted(undecided)}")
    if done.sent:
        parts.append(f"sent {len(done.sent)}: {counted(Counter(each.outcome for each in done.sent))}")
    if done.followed is not None:
        followed = done.followed
        parts.append(
            f"settled {followed.machines_settled} machines, {followed.ended} ended, {followed.open_attempts} open"
        )
        if followed.alerts:
            parts.append(f"{followed.alerts} cannot be confirmed, see `blsflow attempts`")
    frozen = [tick.report.policy_id for tick in done.ticks if tick.report.frozen_for is not None]
    frozen += [] if done.followed is None else done.followed.frozen
    if frozen:
        parts.append(f"FROZE policy {', '.join(map(str, frozen))}")
    return "; ".join(parts)


def _by_action(counts: Mapping[str, int]) -> Counter[str]:
    actions: Counter[str] = Counter()
    for key, count in counts.items():
        actions[key.partition("/")[0]] += count
    return actions
