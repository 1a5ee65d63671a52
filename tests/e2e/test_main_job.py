"""The main job on the deployed template: tick, decide, execute, reconcile, notify, under their own roles.

The tests share one deployment and leave it as they found it; its schedule goes on ticking all the while.
"""

from __future__ import annotations

import contextlib
import json
import uuid
from typing import TYPE_CHECKING, Any

import pytest

from local.product import TOKEN
from tests.e2e.conftest import FUNCTIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.conftest import Watched

pytestmark = pytest.mark.timeout(420)

GUARD = 1
"""A policy of profit_guard over two sites, whose machines the faults are tried on."""
OTHER_GUARD = 4
"""One of another tenant, which is frozen and enabled again."""
FREEZE_AFTER = 3

OPEN = "select count(*) from smart_schedule_attempts where ended_at is null"
UNFREED = "select count(*) from smart_schedule_machine_locks where freed_at is null"

# What makes another project the better one for every machine that has two, so that the next tick moves it.
UPSET = f"""
update smart_schedule_machine_project_benchmarks b set hashrate_hs = b.hashrate_hs * 0.4, sampled_at = now()
from machines m join machine_mining_runtime r on r.machine_id = m.id
    join smart_schedule_policy_scopes s on s.resource_id = m.cluster_id::text
where b.machine_id = m.id and b.project_id = r.project_id and s.policy_id = {GUARD};
update smart_schedule_machine_states set failures = 0, retry_at = null
"""
RESTLESS = """
update smart_schedule_policy_groups set min_dwell_sec = 0, min_gain_cny_per_day = 0, min_gain_ratio = 0,
    switch_cost_sec = 0, max_failed_share = 1
where id = {policy}
"""
# Time that passes for what is under way: a job's confirmation, and a request whose answer never came.
LATER = """
update smart_schedule_attempt_machines set job_ended_at = job_ended_at - interval '1 hour' where ended_at is null;
update smart_schedule_attempts set request_expires_at = now() - interval '5 minutes', next_check_at = now()
    where ended_at is null and state = 'reconciling'
"""


def follow(product: Watched, tick_id: int, *, time_passes: bool = False) -> None:
    """Follow what a tick sent until all of it ended and none of its machines is locked."""
    sent = f"select id from smart_schedule_attempts where tick_id = {tick_id}"

    def settled() -> bool:
        if time_passes:
            product.rows(LATER)
        under_way = product.value(f"select count(*) from ({sent} and ended_at is null) x")
        return bool(under_way == 0 and product.value(f"{UNFREED} and owner_id in ({sent})") == 0)

    product.invoke("reconcile", wait=False)
    product.wait("every attempt ended and its locks are free", settled, within_sec=180)


def outcomes(product: Watched, tick_id: int) -> set[tuple[str, str | None]]:
    """How the attempts of a tick ended, with the reasons."""
    rows = product.rows(f"select state, reason from smart_schedule_attempts where tick_id = {tick_id}")
    return {(state, reason) for state, reason in rows}


def machine_outcomes(product: Watched, tick_id: int) -> set[str]:
    """How the machines of a tick's attempts ended."""
    rows = product.rows(
        "select distinct m.state from smart_schedule_attempt_machines m"
        f" join smart_schedule_attempts a on a.id = m.attempt_id where a.tick_id = {tick_id}"
    )
    return {state for (state,) in rows}


def assert_sound(product: Watched) -> None:
    """No command was ever given twice, and no invariant is broken."""
    assert not [
        batch for batch in product.ledger().values() if batch["posts"] != 1 or batch["executions"] > 1
    ]
    assert product.blsflow("doctor")["findings"] == []


def test_the_schedule_alone_brings_jobs_to_their_confirmed_end(product: Watched) -> None:
    """R8.3, R5.6, R5.4: nobody calls a function; policies are ticked, jobs accepted and confirmed, locks freed."""
    policies = len(product.product.seeded.policy_ids)
    ticked = "select count(distinct policy_id) from smart_schedule_ticks"
    sent = "select count(*) from smart_schedule_attempts where reference is not null"
    product.wait("the schedule fired", lambda: product.value(ticked) == policies, within_sec=120)
    product.wait("jobs were accepted", lambda: product.value(sent) > 0, within_sec=60)
    product.wait(
        "nothing is open", lambda: product.value(OPEN) == product.value(UNFREED) == 0, within_sec=180
    )
    confirmed = "select count(*) from smart_schedule_attempt_machines where state = 'succeeded'"
    assert product.value(confirmed) > 0
    assert product.value("select count(*) from smart_schedule_occurrences where origin = 'manual'") == 0
    actions = {row[0] for row in product.rows("select distinct action from smart_schedule_machine_decisions")}
    assert {"keep", "switch", "start", "skip"} <= actions
    assert_sound(product)


def test_logs_lead_from_the_tick_to_the_job(product: Watched) -> None:
    """R11.2: one line per invocation, and by them each job of the service goes back to the tick that decided it."""
    decided = {tick["tick_id"] for line in product.lines("decide") for tick in line.get("ticks", ())}
    sent = [attempt for line in product.lines("execute") for attempt in line.get("attempts", ())]
    jobs = {a["job_id"]: (a["attempt_id"], a["tick_id"]) for a in sent if "job_id" in a}
    stored = product.rows(
        "select reference, id::text, tick_id from smart_schedule_attempts"
        " where reference is not null and tick_id is not null"
    )
    assert {job: (attempt, tick) for job, attempt, tick in stored}.items() <= jobs.items()
    assert {tick for _, tick in jobs.values()} <= decided
    assert sum(line.get("recorded", 0) for line in product.lines("tick")) >= len(decided) > 0
    for function in FUNCTIONS:
        lines = [line for line in product.lines(function) if line["message"] == function]
        assert len({line["request_id"] for line in lines}) == len(lines)


def test_logs_hold_no_secret(product: Watched) -> None:
    """R11.3: what CloudWatch keeps of all functions holds neither the token nor the database's password."""
    for function in (*FUNCTIONS, "migrate"):
        kept = json.dumps(product.lines(function))
        assert TOKEN not in kept
        assert product.product.stack.database.password not in kept


@contextlib.contextmanager
def impatient(product: Watched, queue_url: str) -> Iterator[None]:
    """Let a queue deliver again after a second instead of half an hour."""

    def wait_for(seconds: str) -> None:
        product.client("sqs").set_queue_attributes(
            QueueUrl=queue_url, Attributes={"VisibilityTimeout": seconds}
        )

    asked = product.client("sqs").get_queue_attributes(
        QueueUrl=queue_url, AttributeNames=["VisibilityTimeout"]
    )
    wait_for("1")
    try:
        yield
    finally:
        wait_for(asked["Attributes"]["VisibilityTimeout"])


@pytest.mark.parametrize("stage", ["Decide", "Execute"])
def test_poison_ends_in_the_dead_letter_queue(product: Watched, stage: str) -> None:
    """R11.1: a message that fails each time is given up after five deliveries, and ticks go on beside it."""
    poison = f"poison {uuid.uuid4()}"
    sqs, dead = product.client("sqs"), product.output(f"{stage}DeadLetterQueueUrl")
    given_up: list[str] = []

    def look() -> bool:
        received = sqs.receive_message(QueueUrl=dead, MaxNumberOfMessages=10, VisibilityTimeout=600)
        given_up.extend(message["Body"] for message in received.get("Messages", ()))
        return bool(given_up)

    with impatient(product, product.output(f"{stage}QueueUrl")):
        sqs.send_message(QueueUrl=product.output(f"{stage}QueueUrl"), MessageBody=poison)
        tick_id = product.tick(GUARD)
        product.wait("the poison is given up", look, within_sec=60)
    assert given_up == [poison]
    assert product.value(f"select machines from smart_schedule_ticks where id = {tick_id}") > 0
    failed = [line for line in product.lines(stage.lower()) if line["message"] == f"{stage.lower()}_failed"]
    assert len(failed) == 5
    follow(product, tick_id)


@pytest.mark.parametrize(
    ("faults", "ends", "machines"),
    [
        pytest.param({"busy_rate": 1}, {("skipped", "busy")}, {"dropped"}, id="busy"),
        pytest.param(
            {"timeout_after_effect_rate": 1, "hang_sec": 1},
            {("succeeded", None)},
            {"succeeded"},
            id="time-out after effect",
        ),
        pytest.param({"error_rate": 1}, {("failed", "not_received")}, {"failed"}, id="error before effect"),
        pytest.param(
            {"refusal_rate": 0.3, "does_nothing_rate": 0.3},
            {("succeeded", "partly_failed")},
            {"succeeded", "failed", "refused"},
            id="refusals, and machines that do nothing",
        ),
    ],
)
def test_a_fault_of_device_control_is_followed_to_its_end(
    product: Watched, faults: dict[str, Any], ends: set[tuple[str, str | None]], machines: set[str]
) -> None:
    """R5.3, R5.4, R5.7: whatever the service does, no command is given twice, each machine ends as it did, locks go."""
    product.rows(RESTLESS.format(policy=GUARD))
    product.rows(UPSET)
    with product.faults(product.product.device_control_url, **faults):
        tick_id = product.tick(GUARD)
        follow(product, tick_id, time_passes=True)
    assert ends <= outcomes(product, tick_id)
    assert machines <= machine_outcomes(product, tick_id)
    assert_sound(product)


@pytest.fixture
def inbox(product: Watched) -> Iterator[str]:
    """A queue that receives what is published for users."""
    sqs, sns = product.client("sqs"), product.client("sns")
    url = sqs.create_queue(QueueName=f"inbox-{uuid.uuid4()}")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    allow = {"Effect": "Allow", "Principal": {"Service": "sns.amazonaws.com"}, "Action": "sqs:SendMessage"}
    policy = {"Version": "2012-10-17", "Statement": [{**allow, "Resource": arn}]}
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": json.dumps(policy)})
    subscription = sns.subscribe(
        TopicArn=product.output("NotificationTopicArn"), Protocol="sqs", Endpoint=arn
    )
    yield url
    sns.unsubscribe(SubscriptionArn=subscription["SubscriptionArn"])
    sqs.delete_queue(QueueUrl=url)


def published(product: Watched, inbox: str, policy_id: int) -> list[dict[str, Any]]:
    """Publish what waits, and return what the topic's subscriber received for a policy since it last looked."""
    product.invoke("notify")
    found: list[dict[str, Any]] = []
    sqs = product.client("sqs")
    while messages := sqs.receive_message(QueueUrl=inbox, MaxNumberOfMessages=10, WaitTimeSeconds=1).get(
        "Messages"
    ):
        found += [json.loads(json.loads(message["Body"])["Message"]) for message in messages]
    return [body for body in found if body["policy_id"] == policy_id]


def test_an_outage_of_the_feed_freezes_once_until_a_user_lifts_it(product: Watched, inbox: str) -> None:
    """R6.1, R6.2, R6.3, R6.4: three ticks without prices freeze, one notification goes out, and only enabling lifts it."""
    product.rows(
        f"update smart_schedule_policy_groups set freeze_after_failures = {FREEZE_AFTER} where id = {OTHER_GUARD}"
    )
    count = f"select consecutive_failures from smart_schedule_policy_groups where id = {OTHER_GUARD}"
    frozen = (
        f"select count(*) from smart_schedule_freezes where policy_id = {OTHER_GUARD} and lifted_at is null"
    )
    attempts = f"select count(*) from smart_schedule_attempts where policy_id = {OTHER_GUARD}"
    with product.faults(product.product.profit_url, outage=True):
        product.rows("update smart_schedule_profit_readings set taken_at = taken_at - interval '1 hour'")
        sent_before = product.value(attempts)
        while product.value(count) < FREEZE_AFTER:
            assert product.value(frozen) == 0
            product.tick(OTHER_GUARD)
        assert product.value(frozen) == 1
        (told,) = published(product, inbox, OTHER_GUARD)
        assert (told["code"], told["params"]["cause"]) == ("policy_frozen", "profit_unusable")
        product.rows(
            f"update smart_schedule_schedules set next_run_at = now() where policy_id = {OTHER_GUARD}"
        )
        product.invoke("tick")
        skipped = (
            "select count(*) from smart_schedule_occurrences o join smart_schedule_schedules s on s.id = o.schedule_id"
            f" where s.policy_id = {OTHER_GUARD} and o.state = 'skipped' and o.reason = 'frozen'"
        )
        product.wait("a frozen tick is skipped", lambda: product.value(skipped) > 0, within_sec=60)
        assert published(product, inbox, OTHER_GUARD) == []
        assert product.value(attempts) == sent_before
    product.blsflow("enable", str(OTHER_GUARD), "--reason", "the feed is back", "--by", "operator")
    record = product.rows(
        "select cause, lifted_by, lift_reason from smart_schedule_freezes"
        f" where policy_id = {OTHER_GUARD} order by id desc limit 1"
    )
    assert record == [["profit_unusable", "operator", "the feed is back"]]
    asked = "select extract(epoch from now() - max(fetched_at)) from smart_schedule_profit_fetches"
    product.wait("the feed may be asked again", lambda: product.value(asked) > 30, within_sec=60)
    tick_id = product.tick(OTHER_GUARD)
    assert product.rows(f"select failure from smart_schedule_ticks where id = {tick_id}") == [[None]]
    assert product.value(count) == 0
    follow(product, tick_id)
    assert_sound(product)
