"""`blsflow serve`: the whole loop in one process, without AWS.

One thread does one thing at a time: scan when it is time, decide, send, follow, tell. Nothing is kept here that the
database does not have: a process that dies loses messages, whose rows the next scan finds.
"""

from __future__ import annotations

import signal
import threading
import time
from typing import TYPE_CHECKING, Final

from blsflow.adapters.inline import InlineQueue
from blsflow.flow.notify import notify
from blsflow.ports.errors import StoreError, StoreUnavailable
from blsflow_cli.deployment import deployment
from blsflow_cli.offline import JsonOption  # noqa: TC001 - typer reads the annotations
from blsflow_cli.options import Lang, Language
from blsflow_cli.serve_voice import PrintingPublisher, Round, Voice
from blsflow_cli.work import DecidedTick, unsent_messages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import typer

    from blsflow.bootstrap import Application
    from blsflow.domain import catalogue
    from blsflow.flow.notify import NotifyReport
    from blsflow.settings import Settings

_SCAN_BUDGET_SEC: Final = 40
_FOLLOW_BUDGET_SEC: Final = 10
_FOLLOW_EVERY_SEC: Final = 2.0
_TRIES: Final = 3
_LONGEST_WAIT_SEC: Final = 30.0


def serve(*, lang: Language = Lang.EN, as_json: JsonOption = False) -> None:
    """Tick, decide, execute and reconcile in this process until SIGTERM or SIGINT; needs nothing of AWS.

    It scans every TICK_INTERVAL_SEC, and follows open work every few seconds. Notifications are printed unless
    BLSFLOW_SCHEDULER_NOTIFICATION_TOPIC_ARN names a topic. It survives a restart of the database.
    When told to stop it begins no further scan, finishes what is in flight, closes the database, and exits with 0.

    For example:

        TICK_INTERVAL_SEC=30 blsflow serve

        blsflow serve --json | jq -c 'select(.event == "round")'
    """
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    voice = Voice(as_json=as_json)
    decide_queue, execute_queue = InlineQueue(), InlineQueue()
    with deployment(own_queues=(decide_queue, execute_queue)) as application:
        server = Server(application, decide_queue, execute_queue, voice, stopping, lang.value)
        server.run()
    voice.say("stopped", "stopped; what is open is followed when this runs again")


class Server:
    """The loop: `run` returns once it was told to stop and nothing is in flight any more."""

    def __init__(  # noqa: PLR0913, PLR0917 - the parts of the loop
        self,
        application: Application,
        decide_queue: InlineQueue,
        execute_queue: InlineQueue,
        voice: Voice,
        stopping: threading.Event,
        language: catalogue.Language,
    ) -> None:
        self._application = application
        self._decide_queue = decide_queue
        self._execute_queue = execute_queue
        self._voice = voice
        self._stopping = stopping
        self._open_attempts = 0
        self._took_over = False
        self._publisher = PrintingPublisher(voice, language)

    def run(self) -> None:
        """Go round until told to stop; a database that is away is waited for, longer each time."""
        interval_sec = self._application.settings.tick_interval_sec
        self._voice.say("started", f"serving; a scan every {interval_sec} s", tick_interval_sec=interval_sec)
        for name, consequence in _lacking(self._application.settings):
            self._voice.say("lacking", f"{name} is not set, or unusable: {consequence}", setting=name)
        next_scan = time.monotonic()
        lost_at: float | None = None
        wait_sec = 1.0
        while not self._stopping.is_set():
            now = time.monotonic()
            due = now >= next_scan
            try:
                self._go_round(scan=due)
            except StoreUnavailable as error:
                lost_at = lost_at or now
                self._voice.say(
                    "database_lost",
                    f"the database does not answer ({error}); trying again in {wait_sec:.0f} s",
                    cause=str(error),
                    retry_in_sec=wait_sec,
                )
                self._stopping.wait(wait_sec)
                wait_sec = min(_LONGEST_WAIT_SEC, 2 * wait_sec)
                continue
            except Exception as error:  # noqa: BLE001 - a round that fails is said, and the next one is another
                self._voice.failed("round", error)
            if lost_at is not None:
                away_sec = time.monotonic() - lost_at
                self._voice.say(
                    "database_back", f"the database is back after {away_sec:.0f} s", away_sec=away_sec
                )
                lost_at, wait_sec = None, 1.0
            if due:  # nothing is caught up: a round that took longer than the interval is followed by one, not by many
                next_scan = max(next_scan + interval_sec, time.monotonic())
            pause_sec = next_scan - time.monotonic()
            self._stopping.wait(
                max(0.0, min(pause_sec, _FOLLOW_EVERY_SEC) if self._open_attempts else pause_sec)
            )

    def _go_round(self, *, scan: bool) -> None:
        done = Round()
        if not self._took_over:  # what an earlier process prepared or recorded, and did not send
            self._execute_queue.send(unsent_messages(self._application))
            self._took_over = True
        if scan:
            done.scan = self._application.tick(budget_sec=_SCAN_BUDGET_SEC)
            _raise_if_lost(done.scan.failures)
        self._deliver(self._decide_queue, "decide", lambda message: self._decide(message, done))
        self._deliver(self._execute_queue, "execute", lambda message: self._execute(message, done))
        if self._stopping.is_set():
            self._voice.round(done)
            return
        done.followed = self._application.reconcile(budget_sec=_FOLLOW_BUDGET_SEC)
        self._open_attempts = done.followed.open_attempts
        _raise_if_lost(done.followed.failures)
        self._voice.round(done)
        for notification_id, error in self._notify().failures.items():
            self._voice.failed(f"notification {notification_id}", error)

    def _decide(self, message: Mapping[str, object], done: Round) -> None:
        occurrence_id = int(str(message["occurrence_id"]))
        report = self._application.decide(occurrence_id)
        done.ticks.append(DecidedTick(occurrence_id=occurrence_id, report=report))

    def _execute(self, message: Mapping[str, object], done: Round) -> None:
        done.sent.append(self._application.send(message))

    def _notify(self) -> NotifyReport:
        if self._application.settings.notification_topic_arn is not None:
            return self._application.notify(budget_sec=_FOLLOW_BUDGET_SEC)
        return notify(
            self._application.store,
            publisher=self._publisher,
            time_left=lambda: not self._stopping.is_set(),
        )

    def _deliver(self, queue: InlineQueue, verb: str, handle: Callable[[Mapping[str, object]], None]) -> None:
        """Hand over every message by itself until told to stop; one that keeps failing is said, and leaves its row behind.

        Without a database nothing is lost: the message waits for the next round.
        """

        def take(message: Mapping[str, object]) -> None:
            if self._stopping.is_set():
                return
            try:
                _persistently(lambda: handle(message))
            except StoreUnavailable:
                queue.send([message])
                raise
            except Exception as error:  # noqa: BLE001 - whatever is wrong with one message stays with it
                self._voice.failed(f"{verb} {dict(message)}", error)

        queue.drain(take)


def _persistently(work: Callable[[], None]) -> None:
    """Do it again when a race was lost, a few times."""
    for _ in range(_TRIES - 1):
        try:
            work()
        except StoreUnavailable:
            raise
        except StoreError as error:
            if not error.retryable:
                raise
        else:
            return
    work()


def _lacking(settings: Settings) -> Iterator[tuple[str, str]]:
    """Name the settings without which nothing will be decided, or sent, for good reasons that show much later."""
    if settings.usdt_to_cny_rate is None:
        yield "USDT_TO_CNY_RATE", "no price is known, and policies by profit freeze"
    if not settings.feed_configured():
        yield (
            "BLSFLOW_SCHEDULER_PROFIT_API_BASE_URL",
            "no price is read, and policies by profit freeze; BLSFLOW_SCHEDULER_PROFIT_FEED names other sources",
        )
    if not settings.executor_configured():
        yield "BLSFLOW_SCHEDULER_SWITCH_API_BASE_URL", "no command can be sent"


def _raise_if_lost(failures: Mapping[str, Exception]) -> None:
    """A step that failed for want of the database speaks for all of them."""
    for error in failures.values():
        if isinstance(error, StoreUnavailable):
            raise error


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    app.command()(serve)
