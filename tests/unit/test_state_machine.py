"""The state machine of benchmark runs, as it stands in its file: its shape, its names, its time-outs, its ways out."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
import yaml

from blsflow.flow.benchmark import STEPS
from blsflow.settings import BENCHMARK_EXECUTION_SEC, read_settings

if TYPE_CHECKING:
    from collections.abc import Iterator

REPOSITORY = Path(__file__).parents[2]
TEXT = (REPOSITORY / "functions" / "benchmark" / "benchmark.asl.json").read_text()
DEFINITION: dict[str, Any] = json.loads(TEXT)
STATES: dict[str, dict[str, Any]] = DEFINITION["States"]
TASKS = [name for name, state in STATES.items() if state["Type"] == "Task"]
LARGEST_DEFINITION = 1024 * 1024
LONGEST_NAME = 80
# A command's fate is read from its attempt, so that calling these again would be safe too; putting back comes sooner without.
NEVER_REPEATED = {"Switch", "Restore"}


def ways(state: dict[str, Any]) -> Iterator[str]:
    """Where a state can lead."""
    for way in ("Next", "Default"):
        if way in state:
            yield str(state[way])
    for several in ("Choices", "Catch"):
        yield from (str(each["Next"]) for each in state.get(several, ()))


def reachable(start: str) -> set[str]:
    """All states that can follow a state, itself included."""
    found, open_ = set(), [start]
    while open_:
        name = open_.pop()
        if name not in found:
            found.add(name)
            open_ += ways(STATES[name])
    return found


def template() -> dict[str, Any]:
    """The template, without what its short forms mean."""

    class Loader(yaml.SafeLoader):
        """Reads every short form as None."""

    Loader.add_multi_constructor("!", lambda *_: None)
    document: dict[str, Any] = yaml.load((REPOSITORY / "template.yaml").read_text(), Loader)  # noqa: S506 - a SafeLoader
    return document


def test_it_is_valid_amazon_states_language() -> None:
    """R7.1: the linter of templates, which only looks into definitions that stand inline, accepts this one too."""
    schema = json.loads(
        files("cfnlint.data.schemas.other.step_functions").joinpath("statemachine.json").read_text()
    )
    jsonschema.Draft7Validator(schema).validate(DEFINITION)


def test_it_keeps_to_the_limits_of_the_service() -> None:
    """R7.1: a definition that Step Functions would refuse is refused here."""
    assert len(TEXT.encode()) < LARGEST_DEFINITION
    assert max(map(len, STATES)) <= LONGEST_NAME


def test_every_state_is_reached_and_leads_somewhere() -> None:
    """R7.1: no state is left over, none leads nowhere, and from each an end can be reached."""
    assert reachable(DEFINITION["StartAt"]) == set(STATES)
    for name, state in STATES.items():
        assert set(ways(state)) <= set(STATES)
        assert "Done" in reachable(name) or name == "LeftToReconcile"


@pytest.mark.parametrize("name", TASKS)
def test_each_task_takes_a_step_that_there_is(name: str) -> None:
    """R7.1: every task calls the function with a step, the run, and the execution in whose name it is taken."""
    parameters = STATES[name]["Parameters"]
    assert parameters["step"] in STEPS
    assert (parameters["run_id.$"], parameters["execution.$"]) == ("$.run_id", "$.execution")
    assert STATES[name]["Resource"] == "${BenchmarkFunctionArn}"


def test_every_step_is_taken() -> None:
    """R7.1: no step lies about unused."""
    assert {STATES[name]["Parameters"]["step"] for name in TASKS} == set(STEPS)


@pytest.mark.parametrize("name", TASKS)
def test_whatever_fails_leads_to_putting_back(name: str) -> None:
    """R7.3: each task catches everything; only where putting back itself failed, reconcile takes over."""
    (catch,) = STATES[name]["Catch"]
    assert catch["ErrorEquals"] == ["States.ALL"]
    putting_back = TASKS[TASKS.index("Restore") :]
    assert catch["Next"] == ("LeftToReconcile" if name in putting_back else "Restore")
    assert ("Retry" not in STATES[name]) == (name in NEVER_REPEATED)


@pytest.mark.parametrize(
    "name", [name for name in TASKS if name in reachable("Switch") - reachable("Restore")]
)
def test_nothing_ends_before_the_machine_is_back(name: str) -> None:
    """R7.3: from the switch on there is no way to an end that leads past restore."""
    seen, open_ = set(), [name]
    while open_:
        state = open_.pop()
        if state in seen or state == "Restore":
            continue
        seen.add(state)
        assert STATES[state]["Type"] not in {"Succeed", "Fail"}
        open_ += ways(STATES[state])


def test_every_wait_is_as_long_as_the_step_before_said() -> None:
    """R7.1: no duration is written down twice: the definition takes each from the settings, through a step."""
    for state in STATES.values():
        if state["Type"] == "Wait":
            assert state["SecondsPath"] == "$.result.wait_sec"


def test_time_outs_agree_with_the_settings() -> None:
    """R7.1: the whole fits what the settings promise, and a task outlasts the function that it calls."""
    assert DEFINITION["TimeoutSeconds"] == BENCHMARK_EXECUTION_SEC
    timeout = template()["Resources"]["BenchmarkFunction"]["Properties"]["Timeout"]
    assert {STATES[name]["TimeoutSeconds"] for name in TASKS} == {timeout + 10}


def test_a_window_longer_than_a_time_out_is_refused_at_deployment() -> None:
    """R7.1: the longest window and warm-up that the template admits are the longest that the default watchdog admits."""
    parameters = template()["Parameters"]
    environ = {
        "BENCHMARK_SAMPLE_WINDOW_SEC": str(parameters["BenchmarkSampleWindowSec"]["MaxValue"]),
        "BLSFLOW_SCHEDULER_BENCHMARK_WARM_UP_SEC": str(parameters["BenchmarkWarmUpSec"]["MaxValue"]),
    }
    settings = read_settings(environ)
    assert (
        settings.benchmark_sample_window_sec == settings.benchmark_warm_up_sec == settings.watchdog_sec - 60
    )
