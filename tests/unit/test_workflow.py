"""Step Functions behind the port, against an in-process imitation of AWS."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from moto import mock_aws

from blsflow.adapters import aws
from blsflow.bootstrap import application_from
from blsflow.ports.errors import WorkflowUnavailable
from blsflow.ports.sampling import ExecutionStatus

if TYPE_CHECKING:
    from collections.abc import Iterator

DOCUMENT = {"run_id": "1", "execution": "1-1", "begin_with": "prepare"}


@pytest.fixture
def workflow(monkeypatch: pytest.MonkeyPatch) -> Iterator[aws.StepFunctionsWorkflow]:
    """A state machine within this process, whose executions wait."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    with mock_aws():
        aws._client.cache_clear()
        definition = {"StartAt": "Wait", "States": {"Wait": {"Type": "Wait", "Seconds": 60, "End": True}}}
        machine = client().create_state_machine(
            name="benchmark",
            definition=json.dumps(definition),
            roleArn="arn:aws:iam::123456789012:role/states",
        )
        yield aws.StepFunctionsWorkflow(machine["stateMachineArn"])
    aws._client.cache_clear()


def client() -> Any:
    """A client of the imitation, beside the product's own."""
    return boto3.client("stepfunctions")


def test_an_execution_is_started_once_by_its_name(workflow: aws.StepFunctionsWorkflow) -> None:
    """R7.1: the same name a second time is left as it is, whatever is given with it."""
    workflow.start("1-1", DOCUMENT)
    workflow.start("1-1", DOCUMENT | {"begin_with": "restore"})
    (execution,) = client().list_executions(stateMachineArn=workflow._arn)["executions"]
    given = client().describe_execution(executionArn=execution["executionArn"])["input"]
    assert json.loads(given) == DOCUMENT


def test_where_an_execution_stands(workflow: aws.StepFunctionsWorkflow) -> None:
    """R7.3: running, stopped from outside, or unknown: an answer in each case; stopping what is gone does no harm."""
    assert workflow.status("1-1") is ExecutionStatus.UNKNOWN
    workflow.start("1-1", DOCUMENT)
    assert workflow.status("1-1") is ExecutionStatus.RUNNING
    workflow.stop("1-1", "test")
    assert workflow.status("1-1") is ExecutionStatus.ABORTED
    workflow.stop("9-9", "test")


def test_a_service_that_refuses_is_said_so(workflow: aws.StepFunctionsWorkflow) -> None:
    """R7.3: whatever else is wrong is one error, with its cause."""
    client().delete_state_machine(stateMachineArn=workflow._arn)
    with pytest.raises(WorkflowUnavailable, match="start_execution"):
        workflow.start("1-1", DOCUMENT)


def test_without_a_state_machine_there_is_no_workflow() -> None:
    """R7.1: a deployment without one begins no run; with one it is asked by its address."""
    assert application_from({}).workflow is None
    arn = "arn:aws:states:eu-central-1:123456789012:stateMachine:benchmark"
    found = application_from({"BLSFLOW_SCHEDULER_BENCHMARK_STATE_MACHINE_ARN": arn}).workflow
    assert isinstance(found, aws.StepFunctionsWorkflow)
