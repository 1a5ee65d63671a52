"""The storm's stage: one database that is set back to its beginning in milliseconds, and the outside world around it.

Each sequence begins at the same instant with the same fleet, prices and services, so that a seed is a story that can be told
again. What the outside really did is kept by the simulators; what it showed at which time is kept here.
"""

from __future__ import annotations

import math
from collections import Counter
from contextlib import ExitStack, closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from blsflow.adapters.postgres.connection import Session
from blsflow.adapters.postgres.store import PostgresStore
from blsflow.ports.errors import PublishFailed, StoreUnavailable
from local.fleet.projects import Coin
from local.simulators.device_control import DeviceControlSimulator
from local.simulators.execution_service import ExecutionServiceSimulator
from local.simulators.profit import PriceWalk, ProfitFaults, ProfitSimulator
from local.simulators.telemetry import read_machines
from local.simulators.web import Served
from local.simulators.world import World
from tests.integration.conversing import CONVERSATIONS, RUN_SEC, TARGET
from tests.integration.lab import QUICK
from tests.integration.scene import HASHRATE_HS, TOKEN, CrashingSession, CrashPlan, Killed, _queue
from tests.integration.standing import StandingScene
from tests.integration.state_machine import StateMachine
from tests.storm.shortcuts import Beginnings, Prepared, shortcuts
from tests.storm.tariffs import ZONE, periods, price_at

if TYPE_CHECKING:
    from collections.abc import Callable

    from blsflow.adapters.postgres.address import DatabaseAddress
    from blsflow.bootstrap import Application
    from blsflow.ports.services import NotificationMessage

BEGINNING: Final = datetime(2030, 1, 7, tzinfo=UTC)
"""A Monday in a future that no test reaches, so that a seed tells the same story whenever it is told."""
MACHINES: Final = 4
REPORT_SEC: Final = 600
TELLINGS: Final = 50
"""No sequence of faults has a notification go out so often."""

_FLEET: Final = f"""
insert into clusters values (1, 'acme', 'site', '{ZONE}');
insert into cluster_tariffs (id, cluster_id, name) values (1, 1, 'flat');
insert into machine_models values ('S21', 'SHA-256', 1e14, 3000);
insert into projects values
    (1, 'acme', 'coin A', 'A', 'A', 'SHA-256'), (2, 'acme', 'coin B', 'B', 'B', 'SHA-256');
insert into project_run_configurations values (11, 1, 'S21', true), (12, 2, 'S21', true);
insert into smart_schedule_resource_eligibilities values
    ('acme', 1, 'cluster', '1', true), ('acme', 2, 'cluster', '1', true);
insert into smart_schedule_executor_leases (tenant_id, holder, changed_by)
    values ('acme', 'blsflow', 'storm'), ('umbra', 'blsflow', 'storm');
insert into smart_schedule_policy_groups
    (tenant_id, name, mode, execution_mode, enabled, created_by, min_dwell_sec, switch_cost_sec, negative_profit_action,
     max_failed_share)
    values ('acme', 'guard', 'profit_guard', 'execute', true, 'storm', 0, 60, 'stop', 1),
           ('acme', 'window', 'time_window', 'execute', true, 'storm', 0, 60, 'keep', 1);
insert into smart_schedule_policy_scopes values (1, 'cluster', '1'), (2, 'machine', '{MACHINES}');
insert into smart_schedule_policy_candidates (policy_id, project_id, position) values (1, 1, 0), (1, 2, 1);
insert into smart_schedule_policy_windows (policy_id, starts, ends, action, project_id)
    values (2, '01:00', '03:00', 'stop', null), (2, '03:00', '05:00', 'start', 2), (2, '06:00', '08:00', 'run_project', 1);
insert into smart_schedule_schedules (tenant_id, created_by, kind, policy_id, rule, next_run_at)
    values ('acme', 'storm', 'policy_tick', 1, '{{"kind": "interval", "every_sec": 60}}', now()),
           ('acme', 'storm', 'policy_tick', 2, '{{"kind": "interval", "every_sec": 180}}', now());
insert into smart_schedule_schedules (tenant_id, created_by, kind, work, rule, next_run_at)
    select tenant, 'ana@' || tenant, 'conversation',
           jsonb_build_object('target', '{TARGET}', 'conversation_id', conversation, 'prompt', 'what changed?'),
           jsonb_build_object('kind', 'interval', 'every_sec', every), now()
    from (values ('acme', 'c1', 120), ('umbra', 'c2', 240)) as talks (tenant, conversation, every);
insert into machines select g, 'acme', 1, 'S21', 'm' || g, false from generate_series(1, {MACHINES}) g;
insert into machine_mining_runtime
    select g, 'mining', 1, 1e14, now() - interval '1 day', now() from generate_series(1, {MACHINES}) g;
insert into metric_powers select g, now(), 3000 from generate_series(1, {MACHINES}) g;
insert into smart_schedule_machine_project_benchmarks (machine_id, project_id, hashrate_hs, power_w, sampled_at)
    select g, p, 1e14, 3000, now() from generate_series(1, {MACHINES}) g, generate_series(1, 2) p;
{periods("flat")};
"""

_TABLES: Final = """
select 'delete from ' || c.oid::regclass from pg_class c join pg_namespace n on n.oid = c.relnamespace
where n.nspname = 'public' and c.relkind in ('r', 'p') and not c.relispartition and c.relname <> 'smart_schedule_migrations'
order by 1
"""
_SEQUENCES: Final = """
select format('perform setval(%L, 1, false)', c.oid::regclass) from pg_class c join pg_namespace n on n.oid = c.relnamespace
where n.nspname = 'public' and c.relkind = 'S' order by 1
"""
_AND_NOW: Final = "; select now()"
"""How the product ends the beginning of a transaction."""
_FUNCTION: Final = (
    "create function clock.{name}() returns void language plpgsql as $storm$ begin {does}; end $storm$"
)


class StormPlan(CrashPlan):
    """What goes wrong next: the process dies at a step, or its connection breaks at a round trip; or nothing does.

    With ``after`` the step was done, and only its answer is lost.
    """

    def __init__(self) -> None:
        super().__init__()
        self.trips_left = 0
        self.lost = False
        self.passed: Counter[str] = Counter()

    def step(self, name: str, work: Callable[[], Any]) -> Any:
        """Do the step unless the plan says to die before it; count it."""
        self.passed[name] += 1
        return super().step(name, work)

    def arm(self, *, dies_at: int | None = None, lost_at: int = 0, after: bool = False) -> None:
        """Let it happen at that step from now, once; without a number nothing happens."""
        self.steps, self.at, self.after, self.died_at = 0, dies_at, after, None
        self.trips_left, self.lost = lost_at, False

    def loses(self) -> bool:
        """Whether the connection breaks at this round trip."""
        self.trips_left -= 1
        self.lost |= self.trips_left == 0
        return self.trips_left == 0


class StormSession(CrashingSession):
    """A session whose process may die, or whose connection may break, at any round trip.

    The server rolls back what a dead process or a broken connection leaves open. Here this is done on the same connection,
    whose prepared statements would cost a hundred times the time of a sequence to make again.
    """

    _plan: StormPlan

    def __init__(self, address: DatabaseAddress, plan: StormPlan, now: Callable[[], datetime]) -> None:
        super().__init__(address, plan)
        self._now = now
        self._statement = ""
        self._beginnings = Beginnings(self._connection)

    def run(self, sql: str) -> list[list[Any]]:
        """Run text, or die at it; the beginning of a transaction goes out with its first statement."""
        if not sql.endswith(_AND_NOW):
            return super().run(sql)
        begun: list[list[Any]] = self._guarded(sql, lambda: self._begin(sql.removesuffix(_AND_NOW)))
        return begun

    def query(self, statement: str, /, **params: object) -> list[dict[str, Any]]:
        """Run a named statement, or die at it: under its name, and at the commit after it under that."""
        self._statement = statement
        return super().query(statement, **params)

    def stream(self, statement: str, sink: Callable[[list[bytes]], None], /, **params: object) -> None:
        """Stream a named statement's rows, or die at it, likewise."""
        self._statement = statement
        super().stream(statement, sink, **params)

    def _begin(self, sql: str) -> list[list[Any]]:
        self._beginnings.send(sql)
        return [[self._now()]]

    def _guarded(self, text: str, work: Any) -> Any:
        plan, name = self._plan, self._point(text)
        if plan.died_at is not None:
            raise Killed(plan.died_at)
        if plan.loses():
            if plan.after:
                work()
            self.close()
            raise StoreUnavailable(f"the connection broke at {name!r}")
        try:
            return plan.step(name, work)
        except Killed:
            self.close()
            raise

    def _point(self, text: str) -> str:
        """Where in the product a round trip is: the statement's name, or what else it is."""
        match text.split(maxsplit=2)[0]:
            case "commit":
                return f"commit after {self._statement}"
            case "begin" | "rollback" as ends:
                return ends
            case "copy":
                return " ".join(text.split(maxsplit=2)[:2])
            case _:
                return self._statement

    retired = False

    def close(self) -> None:
        """Leave nothing open, as the server would; close in earnest once it is retired."""
        if self.retired:
            super().close()
        else:
            Session.run(self, "rollback")


class Publisher:
    """Takes every notification, and keeps how often each came; it may refuse, or take one and not say so."""

    def __init__(self) -> None:
        self.published: dict[int, int] = {}
        self.refuses = self.is_unclear = False
        self.was_unclear = False

    def publish(self, message: NotificationMessage) -> None:
        """Keep it."""
        assert message.subject
        assert message.document["notification_id"] == message.notification_id
        if self.refuses:
            raise PublishFailed("simulated")
        self.published[message.notification_id] = self.published.get(message.notification_id, 0) + 1
        assert self.published[message.notification_id] <= TELLINGS, "published over and over"
        if self.is_unclear:
            self.was_unclear = True
            raise PublishFailed("simulated, after it went out")


class Stage(StandingScene):
    """Four machines of one tenant under two policies, two conversations of two tenants, a price feed; a clock that stands."""

    def __init__(self, address: DatabaseAddress) -> None:
        self.lead = timedelta()
        self.prices_now = {"A": 50.0, "B": 80.0}
        self.feed = ProfitSimulator(self._walk(1))
        self._served_feed = Served(self.feed)
        self.states = StateMachine(self)
        self.publisher = Publisher()
        with closing(Session(address)) as admin:
            admin.run(f"alter database {address.dbname} set plan_cache_mode = force_generic_plan")
        super().__init__(address, policy_rests=False)
        self._shortcuts = ExitStack()
        self._shortcuts.enter_context(shortcuts(self._served, self._served_execution, self._served_feed))
        self._driver = Prepared(self._driver)
        # Changing the role forgets the plans of a session, so that this one does nothing else.
        self._emptying = Session(self.address)
        self._emptying.run("set session_replication_role = replica")
        self._sessions = (self.session, self._driver)
        self.stand_at(BEGINNING)
        emptying = ";".join(str(row[0]) for row in (*self.rows(_TABLES), *self.rows(_SEQUENCES)))
        self.session.run(_FUNCTION.format(name="empty", does=emptying))
        self.session.run(_FUNCTION.format(name="fill", does=_FLEET.strip().removesuffix(";")))
        self.rows("select smart_schedule_maintain_partitions(now(), 7, 90)")

    def __exit__(self, *error: object) -> None:
        self._storm_session.retired = True
        super().__exit__(*error)
        self._shortcuts.close()
        self._emptying.close()
        self._served_feed.close()

    def process(self, plan: CrashPlan | None = None, **settings: str) -> Application:
        """A process of the product that also reads the feed, publishes, and has the state machine beside it."""
        own = self.storm_plan = plan if isinstance(plan, StormPlan) else StormPlan()
        feed = {"BLSFLOW_SCHEDULER_PROFIT_API_BASE_URL": self._served_feed.url}
        app = super().process(own, **{**QUICK, **feed, **settings})
        session = self._storm_session = StormSession(self.address, own, self.now)
        app.__dict__["store"] = PostgresStore(lambda: session)
        app.__dict__["workflow"] = self.states
        app.__dict__["publisher"] = self.publisher
        return app

    # ------------------------------------------------------------ beginning anew

    def begin(self, seed: int, *, lead: timedelta) -> None:
        """Set everything back to the beginning, ``lead`` into the first day; a process that is there lives on."""
        self.lead = lead
        self._set_clocks()
        self._emptying.run("select clock.empty()")
        self.session.run("select clock.fill()")
        self.world = World(read_machines(self._driver), ramp_sec=5.0, seed=seed, now=self.now)
        self.device_control = DeviceControlSimulator(self.world, token=TOKEN, seed=seed)
        self._served._server.service = self.device_control
        self.execution = ExecutionServiceSimulator(
            token=TOKEN, run_sec=RUN_SEC, seed=seed, catalogue={TARGET: CONVERSATIONS}, now=self.now
        )
        self._served_execution._server.service = self.execution
        self.faults()
        self.prices_now = {"A": 50.0, "B": 80.0}
        self.feed.faults.profile = ProfitFaults()
        self.feed._walk = self._walk(seed)
        self.states = self.app.__dict__["workflow"] = StateMachine(self)
        self.publisher = self.app.__dict__["publisher"] = Publisher()
        self.heard: list[tuple[datetime, frozenset[int]]] = [(self.now(), frozenset(range(1, MACHINES + 1)))]
        self.tariffs = [(self.now(), "flat")]
        self.lost_benchmarks: list[tuple[datetime, int, int]] = []
        self.leased_away: list[tuple[datetime, datetime]] = []
        self._away_since: datetime | None = None

    def stand_at(self, beginning: datetime) -> None:
        """Let the clock stand there, ``lead`` later: at the time that each session is told, which plans take in."""
        self.began_at = beginning
        self._set_clocks()
        for name in ("now", "clock_timestamp"):
            self.session.run(
                f"create or replace function clock.{name}() returns timestamptz stable language sql"
                " as $$select current_setting('storm.now')::timestamptz$$"
            )

    def forward(self, seconds: float) -> None:
        """Let time pass, for the database and the simulators alike."""
        self.lead += timedelta(seconds=seconds)
        self._set_clocks()

    def tell_newcomers(self) -> None:
        """Have what connects from now on live at the present time."""
        self.session.run(f"alter database {self.address.dbname} set storm.now = '{self.now().isoformat()}'")

    def _set_clocks(self) -> None:
        now = f"set storm.now = '{self.now().isoformat()}'"
        for session in self._sessions:
            session.run(now)
        Session.run(self._storm_session, now)

    # ------------------------------------------------------------ the outside

    def report(self) -> None:
        """Have every machine that is heard report; remember which ones were."""
        super().report()
        silent = {each for each in range(1, MACHINES + 1) if self.world.is_silent(each)}
        self.heard.append((self.now(), frozenset(range(1, MACHINES + 1)) - silent))

    def silence(self, machine_id: int, *, silent: bool) -> None:
        """Have a machine fall silent, or be heard again."""
        state = self.world._states[machine_id]
        state.machine = replace(state.machine, silent=silent)

    def quote(self, key: str, cny_per_day: float) -> None:
        """From now on a machine earns this much a day with this coin."""
        self.prices_now[key] = cny_per_day
        self.feed._walk.coins = self._coins()

    def tariff(self, name: str) -> None:
        """From now on the site has this one of `TARIFFS`."""
        self.tariffs.append((self.now(), name))
        self.rows(periods(name))

    def lose_benchmark(self, machine_id: int, project_id: int) -> None:
        """A machine's benchmark on a project is gone."""
        self.lost_benchmarks.append((self.now(), machine_id, project_id))
        self.rows(
            "delete from smart_schedule_machine_project_benchmarks"
            f" where machine_id = {machine_id} and project_id = {project_id}"
        )

    def note_lease(self) -> None:
        """Remember since when, or until when, another system holds the lease."""
        away = self.value(
            "select holder <> 'blsflow' from smart_schedule_executor_leases where tenant_id = 'acme'"
        )
        if away and self._away_since is None:
            self._away_since = self.now()
        elif not away and self._away_since is not None:
            self.leased_away.append((self._away_since, self.now()))
            self._away_since = None

    def recover(self) -> None:
        """Go on after a story that broke off: nothing is armed, and nothing left open."""
        self.storm_plan.arm()
        self._storm_session.close()
        for queue in (self.app.own_decide_queue, self.app.own_execute_queue):
            _queue(queue).drain(lambda _: None)

    # ------------------------------------------------------------ what was known when

    def was_heard(self, machine_id: int, at: datetime) -> bool:
        """Whether the machine had reported lately."""
        return any(
            0 <= (at - when).total_seconds() <= REPORT_SEC and machine_id in which
            for when, which in self.heard
        )

    def was_measured(self, machine_id: int, project_id: int, at: datetime) -> bool:
        """Whether the machine's benchmark on the project was there for sure; once lost, it may have come again."""
        return all(
            (machine_id, project_id) != (machine, project) or at < since
            for since, machine, project in self.lost_benchmarks
        )

    def tariff_price(self, at: datetime) -> float | None:
        """What a kilowatt hour really cost, None where nobody could know."""
        return price_at(next(name for since, name in reversed(self.tariffs) if since <= at), at)

    def price_was_known(self, key: str, at: datetime) -> bool:
        """Whether the newest stored reading is one that a person would believe, by what the feed really sent."""
        found = self.rows(
            f"""select revenue, taken_at, flags from smart_schedule_profit_readings
                where price_key = '{key}' and received_at <= '{at.isoformat()}' order by received_at desc limit 1"""
        )
        if not found:
            return False
        revenue, taken_at, flags = found[0]
        age_sec = (at - taken_at).total_seconds()
        return (
            revenue is not None
            and math.isfinite(revenue)
            and revenue > 0
            and not flags
            and -30 <= age_sec <= 300
        )

    def _walk(self, seed: int) -> PriceWalk:
        return PriceWalk(self._coins(), seed=seed, now=lambda: self.now())  # noqa: PLW0108 - bound before there is a clock

    def _coins(self) -> tuple[Coin, ...]:
        return tuple(
            Coin(
                key=key,
                name=f"coin {key}",
                algorithm="SHA-256",
                revenue_usdt_per_hs_day=cny / HASHRATE_HS,
                price_usdt=1.0,
                block_time_sec=600,
                block_reward=1.0,
            )
            for key, cny in self.prices_now.items()
        )
