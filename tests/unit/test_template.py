"""What the template promises, read from the template itself."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from blsflow.adapters.postgres.connection import SILENCE_SEC
from blsflow.settings import read_settings
from tests.template import as_list, of_type, properties, template

if TYPE_CHECKING:
    from collections.abc import Iterator

FUNCTIONS = ["Tick", "Decide", "Execute", "Reconcile", "Benchmark", "Api", "Live", "Notify", "Migrate"]
CONSUMERS = ["Decide", "Execute"]
# X-Ray and log deliveries know no resources; network interfaces are made before they have an id.
UNAVOIDABLE_WILDCARDS = {"Traces", "NetworkInterfaces", "DeliverLogs"}
# One action on AWS, where it covers sending in batches; the emulator knows that as an action of its own.
SEND = "sqs:SendMessage*"


def _statements() -> Iterator[tuple[str, dict[str, Any]]]:
    for name in [*of_type("AWS::IAM::Role"), *of_type("AWS::IAM::ManagedPolicy")]:
        found = properties(name)
        documents = [policy["PolicyDocument"] for policy in found.get("Policies", [])]
        for document in documents or [found["PolicyDocument"]]:
            for statement in document["Statement"]:
                yield name, statement["Fn::If"][1] if "Fn::If" in statement else statement


def _who_may(action: str) -> set[str]:
    return {name for name, statement in _statements() if action in as_list(statement["Action"])}


def test_the_functions_are_those_of_the_flow() -> None:
    """R11.1: the template holds every function of the flow and no other."""
    assert of_type("AWS::Serverless::Function") == [
        f"{name}Function" for name in sorted(FUNCTIONS, key=_position)
    ]


def _position(name: str) -> int:
    return list(template()["Resources"]).index(f"{name}Function")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_function_logs_into_a_group_that_forgets(name: str) -> None:
    """R11.2: every function has a log group of its own, named after it, with a retention."""
    group = properties(f"{name}LogGroup")
    function_name = properties(f"{name}Function")["FunctionName"]["Fn::Sub"]
    assert group["LogGroupName"] == {"Fn::Sub": f"/aws/lambda/{function_name}"}
    assert group["RetentionInDays"] == {"Ref": "LogRetentionDays"}
    assert f"{name}LogGroup" in template()["Resources"][f"{name}Function"]["DependsOn"]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_function_has_a_role_of_its_own(name: str) -> None:
    """R11.1: no function borrows another's rights, and SAM adds none to an explicit role."""
    assert properties(f"{name}Function")["Role"] == {"Fn::GetAtt": f"{name}Role.Arn"}
    assert "Policies" not in properties(f"{name}Function")


def test_no_role_may_do_anything_to_everything() -> None:
    """R11.1: actions are spelt out, and resources are named wherever AWS has names for them."""
    for name, statement in _statements():
        actions = as_list(statement["Action"])
        assert not [action for action in actions if "*" in action and action != SEND], (
            f"{name} allows {actions}"
        )
        if "*" in as_list(statement["Resource"]):
            assert statement["Sid"] in UNAVOIDABLE_WILDCARDS, f"{name} allows {actions} on everything"


def test_only_the_function_whose_work_it_is_may_do_it() -> None:
    """R11.1: publishing, enqueueing and consuming are each allowed to those that do it."""
    assert _who_may("sns:Publish") == {"NotifyRole"}
    assert _who_may(SEND) == {"TickRole", "DecideRole", "ApiRole"}
    assert _who_may("sqs:ReceiveMessage") == {"DecideRole", "ExecuteRole"}
    assert _who_may("lambda:InvokeFunction") == {"SchedulerRole", "BenchmarkStatesRole"}
    assert _who_may("states:StartExecution") == _who_may("states:StopExecution") == {"ReconcileRole"}


def test_each_secret_is_readable_by_those_that_use_it() -> None:
    """R11.3: the device-control token is read where commands are sent or read back, and nowhere else."""
    readers: dict[str, set[str]] = {}
    for name, statement in _statements():
        if statement["Action"] == "secretsmanager:GetSecretValue":
            readers.setdefault(statement["Resource"]["Ref"], set()).add(name)
    assert readers["SwitchApiTokenSecretArn"] == {"ExecuteRole", "ReconcileRole", "BenchmarkRole"}
    assert readers["DatabaseSecretArn"] == {"RuntimePolicy"}


@pytest.mark.parametrize("name", CONSUMERS)
def test_a_message_is_not_delivered_again_while_its_function_may_still_run(name: str) -> None:
    """R11.1: a queue's visibility time-out is at least six times its function's time-out."""
    assert properties(f"{name}Queue")["VisibilityTimeout"] >= 6 * properties(f"{name}Function")["Timeout"]


@pytest.mark.parametrize("name", CONSUMERS)
def test_a_poison_message_ends_in_a_queue_that_can_be_redriven(name: str) -> None:
    """R11.1: each queue gives up into its own encrypted dead-letter queue, which only it may use."""
    queue, dead = properties(f"{name}Queue"), properties(f"{name}DeadLetterQueue")
    assert queue["RedrivePolicy"]["deadLetterTargetArn"] == {"Fn::GetAtt": f"{name}DeadLetterQueue.Arn"}
    assert queue["RedrivePolicy"]["maxReceiveCount"] >= 2
    allowed = dead["RedriveAllowPolicy"]
    assert allowed["redrivePermission"] == "byQueue"
    assert allowed["sourceQueueArns"][0]["Fn::Sub"].endswith(":" + queue["QueueName"]["Fn::Sub"])
    assert queue["SqsManagedSseEnabled"] is dead["SqsManagedSseEnabled"] is True
    assert dead["MessageRetentionPeriod"] == 14 * 24 * 3600


@pytest.mark.parametrize("name", CONSUMERS)
def test_one_bad_message_does_not_bring_back_its_batch(name: str) -> None:
    """R11.1: consumers report partial failures, and a flood opens a bounded number of connections."""
    (event,) = properties(f"{name}Function")["Events"].values()
    assert event["Properties"]["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert 2 <= event["Properties"]["ScalingConfig"]["MaximumConcurrency"] <= 20


@pytest.mark.parametrize("name", ["Tick", "Reconcile", "Notify"])
def test_the_clockwork_runs_every_minute_and_leaves_a_miss_to_the_next_run(name: str) -> None:
    """R8.5: schedules fire each minute, and a missed run is not caught up."""
    schedule = properties(f"{name}Schedule")
    assert schedule["ScheduleExpression"] == "rate(1 minute)"
    assert schedule["Target"]["Arn"] == {"Fn::GetAtt": f"{name}Function.Arn"}
    assert schedule["Target"]["RetryPolicy"]["MaximumRetryAttempts"] == 0


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name != "Migrate"])
def test_no_function_runs_before_the_schema_fits_it(name: str) -> None:
    """R11.1: the migration is part of the deployment and comes before the functions that rely on it."""
    assert "Migration" in template()["Resources"][f"{name}Function"]["DependsOn"]


def test_a_new_version_of_the_code_migrates_again() -> None:
    """R11.1: the migration's properties change with the layer that holds the migrations."""
    assert properties("Migration")["CodeVersion"] == {"Ref": "CoreLayer"}
    assert properties("Migration")["ServiceTimeout"] >= properties("MigrateFunction")["Timeout"]


def test_every_variable_is_one_that_the_settings_read() -> None:
    """R11.7: a name in the template that no code reads, or that is misspelt, is refused here."""
    read: Counter[str] = Counter()

    class Recorder(dict[str, str]):
        def __getitem__(self, name: str) -> str:
            read[name] += 1
            return super().__getitem__(name)

        def get(self, name: str, default: Any = None) -> Any:
            read[name] += 1
            return super().get(name, default)

    read_settings(Recorder())
    given = set(template()["Globals"]["Function"]["Environment"]["Variables"])
    for name in FUNCTIONS:
        given |= set(properties(f"{name}Function")["Environment"]["Variables"])
    assert {name for name in given if not name.startswith("POWERTOOLS_")} <= set(read)


def test_the_api_cannot_take_the_flows_share_of_the_account() -> None:
    """R11.1: requests and streams are bounded, and a stream too many is still told so; nothing of the flow is."""
    parameters = template()["Parameters"]
    for name, condition, parameter in (
        ("Api", "BoundsApi", "ApiConcurrency"),
        ("Live", "BoundsLive", "LiveConcurrency"),
    ):
        reserved = properties(f"{name}Function")["ReservedConcurrentExecutions"]
        assert reserved == {"Fn::If": [condition, {"Ref": parameter}, {"Ref": "AWS::NoValue"}]}
        assert parameters[parameter]["Default"] > 0
    streams = properties("LiveFunction")["Environment"]["Variables"]["BLSFLOW_SCHEDULER_STREAMS"]
    assert streams == {"Ref": "LiveStreams"}
    assert parameters["LiveStreams"]["Default"] == read_settings({}).streams
    assert parameters["LiveConcurrency"]["Default"] >= parameters["LiveStreams"]["Default"] + 10
    bounded = [name for name in FUNCTIONS if "ReservedConcurrentExecutions" in properties(f"{name}Function")]
    assert bounded == ["Api", "Live"]


@pytest.mark.parametrize("name", ["Api", "Live"])
def test_a_silent_database_is_told_of_before_the_function_ends(name: str) -> None:
    """R9.2: statement and socket give up, and a new connection is tried, while there is time left to answer."""
    function = properties(f"{name}Function")
    silent = float(function["Environment"]["Variables"]["BLSFLOW_SCHEDULER_DATABASE_TIMEOUT_SEC"])
    assert silent + SILENCE_SEC + 5 < function["Timeout"]


def test_no_route_that_asks_for_a_token_takes_preflights() -> None:
    """R9.1: a browser's preflight carries no token; a route for ANY method with an authorizer would refuse it."""
    routes = {
        properties(name)["RouteKey"]: properties(name)["AuthorizationType"]
        for name in of_type("AWS::ApiGatewayV2::Route")
    }
    guarded = {key.split()[0] for key, authorization in routes.items() if authorization == "JWT"}
    assert guarded == set(properties("HttpApi")["CorsConfiguration"]["Fn::If"][1]["AllowMethods"])
    assert {key for key, authorization in routes.items() if authorization == "NONE"} == {
        f"GET /api/v1/smart-schedule/{path}" for path in ("health", "openapi.json")
    }
    assert {key for key in routes if "{proxy+}" in key} == {
        f"{method} /api/v1/smart-schedule/{{proxy+}}" for method in guarded
    }


def test_a_deployment_that_says_nothing_is_the_safe_one() -> None:
    """R4.2, R11.3: by default nothing is executed, and the database's certificate and name are verified."""
    defaults = {name: parameter.get("Default") for name, parameter in template()["Parameters"].items()}
    assert defaults["ExecuteEnabled"] == "false"
    assert defaults["DatabaseTls"] == "verify-full"
    assert defaults["SwitchApiBaseUrl"] == ""
    assert (defaults["Architecture"], defaults["PythonRuntime"]) == ("arm64", "python3.13")


def test_traces_and_alarms_reach_somebody() -> None:
    """R11.2: every function is traced, and every alarm has somewhere to go."""
    assert template()["Globals"]["Function"]["Tracing"] == "Active"
    alarms = of_type("AWS::CloudWatch::Alarm")
    assert len(alarms) >= 8
    for name in alarms:
        assert properties(name)["AlarmActions"] == [{"Ref": "AlarmTopic"}]
