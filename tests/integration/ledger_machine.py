"""What may come to the ledger, as a state machine: rules for all that happens, invariants for what always holds.

Longer than other modules, since rules and invariants of one machine are one class.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
)

from blsflow.domain.history import HistoryQuery
from blsflow.domain.occurrence import OCCURRENCE_STEPS, OccurrenceState
from blsflow.flow import control, schedules
from blsflow.flow.occurrences import ExecutionTargetUnavailable
from tests.integration.conversing import ALERT_SEC, EVERY_MINUTE, LOST_SENDER_SEC
from tests.integration.scene import CrashPlan, Killed, _queue

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.integration.standing import StandingScene

_SCHEDULES: tuple[tuple[str, str, Mapping[str, object]], ...] = (
    ("acme", "c1", EVERY_MINUTE),
    ("acme", "c2", {"kind": "daily", "time_of_day": "02:30", "time_zone": "America/New_York"}),
    ("umbra", "c3", {"kind": "interval", "every_sec": 150, "time_zone": "UTC"}),
    ("umbra", "c4", {"kind": "cron", "expression": "*/2 * * * *", "time_zone": "Asia/Kathmandu"}),
)
_FAULTS: tuple[dict[str, Any], ...] = (
    {},
    {"busy_rate": 1.0},
    {"removed": "c1,c3"},
    {"departed": "ana@acme"},
    {"timeout_before_effect_rate": 1.0},
    {"timeout_after_effect_rate": 1.0},
    {"error_rate": 1.0},
    {"conflict_rate": 1.0},
    {"failure_rate": 1.0},
    {"endless_rate": 0.5, "cancel_sec": 30.0},
    {"lost_completion_rate": 0.5},
)

_RECORD_STEPS = """
create table clock.steps (occurrence_id bigint, was text, is_now text, reason text);
create function clock.record_step() returns trigger language plpgsql as $$
begin
    insert into clock.steps values (new.id, old.state, new.state, new.reason);
    return null;
end $$;
create trigger zz_record_step after update of state on smart_schedule_occurrences
    for each row when (old.state is distinct from new.state or old.reason is distinct from new.reason)
    execute function clock.record_step();
"""

_CRASHES = st.none() | st.none() | st.tuples(st.integers(1, 24), st.booleans())
_PICK = st.integers(0, 1000)


class Ledger(RuleBasedStateMachine):
    """Queues that outlive processes, processes that die, people and a service that do as they like, a clock that jumps."""

    def __init__(self, scene: StandingScene) -> None:
        super().__init__()
        self.scene = scene
        scene.stand()
        self.messages: list[Mapping[str, object]] = []
        scene.session.run(_RECORD_STEPS)
        self.schedules = [
            scene.schedule(conversation, tenant=tenant, rule=rule)
            for tenant, conversation, rule in _SCHEDULES
        ]

    # ------------------------------------------------------------ what the product does

    @rule(minutes=st.integers(1, 3), crash=_CRASHES)
    def minute_by_minute(self, minutes: int, crash: tuple[int, bool] | None) -> None:
        """What happens most: scans each minute, their messages, and followers in between; it may die in the last."""
        for left in reversed(range(minutes)):
            self.scene.forward(30)
            self.follow(None)
            self.scene.forward(30)
            self.scan(None if left else crash)
            self.deliver_all(None)

    @rule(crash=_CRASHES)
    def scan(self, crash: tuple[int, bool] | None) -> None:
        """A scan, which may die anywhere."""
        self._in_a_process(crash, self.scene.tick)

    @precondition(lambda self: self.messages)
    @rule(pick=_PICK, copies=st.integers(0, 2), crash=_CRASHES)
    def deliver(self, pick: int, copies: int, crash: tuple[int, bool] | None) -> None:
        """A message, in any order, once or three times; it is delivered again if its worker died."""
        message = self.messages.pop(pick % len(self.messages))
        for _ in range(copies + 1):
            if not self._in_a_process(crash, lambda: self.scene.app.send(message)):
                self.messages.append(message)

    @rule(crash=_CRASHES)
    def deliver_all(self, crash: tuple[int, bool] | None) -> None:
        """Everything that waits."""
        messages, self.messages = self.messages, []
        for message in messages:
            if not self._in_a_process(crash, lambda message=message: self.scene.app.send(message)):  # type: ignore[misc]
                self.messages.append(message)

    @precondition(lambda self: self.messages)
    @rule(pick=_PICK)
    def lose(self, pick: int) -> None:
        """A message is lost."""
        self.messages.pop(pick % len(self.messages))

    @rule(crash=_CRASHES)
    def follow(self, crash: tuple[int, bool] | None) -> None:
        """A pass of reconcile."""
        self._in_a_process(crash, self.scene.reconcile)

    # ------------------------------------------------------------ what people do

    @rule(pick=_PICK, request=st.integers(1, 9), crash=_CRASHES)
    def run_now(self, pick: int, request: int, crash: tuple[int, bool] | None) -> None:
        """A manual run, new or asked for again."""

        def run() -> None:
            with suppress(ExecutionTargetUnavailable):
                self.scene.run_now(self._schedule(pick), f"r{request}")

        self._in_a_process(crash, run)

    @rule(pick=_PICK, crash=_CRASHES)
    def cancel(self, pick: int, crash: tuple[int, bool] | None) -> None:
        """A cancel of what may be open, or has just ended."""
        found = self._recent(pick)
        if found is not None:
            self._in_a_process(crash, lambda: self.scene.cancel(*found))

    @precondition(lambda self: self.messages)
    @rule(pick=_PICK, other=st.sampled_from(["cancel", "cancel", "outlive", "edit", "scan", "follow"]))
    def start_while(self, pick: int, other: str) -> None:
        """Something else happens between a start and the writing down of its answer."""
        message = self.messages.pop(pick % len(self.messages))
        service = self.scene.app.__dict__["execution_service"]
        start = service.start

        def start_then(command: Any) -> Any:
            outcome = start(command)
            service.start = start
            occurrence = int(str(message["occurrence_id"]))
            schedule = self.scene.value(
                f"select schedule_id from smart_schedule_occurrences where id = {occurrence}"
            )
            {
                "cancel": lambda: self.scene.cancel(schedule, occurrence),
                "outlive": self._outlive_sender,
                "edit": lambda: self._edit(schedule),
                "scan": self.scene.tick,
                "follow": self.scene.reconcile,
            }[other]()
            return outcome

        service.start = start_then
        self.scene.app.send(message)
        service.start = start
        self._collect()

    @rule(pick=_PICK, paused=st.sampled_from([True, False, False]))
    def pause(self, pick: int, paused: bool) -> None:  # noqa: FBT001 - drawn
        """A pause or its end."""
        schedules.pause_schedule(self.scene.app.store, self._schedule(pick), paused=paused, by="test")

    @rule(pick=_PICK)
    def edit(self, pick: int) -> None:
        """A change of what a schedule says."""
        self._edit(self._schedule(pick))

    @precondition(lambda self: self._open_sec() > ALERT_SEC)
    @rule()
    def close_by_hand(self) -> None:
        """An operator closes what has been open for long."""
        self._close("running", "reconciling", "cancelling")

    # ------------------------------------------------------------ the outside

    @rule(faults=st.sampled_from(_FAULTS), run_sec=st.sampled_from([5.0, 40.0, 200.0]))
    def misbehave(self, faults: dict[str, Any], run_sec: float) -> None:
        """The service is as it is from now on."""
        self.scene.faults(**{"run_sec": run_sec, **faults})

    @rule(seconds=st.sampled_from([1, 7, 30, 61, 61, 61, 150, 400, 4000, 90_000]))
    def pass_time(self, seconds: int) -> None:
        """The clock jumps ahead."""
        self.scene.forward(seconds)
        self.scene.session.run("select smart_schedule_maintain_partitions(now(), 7, 90)")

    # ------------------------------------------------------------ what always holds

    @invariant()
    def one_occurrence_of_a_schedule_is_active(self) -> None:
        """R8.4."""
        assert (
            self.scene.rows(
                "select schedule_id from smart_schedule_occurrences"
                " where state in ('running', 'reconciling', 'cancelling') group by 1 having count(*) > 1"
            )
            == []
        )

    @invariant()
    def each_planned_time_is_recorded_once(self) -> None:
        """R8.3."""
        assert (
            self.scene.rows(
                "select schedule_id, planned_at from smart_schedule_occurrences where origin = 'planned'"
                " group by 1, 2 having count(*) > 1"
            )
            == []
        )

    @invariant()
    def no_start_is_sent_twice(self) -> None:
        """R5.3."""
        assert [entry for entry in self.scene.ledger() if entry["posts"] > 1] == []

    @invariant()
    def no_slot_is_freed_before_its_run_has_ended(self) -> None:
        """R8.4, R8.8: unless an operator said so."""
        ended = dict(
            self.scene.rows(
                "select a.idempotency_key, o.state from smart_schedule_occurrences o"
                " join smart_schedule_attempts a on a.occurrence_id = o.id"
                " where o.ended_at is not null and o.reason is distinct from 'closed_by_operator'"
            )
        )
        for entry in self.scene.ledger():
            if entry["starts"] and entry["key"] in ended:
                assert entry["ended"] == ended[entry["key"]]

    @invariant()
    def an_end_is_its_attempts_end(self) -> None:
        """R8.7: occurrence and attempt end together."""
        assert (
            self.scene.rows(
                "select o.id, o.state, a.state from smart_schedule_attempts a"
                " join smart_schedule_occurrences o on o.id = a.occurrence_id"
                " where (o.ended_at is null) <> (a.ended_at is null)"
                " or (o.ended_at is not null and o.state <> a.state)"
            )
            == []
        )

    def teardown(self) -> None:
        """With faults off and enough time, everything comes to its end, and what happened on the way was allowed."""
        self.scene.faults()
        for schedule in self.schedules:
            schedules.pause_schedule(self.scene.app.store, schedule, paused=True, by="test")
        for _ in range(5):
            self.scene.forward(LOST_SENDER_SEC)
            self.scene.tick()
            self._collect()
            self.deliver_all(None)
            self.scene.reconcile()
        for check in (
            self.one_occurrence_of_a_schedule_is_active,
            self.no_start_is_sent_twice,
            self.no_slot_is_freed_before_its_run_has_ended,
            self.an_end_is_its_attempts_end,
        ):
            check()
        assert self.scene.findings() == {}
        left = "select state, origin from smart_schedule_occurrences where ended_at is null"
        assert [row for row in self.scene.rows(left) if row != ["recorded", "manual"]] == []
        self._every_step_was_allowed()
        self._history_is_whole()

    def _every_step_was_allowed(self) -> None:
        """R8.7: by the table of states; an end, with its reason, is the last of its occurrence's steps."""
        for occurrence, was, is_now, _ in self.scene.rows("select * from clock.steps"):
            allowed = OCCURRENCE_STEPS[OccurrenceState(was)]
            assert OccurrenceState(is_now) in allowed, f"{occurrence}: {was} to {is_now}"

    def _history_is_whole(self) -> None:
        """R8.12: pages show every record once."""
        for tenant in ("acme", "umbra"):
            pages = self.scene.pages(HistoryQuery(tenant_id=tenant, limit=7))
            shown = Counter(row.occurrence_id for page in pages for row in page)
            there = self.scene.rows(f"select id from smart_schedule_occurrences where tenant_id = '{tenant}'")
            assert shown == Counter(each for (each,) in there)

    # ------------------------------------------------------------ how

    def _in_a_process(self, crash: tuple[int, bool] | None, work: Callable[[], object]) -> bool:
        """Do it, in a process that dies at the given step if there is one; return whether it survived."""
        scene = self.scene
        if crash is None:
            work()
            self._collect()
            return True
        self._collect()
        scene.app.store.close()
        scene.start(CrashPlan(crash[0], after=crash[1]))
        try:
            work()
        except Killed:
            return False
        else:
            return True
        finally:
            self._collect()
            scene.app.store.close()
            scene.start()

    def _collect(self) -> None:
        """What was sent is in the queue, whatever becomes of who sent it."""
        _queue(self.scene.app.execute_queue).drain(self.messages.append)

    def _schedule(self, pick: int) -> int:
        return self.schedules[pick % len(self.schedules)]

    def _recent(self, pick: int) -> tuple[int, int] | None:
        rows = self.scene.rows(
            "select schedule_id, id from smart_schedule_occurrences"
            " order by ended_at is null desc, ended_at desc, id desc limit 6"
        )
        return tuple(rows[pick % len(rows)]) if rows else None

    def _edit(self, schedule: int) -> None:
        ((version, rule_, zone),) = self.scene.rows(
            f"select version, rule, time_zone from smart_schedule_schedules where id = {schedule}"
        )
        conversation = _SCHEDULES[self.schedules.index(schedule)][1]
        schedules.change_schedule(
            self.scene.app.store,
            schedule,
            version=version,
            name=f"version {version}",
            work={"target": "analyst", "conversation_id": conversation, "prompt": f"version {version}"},
            rule={**rule_, "time_zone": zone},
            by="test",
            runs_as="test",
        )

    def _open_sec(self) -> float:
        """How long the oldest attempt has been open."""
        age = "select coalesce(extract(epoch from now() - min(dispatched_at)), 0)::float8"
        oldest: float = self.scene.value(f"{age} from smart_schedule_attempts where ended_at is null")
        return oldest

    def _outlive_sender(self) -> None:
        """A start takes longer than any sender lives: it is read back, and closed by hand, before its answer comes."""
        self.scene.forward(LOST_SENDER_SEC)
        self.scene.reconcile()
        self._close("running", "reconciling", "cancelling")

    def _close(self, *states: str) -> None:
        wanted = ", ".join(f"'{state}'" for state in states)
        attempts = self.scene.rows(
            f"select id from smart_schedule_attempts where state in ({wanted}) "
            " order by dispatched_at, idempotency_key limit 1"
        )
        for (attempt,) in attempts:
            control.release(self.scene.app.store, attempt, by="op", why="drawn")
