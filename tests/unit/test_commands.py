"""What an operator can ask for, and what is refused before anything is looked at."""

from __future__ import annotations

from typing import Any

import pytest

from blsflow.domain.commands import LONGEST_REASON, MOST_MACHINES, command_request
from blsflow.domain.errors import InvalidDocument
from blsflow.domain.gates import Gates, Withheld, closed_gate
from blsflow.flow.batches import Batches
from blsflow.flow.commands import CommandWithheld

_GOOD: dict[str, Any] = {"action": "switch", "machine_ids": [2, 1, 2], "project_id": 3, "why": " moved "}


def test_machines_named_twice_count_once_and_come_in_order() -> None:
    """R5.8: a request is a set of machines; how it was written down makes no other request of it."""
    request = command_request(**_GOOD)
    assert request.machine_ids == (1, 2)
    assert request.why == "moved"
    assert request.body == command_request(**_GOOD | {"machine_ids": [1, 2]}).body


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"action": "reboot"}, "action"),
        ({"project_id": None}, "project_id"),
        ({"action": "stop"}, "project_id"),
        ({"project_id": 0}, "project_id"),
        ({"project_id": 2**63}, "project_id"),
        ({"machine_ids": []}, "machine_ids"),
        ({"machine_ids": range(1, MOST_MACHINES + 2)}, "machine_ids"),
        ({"machine_ids": [0, 1]}, "machine_ids"),
        ({"machine_ids": [1, 2**63]}, "machine_ids"),
        ({"why": "  "}, "reason"),
        ({"why": "x" * (LONGEST_REASON + 1)}, "reason"),
        ({"why": "a\x00b"}, "reason"),
        ({"why": "\ud800"}, "reason"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_its_field(change: dict[str, Any], field: str) -> None:
    """R5.8: unknown actions, a project too many or too few, no or too many machines, and a missing reason."""
    with pytest.raises(InvalidDocument) as refused:
        command_request(**_GOOD | change)
    assert refused.value.field == field


def test_as_many_machines_as_are_allowed_are_allowed() -> None:
    """R5.8: ten thousand machines are one command."""
    assert len(command_request(**_GOOD | {"machine_ids": range(1, MOST_MACHINES + 1)}).machine_ids) == 10_000


@pytest.mark.parametrize(
    ("enabled", "configured", "held", "gate"),
    [
        (False, False, False, Withheld.EXECUTE_DISABLED),
        (True, False, False, Withheld.EXECUTOR_UNCONFIGURED),
        (True, True, False, Withheld.LEASE_NOT_HELD),
        (True, True, True, None),
    ],
)
def test_all_gates_must_be_open(
    *, enabled: bool, configured: bool, held: bool, gate: Withheld | None
) -> None:
    """R4.2, R4.3: the first closed gate is named, and its error says what it is."""
    gates = Gates(execute_enabled=enabled, executor_configured=configured)
    assert closed_gate(gates, lease_held=held) is gate
    if gate is not None:
        assert str(gate) in str(CommandWithheld(gate))


def test_a_batchs_key_is_its_source_and_machines() -> None:
    """R5.2: the same machines of the same source have the same key in any order; of another source another one."""

    def keys(source: str, machine_ids: list[int]) -> list[str]:
        batches = Batches(source, 2)
        for machine_id in machine_ids:
            batches.place(("stop", None, None), machine_id)
        return [attempt.key for attempt in batches.attempts()]

    assert keys("command-a", [1, 2]) == keys("command-a", [2, 1])
    assert keys("command-a", [1, 2]) != keys("command-b", [1, 2])
    assert len(set(keys("command-a", [1, 2, 3]))) == 2
