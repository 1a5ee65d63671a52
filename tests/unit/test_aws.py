"""SQS, SNS and Secrets Manager behind the ports, against an in-process imitation of AWS."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from moto import mock_aws

from blsflow.adapters import aws
from blsflow.bootstrap import application_from
from blsflow.ports.errors import EnqueueFailed, PublishFailed, SecretUnreadable
from blsflow.ports.services import NotificationMessage

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
        """Answer the batch that begins with a message as told, or pass it on."""
        self.sizes.append(len(request["Entries"]))
        answer = self._answers.get(json.loads(request["Entries"][0]["MessageBody"])["occurrence_id"])
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
    assert sorted(send_through(monkeypatch, queue_url, {}).sizes) == [5, 10, 10]


def test_batches_go_out_side_by_side(monkeypatch: pytest.MonkeyPatch, queue_url: str) -> None:
    """R8.3: three batches are under way at once, so that a page takes no longer than its slowest answers."""
    together = threading.Barrier(3)

    class Meeting:
        def send_message_batch(self, **_request: object) -> dict[str, object]:
            together.wait(timeout=5)
            return {}

    monkeypatch.setattr(aws, "_client", lambda _service: Meeting())
    aws.SqsQueue(queue_url).send([{"occurrence_id": n} for n in range(25)])


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
        send_through(monkeypatch, queue_url, {10: refusing})
    assert sorted(body["occurrence_id"] for body in bodies(queue_url)) == [*range(10), *range(20, 25)]


def test_a_call_that_fails_loses_its_own_batch_only(monkeypatch: pytest.MonkeyPatch, queue_url: str) -> None:
    """R8.3: a batch that never arrived is counted whole, and those after it are tried all the same."""
    with pytest.raises(EnqueueFailed, match=r"10 of 25 messages were not enqueued: connection reset"):
        send_through(monkeypatch, queue_url, {0: ConnectionError("connection reset")})
    assert sorted(body["occurrence_id"] for body in bodies(queue_url)) == list(range(10, 25))


def test_without_a_client_nothing_is_enqueued_and_the_caller_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """R11.3: a region that nobody set is told like any other reason; what was committed goes out with the next tick."""

    def no_region(service: str) -> Any:
        raise ValueError(f"{service}: You must specify a region.")

    monkeypatch.setattr(aws, "_client", no_region)
    queue = aws.SqsQueue("https://sqs.invalid/decide")
    with pytest.raises(
        EnqueueFailed, match=r"none of 2 messages was enqueued: sqs: You must specify a region"
    ):
        queue.send([{"occurrence_id": 1}, {"occurrence_id": 2}])
    queue.send([])


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


def message(**changes: Any) -> NotificationMessage:
    """A notification as notify makes it."""
    document = {
        "code": "policy_frozen",
        "params": {"cause": "价格"},
        "texts": {"en": "Frozen.", "zh": "已冻结。"},
    }
    told: dict[str, Any] = {
        "notification_id": 17, "tenant_id": "acme", "code": "policy_frozen", "subject": "BLSFlow, acme: Frozen.",
        "text": "Frozen.\n\n已冻结。\n", "document": document, **changes,
    }  # fmt: skip
    return NotificationMessage(**told)


def test_a_notification_has_attributes_to_filter_and_to_tell_repetitions_by(queue_url: str) -> None:
    """R6.3, R10.1: a subscription filters by tenant and code, and a receiver tells a repetition, without the body."""
    aws.SnsPublisher(subscribed(queue_url)).publish(message())
    (envelope,) = bodies(queue_url)
    assert envelope["MessageAttributes"] == {
        "notification_id": {"Type": "Number", "Value": "17"},
        "tenant_id": {"Type": "String", "Value": "acme"},
        "code": {"Type": "String", "Value": "policy_frozen"},
    }
    assert envelope["Subject"] == "BLSFlow, acme: Frozen."
    assert json.loads(envelope["Message"]) == message().document


class Topic:
    """Stands before SNS, and keeps what it is given."""

    def __init__(self) -> None:
        self.request: dict[str, Any] = {}

    def publish(self, **request: Any) -> None:
        """Keep the request."""
        self.request = request


def published(monkeypatch: pytest.MonkeyPatch, **changes: Any) -> dict[str, Any]:
    """What SNS is asked for a notification."""
    topic = Topic()
    with monkeypatch.context() as patched:
        patched.setattr(aws, "_client", lambda _service: topic)
        aws.SnsPublisher("arn").publish(message(**changes))
    return topic.request


def test_a_mail_is_for_reading_and_all_else_gets_the_document(monkeypatch: pytest.MonkeyPatch) -> None:
    """R10.1: who subscribes by mail gets the text in both languages; webhooks, queues and functions the JSON document."""
    request = published(monkeypatch)
    assert request["MessageStructure"] == "json"
    by_protocol = json.loads(request["Message"])
    assert by_protocol.keys() == {"default", "email"}
    assert by_protocol["email"] == message().text
    assert json.loads(by_protocol["default"]) == message().document


@pytest.mark.parametrize("subject", ["价格" * 60, "a\nb\r\tc" * 40, "word " * 30, "x" * 300, "é" * 99])
def test_a_subject_is_what_sns_takes(monkeypatch: pytest.MonkeyPatch, subject: str) -> None:
    """R10.1: plain ASCII, one line, fewer than 100 characters, whatever a tenant is called."""
    sent = published(monkeypatch, subject=subject)["Subject"]
    assert sent.isascii()
    assert sent.isprintable()
    assert 0 < len(sent) < 100
    assert sent.endswith("..." if len(" ".join(subject.split())) > 99 else sent[-1])


@pytest.mark.parametrize(
    ("machines", "said", "kept"),
    [(40_000, "why", {"said": "why", "failures": 3}), (300_000, "价" * 90_000, {"failures": 3})],
    ids=["one", "both"],
)
def test_what_sns_would_refuse_for_its_size_is_left_out_and_named(
    queue_url: str, monkeypatch: pytest.MonkeyPatch, machines: int, said: str, kept: dict[str, object]
) -> None:
    """R10.1: a notification about a whole fleet goes out within 256 KB: the largest parameters stay behind, by name."""
    params = {"machines": list(range(10**6, 10**6 + machines)), "said": said, "failures": 3}
    document = {**message().document, "params": params}
    request = published(monkeypatch, document=document)
    parts = [request["Message"], request["Subject"], json.dumps(request["MessageAttributes"])]
    assert sum(len(part.encode()) for part in parts) <= 256 * 1024
    told = json.loads(json.loads(request["Message"])["default"])
    assert told["params"] == kept
    assert sorted(told["params_left_out"]) == sorted(params.keys() - kept.keys())
    aws.SnsPublisher(subscribed(queue_url)).publish(message(document=document))
    assert len(bodies(queue_url)) == 1


def test_what_fits_is_sent_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """R10.1: nothing is left out below SNS's limit."""
    document = {**message().document, "params": {"said": "x" * 200_000}}
    assert json.loads(json.loads(published(monkeypatch, document=document)["Message"])["default"]) == document


def test_a_topic_that_is_not_there_is_told_in_our_own_words() -> None:
    """R6.3: what was perhaps not published is one kind of failure, whatever AWS calls it."""
    publisher = aws.SnsPublisher("arn:aws:sns:eu-central-1:123456789012:gone")
    with pytest.raises(PublishFailed):
        publisher.publish(message())


def test_a_secret_is_read_at_each_use() -> None:
    """R11.3: a rotated secret counts from its next use on, in the same process."""
    arn = client("secretsmanager").create_secret(Name="token", SecretString="first")["ARN"]
    assert aws.read_secret(arn) == "first"
    client("secretsmanager").put_secret_value(SecretId=arn, SecretString="second")
    assert aws.read_secret(arn) == "second"


def test_a_secret_that_cannot_be_read_names_its_arn() -> None:
    """R11.3: an operator learns which secret is missing."""
    arn = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:gone-AbCdEf"
    with pytest.raises(SecretUnreadable, match="secret:gone-AbCdEf cannot be read"):
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
