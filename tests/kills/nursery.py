"""`python -m tests.kills.nursery`: a warm process without threads that forks one child per invocation of a worker.

It reads an `Order` per line as JSON and answers with the child's exit code (minus the signal that killed it). A child has all
modules loaded and all statements parsed, and thus begins its work within milliseconds.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pg8000.native

import blsflow.adapters.device_control
import blsflow.adapters.execution_service
import blsflow.adapters.profit.contract
import blsflow.flow.benchmark
import blsflow.flow.converse
import blsflow.flow.notify
import blsflow.flow.reconcile
import blsflow.flow.sampling  # noqa: F401 - loaded once here instead of in every child, as those above
from blsflow.adapters.postgres.address import DatabaseAddress
from blsflow.adapters.postgres.statements import statements
from blsflow.bootstrap import application_from
from tests.kills.points import Point, Points, put_points

if TYPE_CHECKING:
    from collections.abc import Mapping

    from blsflow.bootstrap import Application

BUDGET_SEC = 10


@dataclass(frozen=True, kw_only=True)
class Order:
    """One invocation: the worker, its message, its settings, the database, where it writes, and where it dies."""

    worker: str
    message: Mapping[str, Any]
    settings: Mapping[str, str]
    address: Mapping[str, Any]
    folder: str
    killed_at: tuple[str, int, bool] | None

    def line(self) -> str:
        """Write it as a line."""
        return json.dumps(asdict(self), default=str) + "\n"


def carry_out(app: Application, worker: str, message: Mapping[str, Any]) -> Any:
    """Call the use case of a worker as its function does and return its report; what it could not do raises."""
    report: Any = None
    match worker:
        case "tick":
            report = app.tick(budget_sec=BUDGET_SEC)
        case "decide":
            app.decide(int(message["occurrence_id"]))
        case "execute":
            app.send(message)
        case "reconcile":
            report = app.reconcile(budget_sec=BUDGET_SEC)
        case "sampling":
            report = app.sampling(budget_sec=BUDGET_SEC)
        case "benchmark":
            report = app.benchmark(
                message["step"], run_id=UUID(message["run_id"]), execution=message["execution"]
            )
        case "notify":
            report = app.notify(budget_sec=BUDGET_SEC)
        case unknown:
            raise LookupError(unknown)
    for error in getattr(report, "failures", {}).values():
        raise error
    return report


def _child(order: dict[str, Any]) -> None:
    folder = Path(order["folder"])
    killed_at = order["killed_at"]
    point = None if killed_at is None else Point(name=killed_at[0], nth=killed_at[1], after=killed_at[2])
    app = application_from(order["settings"])
    put_points(app, DatabaseAddress(**order["address"]), folder, Points(folder / "trace", point))
    report = carry_out(app, order["worker"], order["message"])
    if order["worker"] == "benchmark":
        (folder / "came-to").write_text(
            json.dumps({"outcome": report.outcome, "wait_sec": report.wait_sec}) + "\n"
        )


def main() -> None:
    """Carry out orders until there are no more."""
    pg8000.native.to_statement = cache(pg8000.native.to_statement)
    for sql in statements().values():
        pg8000.native.to_statement(sql)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                _child(json.loads(line))
                code = 0
            except BaseException:  # noqa: BLE001 - a child never goes on as its parent
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(code)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
