"""The ways in: the function's handler, reconcile's part, and the operators' commands, on a lab."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import pytest

from blsflow_cli.main import run as blsflow
from tests.integration.control_scenes import environment
from tests.integration.handler_scenes import deployment, sample
from tests.integration.lab import Lab

if TYPE_CHECKING:
    from collections.abc import Iterator

    from blsflow.adapters.postgres.address import DatabaseAddress
    from tests.integration.handler_scenes import Deployment

__all__ = ["deployment"]


@pytest.fixture
def lab(database: DatabaseAddress, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    """A lab whose database is that of the commands' environment."""
    made = Lab(database)
    for name, value in environment(database).items():
        monkeypatch.setenv(name, value)
    yield made
    made.close()


def said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: object
) -> tuple[int, str]:
    """Run a command; return its exit code and all that it printed."""
    monkeypatch.setattr(sys, "argv", ["blsflow", *map(str, arguments)])
    with pytest.raises(SystemExit) as end:
        blsflow()
    printed = capsys.readouterr()
    return int(end.value.code or 0), printed.out + printed.err


def test_runs_are_listed_with_what_they_cost(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """R7.4: for people and for programs: runs with step, reason and value, and each policy's lost minutes and income."""
    lab.begin()
    code, text = said(monkeypatch, capsys, "benchmark", "list", "--json")
    document = json.loads(text)
    assert code == 0
    ((listed,), (costs,)) = document["runs"], document["costs"]
    assert (listed["state"], listed["restore_status"], listed["machine_id"]) == ("succeeded", "restored", 1)
    assert costs["policy_id"] == 1
    assert costs["lost_cny"] == listed["lost_cny"] > 0
    code, text = said(monkeypatch, capsys, "benchmark", "list")
    assert (code, "succeeded" in text, "lost (CNY)" in text) == (0, True, True)
    code, text = said(monkeypatch, capsys, "benchmark", "list", "--open", "--policy", 1, "--json")
    assert json.loads(text)["runs"] == []


def test_a_run_is_asked_for_by_hand(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """R7.1: recorded with who asked, begun by the next pass; what is not of one tenant is refused."""
    code, text = said(monkeypatch, capsys, "benchmark", "run", 1, 3, 2, "--by", "wei", "--json")
    assert (code, json.loads(text)["state"]) == (0, "pending")
    assert lab.scene.rows("select machine_id, origin, requested_by from smart_schedule_benchmark_runs") == [
        [3, "operator", "wei"]
    ]
    assert lab.pass_().begun == 1
    code, text = said(monkeypatch, capsys, "benchmark", "run", 1, 3, 2, "--by", "li")
    assert (code, "is running" in text) == (0, True)
    lab.scene.rows("update smart_schedule_policy_groups set execution_mode = 'shadow'")
    code, text = said(monkeypatch, capsys, "benchmark", "run", 1, 4, 2, "--by", "li")
    assert (code, "mode_not_execute: The policy is not in execute" in text) == (1, True)
    code, text = said(monkeypatch, capsys, "benchmark", "run", 1, 99, 2, "--by", "wei")
    assert (code, "are not of one tenant" in text) == (2, True)


def test_a_step_for_a_run_that_nobody_knows_changes_nothing(deployment: Deployment) -> None:
    """R7.3: the handler answers with data, and says in its one line what it came to."""
    assert deployment.invoke("benchmark", sample("benchmark/prepare")) == {
        "outcome": "superseded",
        "wait_sec": 0,
    }
    line = deployment.summary("benchmark")
    assert (line["step"], line["outcome"]) == ("prepare", "superseded")


def test_a_step_that_there_is_none_of_is_a_fault(deployment: Deployment) -> None:
    """R7.1: a definition and a function that do not fit together raise, and the state machine puts the machine back."""
    with pytest.raises(KeyError, match="polish"):
        deployment.invoke("benchmark", sample("benchmark/unknown_step"))


def test_reconcile_reports_what_became_of_benchmarks(deployment: Deployment, monkeypatch: Any) -> None:
    """R7.3: begun, rescued, dropped and drifted are in reconcile's line; without a state machine nothing is begun."""
    monkeypatch.setattr("functions.reconcile.app._SETTLING_IN_SEC", 0)
    deployment.invoke("reconcile", sample("reconcile/schedule"))
    line = deployment.summary("reconcile")
    assert (line["benchmarks_begun"], line["benchmarks_rescued"], line["failures"]) == (0, 0, {})
