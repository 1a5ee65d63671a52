"""The functions' handlers, called with the sample events as Lambda would call them."""

from __future__ import annotations

import json
import os
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest

from blsflow.ports.errors import StoreError
from blsflow.settings import InvalidSetting
from tests.integration.handler_scenes import (
    EVENTS,
    KEY_CANARY,
    NOBODY_LISTENS,
    SAMPLE_ATTEMPT,
    TOKEN_CANARY,
    Deployment,
    client,
    deployment,
    received,
    sample,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["deployment"]

POLICIES = 5
HANDLED_HERE = {
    "tick/schedule",
    "decide/batch_with_poison",
    "decide/poison",
    "execute/batch_with_poison",
    "execute/poison",
    "reconcile/schedule",
    "notify/schedule",
}
HANDLED_BY_BENCHMARK = {"benchmark/prepare", "benchmark/unknown_step"}
HANDLED_BY_LIVE = {"live/stream", "live/resume_in_browser"}
HANDLED_BY_API = {"api/list_schedules", "api/nobody"}
HANDLED_BY_MIGRATE = {"migrate/create", "migrate/update", "migrate/delete"}


def variable(name: str) -> str:
    """An environment variable of the functions."""
    return os.environ[f"BLSFLOW_SCHEDULER_{name}"]


def message_ids(event: dict[str, Any]) -> Iterator[str]:
    """The ids of a delivery's messages."""
    return (record["messageId"] for record in event["Records"])


def ticked(scene: Deployment) -> Deployment:
    """Let the tick function record what is due."""
    scene.invoke("tick", sample("tick/schedule"))
    return scene


def decided(scene: Deployment) -> list[dict[str, Any]]:
    """Let the decide function decide all that is recorded; return the messages that it sent on."""
    bodies = received(variable("DECIDE_QUEUE_URL"))
    records = [{"messageId": str(n), "body": json.dumps(body)} for n, body in enumerate(bodies)]
    assert scene.invoke("decide", {"Records": records}) == {"batchItemFailures": []}
    return received(variable("EXECUTE_QUEUE_URL"))


def executed(scene: Deployment, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Let the execute function send these attempts; return what its line says of each."""
    records = [{"messageId": str(n), "body": json.dumps(body)} for n, body in enumerate(messages)]
    assert scene.invoke("execute", {"Records": records}) == {"batchItemFailures": []}
    attempts: list[dict[str, Any]] = scene.summary("execute")["attempts"]
    return attempts


def test_every_sample_event_is_run_by_a_test() -> None:
    """R11.1: no sample event shows a shape that its function does not take."""
    found = {str(path.relative_to(EVENTS).with_suffix("")) for path in EVENTS.rglob("*.json")}
    assert (
        found == HANDLED_HERE | HANDLED_BY_API | HANDLED_BY_LIVE | HANDLED_BY_MIGRATE | HANDLED_BY_BENCHMARK
    )


def test_a_tick_records_and_enqueues_what_is_due(deployment: Deployment) -> None:
    """R8.3, R11.2: each due policy becomes one occurrence and one message, and the line says so."""
    assert deployment.invoke("tick", sample("tick/schedule")) == {"recorded": POLICIES}
    line = deployment.summary("tick")
    assert (line["level"], line["feed"], line["recorded"]) == ("INFO", "ok", POLICIES)
    assert line["prices"] > 0
    assert (line["broken"], line["missed"], line["failures"]) == (0, 0, {})
    assert deployment.metrics()["TickLagSeconds"] == pytest.approx(line["lag_sec"], abs=0.001)
    occurrences = [row[0] for row in deployment.look("select id from smart_schedule_occurrences order by id")]
    sent = [body["occurrence_id"] for body in received(variable("DECIDE_QUEUE_URL"))]
    assert sorted(sent) == occurrences


def test_a_tick_delivered_twice_records_once(deployment: Deployment) -> None:
    """R8.3: EventBridge delivers at least once; the second delivery finds nothing due."""
    ticked(deployment)
    assert deployment.invoke("tick", sample("tick/schedule")) == {"recorded": 0}
    assert deployment.summary("tick")["feed"] == "recent"


def test_a_step_that_fails_fails_the_tick_after_the_others(deployment: Deployment) -> None:
    """R8.10, R11.2: an unreachable queue fails the invocation, so that an alarm sees it; what was recorded stays."""
    deployment.set(BLSFLOW_SCHEDULER_DECIDE_QUEUE_URL="https://sqs.eu-central-1.amazonaws.com/1/gone")
    with pytest.raises(ExceptionGroup, match="steps of the tick failed"):
        deployment.invoke("tick", sample("tick/schedule"))
    line = deployment.summary("tick")
    assert (line["level"], line["error"], list(line["failures"])) == ("ERROR", "ExceptionGroup", ["scan"])
    assert (
        deployment.value("select count(*) from smart_schedule_occurrences where enqueued_at is null")
        == POLICIES
    )


def test_a_feed_that_is_down_fails_nothing_else(deployment: Deployment) -> None:
    """R2.1, R11.2: without prices the tick still records; why there are none is in its line."""
    deployment.set(BLSFLOW_SCHEDULER_PROFIT_API_BASE_URL=NOBODY_LISTENS)
    assert deployment.invoke("tick", sample("tick/schedule")) == {"recorded": POLICIES}
    assert deployment.summary("tick")["feed"] not in {"ok", "recent", "not_configured"}


def test_a_poison_message_leaves_the_one_beside_it_alone(deployment: Deployment) -> None:
    """R11.1, R11.2: the tick is decided, only the poison is named for another delivery, and the line counts both."""
    ticked(deployment)
    event = sample("decide/batch_with_poison")
    poison, _good = message_ids(event)
    assert deployment.invoke("decide", event) == {"batchItemFailures": [{"itemIdentifier": poison}]}
    line = deployment.summary("decide")
    (tick,) = line["ticks"]
    assert (line["level"], line["failures"]) == ("WARNING", 1)
    assert (tick["outcome"], tick["policy_id"], tick["frozen_for"]) == ("decided", 1, None)
    assert [tick["machines"], tick["tick_id"]] == deployment.look(
        "select machines, id from smart_schedule_ticks"
    )[0]
    (told,) = [each for each in deployment.printed if each.get("message") == "decide_failed"]
    assert told["message_id"] == poison
    assert deployment.metrics()["Decisions"] == tick["machines"] > 0


@pytest.mark.parametrize("function", ["decide", "execute"])
def test_poison_of_every_kind_fails_by_itself(deployment: Deployment, function: str) -> None:
    """R11.1: whatever a body holds, exactly its own message is named, and the function lives on."""
    event = sample(f"{function}/poison")
    failures = [{"itemIdentifier": message_id} for message_id in message_ids(event)]
    assert deployment.invoke(function, event) == {"batchItemFailures": failures}
    assert deployment.summary(function)["failures"] == len(failures)
    assert deployment.value("select count(*) from smart_schedule_ticks") == 0


def test_a_delivery_that_was_decided_before_changes_nothing(deployment: Deployment) -> None:
    """R8.4: SQS delivers at least once; what was begun is not begun again, and that is no failure."""
    ticked(deployment)
    event = sample("decide/batch_with_poison")
    deployment.invoke("decide", event)
    before = deployment.look("select id, ticked_at from smart_schedule_ticks")
    deployment.invoke("decide", event)
    (tick,) = deployment.summary("decide")["ticks"]
    assert tick["outcome"] != "decided"
    assert deployment.look("select id, ticked_at from smart_schedule_ticks") == before


def test_an_attempt_is_sent_beside_poison(deployment: Deployment) -> None:
    """R5.2, R11.2: the attempt is accepted, and its line leads from the tick to the service's job."""
    message = decided(ticked(deployment))[0]
    event = json.loads(
        json.dumps(sample("execute/batch_with_poison")).replace(SAMPLE_ATTEMPT, message["attempt_id"])
    )
    poison, _good = message_ids(event)
    assert deployment.invoke("execute", event) == {"batchItemFailures": [{"itemIdentifier": poison}]}
    line = deployment.summary("execute")
    (attempt,) = line["attempts"]
    assert (line["failures"], attempt["outcome"]) == (1, "accepted")
    stored = deployment.look(
        f"select tick_id, reference, state from smart_schedule_attempts where id = '{message['attempt_id']}'"
    )
    assert stored == [[attempt["tick_id"], attempt["job_id"], "running"]]
    deployment.invoke("execute", event)
    assert deployment.summary("execute")["attempts"][0]["outcome"] != "accepted"


def test_ids_lead_from_the_tick_to_the_end(deployment: Deployment) -> None:
    """R11.2: each attempt that was sent carries a tick that the decide function's line names, and a job of its own."""
    messages = decided(ticked(deployment))
    ticks = {tick["tick_id"] for tick in deployment.summary("decide")["ticks"]}
    sent = executed(deployment, messages)
    assert {attempt["attempt_id"] for attempt in sent} == {message["attempt_id"] for message in messages}
    assert {attempt["tick_id"] for attempt in sent} <= ticks
    assert len({attempt["job_id"] for attempt in sent}) == len(sent) > 0


def test_jobs_are_followed_to_their_end(deployment: Deployment) -> None:
    """R5.4, R11.2: the reconcile function looks until nothing is open, and its line counts what ended."""
    sent = executed(deployment, decided(ticked(deployment)))
    deployment.look("update smart_schedule_attempts set next_check_at = now() where ended_at is null")
    assert deployment.invoke("reconcile", sample("reconcile/schedule")) == {
        "ended": len(sent),
        "open_attempts": 0,
    }
    line = deployment.summary("reconcile")
    assert (line["level"], line["ended"], line["open_attempts"], line["failures"]) == (
        "INFO",
        len(sent),
        0,
        {},
    )
    assert line["machines_settled"] == sum(
        attempt["machines"] - attempt.get("refused", 0) for attempt in sent
    )
    assert deployment.metrics()["ReconcilingAgeSeconds"] == 0
    assert deployment.value("select count(*) from smart_schedule_machine_locks where freed_at is null") == 0


def test_a_freeze_is_published_once(deployment: Deployment) -> None:
    """R6.3, R11.2: the outbox's row reaches the topic, once, and the line counts it."""
    inbox = client("sqs").create_queue(QueueName="inbox")["QueueUrl"]
    client("sns").subscribe(
        TopicArn=variable("NOTIFICATION_TOPIC_ARN"),
        Protocol="sqs",
        Endpoint=client("sqs").get_queue_attributes(QueueUrl=inbox, AttributeNames=["QueueArn"])[
            "Attributes"
        ]["QueueArn"],
    )
    deployment.look("update smart_schedule_policy_groups set freeze_after_failures = 1 where id = 1")
    deployment.set(BLSFLOW_SCHEDULER_PROFIT_API_BASE_URL=NOBODY_LISTENS)
    decided(ticked(deployment))
    assert [t["frozen_for"] for t in deployment.summary("decide")["ticks"] if t["policy_id"] == 1] == [
        "profit_unusable"
    ]
    assert deployment.metrics()["PolicyFrozen"] == 1
    assert deployment.invoke("notify", sample("notify/schedule")) == {"published": 1}
    assert (deployment.summary("notify")["published"], deployment.summary("notify")["failures"]) == (1, {})
    assert deployment.invoke("notify", sample("notify/schedule")) == {"published": 0}
    (envelope,) = received(inbox)
    body = json.loads(envelope["Message"])
    assert (body["code"], body["policy_id"], body["params"]["cause"]) == (
        "policy_frozen",
        1,
        "profit_unusable",
    )
    assert datetime.fromisoformat(body["created_at"]).tzinfo is not None


def test_a_topic_that_is_gone_is_tried_again(deployment: Deployment) -> None:
    """R6.3, R11.2: what could not be published waits, and the line says why."""
    deployment.look(
        "insert into smart_schedule_outbox (tenant_id, code, created_at, next_try_at)"
        " values ('north-mining', 'policy_frozen', now(), now())"
    )
    client("sns").delete_topic(TopicArn=variable("NOTIFICATION_TOPIC_ARN"))
    assert deployment.invoke("notify", sample("notify/schedule")) == {"published": 0}
    line = deployment.summary("notify")
    assert (line["level"], len(line["failures"])) == ("WARNING", 1)
    assert deployment.metrics()["NotificationsNotPublished"] == 1
    assert deployment.value("select next_try_at > now() and published_at is null from smart_schedule_outbox")


def test_settings_that_cannot_be_meant_stop_a_function_by_name(deployment: Deployment) -> None:
    """R11.7: a misspelt variable fails each invocation with a line that names it."""
    deployment.set(BLSFLOW_SCHEDULER_BATCH_SIZE="lots")
    with pytest.raises(InvalidSetting):
        deployment.invoke("tick", sample("tick/schedule"))
    line = deployment.summary("tick")
    assert line["error"] == "InvalidSetting"
    assert "BLSFLOW_SCHEDULER_BATCH_SIZE='lots'" in line["cause"]


def test_rotated_database_credentials_need_no_new_container(deployment: Deployment) -> None:
    """R11.3: a container that was refused reads the secret again at its next invocation, and is let in."""
    at = deployment.address
    place = {"host": at.host, "port": at.port, "username": at.user, "dbname": at.dbname}

    def secret_with(password: str) -> str:
        return json.dumps({**place, "password": password})

    arn = client("secretsmanager").create_secret(Name="db", SecretString=secret_with("outdated"))["ARN"]
    deployment.set(BLSFLOW_SCHEDULER_DATABASE_URL="", BLSFLOW_SCHEDULER_DATABASE_SECRET_ARN=arn)
    with pytest.raises(StoreError, match="authentication failed"):
        deployment.invoke("notify", sample("notify/schedule"))
    client("secretsmanager").put_secret_value(SecretId=arn, SecretString=secret_with(at.password))
    assert deployment.invoke("notify", sample("notify/schedule")) == {"published": 0}


def test_no_line_of_a_round_holds_a_secret(deployment: Deployment) -> None:
    """R11.3: token, key and password are used throughout a round and printed nowhere."""
    printed = ticked(deployment).output
    messages = decided(deployment)
    printed += deployment.output
    assert "accepted" in {attempt["outcome"] for attempt in executed(deployment, messages)}
    printed += deployment.output
    deployment.invoke("reconcile", sample("reconcile/schedule"))
    printed += deployment.output
    secrets = [TOKEN_CANARY, KEY_CANARY, deployment.address.password]
    assert all(len(secret) > 10 for secret in secrets)
    assert not [secret for secret in secrets if secret in printed]


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\u2028", "\u20ac"])
def test_a_token_that_no_header_holds_is_not_shown(deployment: Deployment, ending: str) -> None:
    """R11.3, R5.3: a line's end that came along into the secret is dropped; any other such token is refused unseen."""
    messages = decided(ticked(deployment))
    secret = client("secretsmanager").create_secret(Name="token", SecretString=TOKEN_CANARY + ending)
    deployment.set(
        BLSFLOW_SCHEDULER_SWITCH_API_TOKEN="", BLSFLOW_SCHEDULER_SWITCH_API_TOKEN_SECRET_ARN=secret["ARN"]
    )
    records = [{"messageId": str(n), "body": json.dumps(body)} for n, body in enumerate(messages)]
    response = deployment.invoke("execute", {"Records": records})
    assert TOKEN_CANARY not in deployment.output
    states = {row[0] for row in deployment.look("select distinct state from smart_schedule_attempts")}
    assert states == ({"running"} if not response["batchItemFailures"] else {"prepared"})


@pytest.mark.parametrize(
    "url",
    [
        pytest.param("postgresql://blsflow:{canary}@{host}:{port}/{dbname}", id="the password is refused"),
        pytest.param("postgresql://blsflow:{canary}@127.0.0.1:9/blsflow", id="nobody listens"),
        pytest.param("mysql://blsflow:{canary}@{host}:{port}/{dbname}", id="no address of ours"),
        pytest.param("postgresql://blsflow:{canary}@{host}:many/{dbname}", id="no number for a port"),
    ],
)
def test_a_database_that_cannot_be_reached_is_told_without_its_password(
    deployment: Deployment, url: str
) -> None:
    """R11.3, R11.2: every function leaves its line, which says what is wrong and holds no password."""
    canary, at = "canary-password-11ee", deployment.address
    address = url.format(canary=canary, host=at.host, port=at.port, dbname=at.dbname)
    deployment.set(BLSFLOW_SCHEDULER_DATABASE_URL=address)
    for function in ("tick", "reconcile", "notify", "migrate"):
        with pytest.raises(Exception):  # noqa: B017, PT011 - whichever fault it is
            deployment.invoke(function, {})
        assert deployment.summary(function)["error"]
        assert canary not in deployment.output
    for function in ("decide", "execute"):
        event = sample(f"{function}/batch_with_poison")
        failures = [{"itemIdentifier": message_id} for message_id in message_ids(event)]
        assert deployment.invoke(function, event) == {"batchItemFailures": failures}
        assert deployment.summary(function)["failures"] == len(failures)
        assert canary not in deployment.output
