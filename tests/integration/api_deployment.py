"""The API's function on a seeded database: its settings, an execution service, and what stands in the tables."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import pytest

from blsflow import bootstrap
from blsflow.adapters.inline import InlineQueue
from local.simulators.execution_service import ExecutionServiceSimulator
from local.simulators.web import Served
from tests.integration.control_scenes import NORTH, environment, look, seeded
from tests.integration.counting import counting_store

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator, Mapping

    from blsflow.adapters.postgres.address import DatabaseAddress

PROMPT: Final = "canary-prompt-41c7: what changed?"
EXECUTION_TOKEN: Final = "canary-token-77d0"
SCHEDULE: Final[Mapping[str, Any]] = {
    "name": "morning",
    "rule": {"kind": "daily", "time_of_day": "08:00", "time_zone": "Asia/Shanghai"},
    "work": {"target": "analyst", "conversation_id": "conv-morning", "prompt": PROMPT},
}
STRANGER: Final = "somebody-else"
"""A tenant that has nothing."""
_NOT_OURS: Final = {"smart_schedule_migrations"}


class ApiDeployment:
    """What the API stands on."""

    def __init__(self, address: DatabaseAddress, execution: ExecutionServiceSimulator) -> None:
        self.address = address
        self.execution = execution

    def look(self, sql: str) -> list[list[Any]]:
        """Ask the database, or change it."""
        return look(self.address, sql)

    def value(self, sql: str) -> Any:
        """Ask the database for one value."""
        return self.look(sql)[0][0]

    def checksum(self) -> dict[str, str]:
        """By table, a sum over all that stands in it."""
        tables = self.look(
            "select c.relname from pg_class c where c.relnamespace = 'public'::regnamespace"
            " and c.relkind in ('r', 'p') and not c.relispartition order by 1"
        )
        sums = " union all ".join(
            f"select '{table}', coalesce(md5(string_agg(t::text, '|' order by t::text)), '') from {table} t"
            for (table,) in tables
        )
        return {str(table): str(total) for table, total in self.look(sums)}

    def counted(self) -> Counter[str]:
        """Count the API's exchanges with the database from now on."""
        application = bootstrap.application()
        application.store.close()
        application.__dict__["store"], exchanges = counting_store(self.address)
        return exchanges


@contextmanager
def deployed(address: DatabaseAddress, **settings: str) -> Iterator[ApiDeployment]:
    """The sample fleet in a database, with the API's function and the execution service on it."""
    execution = ExecutionServiceSimulator(token=EXECUTION_TOKEN)
    with pytest.MonkeyPatch.context() as patch, Served(execution) as served:
        environ = environment(seeded(address)) | {
            "BLSFLOW_SCHEDULER_EXECUTE_ENABLED": "true",
            "BLSFLOW_SCHEDULER_EXECUTION_API_BASE_URL": served.url,
            "BLSFLOW_SCHEDULER_EXECUTION_API_TOKEN": EXECUTION_TOKEN,
        }
        for name, value in (environ | settings).items():
            patch.setenv(name, value)
        bootstrap.application.cache_clear()
        application = bootstrap.application()
        application.own_decide_queue = application.own_execute_queue = InlineQueue()
        yield ApiDeployment(address, execution)
        bootstrap.application().store.close()
        bootstrap.application.cache_clear()


__all__ = ["EXECUTION_TOKEN", "NORTH", "PROMPT", "SCHEDULE", "STRANGER", "ApiDeployment", "deployed"]
