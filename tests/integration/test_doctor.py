from __future__ import annotations

from contextlib import closing
from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from blsflow.adapters.inline import InlineQueue
from blsflow.adapters.postgres.connection import Session
from blsflow.adapters.postgres.doctor import Finding, examine
from blsflow.domain.commands import command_request
from local.simulators.device_control import DeviceFaults
from tests.integration.control_scenes import application, connect, look, seeded, services
from tests.integration.scene import Scene

if TYPE_CHECKING:
    from collections.abc import Mapping

    from blsflow.adapters.postgres.address import DatabaseAddress

PATIENCE = timedelta(minutes=15)
ATTEMPT = "0199c5c2-7d4a-7c3e-9f60-6f1a2b3c4d5e"
OTHER = "0199c5c2-7d4a-7c3e-9f60-6f1a2b3c4d5f"
MACHINE = "(select min(id) from machines)"
MEASURED = "(select min(machine_id) from smart_schedule_machine_project_benchmarks)"

OCCURRENCE = """
insert into smart_schedule_occurrences
    (tenant_id, schedule_id, kind, origin, planned_at, state, recorded_at, began_at, ended_at)
values ('north-mining', (select min(id) from smart_schedule_schedules), 'policy_tick', 'planned', {planned}, '{state}',
        {at}, {at}, {ended})
"""
CONVERSATION = """
insert into smart_schedule_schedules (tenant_id, created_by, kind, work, rule, time_zone, broken)
values ('north-mining', 'user-17', 'conversation', '{{"target": "a", "conversation_id": "c", "prompt": "p"}}',
        '{{"kind": "daily", "time_of_day": "08:00"}}', 'UTC', {broken})
"""
TICK = """
insert into smart_schedule_ticks
    (tenant_id, policy_id, occurrence_id, ticked_at, execution_mode, policy_version, inputs, machines, valid_until)
values ('north-mining', 1, (select max(id) from smart_schedule_occurrences), now(), 'execute', 1, '{{}}', {machines}, now())
"""
DECISION = """
insert into smart_schedule_machine_decisions (ticked_at, tick_id, machine_id, action, reason, proposed, figures)
values ({at}, {tick}, {machine}, '{action}', 'better_net', '{action}', '')
"""
ATTEMPTED = """
insert into smart_schedule_attempts
    (id, tenant_id, kind, idempotency_key, policy_id, action, state, reference, prepared_at, valid_until, dispatched_at)
values ('{id}', 'north-mining', 'device_batch', '{id}', 1, 'stop', '{state}', {reference}, {at}, {at}, {sent})
"""
MEMBER = """
insert into smart_schedule_attempt_machines (attempt_id, machine_id, fencing_token)
values ('{id}', (select min(id) from machines), 7)
"""
LOCK = """
insert into smart_schedule_machine_locks
    (machine_id, tenant_id, owner_kind, owner_id, fencing_token, taken_at, expires_at)
values ((select min(id) from machines), 'north-mining', 'attempt', '{id}', {token}, now(), 'infinity')
"""
LONG_AGO = "now() - interval '1 hour'"
ENDED_TICK = OCCURRENCE.format(planned="now()", state="succeeded", at="now()", ended="now()")
TICK_ID = "(select max(id) from smart_schedule_ticks)"
TICKED_AT = "(select max(ticked_at) from smart_schedule_ticks)"
SAMPLED = """
insert into smart_schedule_benchmark_runs
    (id, tenant_id, machine_id, project_id, state, not_before, requested_at, started_at)
values (gen_random_uuid(), 'north-mining', 1, 1, 'running', now(), now(), now() - interval '3 hours')
"""
UNREADABLE = """
update smart_schedule_schedules set broken = 'no rule' where id = (select min(id) from smart_schedule_schedules)
"""
UNPUBLISHED = """
insert into smart_schedule_outbox (tenant_id, code, created_at, next_try_at)
values ('north-mining', 'policy_frozen', now() - interval '1 hour', now())
"""


def running(attempt: str = ATTEMPT) -> str:
    """An attempt that its service works on."""
    return ATTEMPTED.format(id=attempt, state="running", reference="'job-1'", at="now()", sent="now()")


# What breaks exactly one invariant, by the check's name; constraints that forbid it are dropped first.
BREAKS: dict[str, tuple[str, ...]] = {
    "two_active_occurrences": (
        "drop index smart_schedule_occurrences_active",
        OCCURRENCE.format(planned="now()", state="running", at="now()", ended="null"),
        OCCURRENCE.format(planned=LONG_AGO, state="running", at="now()", ended="null"),
    ),
    "twice_recorded": (
        "drop index smart_schedule_occurrences_planned",
        OCCURRENCE.format(planned=LONG_AGO, state="succeeded", at="now()", ended="now()"),
        OCCURRENCE.format(planned=LONG_AGO, state="succeeded", at="now()", ended="now()"),
        "update smart_schedule_occurrences set planned_at = '2026-01-01T00:00:00Z'",
    ),
    "unbegun_occurrences": (
        OCCURRENCE.format(planned=LONG_AGO, state="recorded", at=LONG_AGO, ended="null"),
    ),
    "unfinished_ticks": (OCCURRENCE.format(planned=LONG_AGO, state="running", at=LONG_AGO, ended="null"),),
    "conversations_without_end": (
        CONVERSATION.format(broken="null"),
        OCCURRENCE.replace("'policy_tick'", "'conversation'")
        .replace("min(id)", "max(id)")
        .format(planned="now()", state="running", at="now()", ended="null"),
    ),
    "decisions_of_no_tick": (DECISION.format(at="now()", tick=987, machine=MACHINE, action="keep"),),
    "decisions_without_their_benchmarks": (
        ENDED_TICK,
        TICK.format(machines=1),
        DECISION.format(at=TICKED_AT, tick=TICK_ID, machine=MACHINE, action="keep"),
        "update smart_schedule_machine_decisions set benchmarks_version = 987",
    ),
    "benchmarks_packed_otherwise": (
        "alter table smart_schedule_machine_project_benchmarks disable trigger user",
        f"update smart_schedule_machine_project_benchmarks set power_w = 0.5 where machine_id = {MEASURED}",
    ),
    "ticks_without_their_decisions": (ENDED_TICK, TICK.format(machines=1)),
    "moves_without_attempt": (
        ENDED_TICK,
        TICK.format(machines=1),
        DECISION.format(at=TICKED_AT, tick=TICK_ID, machine=MACHINE, action="switch"),
    ),
    "machines_in_two_attempts": (
        running(),
        running(OTHER),
        MEMBER.format(id=ATTEMPT),
        MEMBER.format(id=OTHER),
        LOCK.format(id=OTHER, token=7),
    ),
    "freed_too_early": (running(), MEMBER.format(id=ATTEMPT)),
    "locks_of_nobody": (LOCK.format(id=ATTEMPT, token=7),),
    "attempts_without_end": (running(),),
    "unsent_attempts": (
        ATTEMPTED.format(id=ATTEMPT, state="prepared", reference="null", at=LONG_AGO, sent="null"),
        MEMBER.format(id=ATTEMPT),
    ),
    "lost_senders": (
        ATTEMPTED.format(id=ATTEMPT, state="dispatching", reference="null", at=LONG_AGO, sent=LONG_AGO),
        MEMBER.format(id=ATTEMPT),
        LOCK.format(id=ATTEMPT, token=7),
    ),
    "unresolved_attempts": (
        running(),
        MEMBER.format(id=ATTEMPT),
        LOCK.format(id=ATTEMPT, token=7),
        "update smart_schedule_attempts set unresolved_alerted_at = now()",
    ),
    "benchmark_runs_stuck": (SAMPLED,),
    "policies_that_cannot_tick": (UNREADABLE,),
    "conversations_that_cannot_run": (CONVERSATION.format(broken="'no rule'"),),
    "policies_without_lease": (
        "update smart_schedule_executor_leases set holder = 'legacy' where tenant_id = 'lakeside'",
    ),
    "notifications_waiting": (UNPUBLISHED,),
    "rows_outside_partitions": (
        "insert into smart_schedule_log_events (at, tenant_id, code) values ('2000-01-01', 'north-mining', 'old')",
    ),
}


def findings(address: DatabaseAddress) -> dict[str, Finding]:
    """What the doctor finds, by name."""
    with closing(Session(address)) as session:
        return {
            finding.name: finding for finding in examine(session, patience=PATIENCE) if finding.violations
        }


def drained(queue: InlineQueue) -> list[Mapping[str, object]]:
    """All messages of a queue."""
    messages: list[Mapping[str, object]] = []
    queue.drain(messages.append)
    return messages


def test_every_check_has_a_case_that_breaks_it(database: DatabaseAddress) -> None:
    """R11.2: no invariant is looked for without proof that its violation would be found."""
    with closing(Session(database)) as session:
        checks = examine(session, patience=PATIENCE)
    assert {check.name for check in checks} == set(BREAKS)
    assert all(check.rule.endswith(".") for check in checks)


@pytest.mark.parametrize("name", BREAKS)
def test_a_broken_invariant_is_found_and_no_other(database: DatabaseAddress, name: str) -> None:
    """R11.2: each violation gives exactly its own finding, with the rows that break it."""
    seeded(database)
    assert findings(database) == {}
    with closing(connect(database)) as connection:
        for sql in BREAKS[name]:
            connection.run(sql)
    found = findings(database)
    # A machine that two attempts hold is locked under at most one of their tokens.
    assert set(found) - {name} <= ({"freed_too_early"} if name == "machines_in_two_attempts" else set())
    assert found[name].violations


def test_a_working_deployment_has_no_finding(database: DatabaseAddress) -> None:
    """R11.2: after a scan, after deciding, after sending, and after the end of all jobs nothing is found."""
    seeded(database)
    with services(database) as environ:
        deployment = application(environ)
        decide, execute = deployment.decide_queue, deployment.execute_queue
        assert isinstance(decide, InlineQueue)
        assert isinstance(execute, InlineQueue)
        deployment.tick(budget_sec=10)
        assert findings(database) == {}
        for message in drained(decide):
            deployment.decide(int(str(message["occurrence_id"])))
        assert look(
            database, "select count(*) > 0 from smart_schedule_attempts where state = 'prepared'"
        ) == [[True]]
        assert findings(database) == {}
        for message in drained(execute):
            deployment.execute(UUID(str(message["attempt_id"])))
        assert look(database, "select count(*) > 0 from smart_schedule_attempts where state = 'running'") == [
            [True]
        ]
        assert findings(database) == {}
        for _ in range(600):  # jobs are looked at ever less often, and a busy machine is slow to answer
            if deployment.reconcile(budget_sec=5).open_attempts == 0:
                break
            look(database, "select pg_sleep(0.2)")
        deployment.store.close()
    assert look(database, "select count(*) from smart_schedule_attempts where ended_at is null") == [[0]]
    assert findings(database) == {}


@pytest.mark.parametrize(
    ("meanwhile", "states"),
    [
        ("select 1", [["refused", 6]]),
        ("update machines set operator_hold = true where id = 1", [["dropped", 1], ["refused", 5]]),
    ],
    ids=["all refused", "one withdrawn before"],
)
def test_a_batch_of_which_no_machine_was_taken_is_no_finding_until_it_is_followed(
    database: DatabaseAddress, meanwhile: str, states: list[list[object]]
) -> None:
    """R11.2, R5.3: nothing of it is open any more, and the next look at its job ends it."""
    with Scene(database) as scene:
        scene.device_control.faults.profile = DeviceFaults(refusal_rate=1.0)
        scene.tick()
        scene.decide()
        scene.session.run(meanwhile)
        scene.execute()
        found = scene.rows(
            "select state, count(*) from smart_schedule_attempt_machines group by 1 order by 1"
        )
        assert found == states
        assert scene.rows("select state from smart_schedule_attempts") == [["running"]]
        assert scene.findings() == {}
        scene.forward(60)
        scene.reconcile()
        assert scene.value("select count(*) from smart_schedule_attempts where ended_at is null") == 0
        assert scene.findings() == {}


def test_a_batch_of_which_every_machine_was_refused_is_found_if_nobody_follows_it(
    database: DatabaseAddress,
) -> None:
    """R11.2: it may wait for the next looks, and no longer."""
    with Scene(database) as scene:
        scene.device_control.faults.profile = DeviceFaults(refusal_rate=1.0)
        scene.tick()
        scene.decide()
        scene.execute()
        scene.forward(PATIENCE.total_seconds() + 1)
        assert "attempts_without_end" in scene.findings()


@pytest.mark.parametrize("state", ["prepared", "dispatching", "reconciling", "running"])
def test_an_attempt_that_lost_its_last_machine_without_ending_is_found_at_once(
    database: DatabaseAddress, state: str
) -> None:
    """R5.4, R11.2: only machines that were refused may be waited for."""
    seeded(database)
    sent = "null" if state == "prepared" else "now()"
    reference = "'job-1'" if state == "running" else "null"
    look(
        database,
        f"{ATTEMPTED.format(id=ATTEMPT, state=state, reference=reference, at='now()', sent=sent)};"
        f"{MEMBER.format(id=ATTEMPT)};"
        "update smart_schedule_attempt_machines set state = 'failed', reason = 'job_failed', ended_at = now()",
    )
    assert set(findings(database)) == {"attempts_without_end"}


def test_a_lock_taken_over_from_a_batch_that_expired_unsent_is_no_finding(database: DatabaseAddress) -> None:
    """R11.2, R5.1: no scan has closed the batch yet, and it is not sent any more."""
    with Scene(database) as scene:
        scene.tick()
        scene.decide()
        scene.forward(400)
        scene.report()
        asked = command_request(action="stop", machine_ids=[1], project_id=None, why="a test")
        assert scene.app.command(asked, tenant_id="acme", request_id="r", by="wei").taken == 1
        assert scene.rows("select state from smart_schedule_attempts") == [["prepared"], ["prepared"]]
        assert "machines_in_two_attempts" not in scene.findings()


def test_findings_are_cut_to_the_limit(database: DatabaseAddress) -> None:
    """R11.2: a finding lists at most as many rows as asked for, however many break the rule."""
    with closing(connect(database)) as connection:
        for number in range(5):
            connection.run(DECISION.format(at="now()", tick=900 + number, machine=1, action="keep"))
    with closing(Session(database)) as session:
        (orphans,) = [each for each in examine(session, patience=PATIENCE, limit=3) if each.violations]
    assert (orphans.name, len(orphans.violations)) == ("decisions_of_no_tick", 3)
