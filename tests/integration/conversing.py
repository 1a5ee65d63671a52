"""Scheduled conversations beside the scene's fleet: the simulated execution service over real HTTP, on the same clock."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from blsflow.domain.history import HistoryQuery, decode_cursor
from blsflow.flow import occurrences, schedules
from local.simulators.execution_runs import ExecutionFaults
from local.simulators.execution_service import ExecutionServiceSimulator
from local.simulators.web import Served
from tests.integration.scene import TOKEN, CrashPlan, Scene, _queue

if TYPE_CHECKING:
    from collections.abc import Mapping

    from blsflow.adapters.postgres.address import DatabaseAddress
    from blsflow.bootstrap import Application
    from blsflow.ports.people import Cancelled, OccurrenceRow, RequestedRun

TARGET: Final = "analyst"
CONVERSATIONS: Final = tuple(f"c{number}" for number in range(1, 9))
EVERY_MINUTE: Final = {"kind": "interval", "every_sec": 60, "time_zone": "UTC"}
RUN_SEC: Final = 20.0

LOST_SENDER_SEC: Final = 125
"""Longer than a sender can live, after which what it began is only read back."""
ALERT_SEC: Final = 905
"""Longer than an attempt may stay open before people are told."""


class ConversationScene(Scene):
    """A scene whose policy rests, with two tenants whose schedules hold conversations of `RUN_SEC`."""

    def __init__(self, address: DatabaseAddress, *, policy_rests: bool = True) -> None:
        self.execution = ExecutionServiceSimulator(
            token=TOKEN,
            run_sec=RUN_SEC,
            catalogue={TARGET: CONVERSATIONS},
            now=lambda: self.now(),  # noqa: PLW0108 - bound before there is a clock
        )
        self._served_execution = Served(self.execution)
        super().__init__(address, machines=2)
        self.session.run(
            "insert into smart_schedule_executor_leases (tenant_id, holder, changed_by)"
            " values ('umbra', 'blsflow', 'test')"
        )
        if policy_rests:
            self.session.run(
                "update smart_schedule_policy_groups set enabled = false;"
                "update smart_schedule_schedules set paused = true"
            )

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        self._served_execution.close()

    def process(self, plan: CrashPlan | None = None, **settings: str) -> Application:
        """A process that also reaches the execution service, and may die at a start."""
        own = plan or CrashPlan()
        execution = {
            "BLSFLOW_SCHEDULER_EXECUTION_API_BASE_URL": self._served_execution.url,
            "BLSFLOW_SCHEDULER_EXECUTION_API_TOKEN": TOKEN,
        }
        app = super().process(own, **{**execution, **settings})
        service = app.execution_service
        if service is not None:
            app.__dict__["execution_service"] = _CrashingService(service, own)
        return app

    # ------------------------------------------------------------ the product

    def schedule(
        self,
        conversation: str = "c1",
        *,
        tenant: str = "acme",
        rule: Mapping[str, object] = EVERY_MINUTE,
        target: str = TARGET,
        prompt: str = "what changed?",
    ) -> int:
        """Create a schedule of a conversation and return its id."""
        created = schedules.create_schedule(
            self.app.store,
            tenant_id=tenant,
            created_by=f"ana@{tenant}",
            name=f"talk in {conversation}",
            work={"target": target, "conversation_id": conversation, "prompt": prompt},
            rule=rule,
            by="test",
        )
        return created.schedule_id

    def change(self, schedule_id: int, *, prompt: str, version: int = 1) -> None:
        """Edit a schedule's prompt."""
        schedules.change_schedule(
            self.app.store,
            schedule_id,
            version=version,
            name="edited",
            work={"target": TARGET, "conversation_id": "c1", "prompt": prompt},
            rule=EVERY_MINUTE,
            by="test",
            runs_as="test",
        )

    def execute(self) -> list[Any]:
        """Send everything that waits in the execute queue: batches and prompts."""
        reports: list[Any] = []
        _queue(self.app.execute_queue).drain(lambda message: reports.append(self.app.send(message)))
        return reports

    def converse(self) -> list[str]:
        """Scan once and send every prompt that is waiting; return what each came to."""
        self.tick()
        return [report.outcome for report in self.execute()]

    def minute(self) -> list[str]:
        """Let a minute pass, then scan and send."""
        self.forward(60)
        return self.converse()

    def reach(self, schedule_id: int, *, late_sec: float = 1) -> None:
        """Let time pass until shortly after a schedule's next planned time."""
        planned = self.value(f"select next_run_at from smart_schedule_schedules where id = {schedule_id}")
        self.forward((planned - self.now()).total_seconds() + late_sec)

    def later(self, seconds: float) -> Any:
        """Let time pass, then follow what is open once."""
        self.forward(seconds)
        return self.reconcile()

    def run_now(self, schedule_id: int, request_id: str, *, tenant: str | None = None) -> RequestedRun:
        """Run a conversation by hand."""
        return occurrences.run_schedule(
            self.app.store,
            schedule_id,
            request_id=request_id,
            by="op",
            converse=self.app.converse,
            tenant_id=tenant,
        )

    def cancel(self, schedule_id: int, occurrence_id: int, *, tenant: str | None = None) -> Cancelled:
        """Cancel an occurrence by hand."""
        return occurrences.cancel_occurrence(
            self.app.store,
            schedule_id,
            occurrence_id,
            by="op",
            execution_service=self.app.execution_service,
            tenant_id=tenant,
        )

    def pages(self, query: HistoryQuery) -> list[list[OccurrenceRow]]:
        """Every page of a query, following its cursors."""
        found = []
        while True:
            rows, cursor = occurrences.history(self.app.store, query)
            found.append(list(rows))
            if cursor is None:
                return found
            query = replace(query, after=decode_cursor(cursor))

    # ------------------------------------------------------------ the outside, and what is there

    def faults(self, **changes: Any) -> None:
        """Put the execution service under these faults; what is not named works."""
        self.execution.faults.profile = ExecutionFaults(**{"run_sec": RUN_SEC, "hang_sec": 0.0, **changes})

    def ledger(self) -> list[Mapping[str, Any]]:
        """What the service really got and did, one entry per caller and key."""
        answer = self.execution._show_ledger()
        entries: list[Mapping[str, Any]] = answer.document["runs"]
        return entries

    def starts(self) -> list[int]:
        """How often each key was posted."""
        return [entry["posts"] for entry in self.ledger()]

    def occurrences(self, schedule_id: int | None = None) -> list[list[Any]]:
        """State and reason of every occurrence, or a schedule's, in the order in which they were recorded."""
        of = "true" if schedule_id is None else f"schedule_id = {schedule_id}"
        return self.rows(
            f"select state, reason from smart_schedule_occurrences where kind = 'conversation' and {of} order by id"
        )

    def newest(self) -> int:
        """The id of the occurrence that was recorded last."""
        found: int = self.value("select max(id) from smart_schedule_occurrences")
        return found

    def attempts(self) -> list[list[Any]]:
        """State and reason of every attempt, oldest first."""
        return self.rows("select state, reason from smart_schedule_attempts order by prepared_at")

    def findings(self) -> dict[str, list[Mapping[str, Any]]]:
        """What doctor finds, but for notifications: nobody publishes any here."""
        found = super().findings()
        found.pop("notifications_waiting", None)
        return found

    def told(self, code: str) -> tuple[int, int]:
        """How often something was logged, and how often it was told of."""
        return (
            self.value(f"select count(*) from smart_schedule_log_events where code = '{code}'"),
            self.value(f"select count(*) from smart_schedule_outbox where code = '{code}'"),
        )


class _CrashingService:
    """An execution service whose caller may die before or after it asks for a start or a cancel."""

    def __init__(self, service: Any, plan: CrashPlan) -> None:
        self._service = service
        self._plan = plan

    def start(self, command: Any) -> Any:
        return self._plan.step("start", lambda: self._service.start(command))

    def cancel(self, **identity: Any) -> Any:
        return self._plan.step("cancel", lambda: self._service.cancel(**identity))

    def read_back(self, **identity: Any) -> Any:
        return self._service.read_back(**identity)
