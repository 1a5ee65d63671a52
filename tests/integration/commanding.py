"""A scene in which operators command machines, with a second tenant beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from blsflow.domain.commands import command_request
from tests.integration.scene import COIN_B, Scene

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from blsflow.bootstrap import Application
    from blsflow.flow.commands import SentCommand

FOREIGN = 99
_OTHERS = f"""
insert into clusters values (9, 'other', 'elsewhere', 'Asia/Shanghai');
insert into machines values ({FOREIGN}, 'other', 9, 'S21', 'theirs', false);
insert into projects values (9, 'other', 'theirs', 'A', 'A', 'SHA-256');
insert into project_run_configurations values (19, 9, 'S21', true);
insert into smart_schedule_executor_leases (tenant_id, holder, changed_by) values ('other', 'blsflow', 'test');
"""


class CommandScene(Scene):
    """Machines of ``acme`` on coin A, whose policy ticks only when a test has it due; machine 99 is another tenant's."""

    def __init__(self, address: Any, *, machines: int = 6) -> None:
        super().__init__(address, machines=machines)
        self.session.run(_OTHERS)
        self.requests = 0

    def command(  # noqa: PLR0913 - what to do, for whom, and who asks
        self,
        action: str = "switch",
        machine_ids: Sequence[int] = (1, 2, 3),
        project_id: int | None = COIN_B,
        *,
        tenant_id: str = "acme",
        request_id: str | None = None,
        why: str = "a test",
        app: Application | None = None,
    ) -> SentCommand:
        """Send a command as an operator does; by default under a new request id."""
        self.requests += 1
        mines = action in {"switch", "start"}
        request = command_request(
            action=action, machine_ids=machine_ids, project_id=project_id if mines else None, why=why
        )
        return (app or self.app).command(
            request, tenant_id=tenant_id, request_id=request_id or f"request-{self.requests}", by="wei"
        )

    def carry_out(self) -> None:
        """Send what is prepared, let the machines obey, and follow it to its confirmed end."""
        self.execute()
        for _ in range(2):
            self.forward(20)
            self.report()
            self.reconcile()

    def outcomes(self, command_id: UUID) -> dict[int, tuple[str, str | None]]:
        """State and reason of each machine of a command."""
        rows = self.rows(
            "select m.machine_id, coalesce(a.state, 'skipped'), coalesce(a.reason, m.skipped)"
            " from smart_schedule_command_machines m"
            " left join smart_schedule_attempt_machines a using (attempt_id, machine_id)"
            f" where m.command_id = '{command_id}' order by 1"
        )
        return {machine_id: (state, reason) for machine_id, state, reason in rows}

    def attempts(self) -> list[list[Any]]:
        """Action, state and reason of every attempt, in order."""
        return self.rows("select action, state, reason from smart_schedule_attempts order by prepared_at, id")

    def live_locks(self) -> list[int]:
        """The machines that are locked."""
        rows = self.rows(
            "select machine_id from smart_schedule_machine_locks where freed_at is null order by 1"
        )
        return [machine_id for (machine_id,) in rows]

    def projects(self) -> dict[int, int | None]:
        """What each machine does now, by itself."""
        ids = self.rows("select id from machines where tenant_id = 'acme' order by id")
        return {machine_id: self.world.reading(machine_id).project_id for (machine_id,) in ids}

    def due_round(self, a: float = 50.0, b: float = 80.0) -> None:
        """Have the policy tick once at these prices, with all that comes of it."""
        self.due()
        self.prices(a, b)
        self.report()
        self.round()
