"""The statement in docs/operations.md by which a first policy is written."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from tests.integration.scene import Scene

if TYPE_CHECKING:
    from blsflow.adapters.postgres.connection import DatabaseAddress

OPERATIONS = Path(__file__).parents[2] / "docs" / "operations.md"


def test_the_statement_in_the_docs_makes_a_policy_that_ticks(database: DatabaseAddress) -> None:
    """R3.1, R4.1: what operators are told to write is written, and its first tick decides in shadow."""
    (statement,) = re.findall(
        r"```sql\n(with policy as .*?)```", OPERATIONS.read_text(encoding="utf-8"), re.DOTALL
    )
    with Scene(database) as scene:
        scene.session.run("update smart_schedule_policy_groups set enabled = false")
        scene.session.run(statement.replace("array[11, 12]", "array[1, 2]"))
        scene.tick()
        scene.decide()
        assert scene.value("select execution_mode from smart_schedule_ticks") == "shadow"
        assert scene.value("select machines from smart_schedule_ticks") == 6
