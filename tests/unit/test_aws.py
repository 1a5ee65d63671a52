"""SQS, SNS and Secrets Manager behind the ports, against an in-process imitation of AWS."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from moto import mock_aws

from blsflow.adapters import aws
from blsflow.bootstrap import application_from
from blsflow.ports import EnqueueFailed, PublishFailed, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PREFIX = "BLSFLOW_SCHEDULER_"


@pytest.fixture(autouse=True)
def imitated(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """AWS within this process; nothing reaches the real one."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    forget = aws._client.cache_clear
    with mock_aws():
        forget()
        yield
    forget()


def client(service: str) -> Any:
    """A client of the imitation, beside the product's own."""
    return boto3.client(service)  # type: ignore[call-overload]


@pytest.fixture
def queue_url() -> str:
    """A standard queue."""
    return str(client("sqs").create_queue(QueueName="decide")["QueueUrl"])


def bodies(queue_url: str) -> list[Any]:
    """The bodies of all messages in a queue."""
    found: list[Any] = []
    while True:
        received = client("sqs").receive_message(QueueUrl=queue_url, MaxNumberOfMessages=10).get("Messages")
        if not received:
            return found
        found += [json.loads(message["Body"]) for message in received]


class Recorder:
    """Stands before SQS: notes the size of each batch, and fails as told."""

    def __init__(self, answers: Mapping[int, Any]) -> None:
        self.sizes: list[int] = []
        self._answers = answers
        self._sqs = client("sqs")

    def send_message_batch(self, **request: Any) -> Any:
        """Answer the n-th call as told, or pass it on."""
        self.sizes.append(len(request["Entries"]))
        answer = self._answers.get(len(self.sizes))
        if isinstance(answer, Exception):
            raise answer
        return self._sqs.send_message_batch(**request) if answer is None else answer


def send_through(monkeypatch: pytest.MonkeyPatch, queue_url: str, answers: Mapping[int, Any]) -> Recorder:
    """Send 25 messages through a recorder that answers some calls itself."""
    recorder = Recorder(answers)
    monkeypatch.setattr(aws, "_client", lambda _service: recorder)
    aws.SqsQueue(queue_url).send([{"occurrence_id": n} for n in range(25)])
    return recorder


@pytest.mark.parametrize("count", [0, 1, 9, 10, 11, 25])
def test_messages_go_out_in_tens_and_none_is_lost(queue_url: str, count: int) -> None:
    """R8.3: every message of any number arrives, though SQS takes ten at a time."""
    aws.SqsQueue(queue_url).send([{"occurrence_id": n} for n in range(count)])
    assert sorted(body["occurrence_id"] for body in bodies(queue_url)) == list(range(count))


def test_a_batch_is_never_larger_than_sqs_takes(monkeypatch: pytest.MonkeyPatch, queue_url: str) -> None:
    """R8.3: 25 messages are three calls of at most ten."""
    assert send_through(monkeypatch, queue_url, {}).sizes == [10, 10, 5]


def test_entries_that_sqs_refuses_are_counted(monkeypatch: pytest.MonkeyPatch, queue_url: str) -> None:
    """R8.3: a call that succeeds may have refused entries; they are counted, and the other batches still go out."""
    refusing = {
        "Successful": [{"Id": str(n)} for n in range(8)],
        "Failed": [
            {"Id": "8", "Code": "InternalError", "Message": "try again"},
            {"Id": "9", "Code": "Throttled"},
        ],
    }
    with pytest.raises(EnqueueFailed, match=r"2 of 25 messages were not enqueued: Throttled"):
        send_through(monkeypatch, queue_url, {2: refusing})
    assert sorted(body["occurrence_id"] for body in bodies(queue_url)) == [*range(10), *range(20, 25)]


def test_a_call_that_fails_loses_its_own_batch_only(monkeypatch: pytest.MonkeyPatch, queue_url: str) -> None:
    """R8.3: a batch that never arrived is counted whole, and those after it are tried all the same."""
    with pytest.raises(EnqueueFailed, match=r"10 of 25 messages were not enqueued: connection reset"):
        send_through(monkeypatch, queue_url, {1: ConnectionError("connection reset")})
    assert sorted(body["occurrence_id"] for body in bodies(queue_url)) == list(range(10, 25))


def test_a_queue_that_is_not_there_is_told_in_our_own_words() -> None:
    """R8.3: AWS's error types stay behind the port."""
    with pytest.raises(EnqueueFailed, match="1 of 1 messages"):
        aws.SqsQueue("https://sqs.eu-central-1.amazonaws.com/123456789012/gone").send([{"occurrence_id": 1}])


def subscribed(queue_url: str) -> str:
    """A topic whose publications arrive in the queue as they are."""
    topic = str(client("sns").create_topic(Name="notifications")["TopicArn"])
    attributes = client("sqs").get_queue_attributes(QueueUrl=queue_url, AttributeNames=["QueueArn"])
    client("sns").subscribe(TopicArn=topic, Protocol="sqs", Endpoint=attributes["Attributes"]["QueueArn"])
    return topic


def test_a_notification_carries_its_id_as_an_attribute(queue_url: str) -> None:
    """R6.3: receivers tell a repetition by its id, and filter by the code, without reading the body."""
    publisher = aws.SnsPublisher(subscribed(queue_url))
    body = {"code": "policy_frozen", "params": {"cause": "价格"}}
    publisher.publish(notification_id=17, subject="policy_frozen " * 20, body=body)
    (envelope,) = bodies(queue_url)
    assert envelope["MessageAttributes"] == {
        "notification_id": {"Type": "Number", "Value": "17"},
        "code": {"Type": "String", "Value": "policy_frozen"},
    }
    assert json.loads(envelope["Message"]) == body
    assert len(envelope["Subject"]) == 100


def test_a_topic_that_is_not_there_is_told_in_our_own_words() -> None:
    """R6.3: what was perhaps not published is one kind of failure, whatever AWS calls it."""
    publisher = aws.SnsPublisher("arn:aws:sns:eu-central-1:123456789012:gone")
    with pytest.raises(PublishFailed):
        publisher.publish(notification_id=1, subject="s", body={"code": "policy_frozen"})


def test_a_secret_is_read_at_each_use() -> None:
    """R11.3: a rotated secret counts from its next use on, in the same process."""
    arn = client("secretsmanager").create_secret(Name="token", SecretString="first")["ARN"]
    assert aws.read_secret(arn) == "first"
    client("secretsmanager").put_secret_value(SecretId=arn, SecretString="second")
    assert aws.read_secret(arn) == "second"


def test_a_secret_that_cannot_be_read_names_its_arn() -> None:
    """R11.3: an operator learns which secret is missing."""
    arn = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:gone-AbCdEf"
    with pytest.raises(StoreUnavailable, match="secret:gone-AbCdEf cannot be read"):
        aws.read_secret(arn)


def test_a_database_secret_holds_all_of_the_address() -> None:
    """R11.3: the port has a default, the rest of the address is in the secret, and the password is never shown."""
    document = {"host": "db", "username": "scheduler", "password": "canary", "dbname": "blsflow"}
    arn = client("secretsmanager").create_secret(Name="db", SecretString=json.dumps(document))["ARN"]
    address = aws.database_address(arn, tls="require")
    assert (address.host, address.port, address.user) == ("db", 5432, "scheduler")
    assert (address.password, address.dbname, address.tls) == ("canary", "blsflow", "require")
    assert "canary" not in repr(address)


def test_the_token_comes_from_its_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """R11.3: what the settings hold is the secret's name; the adapter reads the token, and a rotated one anew."""
    arn = client("secretsmanager").create_secret(Name="token", SecretString="canary")["ARN"]
    environ = {PREFIX + "SWITCH_API_BASE_URL": "https://device", PREFIX + "SWITCH_API_TOKEN_SECRET_ARN": arn}
    application = application_from(environ)
    control: Any = application.device_control
    assert control._http._standing_headers()["Authorization"] == "Bearer canary"
    assert "canary" not in repr(application.settings)
    client("secretsmanager").put_secret_value(SecretId=arn, SecretString="nightingale")
    assert control._http._standing_headers()["Authorization"] == "Bearer canary"
    monkeypatch.setattr("blsflow.adapters.aws._SECRET_TTL_SEC", -1)
    assert control._http._standing_headers()["Authorization"] == "Bearer nightingale"
