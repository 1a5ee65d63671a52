"""A small fleet in a real database, with simulated services over real HTTP and a clock that a test can move.

The clock is a schema whose ``now()`` is found before PostgreSQL's own: every statement of the product then lives at the
moved time, and so do the simulators. A crash is an exception at a chosen round trip to the database, with the connection cut.
"""

from __future__ import annotations

import contextlib
import itertools
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote
from uuid import UUID

import pg8000.native

from blsflow.adapters.inline import InlineQueue
from blsflow.adapters.postgres.connection import Session
from blsflow.adapters.postgres.doctor import examine
from blsflow.adapters.postgres.store import PostgresStore
from blsflow.bootstrap import Application, application_from
from local.simulators.device_control import DeviceControlSimulator
from local.simulators.telemetry import read_machines, write_telemetry
from local.simulators.web import Served
from local.simulators.world import World

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from io import RawIOBase

    from blsflow.adapters.postgres.address import DatabaseAddress

TOKEN = "t"
HASHRATE_HS = 1e14
POWER_W = 3000.0
COIN_A, COIN_B = 1, 2
"""Two projects; B earns more than A unless a test says otherwise."""

_CLOCK = """
create schema clock;
create table clock.lead (by interval not null);
insert into clock.lead values ('0');
create function clock.now() returns timestamptz stable language sql
    as 'select pg_catalog.now() + (select by from clock.lead)';
grant usage on schema clock to public;
grant select on clock.lead to public;
"""

_FLEET = """
insert into clusters values (1, 'acme', 'site', 'Asia/Shanghai');
insert into cluster_tariffs (id, cluster_id, name) values (1, 1, 'flat');
insert into cluster_tariff_periods (id, tariff_id, name, starts, ends, price_per_kwh)
    values (1, 1, 'flat', '00:00', '24:00', 0.3);
insert into machine_models values ('S21', 'SHA-256', 1e14, 3000);
insert into projects values
    (1, 'acme', 'coin A', 'A', 'A', 'SHA-256'), (2, 'acme', 'coin B', 'B', 'B', 'SHA-256');
insert into project_run_configurations values (11, 1, 'S21', true), (12, 2, 'S21', true);
insert into smart_schedule_resource_eligibilities values
    ('acme', 1, 'cluster', '1', true), ('acme', 2, 'cluster', '1', true);
insert into smart_schedule_executor_leases (tenant_id, holder, changed_by) values ('acme', 'blsflow', 'test');
insert into smart_schedule_policy_groups
    (tenant_id, name, mode, execution_mode, enabled, created_by, min_dwell_sec, switch_cost_sec, negative_profit_action)
    values ('acme', 'guard', 'profit_guard', 'execute', true, 'test', 0, 60, 'stop');
insert into smart_schedule_policy_scopes values (1, 'cluster', '1');
insert into smart_schedule_policy_candidates (policy_id, project_id, position) values (1, 1, 0), (1, 2, 1);
insert into smart_schedule_schedules (tenant_id, created_by, kind, policy_id, rule, next_run_at)
    values ('acme', 'test', 'policy_tick', 1, '{"kind": "interval", "every_sec": 60}', now());
"""


class Killed(BaseException):
    """The process died here; nothing catches it but the test."""


class CrashPlan:
    """Dies at the n-th step of a run, before it or after it; steps are round trips, sends and outside calls."""

    def __init__(self, at: int | None = None, *, after: bool = False) -> None:
        self.at = at
        self.after = after
        self.steps = 0
        self.died_at: str | None = None

    def step(self, name: str, work: Callable[[], Any]) -> Any:
        """Do the step unless the plan says to die before it; die after it if the plan says so."""
        self.steps += 1
        dies = self.steps == self.at
        if dies:
            self.died_at = name
        if dies and not self.after:
            raise Killed(name)
        result = work()
        if dies:
            raise Killed(name)
        return result


class CrashingSession(Session):
    """A session whose process may die at any round trip; its connection is cut, as a dead process's is."""

    def __init__(self, address: DatabaseAddress, plan: CrashPlan) -> None:
        super().__init__(address)
        self._plan = plan

    def query_text(self, sql: str, /, **params: object) -> list[dict[str, Any]]:
        """Run a statement, or die at it."""
        result: list[dict[str, Any]] = self._guarded(
            sql[:60], lambda: super(CrashingSession, self).query_text(sql, **params)
        )
        return result

    def run(self, sql: str) -> list[list[Any]]:
        """Run text, or die at it."""
        result: list[list[Any]] = self._guarded(sql, lambda: super(CrashingSession, self).run(sql))
        return result

    def stream(self, statement: str, sink: Callable[[list[bytes]], None], /, **params: object) -> None:
        """Stream a statement's rows, or die at it."""
        self._guarded(statement, lambda: super(CrashingSession, self).stream(statement, sink, **params))

    def copy(self, sql: str, stream: RawIOBase | Iterable[bytes]) -> None:
        """Copy, or die at it."""
        self._guarded(sql[:40], lambda: super(CrashingSession, self).copy(sql, stream))

    def _guarded(self, name: str, work: Callable[[], Any]) -> Any:
        if self._plan.died_at is not None:
            raise Killed(self._plan.died_at)
        try:
            return self._plan.step(name, work)
        except Killed:
            self.close()
            raise


class CrashingQueue(InlineQueue):
    """A queue whose sender may die before or after its messages are taken."""

    def __init__(self, plan: CrashPlan) -> None:
        super().__init__()
        self._plan = plan

    def send(self, messages: Sequence[Mapping[str, object]]) -> None:
        """Enqueue, or die at it."""
        self._plan.step("send", lambda: super(CrashingQueue, self).send(messages))


class Scene:
    """One policy over a few machines that mine coin A, in a site with one flat price."""

    def __init__(self, address: DatabaseAddress, *, machines: int = 6, ramp_sec: float = 5.0) -> None:
        self.lead = timedelta()
        with contextlib.closing(Session(address)) as admin:
            admin.run(_CLOCK)
            admin.run(f"alter database {address.dbname} set search_path = clock, pg_catalog, public")
        self.address = replace(address)
        self.session = Session(self.address)
        self.session.run(_FLEET)
        self.session.run(
            f"""
            insert into machines select g, 'acme', 1, 'S21', 'm' || g, false from generate_series(1, {machines}) g;
            insert into machine_mining_runtime
                select g, 'mining', 1, 1e14, now() - interval '1 day', now() from generate_series(1, {machines}) g;
            insert into metric_powers select g, now(), 3000 from generate_series(1, {machines}) g;
            insert into smart_schedule_machine_project_benchmarks
                (machine_id, project_id, hashrate_hs, power_w, sampled_at)
                select g, p, 1e14, 3000, now() from generate_series(1, {machines}) g, generate_series(1, 2) p
            """
        )
        self._driver = pg8000.native.Connection(
            user=address.user,
            host=address.host,
            port=address.port,
            database=address.dbname,
            password=address.password,
        )
        self.world = World(read_machines(self._driver), ramp_sec=ramp_sec, now=self.now)
        self.device_control = DeviceControlSimulator(self.world, token=TOKEN)
        self._served = Served(self.device_control)
        self.plan = CrashPlan()
        self.app = self.start()
        self.price(COIN_A, 50.0)
        self.price(COIN_B, 80.0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.app.store.close()
        self._served.close()
        self._driver.close()
        self.session.close()

    # ------------------------------------------------------------ the product

    def start(self, plan: CrashPlan | None = None, **settings: str) -> Application:
        """Start a process of the product anew, with empty queues; an earlier one is gone."""
        self.plan = plan or CrashPlan()
        self.app = self.process(self.plan, **settings)
        return self.app

    def process(self, plan: CrashPlan | None = None, **settings: str) -> Application:
        """Return a further process of the product beside the scene's own."""
        own = plan or CrashPlan()
        a = self.address
        app = application_from(
            {
                "BLSFLOW_SCHEDULER_DATABASE_URL": f"postgresql://{a.user}:{quote(a.password)}@{a.host}:{a.port}/{a.dbname}",
                "BLSFLOW_SCHEDULER_DATABASE_TLS": "off",
                "BLSFLOW_SCHEDULER_EXECUTE_ENABLED": "true",
                "BLSFLOW_SCHEDULER_SWITCH_API_BASE_URL": self._served.url,
                "BLSFLOW_SCHEDULER_SWITCH_API_TOKEN": TOKEN,
                "BLSFLOW_SCHEDULER_SWITCH_API_TIMEOUT_SEC": "1",
                "USDT_TO_CNY_RATE": "1",
                **settings,
            }
        )
        app.own_decide_queue, app.own_execute_queue = CrashingQueue(own), CrashingQueue(own)
        app.__dict__["store"] = PostgresStore(lambda: CrashingSession(self.address, own))
        control = app.device_control
        if control is not None:
            app.__dict__["device_control"] = _CrashingControl(control, own)
        return app

    def tick(self) -> None:
        """Scan once, as the tick function does."""
        report = self.app.tick(budget_sec=10)
        for error in report.failures.values():
            raise error

    def decide(self) -> list[Any]:
        """Decide everything that waits in the decide queue."""
        reports: list[Any] = []
        _queue(self.app.decide_queue).drain(
            lambda m: reports.append(self.app.decide(int(str(m["occurrence_id"]))))
        )
        return reports

    def execute(self) -> list[Any]:
        """Send everything that waits in the execute queue."""
        reports: list[Any] = []
        _queue(self.app.execute_queue).drain(
            lambda m: reports.append(self.app.execute(UUID(str(m["attempt_id"]))))
        )
        return reports

    def reconcile(self) -> Any:
        """Follow open attempts once."""
        return self.app.reconcile(budget_sec=10)

    def round(self) -> None:
        """One whole round: scan, decide, send, let the machines obey, follow."""
        self.tick()
        self.decide()
        self.execute()
        self.forward(20)
        self.report()
        self.reconcile()
        self.forward(5)
        self.reconcile()

    # ------------------------------------------------------------ the outside

    def now(self) -> datetime:
        """The moved time."""
        return datetime.now(UTC) + self.lead

    def forward(self, seconds: float) -> None:
        """Let time pass, for the database and the simulators alike; reports and prices grow old with it."""
        self.lead += timedelta(seconds=seconds)
        self.session.run(f"update clock.lead set by = '{self.lead.total_seconds()} seconds'")

    def report(self) -> None:
        """Have every machine report what it does now."""
        write_telemetry(self._driver, self.world)

    def price(self, project: int, cny_per_day: float, *, age_sec: float = 0) -> None:
        """Read a price: what a machine earns a day with this project."""
        self.session.run(
            f"""insert into smart_schedule_profit_readings
                values ('{"AB"[project - 1]}', 'SHA-256', now() - interval '{age_sec} seconds', now(), 'test',
                        '{cny_per_day / HASHRATE_HS!r}', 'H/s', 'USDT', '{{}}')"""
        )

    def prices(self, a: float = 50.0, b: float = 80.0) -> None:
        """Read both prices anew."""
        self.price(COIN_A, a)
        self.price(COIN_B, b)

    def due(self) -> None:
        """Make the policy due now."""
        self.session.run("update smart_schedule_schedules set next_run_at = now()")

    # ------------------------------------------------------------ what is there

    def rows(self, sql: str) -> list[list[Any]]:
        """Ask the database."""
        return self.session.run(sql)

    def value(self, sql: str) -> Any:
        """Ask the database for one value."""
        return self.session.run(sql)[0][0]

    def decisions(self) -> dict[str, int]:
        """Count the newest tick's decisions by action and reason."""
        found = self.rows(
            "select action || '/' || reason, count(*) from smart_schedule_machine_decisions"
            " where tick_id = (select max(id) from smart_schedule_ticks) group by 1"
        )
        return {str(key): int(count) for key, count in found}

    def posts(self) -> list[int]:
        """How often each key was posted to device control."""
        return [entry.posts for entry in self.device_control._ledger.values()]

    def findings(self) -> dict[str, list[Mapping[str, Any]]]:
        """What doctor finds, by the name of the check."""
        found = examine(self.session, patience=timedelta(minutes=15))
        return {finding.name: list(finding.violations) for finding in found if finding.violations}


class _CrashingControl:
    """Device control whose caller may die before or after the call."""

    def __init__(self, control: Any, plan: CrashPlan) -> None:
        self._control = control
        self._plan = plan

    def submit(self, command: Any) -> Any:
        return self._plan.step("submit", lambda: self._control.submit(command))

    def read_back(self, **identity: Any) -> Any:
        return self._control.read_back(**identity)


def _queue(queue: Any) -> InlineQueue:
    assert isinstance(queue, InlineQueue)
    return queue


def every_crash() -> itertools.chain[CrashPlan]:
    """Plans that die before and after every step in turn; the caller stops when a run survives its plan."""
    return itertools.chain.from_iterable((CrashPlan(n), CrashPlan(n, after=True)) for n in itertools.count(1))
