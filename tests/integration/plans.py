"""Plans of the product's statements as they are executed: of a prepared statement, under the settings that it is run with."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pg8000.native import to_statement

from blsflow.adapters.postgres.statements import literal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from blsflow.adapters.postgres.connection import Session

    Plan: TypeAlias = Mapping[str, Any]

WHATEVER_THE_VALUES: Final = "set local plan_cache_mode = force_generic_plan"
"""The plan of a statement's sixth use and on, if the server finds it no dearer than those that knew the values."""

OF_A_TICK: Final = (
    f"{WHATEVER_THE_VALUES}; set local work_mem = '64MB';"
    " set local enable_seqscan = off; set local enable_bitmapscan = off"
)
"""As the statements of a tick are planned."""
_NOT_YET_VISIBLE: Final = """
select relname from pg_class
where relkind = 'r' and relnamespace = current_schema::regnamespace and relallvisible < relpages
"""


def vacuum(session: Session) -> None:
    """Vacuum and analyze until every page is known to be visible to all.

    An analyze that the server has begun by itself keeps pages from being so, and the planner from reading an index only.
    """
    for _ in range(100):
        session.run("vacuum analyze")
        if not session.run(_NOT_YET_VISIBLE):
            return
        time.sleep(0.1)
    raise AssertionError(f"somebody keeps rows from being visible to all: {session.run(_NOT_YET_VISIBLE)}")


def explained(
    session: Session, sql: str, params: Mapping[str, object], *, settings: str, begin: str = "begin"
) -> Plan:
    """Execute a statement that the server has prepared, undo it, and return its plan with rows and blocks.

    ``explain`` of a statement with its parameters would not do: the server plans that one for their values.
    """
    text, values = to_statement(sql)
    given = ", ".join("null" if value is None else literal(value) for value in values(params))
    session.run(begin)
    session.run(f"{settings}; prepare looked_at as {text}")
    ((found,),) = session.run(
        "explain (analyze, buffers, format json) execute looked_at" + (f" ({given})" if given else "")
    )
    session.run("rollback; deallocate looked_at")
    plan: Plan = (json.loads(found) if isinstance(found, str) else found)[0]["Plan"]
    return plan


def nodes(plan: Plan) -> Iterator[Plan]:
    """All nodes of a plan, from the top."""
    yield plan
    for child in plan.get("Plans", ()):
        yield from nodes(child)


def rows_read(scans: list[Plan]) -> int:
    """How many rows these read, also those that a filter threw away; a plan says rows of a loop to two places."""
    total: float = sum(
        (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"] for node in scans
    )
    return round(total)
