from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Final

import pytest

from blsflow.adapters.inline import InlineQueue
from blsflow.adapters.postgres.connection import Session
from blsflow.adapters.postgres.store import PostgresStore
from blsflow.flow import control
from blsflow.flow.requests import KeyConflict
from tests.integration.control_scenes import NO_POLICY, NORTH, PROFIT_GUARD, Who, look, seeded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from blsflow.adapters.postgres.address import DatabaseAddress

WHO: Final[Who] = {"by": "kim", "why": "a test"}
ATTEMPT = uuid.UUID("0199c5c2-7d4a-7c3e-9f60-6f1a2b3c4d5e")


@pytest.fixture
def fleet(database: DatabaseAddress) -> DatabaseAddress:
    """A seeded database."""
    return seeded(database)


@pytest.fixture
def store(fleet: DatabaseAddress) -> Iterator[PostgresStore]:
    """The product's own way into it."""
    opened = PostgresStore(lambda: Session(fleet))
    yield opened
    opened.close()


def events(fleet: DatabaseAddress, code: str) -> list[dict[str, object]]:
    """The parameters of all log events of a code."""
    return [
        row[0]
        for row in look(
            fleet, "select params from smart_schedule_log_events where code = :code order by id", code=code
        )
    ]


def test_a_freeze_by_hand_is_told_exactly_once(fleet: DatabaseAddress, store: PostgresStore) -> None:
    """R6.1, R6.3: the first freeze opens it with its event and notification, the second changes and tells nothing."""
    assert control.freeze(store, PROFIT_GUARD, **WHO).opened
    assert not control.freeze(store, PROFIT_GUARD, by="lee", why="again").opened
    assert look(fleet, "select cause, frozen_by, detail ->> 'why' from smart_schedule_freezes") == [
        ["manual", "kim", "a test"]
    ]
    assert events(fleet, "policy_frozen") == [{"cause": "manual", **WHO}]
    assert look(fleet, "select policy_id, code from smart_schedule_outbox") == [
        [PROFIT_GUARD, "policy_frozen"]
    ]


def test_enabling_lifts_a_freeze_on_the_record(fleet: DatabaseAddress, store: PostgresStore) -> None:
    """R6.3: only enabling lifts a freeze; who, when and why, and what it had frozen for, are kept."""
    control.freeze(store, PROFIT_GUARD, **WHO)
    done = control.enable(store, PROFIT_GUARD, by="lee", why="looked into it")
    assert done.lifted == "manual"
    assert look(
        fleet, "select lifted_by, lift_reason, lifted_at >= frozen_at from smart_schedule_freezes"
    ) == [["lee", "looked into it", True]]
    (event,) = events(fleet, "policy_enabled")
    assert (event["by"], event["why"], event["froze_for"]) == ("lee", "looked into it", "manual")


def test_disabling_leaves_a_freeze_in_place(fleet: DatabaseAddress, store: PostgresStore) -> None:
    """R6.3: a frozen policy that is disabled stays frozen, and its schedule rests."""
    control.freeze(store, PROFIT_GUARD, **WHO)
    assert control.disable(store, PROFIT_GUARD, **WHO).lifted is None
    assert look(fleet, "select lifted_at is null from smart_schedule_freezes") == [[True]]
    assert look(
        fleet,
        "select enabled, paused from smart_schedule_policy_groups p "
        "join smart_schedule_schedules s on s.policy_id = p.id where p.id = :id",
        id=PROFIT_GUARD,
    ) == [[False, True]]


def test_enabling_starts_the_counts_anew(fleet: DatabaseAddress, store: PostgresStore) -> None:
    """R5.6, R6.4: failures in a row are forgotten, and machines of the scope that others kept changing may be moved."""
    look(fleet, "update smart_schedule_policy_groups set consecutive_failures = 2")
    look(
        fleet,
        "insert into smart_schedule_machine_states (machine_id, tenant_id, expected, changed_at, foreign_changes) "
        "select id, tenant_id, 'unset', now(), 3 from machines on conflict (machine_id) do update set foreign_changes = 3",
    )
    in_scope = look(
        fleet,
        "select count(*) from machines m join smart_schedule_policy_scopes s on s.policy_id = :id "
        "and s.resource_type = 'cluster' and s.resource_id = m.cluster_id::text",
        id=PROFIT_GUARD,
    )[0][0]
    done = control.enable(store, PROFIT_GUARD, **WHO)
    assert 0 < done.machines_forgiven == in_scope
    assert look(
        fleet,
        "select count(*) from smart_schedule_machine_states s join machines m on m.id = s.machine_id "
        "where (s.foreign_changes = 0) <> exists (select from smart_schedule_policy_scopes c "
        "where c.policy_id = :id and c.resource_id = m.cluster_id::text)",
        id=PROFIT_GUARD,
    ) == [[0]]
    assert look(
        fleet,
        "select id, consecutive_failures from smart_schedule_policy_groups where consecutive_failures = 0",
    ) == [[PROFIT_GUARD, 0]]


def test_enabling_keeps_the_rhythm_and_tries_a_rule_again(
    fleet: DatabaseAddress, store: PostgresStore
) -> None:
    """R8.2: the next run is the rule's own next time from now, and a rule that was set aside is read once more."""
    look(
        fleet,
        "update smart_schedule_schedules set next_run_at = now() - interval '3 days', broken = 'was wrong'",
    )
    done = control.enable(store, PROFIT_GUARD, **WHO)
    ((next_run_at, broken, ahead),) = look(
        fleet,
        "select next_run_at, broken, next_run_at > now() and next_run_at <= now() + interval '60 seconds' "
        "from smart_schedule_schedules where policy_id = :id",
        id=PROFIT_GUARD,
    )
    assert (next_run_at, broken, ahead) == (done.next_run_at, None, True)
    assert next_run_at.second == 0


def test_a_rule_that_cannot_be_read_does_not_hinder_enabling(
    fleet: DatabaseAddress, store: PostgresStore
) -> None:
    """R8.2: the policy is enabled and the schedule due at once, so that the next scan says what is wrong with it."""
    look(fleet, """update smart_schedule_schedules set rule = '{"kind": "yearly"}'""")
    assert control.enable(store, PROFIT_GUARD, **WHO).next_run_at is not None
    assert look(
        fleet,
        "select count(*) from smart_schedule_schedules where policy_id = :id and next_run_at <= now()",
        id=PROFIT_GUARD,
    ) == [[1]]


@pytest.mark.parametrize("verb", [control.enable, control.disable, control.freeze])
@pytest.mark.parametrize(
    ("policy_id", "tenant_id"), [(NO_POLICY, None), (PROFIT_GUARD, "lakeside")], ids=["unknown", "not mine"]
)
def test_a_policy_of_somebody_else_is_as_unknown_as_none(
    fleet: DatabaseAddress, store: PostgresStore, verb: object, policy_id: int, tenant_id: str | None
) -> None:
    """R8.9: an unknown policy and another tenant's give the same error, and nothing is written."""
    assert callable(verb)
    with pytest.raises(control.UnknownPolicy):
        verb(store, policy_id, **WHO, tenant_id=tenant_id)
    assert look(fleet, "select count(*) from smart_schedule_log_events") == [[0]]


def test_the_same_request_is_the_same_run(fleet: DatabaseAddress, store: PostgresStore) -> None:
    """R8.8: a request id names one occurrence, however often it is sent; another id names another."""
    queue = InlineQueue()
    first = control.run(store, PROFIT_GUARD, request_id="a", decide_queue=queue, by="kim")
    again = control.run(store, PROFIT_GUARD, request_id="a", decide_queue=queue, by="kim")
    other = control.run(store, PROFIT_GUARD, request_id="b", decide_queue=queue, by="kim")
    assert (first.is_new, again.is_new) == (True, False)
    assert first.occurrence_id == again.occurrence_id != other.occurrence_id
    messages: list[object] = []
    queue.drain(lambda message: messages.append(message["occurrence_id"]))
    assert messages == [first.occurrence_id, first.occurrence_id, other.occurrence_id]
    assert len(events(fleet, "run_requested")) == 2


def test_a_run_that_has_ended_is_not_begun_again(fleet: DatabaseAddress, store: PostgresStore) -> None:
    """R8.7, R8.8: repeating the request of an ended run tells its end and enqueues nothing."""
    queue = InlineQueue()
    control.run(store, PROFIT_GUARD, request_id="a", decide_queue=queue, by="kim")
    look(fleet, "update smart_schedule_occurrences set state = 'succeeded', ended_at = now()")
    queue.drain(lambda _message: None)
    assert control.run(store, PROFIT_GUARD, request_id="a", decide_queue=queue, by="kim").state == "succeeded"
    assert queue.drain(lambda _message: None) == 0


def test_a_request_id_cannot_mean_two_things(fleet: DatabaseAddress, store: PostgresStore) -> None:
    """R8.8: the same id with another body is refused, and nothing is enqueued."""
    queue = InlineQueue()
    control.run(store, PROFIT_GUARD, request_id="a", decide_queue=queue, by="kim")
    look(fleet, "update smart_schedule_occurrences set request_fingerprint = 'of another body'")
    queue.drain(lambda _message: None)
    with pytest.raises(KeyConflict, match="use a new id"):
        control.run(store, PROFIT_GUARD, request_id="a", decide_queue=queue, by="kim")
    assert queue.drain(lambda _message: None) == 0


def test_a_run_of_an_unknown_policy_records_nothing(fleet: DatabaseAddress, store: PostgresStore) -> None:
    """R8.9: there is no occurrence of a policy that does not exist."""
    with pytest.raises(control.UnknownPolicy):
        control.run(store, NO_POLICY, request_id="a", decide_queue=InlineQueue(), by="kim")
    assert look(fleet, "select count(*) from smart_schedule_occurrences") == [[0]]


def sent_attempt(fleet: DatabaseAddress, *, state: str) -> int:
    """An attempt for one machine, in this state, and the machine; its lock is held."""
    ((machine_id,),) = look(fleet, "select min(id) from machines where tenant_id = :t", t=NORTH)
    sent = state != "prepared"
    look(
        fleet,
        "insert into smart_schedule_attempts (id, tenant_id, kind, idempotency_key, policy_id, action, state, reference, "
        "prepared_at, valid_until, dispatched_at) values (:id, :t, 'device_batch', 'k', :policy, 'stop', :state, "
        ":job, now(), now() + interval '1 hour', case when :sent then now() end)",
        id=ATTEMPT, t=NORTH, policy=PROFIT_GUARD, state=state, job="job-1" if sent else None, sent=sent,
    )  # fmt: skip
    look(
        fleet,
        "insert into smart_schedule_attempt_machines (attempt_id, machine_id, fencing_token) values (:id, :m, 7)",
        id=ATTEMPT,
        m=machine_id,
    )
    look(
        fleet,
        "insert into smart_schedule_machine_locks (machine_id, tenant_id, owner_kind, owner_id, fencing_token, taken_at, "
        "expires_at) values (:m, :t, 'attempt', :id, 7, now(), 'infinity')",
        m=machine_id, t=NORTH, id=ATTEMPT,
    )  # fmt: skip
    return int(machine_id)


@pytest.mark.parametrize("state", ["running", "reconciling"])
def test_an_operator_closes_what_nobody_can_confirm(
    fleet: DatabaseAddress, store: PostgresStore, state: str
) -> None:
    """R5.4: the attempt ends as interrupted, its locks are freed, and who did it and why is on the record."""
    sent_attempt(fleet, state=state)
    closed = control.release(store, ATTEMPT, **WHO)
    assert (closed.action, closed.job_id, closed.machines) == ("stop", "job-1", 1)
    assert look(fleet, "select state, reason, detail ->> 'closed_by' from smart_schedule_attempts") == [
        ["interrupted", "closed_by_operator", "kim"]
    ]
    assert look(fleet, "select freed_at is not null, freed_by from smart_schedule_machine_locks") == [
        [True, "operator:kim"]
    ]
    (event,) = events(fleet, "attempt_closed_by_operator")
    assert (event["by"], event["why"], event["machines"]) == ("kim", "a test", 1)


def test_a_lock_that_somebody_else_took_over_stays(fleet: DatabaseAddress, store: PostgresStore) -> None:
    """R5.1: releasing frees a lock by its fencing token, never a later holder's."""
    sent_attempt(fleet, state="reconciling")
    look(fleet, "update smart_schedule_machine_locks set fencing_token = 8")
    control.release(store, ATTEMPT, **WHO)
    assert look(fleet, "select freed_at from smart_schedule_machine_locks") == [[None]]


def test_there_is_nothing_to_release_before_sending_or_after_the_end(
    fleet: DatabaseAddress, store: PostgresStore
) -> None:
    """R5.4, R8.7: a prepared attempt expires by itself, an end is final, and an unknown one is unknown."""
    with pytest.raises(control.UnknownAttempt):
        control.release(store, ATTEMPT, **WHO)
    sent_attempt(fleet, state="prepared")
    with pytest.raises(control.NothingToRelease, match="not sent yet"):
        control.release(store, ATTEMPT, **WHO)
    look(fleet, "update smart_schedule_attempts set state = 'dispatching', dispatched_at = now()")
    with pytest.raises(control.NothingToRelease, match="being sent"):
        control.release(store, ATTEMPT, **WHO)
    look(
        fleet,
        "update smart_schedule_attempts set state = 'running', dispatched_at = now(), reference = 'job-1'",
    )
    control.release(store, ATTEMPT, **WHO)
    with pytest.raises(control.NothingToRelease, match="has ended"):
        control.release(store, ATTEMPT, **WHO)


def test_the_executor_lease_changes_hands_on_the_record(fleet: DatabaseAddress, store: PostgresStore) -> None:
    """R4.2: one row says who may act for a tenant; each change is logged, with open work told to whoever changes it."""
    sent_attempt(fleet, state="running")
    change = control.lease(store, NORTH, holder="legacy", **WHO)
    assert (change.was, change.open_attempts) == ("blsflow", 1)
    assert control.lease(store, NORTH, holder="blsflow", **WHO).was == "legacy"
    assert look(
        fleet,
        "select holder, changed_by from smart_schedule_executor_leases where tenant_id = :t",
        t=NORTH,
    ) == [["blsflow", "kim"]]
    assert events(fleet, "executor_lease_changed") == [
        {"was": "blsflow", "now": "legacy", **WHO},
        {"was": "legacy", "now": "blsflow", **WHO},
    ]


@pytest.mark.parametrize(
    "something",
    [
        "insert into clusters values (99, 'fresh', 'site', 'UTC')",
        """insert into smart_schedule_schedules (tenant_id, created_by, kind, work, rule, next_run_at) values
           ('fresh', 'kim', 'conversation', '{"target": "t", "conversation_id": "c", "prompt": "p"}', '{}', now())""",
    ],
)
def test_a_tenant_without_machines_may_have_a_lease(
    fleet: DatabaseAddress, store: PostgresStore, something: str
) -> None:
    """R4.2, R8.1: conversations need the lease too, and no machine."""
    look(fleet, something)
    assert control.lease(store, "fresh", holder="blsflow", **WHO).was is None


def test_a_lease_of_a_tenant_that_does_not_exist_is_refused(
    fleet: DatabaseAddress, store: PostgresStore
) -> None:
    """R4.2: a misspelt tenant gets no lease."""
    with pytest.raises(control.UnknownTenant):
        control.lease(store, "nroth-mining", holder="blsflow", **WHO)
    assert look(fleet, "select count(*) from smart_schedule_executor_leases") == [[2]]


LIVE_SCHEDULE = (
    "select id, paused, next_run_at > now() from smart_schedule_schedules"
    " where policy_id = {} and archived_at is null"
)


def test_enabling_brings_a_policys_schedule_back(fleet: DatabaseAddress, store: PostgresStore) -> None:
    """R8.1, R6.3: a policy whose schedule was taken out of use is told so, and ticks by it again once it is enabled."""
    (before,) = look(fleet, LIVE_SCHEDULE.format(PROFIT_GUARD))
    look(
        fleet,
        f"update smart_schedule_schedules set archived_at = now(), paused = true where id = {before[0]}",
    )
    with pytest.raises(control.NeverTicks) as refused:
        control.run(store, PROFIT_GUARD, request_id="r", by="kim", decide_queue=InlineQueue())
    assert refused.value.policy_id == PROFIT_GUARD
    assert control.enable(store, PROFIT_GUARD, **WHO).next_run_at is not None
    assert look(fleet, LIVE_SCHEDULE.format(PROFIT_GUARD)) == [[before[0], False, True]]
    assert control.run(store, PROFIT_GUARD, request_id="r", by="kim", decide_queue=InlineQueue()).is_new


def test_a_policy_that_would_never_tick_is_not_enabled(fleet: DatabaseAddress, store: PostgresStore) -> None:
    """R8.2: a rule without a next run is no rule to tick by, and nothing is changed."""
    control.disable(store, PROFIT_GUARD, **WHO)
    past = '{"kind": "once", "at": "2020-01-01T00:00:00"}'
    look(fleet, f"update smart_schedule_schedules set rule = '{past}' where policy_id = {PROFIT_GUARD}")
    with pytest.raises(control.NeverTicks):
        control.enable(store, PROFIT_GUARD, **WHO)
    assert look(fleet, f"select enabled from smart_schedule_policy_groups where id = {PROFIT_GUARD}") == [
        [False]
    ]
