"""The operators' commands on machines and locks, as a person or a program runs them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.integration.control_scenes import NORTH, look
from tests.integration.test_cli_online import blsflow, deployed, fleet  # noqa: F401 - fixtures

if TYPE_CHECKING:
    from blsflow.adapters.postgres.address import DatabaseAddress
    from tests.integration.test_cli_online import Command

_MINING = (
    "select m.id from machines m join machine_mining_runtime r on r.machine_id = m.id"
    " where m.tenant_id = :tenant and r.status = 'mining' and r.hashrate_hs > 0 and r.reported_at > now() - interval '5 min'"
    " order by 1 limit 2"
)


def _two(address: DatabaseAddress) -> list[int]:
    return [row[0] for row in look(address, _MINING, tenant=NORTH)]


def test_a_command_is_sent_followed_and_shown(blsflow: Command, deployed: DatabaseAddress) -> None:  # noqa: F811
    """R5.8, R11.5: stop two machines, see their locks, send, follow, and see what became of each."""
    machines = _two(deployed)
    asked = ["command", "stop", *machines, 999999, "--tenant", NORTH, "--reason", "fans", "--by", "kim"]
    sent = blsflow(*asked, "--request-id", "r1", "--json").document()
    assert (sent["taken"], sent["passed_over"]) == (2, {"999999": "unknown_machine"})
    again = blsflow(*asked, "--request-id", "r1")
    assert again.returncode == 0
    assert "asked for before" in again.stdout
    assert "1 passed over, unknown_machine: the tenant has no such machine" in again.stdout
    locks = blsflow("locks", "--tenant", NORTH, "--json").document()["locks"]
    assert [row["machine_id"] for row in locks] == machines
    assert "stop" in blsflow("locks", "--machine", machines[0]).stdout
    assert f"`blsflow command show {sent['command_id']}` follows it" in again.stdout
    blsflow("execute", "--wait", 60)
    shown = blsflow("command", "show", sent["command_id"], "--json").document()
    assert (shown["requested_by"], shown["why"], shown["open"]) == ("kim", "fans", False)
    assert [each["state"] for each in shown["outcomes"]] == ["succeeded", "succeeded", "skipped"]
    assert "2 succeeded, 1 skipped" in blsflow("command", "show", sent["command_id"]).stdout
    (listed,) = blsflow("command", "list", "--json").document()["commands"]
    assert listed["id"] == sent["command_id"]
    first = blsflow("command", "show", sent["command_id"], "--limit", 1, "--json").document()
    assert (
        f"--cursor {first['cursor']}" in blsflow("command", "show", sent["command_id"], "--limit", 1).stdout
    )


def test_a_command_that_moves_nothing_is_a_finding(blsflow: Command, deployed: DatabaseAddress) -> None:  # noqa: F811
    """R5.8: exit code 1 when every machine was passed over, 2 when it was refused as a whole, with the gate's name."""
    machine = _two(deployed)[0]
    assert blsflow("command", "stop", 999999, "--tenant", NORTH, "--reason", "x").returncode == 1
    unknown = blsflow("command", "power-off", machine, "--tenant", "nobody", "--reason", "x")
    assert unknown.returncode == 2
    assert "--tenant: there is no such tenant" in unknown.stderr
    blsflow("lease", NORTH, "--to", "legacy")
    refused = blsflow("command", "start", machine, "--tenant", NORTH, "--project", 1, "--reason", "x")
    assert refused.returncode == 2
    assert "lease_not_held" in refused.stderr
    switched = blsflow("command", "switch", machine, "--tenant", NORTH, "--project", 1, "--reason", "x")
    assert "lease_not_held" in switched.stderr


def test_a_machine_is_unlocked_with_a_warning(blsflow: Command, deployed: DatabaseAddress) -> None:  # noqa: F811
    """R5.4: freeing one machine says that its job may still act on it; one that is not locked is refused."""
    machines = _two(deployed)
    refused = blsflow("unlock", machines[0], "--reason", "x")
    assert refused.returncode == 2
    assert "blsflow locks" in refused.stderr
    blsflow("command", "stop", *machines, "--tenant", NORTH, "--reason", "fans")
    look(
        deployed,
        "update smart_schedule_attempts set state = 'reconciling', dispatched_at = now(), request_expires_at = now(),"
        " next_check_at = 'infinity'",
    )
    freed = blsflow("unlock", machines[0], "--reason", "board replaced")
    assert "may still stop it" in freed.stderr
    document = blsflow("unlock", machines[1], "--reason", "board replaced", "--json").document()
    assert (document["attempt_ended"], document["may_still_act"]) == (True, True)
    assert blsflow("locks", "--json").document()["locks"] == []


@pytest.mark.parametrize(
    "command",
    [
        "locks",
        "unlock",
        *(f"command {each}" for each in ("switch", "start", "stop", "power-off", "list", "show")),
    ],
)
def test_help_has_an_example_and_json(blsflow: Command, command: str) -> None:  # noqa: F811
    """R11.5: each command explains itself with an example, and prints JSON when asked."""
    shown = blsflow(*command.split(), "--help").stdout
    assert "For example" in shown
    assert f"blsflow {command}" in shown
    assert "--json" in shown
