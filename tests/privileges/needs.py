"""Why each permission is there: the piece of work that fails without it, or why the emulator lets it pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from tests.privileges import works
from tests.privileges.permissions import Permission

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.privileges.stage import Observed, Stage

_NOT_ENQUEUED = "it is recorded, and begins with the next tick"
"""What the API says for a queue that did not take a message."""


class Need(NamedTuple):
    """What a permission is for, the piece of work that shows it, and the words by which its failure names the refusal.

    ``says`` is None where the failure repeats the emulator's own words.
    """

    what: str
    work: Callable[[Stage], Observed]
    says: str | None = None


SECRET: Final = "secretsmanager:GetSecretValue"
_SEND: Final = "sqs:SendMessage*"
_EXECUTIONS: Final = "execution:STACK-benchmark:*"

NEEDS: Final[dict[Permission, Need]] = {
    Permission("MigrateRole", SECRET, "DatabaseSecretArn"): Need("the migration", works.run("migrate")),
    Permission("TickRole", SECRET, "DatabaseSecretArn"): Need("every step of a scan", works.run("tick")),
    Permission("TickRole", SECRET, "ProfitApiKeySecretArn"): Need("prices are read", works.run("tick")),
    Permission("TickRole", _SEND, "DecideQueue"): Need("a due policy is sent to be decided", works.due_tick),
    Permission("TickRole", _SEND, "ExecuteQueue"): Need(
        "a due conversation is sent to be held", works.due_conversation
    ),
    Permission("DecideRole", SECRET, "DatabaseSecretArn"): Need(
        "deciding", works.message("decide", "occurrence_id")
    ),
    Permission("DecideRole", _SEND, "ExecuteQueue"): Need(
        "a tick's batches are sent to be executed", works.decided_tick
    ),
    Permission("ExecuteRole", SECRET, "DatabaseSecretArn"): Need(
        "sending", works.message("execute", "attempt_id")
    ),
    Permission("ExecuteRole", SECRET, "SwitchApiTokenSecretArn"): Need(
        "a batch is sent", works.message("execute", "attempt_id")
    ),
    Permission("ExecuteRole", SECRET, "ExecutionServiceTokenSecretArn"): Need(
        "a conversation is sent", works.message("execute", "occurrence_id")
    ),
    Permission("ReconcileRole", SECRET, "DatabaseSecretArn"): Need("following", works.run("reconcile")),
    Permission("ReconcileRole", SECRET, "SwitchApiTokenSecretArn"): Need(
        "reading back batches", works.run("reconcile")
    ),
    Permission("ReconcileRole", SECRET, "ExecutionServiceTokenSecretArn"): Need(
        "reading back conversations", works.run("reconcile")
    ),
    Permission("ReconcileRole", "states:StartExecution", "BenchmarkStateMachine"): Need(
        "a benchmark run is begun", works.benchmark_begun
    ),
    Permission("ReconcileRole", "states:DescribeExecution", _EXECUTIONS): Need(
        "a quiet run is asked after", works.benchmark_watched
    ),
    Permission("ReconcileRole", "states:StopExecution", _EXECUTIONS): Need(
        "a run that got stuck is stopped and replaced", works.benchmark_stopped
    ),
    Permission("BenchmarkRole", SECRET, "DatabaseSecretArn"): Need(
        "a step of a benchmark run", works.benchmark_step
    ),
    Permission("BenchmarkRole", SECRET, "SwitchApiTokenSecretArn"): Need(
        "a benchmark run's commands", works.benchmark_step
    ),
    Permission("ApiRole", SECRET, "DatabaseSecretArn"): Need("reading by the API", works.api_read),
    Permission("ApiRole", SECRET, "ExecutionServiceTokenSecretArn"): Need(
        "a run is cancelled at the execution service", works.api_cancel
    ),
    Permission("ApiRole", _SEND, "DecideQueue"): Need(
        "a person has a policy ticked now", works.api_run, _NOT_ENQUEUED
    ),
    Permission("ApiRole", _SEND, "ExecuteQueue"): Need(
        "a person stops a machine", works.api_command, _NOT_ENQUEUED
    ),
    Permission("LiveRole", SECRET, "DatabaseSecretArn"): Need("the live stream", works.live_read),
    Permission("NotifyRole", SECRET, "DatabaseSecretArn"): Need(
        "looking into the outbox", works.run("notify")
    ),
    Permission("NotifyRole", "sns:Publish", "NotificationTopic"): Need(
        "what waits in the outbox is published", works.publish
    ),
}
"""What the emulator refuses, in an order in which the pieces can be done one after the other."""

_LOGS: Final = "the emulator writes functions' logs itself, as nobody"
_TRACES: Final = "the emulator traces nothing"
_DELIVERY: Final = "the emulator delivers no state machine's logs, and asks nobody when it is told to"
_NETWORK: Final = "the emulator runs functions as processes, without network interfaces"
_POLLING: Final = "the emulator takes messages from its own queue and deletes them, as nobody"

UNENFORCED: Final[dict[str, str]] = {
    "logs:CreateLogStream": _LOGS,
    "logs:PutLogEvents": _LOGS,
    "xray:PutTraceSegments": _TRACES,
    "xray:PutTelemetryRecords": _TRACES,
    "xray:GetSamplingRules": _TRACES,
    "xray:GetSamplingTargets": _TRACES,
    "kms:Decrypt": "the emulator keeps secrets in the clear and asks no key, whichever is named",
    "ec2:CreateNetworkInterface": _NETWORK,
    "ec2:DeleteNetworkInterface": _NETWORK,
    "ec2:DescribeNetworkInterfaces": _NETWORK,
    "ec2:DescribeSubnets": _NETWORK,
    "ec2:AssignPrivateIpAddresses": _NETWORK,
    "ec2:UnassignPrivateIpAddresses": _NETWORK,
    "lambda:InvokeFunction": "the emulator's scheduler and state machines call functions directly, as nobody",
    "sqs:ReceiveMessage": _POLLING,
    "sqs:DeleteMessage": _POLLING,
    "sqs:ChangeMessageVisibility": _POLLING,
    "sqs:GetQueueAttributes": _POLLING,
    "logs:CreateLogDelivery": _DELIVERY,
    "logs:GetLogDelivery": _DELIVERY,
    "logs:UpdateLogDelivery": _DELIVERY,
    "logs:DeleteLogDelivery": _DELIVERY,
    "logs:ListLogDeliveries": _DELIVERY,
    "logs:PutResourcePolicy": _DELIVERY,
    "logs:DescribeResourcePolicies": _DELIVERY,
    "logs:DescribeLogGroups": _DELIVERY,
}
"""What the emulator lets pass, by action, and why; AWS's own services do these things with the roles, not the product.

All of them are taken away from all roles before the main job runs: it would fail if any were asked for after all.
"""
