"""One sequence of the storm: events drawn from a seed, and the way back to rest. All that may happen is listed at the end.

Over 300 lines because it is one list: whatever may come from clocks, machines, services, feeds, people and dying processes.
"""

from __future__ import annotations

import random
from collections import Counter
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from blsflow.domain.commands import command_request
from blsflow.domain.execution import CommandKind
from blsflow.domain.policy import ExecutionMode
from blsflow.flow import control, schedules
from blsflow.flow.commands import CommandWithheld
from blsflow.flow.control import NothingToRelease
from blsflow.flow.occurrences import ExecutionTargetUnavailable
from blsflow.flow.requests import KeyConflict
from blsflow.ports.errors import PublishFailed, StoreUnavailable, WorkflowUnavailable
from local.simulators.device_control import DeviceFaults
from local.simulators.profit import ProfitFaults
from tests.integration.scene import Killed, _queue
from tests.integration.state_machine import Stopped
from tests.storm.shortcuts import without_maintenance
from tests.storm.stage import MACHINES, Stage
from tests.storm.tariffs import TARIFFS
from tests.storm.watch import Violation, Watch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

MOST_EVENTS: Final = 7
"""Of a sequence at length, after its first minute."""
_LOGGED: Final = """
select concat_ws(', ', code, coalesce(params ->> 'reason', params ->> 'state')), count(*)
from smart_schedule_log_events group by 1
"""
_TURNS_TO_REST: Final = 14
_TURNS_TO_WAIT: Final = 6
_STEPS: Final[Mapping[str, int]] = {
    "scan": 44, "decide": 13, "execute": 10, "follow": 40, "notify": 4, "sample": 20, "benchmark": 18, "by hand": 12,
}  # fmt: skip
"""How many steps each process has at most, so that it may die at any of them."""

_DEVICE_FAULTS: Final[Sequence[Mapping[str, float]]] = (
    {"busy_rate": 1.0},
    {"error_rate": 1.0},
    {"timeout_before_effect_rate": 1.0},
    {"timeout_after_effect_rate": 1.0},
    {"timeout_before_effect_rate": 0.5, "timeout_after_effect_rate": 0.5},
    {"refusal_rate": 0.5},
    {"failure_rate": 0.5},
    {"does_nothing_rate": 0.6},
    {},
)
_RUN_FAULTS: Final[Sequence[Mapping[str, Any]]] = (
    {"busy_rate": 1.0},
    {"conflict_rate": 1.0},
    {"error_rate": 1.0},
    {"timeout_before_effect_rate": 1.0},
    {"timeout_after_effect_rate": 1.0},
    {"removed": "c1"},
    {"departed": "ana@umbra"},
    {"failure_rate": 1.0},
    {"endless_rate": 1.0, "cancel_sec": 30.0},
    {"lost_completion_rate": 1.0, "lost_completion_sec": 60.0},
    {"forget_rate": 1.0},
    {},
)
_FEED_FAULTS: Final[Sequence[Mapping[str, Any]]] = (
    {"outage": True},
    {"value": "nan"},
    {"value": "minus_one"},
    {"value": "zero", "keys": "B"},
    {"value": "jump", "keys": "A"},
    {"stale": True},
    {"future": True, "keys": "B"},
    {"flagged": True, "keys": "A"},
    {"missing": True, "keys": "B"},
    {},
)
_PRICES: Final = (5.0, 15.0, 30.0, 50.0, 80.0, 120.0)
_JUMPS_SEC: Final = (1, 7, 31, 61, 130, 310, 700, 4000, 20_000)


class TaskFailed(Exception):
    """The process of a state machine's task is gone."""


class Story:
    """A story on a stage; `told` holds its events in order, for whoever has to read it."""

    def __init__(self, stage: Stage, seed: int, *, most_events: int = MOST_EVENTS) -> None:
        self.stage = stage
        self.seed = seed
        self.told: list[str] = []
        self.most_events = most_events
        self._random = random.Random(seed)  # noqa: S311 - repeatable on purpose
        self.messages: dict[str, list[Mapping[str, object]]] = {"decide": [], "execute": []}
        self._crashed = False
        self._happened: Counter[str] = Counter()
        self.watch = Watch(stage)

    def run(self) -> None:
        """Let it happen, and bring it to rest; `Violation` if something that must hold did not."""
        draw = self._random
        self.stage.begin(self.seed, lead=timedelta(minutes=draw.randrange(0, 24 * 60, 10)))
        to_be_measured = draw.random() < 0.15
        if to_be_measured:
            self.stage.lose_benchmark(1, 2)
        for chance, name, event in self._beginnings():
            if draw.random() < chance:
                self._event(name, event)
        self._event("a minute", self._minute)
        if to_be_measured:
            self._event("sampling", self._sample)
        events, weights = zip(*[(each, weight) for weight, each in self._all()], strict=True)
        for _ in range(draw.randint(1, self.most_events)):
            name, event = draw.choices(events, weights)[0]
            self._event(name, event)
        if draw.random() < 0.3:
            self.watch.doctor_is_content(at_rest=False)
        self.come_to_rest()
        self.watch.decisions_are_sound()
        self.watch.what_was_sent_was_allowed()
        self.watch.doctor_is_content(at_rest=True)
        self.watch.told_once(crashed=self._crashed)

    def _event(self, name: str, event: Callable[[], object]) -> None:
        self.stage.forward(1)
        self.told.append(f"{self.stage.now():%d %H:%M:%S} {name}")
        self._happened[f"event: {name}"] += 1
        event()
        self.watch.nothing_is_sent_twice()
        self.watch.what_is_at_work_is_held()

    def _tell(self, detail: str) -> None:
        self.told[-1] += f", {detail}"

    # ------------------------------------------------------------ the product, in processes that may die

    def _in_a_process(self, kind: str, work: Callable[[], object], *, unharmed: bool = False) -> bool:
        """Do it; return whether the process survived and had its say. What it sent is in the queues either way."""
        stage, draw = self.stage, self._random
        fate = 1.0 if unharmed else draw.random()
        if fate >= 0.2:
            self._finish(work())
            self.collect()
            return True
        step, after = draw.randint(1, _STEPS[kind]), draw.random() < 0.5
        plan = stage.storm_plan
        if fate < 0.13:
            plan.arm(dies_at=step, after=after)
        else:
            plan.arm(lost_at=step, after=after)
        try:
            self._finish(work())
        except Killed:
            self._tell(f"killed {'after' if after else 'before'} step {step}: {plan.died_at}")
            self._happened[f"died at: {plan.died_at}"] += 1
        except StoreUnavailable:
            if not plan.lost:
                raise
            self._tell(f"connection lost {'after' if after else 'before'} round trip {step}")
        else:
            return True
        finally:
            self._crashed |= plan.died_at is not None or plan.lost
            plan.arm()
            self.collect()
        return False

    def _finish(self, report: Any) -> None:
        """A report that tells of failures is a failure, unless what it could not reach was away."""
        stage = self.stage
        away = {
            PublishFailed: stage.publisher.refuses or stage.publisher.is_unclear,
            WorkflowUnavailable: stage.states.unavailable,
            StoreUnavailable: stage.storm_plan.lost,
        }
        for error in getattr(report, "failures", {}).values():
            if not away.get(type(error), False):
                raise error

    def collect(self) -> None:
        """Take what was sent: it is in the queue, whatever becomes of who sent it."""
        app = self.stage.app
        for name, queue in (("decide", app.own_decide_queue), ("execute", app.own_execute_queue)):
            _queue(queue).drain(self.messages[name].append)

    def _handle(self, queue: str, message: Mapping[str, object]) -> object:
        app = self.stage.app
        return app.decide(int(str(message["occurrence_id"]))) if queue == "decide" else app.send(message)

    def _deliver(self, queue: str, message: Mapping[str, object], *, unharmed: bool = False) -> None:
        if not self._in_a_process(queue, lambda: self._handle(queue, message), unharmed=unharmed):
            self.messages[queue].append(message)

    def deliver_all(self, *, unharmed: bool = False) -> None:
        """Deliver everything that waits; what its worker died over comes again."""
        for queue in ("decide", "execute"):
            messages, self.messages[queue] = self.messages[queue], []
            for message in messages:
                self._deliver(queue, message, unharmed=unharmed)

    def _scan(self) -> None:
        self._in_a_process("scan", lambda: self.stage.app.tick(budget_sec=10))

    def _follow(self) -> None:
        self._in_a_process("follow", self.stage.reconcile)

    def _minute(self) -> None:
        self.stage.forward(59)
        self.stage.report()
        self._scan()
        self.deliver_all()
        self.stage.forward(12)
        self.stage.report()
        self._follow()

    def _unfollowed(self) -> None:
        """Nobody follows for as long as locks of the unsent live, while prices turn; a machine may not be heard, too."""
        if self._random.random() < 0.5:
            self.stage.silence(self._random.randint(1, MACHINES), silent=True)
        for _ in range(4):
            self._move_on()
            self.stage.forward(170)
            self.stage.report()
            self._scan()
            self.deliver_all()

    def _meanwhile(self) -> None:
        """People change their minds between a decision and its sending."""
        self._move_on()
        self.stage.forward(61)
        self.stage.report()
        self._scan()
        decided, self.messages["decide"] = self.messages["decide"], []
        for message in decided:
            self._deliver("decide", message)
        self.stage.forward(1)
        self._random.choice(
            (
                self._lease_away,
                self._lease_away,
                self._freeze,
                self._freeze,
                self._disable,
                self._mode,
                self._hold,
            )
        )()
        self.stage.forward(1)
        self.deliver_all()

    def _shuffled(self) -> None:
        for messages in self.messages.values():
            self._random.shuffle(messages)
        self.deliver_all()

    def _duplicated(self) -> None:
        for queue, messages in self.messages.items():
            self.messages[queue] = messages * 2
        self.deliver_all()

    def _late(self) -> None:
        """A message comes while another is being delayed beyond what it asks for."""
        for queue, messages in self.messages.items():
            if messages:
                message = messages.pop(self._random.randrange(len(messages)))
                self.stage.forward(self._random.choice((20, 119, 125, 400)))
                self._deliver(queue, message)

    def _lose(self) -> None:
        for messages in self.messages.values():
            del messages[: self._random.randint(0, len(messages))]

    def _notify(self) -> None:
        self._in_a_process("notify", lambda: self.stage.app.notify(budget_sec=5))

    def _sample(self) -> None:
        self.stage.report()
        self._in_a_process("sample", lambda: self.stage.app.sampling(budget_sec=10))
        self.stage.states.before = self._stop_at(self._random.randint(3, 120))
        self.stage.app.__dict__["benchmark"] = self._step_of_a_benchmark
        self.stage.states.run_all()
        del self.stage.app.__dict__["benchmark"]
        self.stage.states.before = lambda _: None

    def _step_of_a_benchmark(self, step: str, **which: Any) -> Any:
        """A step's process may die, which its state machine learns as a failure of the task."""
        taken: list[Any] = []
        self._in_a_process(
            "benchmark", lambda: taken.append(type(self.stage.app).benchmark(self.stage.app, step, **which))
        )
        if not taken:
            raise TaskFailed
        return taken[0]

    def _stop_at(self, state: int) -> Callable[[str], None]:
        left = [state]

        def before(name: str) -> None:
            left[0] -= 1
            if left[0] == 0:
                self._tell(f"execution stopped before {name}")
                raise Stopped

        return before

    # ------------------------------------------------------------ people

    def _policy(self) -> int:
        return self._random.choice((1, 1, 2))

    def _by_hand(self, work: Callable[[], object]) -> None:
        """What a person asks for; a refusal that says why is an answer."""
        with suppress(ExecutionTargetUnavailable, NothingToRelease, KeyConflict, CommandWithheld):
            self._in_a_process("by hand", work)

    def _run_policy(self) -> None:
        policy, request = self._policy(), f"p{self._random.randint(1, 4)}"
        self._by_hand(
            lambda: control.run(
                self.stage.app.store,
                policy,
                request_id=request,
                decide_queue=self.stage.app.decide_queue,
                by="op",
            )
        )
        self.collect()

    def _command(self) -> None:
        """An operator moves machines, with all of the database or as the tenant sees it; some requests come twice."""
        draw, app = self._random, self.stage.app
        action = draw.choice(list(CommandKind))
        machines = draw.sample(range(1, MACHINES + 1), draw.randint(1, MACHINES))
        project = draw.choice((1, 2)) if action in {CommandKind.SWITCH, CommandKind.START} else None
        asked = command_request(action=action, machine_ids=machines, project_id=project, why="storm")
        request, store = (
            f"o{draw.randint(1, 4)}",
            app.store.of_tenant("acme") if draw.random() < 0.5 else None,
        )
        self._tell(f"{action} of {sorted(machines)} as {request}")
        work = partial(app.command, asked, tenant_id="acme", request_id=request, by="op", store=store)
        self._by_hand(work)
        if draw.random() < 0.3:
            self._by_hand(work)

    def _run_conversation(self) -> None:
        schedule, request = self._random.choice((3, 4)), f"c{self._random.randint(1, 4)}"
        self._by_hand(lambda: self.stage.run_now(schedule, request))

    def _cancel(self) -> None:
        open_ones = self.stage.rows(
            "select schedule_id, id from smart_schedule_occurrences order by ended_at is null desc, id desc limit 5"
        )
        if open_ones:
            schedule, occurrence = self._random.choice(open_ones)
            self._tell(f"occurrence {occurrence}")
            self._by_hand(lambda: self.stage.cancel(schedule, occurrence))

    def _freeze(self) -> None:
        policy = self._policy()
        self._by_hand(lambda: control.freeze(self.stage.app.store, policy, by="op", why="storm"))

    def _enable(self) -> None:
        policy = self._policy()
        self._by_hand(lambda: control.enable(self.stage.app.store, policy, by="op", why="storm"))

    def _disable(self) -> None:
        policy = self._policy()
        self._by_hand(lambda: control.disable(self.stage.app.store, policy, by="op", why="storm"))

    def _mode(self) -> None:
        policy, mode = self._policy(), self._random.choice(list(ExecutionMode))
        self._by_hand(lambda: control.set_mode(self.stage.app.store, policy, mode, by="op", why="storm"))

    def _lease(self) -> None:
        self._give_lease(self._random.choice(("blsflow", "legacy")))

    def _lease_away(self) -> None:
        self._give_lease("legacy")

    def _give_lease(self, holder: str) -> None:
        self._tell(holder)
        self._by_hand(
            lambda: control.lease(self.stage.app.store, "acme", holder=holder, by="op", why="storm")
        )
        self.stage.note_lease()

    def _pause(self) -> None:
        schedule, paused = self._random.choice((3, 4)), self._random.random() < 0.5
        self._by_hand(
            lambda: schedules.pause_schedule(self.stage.app.store, schedule, paused=paused, by="test")
        )

    def _hold(self) -> None:
        held = self._random.random() < 0.5
        self.stage.rows(
            f"update machines set operator_hold = {held} where id = {self._random.randint(1, MACHINES)}"
        )

    def _release(self) -> None:
        """An operator closes what has been open for a quarter of an hour."""
        found = self.stage.rows(
            "select id from smart_schedule_attempts where ended_at is null and dispatched_at < now() - interval '15 minutes'"
        )
        for (attempt,) in found:
            self.watch.released.add(str(attempt))
            self._by_hand(
                lambda attempt=attempt: control.release(self.stage.app.store, attempt, by="op", why="storm")  # type: ignore[misc]
            )

    def _give_up(self) -> None:
        """What is begun has no end that anybody could confirm, until an operator closes it."""
        self.stage.device_control.faults.profile = DeviceFaults(hang_sec=0.0, does_nothing_rate=1.0)
        self.stage.faults(endless_rate=1.0)
        self._move_on()
        self._minute()
        self.stage.forward(905)
        self.stage.report()
        self._release()

    # ------------------------------------------------------------ the outside

    def _device_faults(self) -> None:
        faults = self._random.choice(_DEVICE_FAULTS)
        self._tell(str(dict(faults)))
        self._happened.update(f"device control: {each}" for each in faults)
        self.stage.device_control.faults.profile = DeviceFaults(**{"hang_sec": 0.0, **faults})
        if self._random.random() < 0.6:
            self._move_on()

    def _move_on(self) -> None:
        """Have machines somewhere to go: the coin that the first one does not run earns more."""
        prices = sorted(self.stage.prices_now.values())
        other, own = ("A", "B") if self.stage.world.reading(1).project_id == 2 else ("B", "A")
        self._tell(f"{other} earns more")
        self.stage.quote(own, prices[0])
        self.stage.quote(other, prices[1])

    def _at_a_loss(self) -> None:
        action = self._random.choice(("keep", "stop", "power_off"))
        self._tell(action)
        self.stage.rows(
            f"update smart_schedule_policy_groups set negative_profit_action = '{action}' where id = 1"
        )

    def _run_faults(self) -> None:
        faults = self._random.choice(_RUN_FAULTS)
        self._tell(str(dict(faults)))
        self._happened.update(f"execution service: {each}" for each in faults)
        self.stage.faults(**{"run_sec": self._random.choice((5.0, 40.0, 200.0)), **faults})

    def _feed_faults(self) -> None:
        faults = self._random.choice(_FEED_FAULTS)
        self._tell(str(dict(faults)))
        self._happened.update(f"feed: {each}" for each in faults)
        self.stage.feed.faults.profile = ProfitFaults(**faults)

    def _price(self) -> None:
        key, price = self._random.choice("AB"), self._random.choice(_PRICES)
        self._tell(f"{key} earns {price}")
        self.stage.quote(key, price)

    def _jump(self) -> None:
        seconds = self._random.choice(_JUMPS_SEC)
        self._tell(f"{seconds} s")
        self.stage.forward(seconds)
        if self._random.random() < 0.5:
            self.stage.report()

    def _silence(self) -> None:
        machine, silent = self._random.randint(1, MACHINES), self._random.random() < 0.6
        self.stage.silence(machine, silent=silent)

    def _foreign(self) -> None:
        """Somebody else commands a machine."""
        machine = self._random.randint(1, MACHINES)
        kind, project = self._random.choice(
            (("switch", 1), ("switch", 2), ("stop", None), ("power_off", None))
        )
        self._tell(f"{kind} {project} of machine {machine}")
        self.stage.world.command(machine, kind, project)  # type: ignore[arg-type]
        if self._random.random() < 0.5:
            self._minute()

    def _tariff(self) -> None:
        name = self._random.choice(list(TARIFFS))
        self._tell(name)
        self.stage.tariff(name)

    def _lose_benchmark(self) -> None:
        self.stage.lose_benchmark(self._random.randint(1, MACHINES), self._random.choice((1, 2)))

    def _publisher_faults(self) -> None:
        refuses, is_unclear = self._random.choice(((True, False), (False, True), (False, False)))
        self.stage.publisher.refuses, self.stage.publisher.is_unclear = refuses, is_unclear

    def _workflow_faults(self) -> None:
        self.stage.states.unavailable = self._random.random() < 0.6

    # ------------------------------------------------------------ rest

    def come_to_rest(self) -> None:
        """With all faults off, nothing new begun and enough time, everything ends by itself."""
        stage = self.stage
        stage.device_control.faults.profile = DeviceFaults(hang_sec=0.0)
        stage.faults()
        stage.feed.faults.profile = ProfitFaults()
        stage.publisher.refuses = stage.publisher.is_unclear = stage.states.unavailable = False
        for machine in range(1, MACHINES + 1):
            stage.silence(machine, silent=False)
        stage.rows(
            "update smart_schedule_executor_leases set holder = 'blsflow';"
            "update smart_schedule_policy_groups set enabled = false, version = version + 1;"
            "update smart_schedule_schedules set paused = true; update machines set operator_hold = false"
        )
        stage.note_lease()
        for turn in range(_TURNS_TO_REST):
            self.told.append(f"{stage.now():%d %H:%M:%S} to rest, {turn}")
            if turn == _TURNS_TO_WAIT:
                self._switch_on()
            stage.forward(131 if turn % 3 else 5)
            stage.report()
            if turn % 3 == 1:
                self._in_a_process("scan", lambda: stage.app.tick(budget_sec=10), unharmed=True)
            self.deliver_all(unharmed=True)
            with without_maintenance():
                self._in_a_process("follow", stage.reconcile, unharmed=True)
            self.watch.nothing_is_sent_twice()
            self.watch.what_is_at_work_is_held()
            left = self.watch.left()
            kinds = {str(row[0]) for row in left}
            if not kinds:
                return
            if "benchmark run" in kinds:
                self._in_a_process("sample", lambda: stage.app.sampling(budget_sec=10), unharmed=True)
                stage.states.run_all()
            if "notification" in kinds:
                self._in_a_process("notify", lambda: stage.app.notify(budget_sec=5), unharmed=True)
                if not self.watch.left():
                    return
        raise Violation(f"left at rest: {self.watch.left()}")

    def _switch_on(self) -> None:
        """What somebody else switched off says nothing, and would be waited for until an operator gave it up."""
        for machine in range(1, MACHINES + 1):
            if self.stage.world.reading(machine).status == "off":
                self.stage.world.command(machine, "start", 1)

    def counts(self) -> Counter[str]:
        """What happened, for the record of a storm: what the outside saw, what was told in the log, and each event."""
        stage, watch = self.stage, self.watch
        device, runs = stage.device_control, stage.execution
        counted = Counter(
            {
                "events": len(self.told),
                "batches sent": sum(entry.posts for entry in device._ledger.values()),
                "jobs begun": len(device._jobs),
                "machines refused": sum(len(job.refused) for job in device._jobs.values()),
                "machines failed": sum(len(job.failed) for job in device._jobs.values()),
                "prompts sent": sum(entry.posts for entry in runs._ledger.values()),
                "processes killed": sum("killed" in line for line in self.told),
                "connections lost": sum("connection lost" in line for line in self.told),
                "notifications": sum(stage.publisher.published.values()),
                "decisions": watch.decided.total(),
                "moves decided": watch.moves,
                **{f"decided: {what}": times for what, times in watch.decided.items()},
                **{f"passed: {name}": times for name, times in stage.storm_plan.passed.items()},
                **{f"logged: {code}": times for code, times in stage.rows(_LOGGED)},
            }
        )
        stage.storm_plan.passed.clear()
        return counted + self._happened

    def _beginnings(self) -> list[tuple[float, str, Callable[[], object]]]:
        """What may be so before the first minute, which moves more than any other."""
        return [
            (0.5, "device control changes", self._device_faults),
            (0.3, "the execution service changes", self._run_faults),
            (0.15, "the feed changes", self._feed_faults),
            (0.2, "the tariff changes", self._tariff),
            (0.4, "what is done at a loss changes", self._at_a_loss),
            (0.05, "an operator's command", self._command),
        ]

    def _all(self) -> list[tuple[int, tuple[str, Callable[[], object]]]]:
        return [
            (30, ("a minute", self._minute)),
            (10, ("a scan", self._scan)),
            (6, ("all messages", self.deliver_all)),
            (6, ("all messages in another order", self._shuffled)),
            (8, ("all messages twice", self._duplicated)),
            (6, ("a late message", self._late)),
            (3, ("messages are lost", self._lose)),
            (8, ("a follower", self._follow)),
            (10, ("people change their minds", self._meanwhile)),
            (5, ("nobody follows for a while", self._unfollowed)),
            (6, ("notify", self._notify)),
            (6, ("sampling", self._sample)),
            (10, ("device control changes", self._device_faults)),
            (6, ("the execution service changes", self._run_faults)),
            (8, ("the feed changes", self._feed_faults)),
            (12, ("a price changes", self._price)),
            (8, ("the clock jumps", self._jump)),
            (5, ("a machine falls silent or is heard", self._silence)),
            (4, ("a foreign command", self._foreign)),
            (6, ("the tariff changes", self._tariff)),
            (3, ("a benchmark is lost", self._lose_benchmark)),
            (3, ("publishing changes", self._publisher_faults)),
            (2, ("the state machine is away or back", self._workflow_faults)),
            (6, ("an operator's command", self._command)),
            (4, ("a policy is run by hand", self._run_policy)),
            (4, ("a conversation is run by hand", self._run_conversation)),
            (4, ("a cancel", self._cancel)),
            (3, ("a freeze by hand", self._freeze)),
            (4, ("a policy is enabled", self._enable)),
            (2, ("a policy is disabled", self._disable)),
            (2, ("a policy's mode changes", self._mode)),
            (3, ("the lease changes", self._lease)),
            (2, ("a pause or its end", self._pause)),
            (2, ("a hold or its end", self._hold)),
            (3, ("an operator closes what nobody can confirm", self._release)),
            (2, ("an operator gives up", self._give_up)),
        ]


def explain_failure(story: Story, error: BaseException) -> str:
    """Say what happened, and how to see it again."""
    told = "\n".join(f"  {line}" for line in story.told)
    again = f"make storm SEED={story.seed} EVENTS={story.most_events}"
    return f"seed {story.seed}: {type(error).__name__}: {error}\n{told}\n  again: {again}"
