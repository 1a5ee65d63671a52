"""The one place where settings become adapters and adapters meet the use cases.

A container builds one `Application` and keeps it; nothing connects before it is used.

Over 300 lines because it is one list: every adapter, and every use case with the settings that it takes.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import timedelta
from functools import cache, cached_property
from typing import TYPE_CHECKING, Final
from uuid import UUID

from blsflow.adapters.postgres.address import parse_address
from blsflow.adapters.postgres.connection import Session
from blsflow.adapters.postgres.store import PostgresStore
from blsflow.flow.budget import Budget
from blsflow.settings import HOLDER, InvalidSetting, Settings, read_settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from blsflow.adapters.http import Secret
    from blsflow.domain.commands import CommandRequest
    from blsflow.domain.gates import Gates
    from blsflow.domain.log import LiveQuery, LogQuery
    from blsflow.domain.settle import Limits
    from blsflow.flow.benchmark.step import StepOutcome
    from blsflow.flow.commands import SentCommand
    from blsflow.flow.converse import ConverseReport
    from blsflow.flow.decide import DecideReport
    from blsflow.flow.execute import ExecuteReport
    from blsflow.flow.live import LiveAnswer
    from blsflow.flow.notify import NotifyReport
    from blsflow.flow.reconcile import ReconcileReport
    from blsflow.flow.sampling import SamplingReport
    from blsflow.flow.tick import TickReport
    from blsflow.ports.logs import LogPage
    from blsflow.ports.sampling import Workflow
    from blsflow.ports.services import DeviceControl, ExecutionService, ProfitFeed, Publisher, Queue
    from blsflow.ports.store import Store

_FEED_TIMEOUT_SEC: Final = 5.0
_EXECUTE_FUNCTION_SEC: Final = 120
"""The execute function's own time-out: a sender that committed longer ago is gone."""


@dataclass
class Application:
    """Settings with everything built from them; adapters are made when first asked for.

    ``decide_queue`` and ``execute_queue`` may be given (in one process); otherwise they are the SQS queues of the settings.
    """

    settings: Settings
    own_decide_queue: Queue | None = None
    own_execute_queue: Queue | None = None

    @cached_property
    def store(self) -> PostgresStore:
        """The database."""
        return PostgresStore(self.connect)

    def connect(self) -> Session:
        """Open a session with the credentials of this moment."""
        settings = self.settings
        if settings.database_url is not None:
            address = parse_address(settings.database_url, tls=settings.database_tls)
            return Session(address, statement_timeout_sec=settings.database_timeout_sec)
        if settings.database_secret_arn is not None:
            from blsflow.adapters.aws import database_address  # noqa: PLC0415 - AWS only where the settings ask for it

            address = database_address(settings.database_secret_arn, tls=settings.database_tls)
            return Session(address, statement_timeout_sec=settings.database_timeout_sec)
        raise InvalidSetting(
            name="BLSFLOW_SCHEDULER_DATABASE_URL",
            value=None,
            cause="set it (or BLSFLOW_SCHEDULER_DATABASE_SECRET_ARN) to say where the database is",
        )

    @cached_property
    def gates(self) -> Gates:
        """What this deployment allows."""
        from blsflow.domain.gates import Gates  # noqa: PLC0415 - only what may act needs it

        return Gates(
            execute_enabled=self.settings.execute_enabled,
            executor_configured=self.settings.executor_configured(),
            conversations_configured=self.settings.execution_api_base_url is not None,
            holder=HOLDER,
        )

    @cached_property
    def feed(self) -> ProfitFeed | None:
        """The price feed; None when none is configured, which leaves every price unknown."""
        settings = self.settings
        if not settings.feed_configured():
            return None
        from blsflow.adapters.profit import open_feed  # noqa: PLC0415 - only the tick reads prices

        return open_feed(
            settings.profit_feed,
            base_url=settings.profit_api_base_url,
            api_key=settings.profit_api_key or self._secret(settings.profit_api_key_secret_arn),
            timeout_sec=_FEED_TIMEOUT_SEC,
            min_interval_sec=settings.profit_min_interval_sec,
            algorithms=settings.profit_algorithms,
        )

    @cached_property
    def device_control(self) -> DeviceControl | None:
        """The device-control service; None when none is configured."""
        settings = self.settings
        if settings.switch_api_base_url is None:
            return None
        from blsflow.adapters.device_control import HttpDeviceControl  # noqa: PLC0415 - only senders and followers need it

        token = _token(settings.switch_api_token, settings.switch_api_token_secret_arn)
        return HttpDeviceControl(settings.switch_api_base_url, token, settings.switch_api_timeout_sec)

    @cached_property
    def execution_service(self) -> ExecutionService | None:
        """The execution service of conversations; None when none is configured."""
        settings = self.settings
        if settings.execution_api_base_url is None:
            return None
        from blsflow.adapters.execution_service import (  # noqa: PLC0415 - only senders and followers need it
            HttpExecutionService,
        )

        token = _token(settings.execution_api_token, settings.execution_api_token_secret_arn)
        return HttpExecutionService(settings.execution_api_base_url, token, settings.switch_api_timeout_sec)

    @cached_property
    def decide_queue(self) -> Queue:
        """Where due ticks go."""
        url = self.settings.decide_queue_url
        return self.own_decide_queue or _sqs("BLSFLOW_SCHEDULER_DECIDE_QUEUE_URL", url)

    @cached_property
    def execute_queue(self) -> Queue:
        """Where prepared attempts go."""
        url = self.settings.execute_queue_url
        return self.own_execute_queue or _sqs("BLSFLOW_SCHEDULER_EXECUTE_QUEUE_URL", url)

    @cached_property
    def publisher(self) -> Publisher:
        """Where notifications go."""
        if self.settings.notification_topic_arn is None:
            raise InvalidSetting(
                name="BLSFLOW_SCHEDULER_NOTIFICATION_TOPIC_ARN", value=None, cause="set it to an SNS topic"
            )
        from blsflow.adapters.aws import SnsPublisher  # noqa: PLC0415 - only notify publishes

        return SnsPublisher(self.settings.notification_topic_arn)

    @cached_property
    def workflow(self) -> Workflow | None:
        """The state machine of benchmark runs; None when none is configured, which leaves them pending."""
        if self.settings.benchmark_state_machine_arn is None:
            return None
        from blsflow.adapters.aws import StepFunctionsWorkflow  # noqa: PLC0415 - only reconcile begins runs

        return StepFunctionsWorkflow(self.settings.benchmark_state_machine_arn)

    # ------------------------------------------------------------ use cases

    def tick(self, *, budget_sec: float) -> TickReport:
        """Scan once within a budget."""
        from blsflow.flow.tick import TickSettings, tick  # noqa: PLC0415 - only the tick scans
        from blsflow.ports.services import Queues  # noqa: PLC0415 - likewise

        settings = self.settings
        return tick(
            self.store,
            feed=self.feed,
            queues=Queues(decide=self.decide_queue, execute=self.execute_queue),
            settings=TickSettings(
                start_grace=timedelta(seconds=settings.start_grace_sec),
                feed_min_interval=timedelta(seconds=settings.profit_min_interval_sec),
                not_begun_after=timedelta(seconds=max(120, 2 * settings.tick_interval_sec)),
            ),
            time_left=Budget(budget_sec).is_left,
        )

    def decide(self, occurrence_id: int) -> DecideReport:
        """Carry out one recorded tick."""
        from blsflow.flow.decide import DecideSettings, decide  # noqa: PLC0415 - only deciding needs it

        settings = self.settings
        return decide(
            self.store,
            occurrence_id=occurrence_id,
            execute_queue=self.execute_queue,
            settings=DecideSettings(
                gates=self.gates,
                rate=settings.usdt_to_cny_rate,
                batch_size=settings.batch_size,
                lock_ttl=timedelta(seconds=settings.lock_ttl_sec),
            ),
        )

    def command(
        self, request: CommandRequest, *, tenant_id: str, request_id: str, by: str, store: Store | None = None
    ) -> SentCommand:
        """Prepare an operator's command for the machines that it can move; ``store`` may be one tenant's own."""
        from blsflow.flow.commands import CommandSettings, command  # noqa: PLC0415 - only operators command

        settings = self.settings
        return command(
            store or self.store,
            request,
            tenant_id=tenant_id,
            request_id=request_id,
            by=by,
            execute_queue=self.execute_queue,
            settings=CommandSettings(
                gates=self.gates,
                batch_size=settings.batch_size,
                lock_ttl=timedelta(seconds=settings.lock_ttl_sec),
            ),
        )

    def execute(self, attempt_id: UUID) -> ExecuteReport:
        """Send one prepared attempt."""
        from blsflow.flow.execute import execute  # noqa: PLC0415 - only senders need it

        return execute(
            self.store,
            attempt_id=attempt_id,
            device_control=self.device_control,
            gates=self.gates,
            request_timeout=self._request_timeout,
        )

    def converse(self, occurrence_id: int) -> ConverseReport:
        """Send one recorded conversation's prompt."""
        from blsflow.flow.converse import converse  # noqa: PLC0415 - machines' batches need none of it

        return converse(
            self.store,
            occurrence_id=occurrence_id,
            execution_service=self.execution_service,
            gates=self.gates,
            request_timeout=self._request_timeout,
        )

    def send(self, message: Mapping[str, object]) -> ExecuteReport | ConverseReport:
        """Carry out a message of the execute queue: a prepared batch, or a recorded conversation."""
        if "attempt_id" in message:
            return self.execute(UUID(str(message["attempt_id"])))
        return self.converse(int(str(message["occurrence_id"])))

    def reconcile(self, *, budget_sec: float) -> ReconcileReport:
        """Follow open attempts within a budget."""
        from blsflow.flow.reconcile import ReconcileSettings, reconcile  # noqa: PLC0415 - only followers need it

        settings = self.settings
        return reconcile(
            self.store,
            device_control=self.device_control,
            execution_service=self.execution_service,
            settings=ReconcileSettings(
                limits=self._limits,
                sender_lost_after=timedelta(seconds=_EXECUTE_FUNCTION_SEC),
                concurrency=settings.reconcile_concurrency,
                retention_days=settings.retention_days,
            ),
            budget=Budget(budget_sec),
        )

    def sampling(self, *, budget_sec: float) -> SamplingReport:
        """Rescue, watch and begin benchmark runs within a budget."""
        from blsflow.flow.sampling import SamplingSettings, sampling  # noqa: PLC0415 - only reconcile begins runs

        return sampling(
            self.store,
            workflow=self.workflow,
            settings=SamplingSettings(
                gates=self.gates, watchdog=timedelta(seconds=self.settings.watchdog_sec)
            ),
            time_left=Budget(budget_sec).is_left,
        )

    def benchmark(self, step: str, *, run_id: UUID, execution: str) -> StepOutcome:
        """Carry out one step of a benchmark run; `KeyError` for a step that there is none of."""
        from blsflow.flow.benchmark import STEPS  # noqa: PLC0415 - only the benchmark function takes steps
        from blsflow.flow.benchmark.step import BenchmarkSettings, StepCall  # noqa: PLC0415 - likewise

        settings = self.settings
        return STEPS[step](
            StepCall(
                store=self.store,
                run_id=run_id,
                execution=execution,
                device_control=self.device_control,
                settings=BenchmarkSettings(
                    warm_up=timedelta(seconds=settings.benchmark_warm_up_sec),
                    window=timedelta(seconds=settings.benchmark_sample_window_sec),
                    lock_ttl=timedelta(seconds=settings.watchdog_sec + settings.benchmark_warm_up_sec),
                    request_timeout=self._request_timeout,
                    limits=self._limits,
                    gates=self.gates,
                ),
            )
        )

    def notify(self, *, budget_sec: float) -> NotifyReport:
        """Publish what the outbox holds within a budget."""
        from blsflow.flow.notify import notify  # noqa: PLC0415 - only notify publishes

        return notify(self.store, publisher=self.publisher, time_left=Budget(budget_sec).is_left)

    def live(self, query: LiveQuery, *, tenant_id: str, hold: Budget, whole: Budget) -> LiveAnswer:
        """Answer a live stream of a tenant's log; the database has the whole time to answer, and no longer."""
        from blsflow.flow.live import StreamLimits, live  # noqa: PLC0415 - only streams are held

        limits = StreamLimits(per_tenant=self.settings.streams_per_tenant, in_all=self.settings.streams)
        store = self.store.of_tenant(tenant_id, left_sec=whole.left_sec)
        return live(store, query, tenant_id=tenant_id, limits=limits, hold=hold)

    def log_page(self, query: LogQuery, *, tenant_id: str) -> LogPage:
        """Return a page of a tenant's log."""
        from blsflow.flow.logs import log_page  # noqa: PLC0415 - only the API shows pages

        return log_page(self.store.of_tenant(tenant_id), query, tenant_id=tenant_id)

    def migrate(self) -> list[str]:
        """Bring the schema up to date; return what was applied."""
        from blsflow.adapters.postgres.migrate import migrate  # noqa: PLC0415 - only a deployment migrates

        session = self.connect()
        try:
            return migrate(session)
        finally:
            session.close()

    def newest_migration(self) -> str:
        """Return the version of the schema that this code needs."""
        from blsflow.adapters.postgres.migrate import migration_files  # noqa: PLC0415 - only a health check asks

        return migration_files()[-1][0]

    @property
    def _request_timeout(self) -> timedelta:
        """For how long after it was sent the other side may take a request; beyond the time-out of the exchange itself."""
        return timedelta(seconds=self.settings.switch_api_timeout_sec + 5)

    @property
    def _limits(self) -> Limits:
        from blsflow.domain.settle import Limits  # noqa: PLC0415 - only followers need it

        return Limits(
            confirm_grace=timedelta(seconds=self.settings.confirm_grace_sec),
            unresolved_alert=timedelta(seconds=self.settings.unresolved_alert_sec),
        )

    def _secret(self, arn: str | None) -> str | None:
        if arn is None:
            return None
        from blsflow.adapters.aws import read_secret  # noqa: PLC0415 - AWS only where the settings ask for it

        return read_secret(arn)


@cache
def application() -> Application:
    """Return this container's application, built from its environment."""
    return Application(read_settings(os.environ))


def application_from(environ: Mapping[str, str]) -> Application:
    """Build an application from other settings than the process's own."""
    return Application(read_settings(environ))


def _sqs(name: str, url: str | None) -> Queue:
    if url is None:
        raise InvalidSetting(name=name, value=None, cause="set it to an SQS queue's URL")
    from blsflow.adapters.aws import SqsQueue  # noqa: PLC0415 - AWS only where the settings ask for it

    return SqsQueue(url)


def _token(text: str | None, secret_arn: str | None) -> Secret:
    """Return a token as it was given, or what reads it from its secret; none at all is an empty one.

    It is read once here, so that a bad one is found before anything is begun with it.
    """
    if text is None and secret_arn is not None:
        from blsflow.adapters.aws import RotatedSecret  # noqa: PLC0415 - AWS only where the settings ask for it
        from blsflow.adapters.http import bearer  # noqa: PLC0415 - likewise

        rotated = RotatedSecret(secret_arn)
        bearer(rotated())
        return rotated
    return text or ""
