from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from blsflow_cli.main import run
from tests.integration.control_scenes import environment, look, seeded

if TYPE_CHECKING:
    from collections.abc import Callable

    from blsflow.adapters.postgres.address import DatabaseAddress

SAMPLE = Path(__file__).parents[2] / "examples" / "policy_profit_guard.json"


class Ended(NamedTuple):
    """How a command ended, and what it said."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def blsflow(
    database: DatabaseAddress, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Ended]:
    """The command line on the sample fleet."""
    for name, value in environment(seeded(database)).items():
        monkeypatch.setenv(name, value)

    def call(*words: object) -> Ended:
        monkeypatch.setattr(sys, "argv", ["blsflow", *map(str, words)])
        with pytest.raises(SystemExit) as end:
            run()
        return Ended(int(end.value.code or 0), *capsys.readouterr())

    return call


def written(path: Path, document: dict[str, Any]) -> Path:
    """A document in a file."""
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def test_a_policy_is_created_shown_changed_and_archived(
    database: DatabaseAddress, blsflow: Callable[..., Ended], tmp_path: Path
) -> None:
    """R9.1, R11.5: a policy's whole life in commands; what `show` prints is what `change` takes."""
    made = json.loads(blsflow("policy", "create", SAMPLE, "--by", "kim", "--json").stdout)
    policy = made["policy_id"]
    shown = json.loads(blsflow("policy", "show", policy).stdout)
    assert (shown["enabled"], shown["execution_mode"], shown["version"]) == (False, "shadow", 1)
    whole = blsflow("policy", "change", policy, written(tmp_path / "whole.json", shown), "--version", 1)
    assert (whole.returncode, whole.stderr.count("\n"), "jq .document" in whole.stderr) == (2, 1, True)
    same = written(tmp_path / "same.json", shown["document"])
    assert "stays at version 1" in blsflow("policy", "change", policy, same, "--version", 1).stdout
    other = written(
        tmp_path / "other.json", shown["document"] | {"min_dwell_sec": 60, "max_move_share": None}
    )
    assert "now at version 2" in blsflow("policy", "change", policy, other, "--version", 1).stdout
    stale = blsflow("policy", "change", policy, other, "--version", 1)
    assert (stale.returncode, "no longer at 1" in stale.stderr) == (2, True)
    archived = blsflow("policy", "archive", policy, "--version", 2, "--reason", "sold", "--by", "kim")
    assert archived.returncode == 0
    assert look(
        database, "select code from smart_schedule_log_events where policy_id = :id order by id", id=policy
    ) == [["policy_created"], ["policy_changed"], ["policy_archived"]]


def test_a_policy_document_is_refused_by_field(
    database: DatabaseAddress, blsflow: Callable[..., Ended], tmp_path: Path
) -> None:
    """R9.1: what the shape, the rules or the tenant's own resources forbid is named, and nothing is stored."""
    sample = json.loads(SAMPLE.read_text(encoding="utf-8"))
    before = look(database, "select count(*) from smart_schedule_policy_groups")
    for changes, message in (
        ({"colour": "red"}, "colour: is no field of this document"),
        ({"time_zone": "Mars/Olympus"}, "time_zone: not an IANA zone"),
        (
            {"scope": [{"resource_type": "cluster", "resource_id": "4"}]},
            "scope[0].resource_id: there is no such cluster",
        ),
        ({"tenant": "nrth-mining"}, "tenant: no machine, cluster or executor lease is of such a tenant"),
        (
            {"tenant": "nrth-mining", "time_zone": "Mars/Olympus", "candidates": [999]},
            "tenant: no machine, cluster or executor lease is of such a tenant",
        ),
        ({"min_dwell_sec": -1}, "min_dwell_sec: not a whole number"),
        ({"schedule": {"kind": "interval", "every_sec": 0}}, "schedule.every_sec:"),
    ):
        found = blsflow("policy", "create", written(tmp_path / "bad.json", sample | changes))
        assert found.returncode == 2
        assert message in found.stderr
    assert look(database, "select count(*) from smart_schedule_policy_groups") == before


def test_readiness_says_what_is_wanting(blsflow: Callable[..., Ended]) -> None:
    """R9.1: codes, candidates and counts for people and programs; the exit code tells a policy that is not ready."""
    found = blsflow("readiness", 1, "--json")
    document = json.loads(found.stdout)
    assert (found.returncode, document["ready"]) == (1, False)
    codes = {each["code"] for each in document["findings"] if each["severity"] == "error"}
    assert codes == {"execute_disabled", "executor_unconfigured", "no_price_known"}
    assert document["machines"]["machines"] > 0
    shown = blsflow("readiness", 1)
    assert (shown.returncode, "not ready" in shown.stdout) == (1, True)
    assert "executor_unconfigured: No device-control service" in shown.stdout
    assert "executor_unconfigured: 未配置设备控制服务" in blsflow("readiness", 1, "--lang", "zh").stdout
    assert blsflow("readiness", 99).returncode == 2
