"""SQS, SNS and Secrets Manager behind the ports; their clients are made when first needed.

They are botocore's own, which boto3 would only wrap: without it a function has one a tenth sooner.
"""

from __future__ import annotations

import json
import math
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

from blsflow.adapters.postgres.address import DatabaseAddress
from blsflow.ports.errors import EnqueueFailed, PublishFailed, SecretUnreadable, WorkflowUnavailable
from blsflow.ports.sampling import ExecutionStatus

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from blsflow.ports.services import NotificationMessage

_BATCH: Final = 10
"""The most entries that SendMessageBatch takes."""
_BATCHES_UNDER_WAY: Final = 4
"""So many at once: each waits for its answer far longer than it takes to be written."""
_LONGEST_SUBJECT: Final = 99
"""SNS takes fewer than 100 characters, in ASCII to be safe with every mail server."""
_LARGEST_MESSAGE_BYTES: Final = 256 * 1024
"""What SNS takes in all, attributes included."""
_SECRET_TTL_SEC: Final = 300


@cache
def _client(service: str) -> Any:  # noqa: ANN401 - botocore makes its clients' types at run time
    from botocore.config import Config  # noqa: PLC0415 - a quarter of a second that only some paths need
    from botocore.session import Session  # noqa: PLC0415 - likewise

    config = Config(
        connect_timeout=3,
        read_timeout=10,
        retries={"total_max_attempts": 3},
        parameter_validation=False,  # a twelfth of what a call takes us; the service says itself what is wrong
    )
    return Session().create_client(service, config=config)


class SqsQueue:
    """A standard SQS queue; sends in batches of ten, a few of them side by side."""

    def __init__(self, url: str) -> None:
        self._url = url

    def send(self, messages: Sequence[Mapping[str, object]]) -> None:
        """Enqueue all messages; `EnqueueFailed` tells how many were not, after all batches were tried."""
        if not messages:
            return
        batches = [messages[start : start + _BATCH] for start in range(0, len(messages), _BATCH)]
        try:
            client = _client("sqs")  # made before the threads share it: only using one is safe from many
        except Exception as error:
            raise EnqueueFailed(f"none of {len(messages)} messages was enqueued: {error}") from error
        with ThreadPoolExecutor(_BATCHES_UNDER_WAY, thread_name_prefix="enqueue") as pool:
            causes = [
                cause for refused in pool.map(partial(self._send, client), batches) for cause in refused
            ]
        if causes:
            message = f"{len(causes)} of {len(messages)} messages were not enqueued: {causes[-1]}"
            raise EnqueueFailed(message)

    def _send(self, client: Any, batch: Sequence[Mapping[str, object]]) -> list[str]:  # noqa: ANN401 - as `_client`
        """Send one batch; return for each message that was not enqueued why."""
        entries = [
            {"Id": str(index), "MessageBody": json.dumps(message)} for index, message in enumerate(batch)
        ]
        try:
            answer = client.send_message_batch(QueueUrl=self._url, Entries=entries)
        except Exception as error:  # noqa: BLE001 - botocore raises types made at run time; all mean "not enqueued"
            return [str(error)] * len(batch)
        return [entry.get("Message", entry.get("Code", "")) for entry in answer.get("Failed", ())]


class SnsPublisher:
    """An SNS topic: mails are for people, every other protocol gets the JSON document.

    Attributes let a subscription filter by tenant and code, and a receiver drop a repetition by the notification's id.
    """

    def __init__(self, topic_arn: str) -> None:
        self._topic_arn = topic_arn

    def publish(self, message: NotificationMessage) -> None:
        """Publish one; `PublishFailed` means that it may not have been."""
        subject = _subject(message.subject)
        attributes = {
            "notification_id": {"DataType": "Number", "StringValue": str(message.notification_id)},
            "tenant_id": {"DataType": "String", "StringValue": message.tenant_id},
            "code": {"DataType": "String", "StringValue": message.code},
        }
        room = _LARGEST_MESSAGE_BYTES - _bytes([subject, attributes])
        try:
            _client("sns").publish(
                TopicArn=self._topic_arn,
                Subject=subject,
                MessageStructure="json",
                Message=_by_protocol(message, room),
                MessageAttributes=attributes,
            )
        except Exception as error:  # botocore raises types made at run time; all mean "perhaps not published"
            raise PublishFailed(str(error)) from error


def _subject(text: str) -> str:
    """Return a mail's subject: one line of ASCII, cut."""
    line = " ".join(text.encode("ascii", "replace").decode().split())
    return line if len(line) <= _LONGEST_SUBJECT else f"{line[: _LONGEST_SUBJECT - 3].rstrip()}..."


def _by_protocol(message: NotificationMessage, room: int) -> str:
    """Return what each protocol is sent; parameters that do not fit are left out, the largest first, and named."""
    document = dict(message.document)
    params = document.pop("params")
    kept = dict(params) if isinstance(params, dict) else {}
    left_out: list[str] = []
    while True:
        told = {**document, "params": kept, **({"params_left_out": left_out} if left_out else {})}
        text = _json({"default": _json(told), "email": message.text})
        if len(text.encode()) <= room or not kept:
            return text
        largest = max(kept, key=lambda name: _bytes(kept[name]))
        left_out.append(largest)
        del kept[largest]


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _bytes(value: object) -> int:
    return len(_json(value).encode())


class StepFunctionsWorkflow:
    """A state machine of Step Functions, whose executions are told apart by their names."""

    def __init__(self, state_machine_arn: str) -> None:
        self._arn = state_machine_arn

    def start(self, name: str, document: Mapping[str, object]) -> None:
        """Begin an execution; one of that name that exists already, running or ended, is left as it is."""
        self._call(
            "start_execution",
            unless="ExecutionAlreadyExists",
            stateMachineArn=self._arn,
            name=name,
            input=json.dumps(document),
        )

    def status(self, name: str) -> ExecutionStatus:
        """Say where an execution stands."""
        answer = self._call(
            "describe_execution", unless="ExecutionDoesNotExist", executionArn=self._execution(name)
        )
        return ExecutionStatus.UNKNOWN if answer is None else ExecutionStatus(answer["status"].lower())

    def stop(self, name: str, cause: str) -> None:
        """End an execution; one that has ended already is left as it is."""
        self._call(
            "stop_execution", unless="ExecutionDoesNotExist", executionArn=self._execution(name), cause=cause
        )

    def _execution(self, name: str) -> str:
        return f"{self._arn.replace(':stateMachine:', ':execution:')}:{name}"

    def _call(self, operation: str, *, unless: str, **parameters: object) -> Any:  # noqa: ANN401 - botocore's own answer
        """Return the answer, or None for the one refusal that says where things stand."""
        try:
            return getattr(_client("stepfunctions"), operation)(**parameters)
        except Exception as error:
            code = getattr(error, "response", {}).get("Error", {}).get("Code", "")
            if code == unless:
                return None
            raise WorkflowUnavailable(f"{operation}: {error}") from error


def read_secret(arn: str) -> str:
    """Return a secret's text as it is now."""
    try:
        text: str = _client("secretsmanager").get_secret_value(SecretId=arn)["SecretString"]
    except Exception as error:  # botocore raises types made at run time
        message = f"secret {arn} cannot be read: {error}"
        raise SecretUnreadable(message) from error
    return text


class RotatedSecret:
    """A secret that is read again every five minutes, so that a rotation needs no redeploy.

    Keep the old one valid for as long after a rotation.
    """

    def __init__(self, arn: str) -> None:
        self._arn = arn
        self._read_at = -math.inf
        self._text = ""

    def __call__(self) -> str:
        """Return the text, read at most five minutes ago."""
        now = time.monotonic()
        if now - self._read_at > _SECRET_TTL_SEC:
            self._text, self._read_at = read_secret(self._arn), now
        return self._text


def database_address(secret_arn: str, *, tls: str) -> DatabaseAddress:
    """Read the database's address and credentials from a JSON secret.

    It holds host, port, username, password and dbname, and ca_pem where the server's authority is not one that every
    system trusts (an RDS instance that is reached directly).
    """
    secret = json.loads(read_secret(secret_arn))
    return DatabaseAddress(
        host=secret["host"],
        port=int(secret.get("port", 5432)),
        user=secret["username"],
        password=secret["password"],
        dbname=secret["dbname"],
        tls=tls,
        ca_file=secret.get("ca_file"),
        ca_pem=secret.get("ca_pem"),
    )
