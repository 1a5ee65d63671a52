"""Every constraint that states an invariant, tried to be broken: refused under its own name."""

from __future__ import annotations

import re
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from blsflow.adapters.postgres.connection import Session
from blsflow.adapters.postgres.migrate import migration_files
from blsflow.ports.errors import InvariantBroken

if TYPE_CHECKING:
    from collections.abc import Iterator

    from blsflow.adapters.postgres.address import DatabaseAddress

_UUID = "00000000-0000-0000-0000-00000000000"

_FREEZE = "insert into smart_schedule_freezes (policy_id, tenant_id, cause, frozen_at, frozen_by) values "
_TICK = (
    "insert into smart_schedule_ticks (id, tenant_id, policy_id, occurrence_id, ticked_at, execution_mode, policy_version,"
    " inputs, valid_until) overriding system value values "
)
_LOCK = (
    "insert into smart_schedule_machine_locks"
    " (machine_id, tenant_id, owner_kind, owner_id, fencing_token, taken_at, expires_at) values "
)
_WINDOW = "insert into smart_schedule_policy_windows (policy_id, starts, ends, action, project_id) values "
_LEASE = "insert into smart_schedule_executor_leases (tenant_id, holder, changed_by) values "

_SCENE = f"""
insert into smart_schedule_policy_groups (tenant_id, name, mode, created_by)
    values ('t', 'one', 'profit_guard', 'test'), ('t', 'two', 'profit_guard', 'test');
insert into smart_schedule_policy_candidates (policy_id, project_id, position) values (1, 1, 0);
insert into smart_schedule_schedules (tenant_id, created_by, kind, policy_id, rule)
    values ('t', 'test', 'policy_tick', 1, '{{"kind": "interval", "every_sec": 60}}');
insert into smart_schedule_occurrences
    (tenant_id, schedule_id, kind, origin, planned_at, request_id, state, recorded_at, ended_at)
    values ('t', 1, 'policy_tick', 'planned', '2026-01-01 00:00Z', null, 'running', now(), null),
           ('t', 1, 'policy_tick', 'planned', '2026-01-01 00:01Z', null, 'succeeded', now(), now()),
           ('t', 1, 'policy_tick', 'planned', '2026-01-01 00:02Z', null, 'recorded', now(), null),
           ('t', 1, 'policy_tick', 'manual', '2026-01-01 00:03Z', 'again', 'recorded', now(), null);
{_FREEZE}(1, 't', 'manual', now(), 'test');
{_TICK}(1, 't', 1, 1, now(), 'execute', 1, '{{}}', now());
insert into smart_schedule_machine_decisions (ticked_at, tick_id, machine_id, action, reason, proposed, figures)
    values ('2026-01-01 00:00Z', 1, 1, 'keep', 'x', 'keep', '');
insert into smart_schedule_attempts
    (id, tenant_id, kind, idempotency_key, action, state, prepared_at, valid_until, dispatched_at, reference, ended_at)
    values ('{_UUID}1', 't', 'device_batch', 'k1', 'stop', 'prepared', now(), now(), null, null, null),
           ('{_UUID}2', 't', 'device_batch', 'k2', 'stop', 'failed', now(), now(), now(), 'job', now());
insert into smart_schedule_attempt_machines (attempt_id, machine_id, fencing_token) values ('{_UUID}1', 1, 1);
{_LOCK}(1, 't', 'attempt', '{_UUID}1', 1, now(), now());
insert into smart_schedule_machine_states (machine_id, tenant_id, expected, changed_at) values (1, 't', 'stopped', now());
insert into smart_schedule_machine_project_benchmarks (machine_id, project_id, sampled_at) values (1, 1, now());
insert into smart_schedule_benchmark_runs (id, tenant_id, machine_id, project_id, state, not_before, requested_at, ended_at)
    values ('{_UUID}1', 't', 1, 1, 'pending', now(), now(), null),
           ('{_UUID}2', 't', 1, 2, 'running', now(), now(), null);
insert into smart_schedule_commands (id, tenant_id, action, requested_by, why, requested_at, machines)
    values ('{_UUID}1', 't', 'stop', 'test', 'test', now(), 1);
insert into smart_schedule_command_machines values ('{_UUID}1', 1, '{_UUID}1', null);
"""

_OCCURRENCE = (
    "insert into smart_schedule_occurrences (tenant_id, schedule_id, kind, recorded_at, origin, planned_at, request_id,"
    " state, reason, missed_count, ended_at) values ('t', 1, 'policy_tick', now(), "
)
_ATTEMPT = (
    "insert into smart_schedule_attempts (id, tenant_id, kind, action, prepared_at, valid_until, idempotency_key, state,"
    f" dispatched_at, reference, ended_at) values ('{_UUID}9', 't', 'device_batch', 'stop', now(), now(), "
)
_RUN = (
    "insert into smart_schedule_benchmark_runs (tenant_id, not_before, requested_at, id, machine_id, project_id, state,"
    f" ended_at) values ('t', now(), now(), '{_UUID}9', "
)
_SCHEDULE = "insert into smart_schedule_schedules (tenant_id, created_by, kind, policy_id, rule) values ('t', 'test', "
_CONVERSATION = (
    "insert into smart_schedule_schedules (tenant_id, created_by, kind, rule, work)"
    " values ('t', 'test', 'conversation', '{}', "
)
_TWICE_SENT = (
    "insert into smart_schedule_attempts (id, tenant_id, kind, action, prepared_at, valid_until, state, occurrence_id,"
    " idempotency_key) select id, 't', 'conversation', 'converse', now(), now(), 'prepared', 2, id::text"
    f" from (values ('{_UUID}7'::uuid), ('{_UUID}8')) as twice (id)"
)
_POLICY = "update smart_schedule_policy_groups set "

# constraint, what it says, and a statement that breaks it
BROKEN: list[tuple[str, str, str]] = [
    ("smart_schedule_benchmark_versions_current", "R3.2: one version of a machine's benchmarks is in force",
     "insert into smart_schedule_benchmark_versions (id, machine_id, entries) values (-1, 1, ''), (-2, 1, '')"),
    ("smart_schedule_occurrences_planned", "R8.3: a planned time is recorded once",
     _OCCURRENCE + "'planned', '2026-01-01 00:01Z', null, 'recorded', null, null, null)"),
    ("smart_schedule_occurrences_manual", "R8.8: a request id makes one run, whenever it is asked for",
     _OCCURRENCE + "'manual', '2026-01-01 09:00Z', 'again', 'recorded', null, null, null)"),
    ("smart_schedule_occurrences_active", "R8.4: one occurrence of a schedule is at work, recorded so",
     _OCCURRENCE + "'planned', '2026-01-01 09:00Z', null, 'reconciling', null, null, null)"),
    ("smart_schedule_occurrences_active", "R8.4: one occurrence of a schedule is at work, begun or cancelling",
     "update smart_schedule_occurrences set state = 'cancelling' where id = 3"),
    ("smart_schedule_occurrences_request_of_manual", "R8.8: a manual run has its request id",
     _OCCURRENCE + "'manual', '2026-01-01 09:00Z', null, 'recorded', null, null, null)"),
    ("smart_schedule_occurrences_request_of_manual", "R8.8: a planned run has none",
     _OCCURRENCE + "'planned', '2026-01-01 09:00Z', 'x', 'recorded', null, null, null)"),
    ("smart_schedule_occurrences_ended", "R8.7: an end has its time",
     _OCCURRENCE + "'planned', '2026-01-01 09:00Z', null, 'succeeded', null, null, null)"),
    ("smart_schedule_occurrences_ended", "R8.7: what goes on has none",
     _OCCURRENCE + "'planned', '2026-01-01 09:00Z', null, 'recorded', null, null, now())"),
    ("smart_schedule_occurrences_skip_has_reason", "R8.7: a skip has its reason",
     _OCCURRENCE + "'planned', '2026-01-01 09:00Z', null, 'skipped', null, null, now())"),
    ("smart_schedule_occurrences_missed_are_counted", "R8.5: what was missed is counted",
     _OCCURRENCE + "'planned', '2026-01-01 09:00Z', null, 'skipped', 'missed', null, now())"),
    ("smart_schedule_occurrences_missed_are_counted", "R8.5: and there is some of it",
     _OCCURRENCE + "'planned', '2026-01-01 09:00Z', null, 'skipped', 'missed', 0, now())"),
    ("smart_schedule_occurrences_schedule_id_fkey", "R8.1: an occurrence is of a schedule",
     "update smart_schedule_occurrences set schedule_id = 99 where id = 3"),
    ("smart_schedule_occurrences_state_check", "R8.7: an occurrence is in one of the ten states",
     "update smart_schedule_occurrences set state = 'finished' where id = 3"),
    ("ends_are_final", "R8.7: an occurrence that ended is not taken up again",
     "update smart_schedule_occurrences set state = 'recorded', ended_at = null where id = 2"),
    ("ends_are_final", "R8.7: an occurrence does not end twice",
     "update smart_schedule_occurrences set state = 'failed' where id = 2"),
    ("ends_are_final", "R8.7: nor does its end move",
     "update smart_schedule_occurrences set ended_at = ended_at + interval '1 second' where id = 2"),
    ("ends_are_final", "R5.3: an attempt that ended is not taken up again",
     f"update smart_schedule_attempts set state = 'running', ended_at = null where id = '{_UUID}2'"),
    ("smart_schedule_freezes_open", "R6.3: a policy has one open freeze",
     _FREEZE + "(1, 't', 'price_jump', now(), 'tick')"),
    ("smart_schedule_freezes_lift_on_record", "R6.3: a freeze is not lifted without saying who",
     "update smart_schedule_freezes set lifted_at = now(), lift_reason = 'looked at it'"),
    ("smart_schedule_freezes_lift_on_record", "R6.3: a freeze is not lifted without saying why",
     "update smart_schedule_freezes set lifted_at = now(), lifted_by = 'anna'"),
    ("smart_schedule_freezes_lift_on_record", "R6.3: who and why without a lift is no lift",
     "update smart_schedule_freezes set lifted_by = 'anna', lift_reason = 'looked at it'"),
    ("smart_schedule_freezes_cause_check", "R6.1: a freeze has one of the known causes",
     "update smart_schedule_freezes set cause = 'mood'"),
    ("smart_schedule_schedules_of_policy", "R8.1: a policy has one live schedule",
     _SCHEDULE + "'policy_tick', 1, '{}')"),
    ("smart_schedule_schedules_policy_of_tick", "R8.1: a policy's tick has its policy",
     _SCHEDULE + "'policy_tick', null, '{}')"),
    ("smart_schedule_schedules_policy_of_tick", "R8.1: a conversation has none",
     _SCHEDULE + "'conversation', 2, '{}')"),
    *(
        ("smart_schedule_schedules_work", f"R8.1: a conversation of {work} does not say to whom, where and what",
         _CONVERSATION + f"'{work}')")
        for work in ("{}", "[]", '{"target": "a", "conversation_id": "b"}',
                     '{"target": "a", "conversation_id": "b", "prompt": 5}',
                     '{"target": null, "conversation_id": "b", "prompt": "c"}')
    ),
    ("smart_schedule_attempts_of_conversation", "R8.4: a conversation's occurrence is sent once",
     _TWICE_SENT),
    ("smart_schedule_ticks_occurrence_id_key", "R8.3: an occurrence has one tick",
     _TICK + "(2, 't', 1, 1, now(), 'execute', 1, '{}', now())"),
    ("smart_schedule_attempts_idempotency_key_key", "R5.2: the same decisions are not sent under a second attempt",
     _ATTEMPT + "'k1', 'prepared', null, null, null)"),
    ("smart_schedule_attempts_running_has_reference", "R5.2: a job that runs has its id",
     _ATTEMPT + "'k9', 'running', now(), null, null)"),
    ("smart_schedule_attempts_reference_of_dispatched", "R5.2: what was never sent has no job",
     _ATTEMPT + "'k9', 'prepared', null, 'job', null)"),
    ("smart_schedule_attempts_ended", "R5.3: an end has its time",
     _ATTEMPT + "'k9', 'failed', now(), null, null)"),
    ("smart_schedule_attempts_ended", "R5.3: what goes on has none",
     _ATTEMPT + "'k9', 'reconciling', now(), null, now())"),
    ("smart_schedule_attempt_machines_pkey", "R5.7: a machine is in a batch once",
     f"insert into smart_schedule_attempt_machines (attempt_id, machine_id, fencing_token) values ('{_UUID}1', 1, 2)"),
    ("smart_schedule_attempt_machines_ended", "R5.7: a machine's outcome has its time",
     "update smart_schedule_attempt_machines set state = 'succeeded'"),
    ("smart_schedule_attempt_machines_ended", "R5.7: an open one has none",
     "update smart_schedule_attempt_machines set ended_at = now()"),
    ("smart_schedule_machine_locks_pkey", "R5.1: a machine has one lock",
     _LOCK + f"(1, 't', 'attempt', '{_UUID}2', 2, now(), now())"),
    ("smart_schedule_machine_locks_freed_on_record", "R5.4: a lock is not freed without saying by what",
     "update smart_schedule_machine_locks set freed_at = now()"),
    ("smart_schedule_machine_locks_freed_on_record", "R5.4: nor said to be free while it is held",
     "update smart_schedule_machine_locks set freed_by = 'operator'"),
    ("smart_schedule_machine_states_project_of_mining", "R5.6: a project is expected only of a machine that mines",
     "update smart_schedule_machine_states set expected_project = 1"),
    ("smart_schedule_machine_project_benchmarks_pkey", "R2.3: a machine has one benchmark per project",
     "insert into smart_schedule_machine_project_benchmarks (machine_id, project_id, sampled_at) values (1, 1, now())"),
    ("smart_schedule_benchmark_runs_open", "R3.9: a machine and project have one open run",
     _RUN + "1, 1, 'pending', null)"),
    ("smart_schedule_benchmark_runs_active", "R7.1: a machine is sampled for one project at a time",
     f"update smart_schedule_benchmark_runs set state = 'restoring' where id = '{_UUID}1'"),
    ("smart_schedule_benchmark_runs_ended", "R7.2: a run's end has its time",
     _RUN + "5, 5, 'failed', null)"),
    ("smart_schedule_benchmark_runs_restore", "R7.3: a machine that is switched back has a project to go back to",
     f"update smart_schedule_benchmark_runs set restore_action = 'switch' where id = '{_UUID}1'"),
    ("smart_schedule_benchmark_runs_execution", "R7.1: an execution has a number, by which it is told from others",
     f"update smart_schedule_benchmark_runs set execution_name = 'x' where id = '{_UUID}1'"),
    ("smart_schedule_benchmark_runs_restored", "R7.3: a run that was carried out ends with how its machine fared",
     ("update smart_schedule_benchmark_runs set execution_name = 'x-1', execution_no = 1, state = 'failed', ended_at = now()"
     f" where id = '{_UUID}2'")),
    ("smart_schedule_attempts_benchmark", "R7.1: a run's command says which step it is of",
     f"update smart_schedule_attempts set benchmark_run_id = '{_UUID}1' where id = '{_UUID}1'"),
    ("smart_schedule_attempts_of_one", "R5.8: an attempt is automation's or an operator's",
     f"update smart_schedule_attempts set command_id = '{_UUID}1', policy_id = 1 where id = '{_UUID}1'"),
    ("smart_schedule_commands_project_of_mining", "R5.8: a command that starts machines says on what",
     "update smart_schedule_commands set action = 'start'"),
    ("smart_schedule_commands_project_of_mining", "R5.8: a command that stops them names no project",
     "update smart_schedule_commands set project_id = 1"),
    ("smart_schedule_command_machines_taken_or_not", "R5.8: a machine that is in no attempt says why",
     "update smart_schedule_command_machines set attempt_id = null"),
    ("smart_schedule_command_machines_taken_or_not", "R5.8: one that is in one was not passed over",
     "update smart_schedule_command_machines set skipped = 'locked'"),
    ("smart_schedule_command_machines_pkey", "R5.8: a machine is in a command once",
     f"insert into smart_schedule_command_machines values ('{_UUID}1', 1, null, 'locked')"),
    ("smart_schedule_policy_candidates_pkey", "R3.3: a project is a candidate once",
     "insert into smart_schedule_policy_candidates (policy_id, project_id, position) values (1, 1, 1)"),
    ("smart_schedule_policy_candidates_policy_id_position_key", "R3.3: candidates have an order",
     "insert into smart_schedule_policy_candidates (policy_id, project_id, position) values (1, 2, 0)"),
    ("smart_schedule_policy_windows_project", "R3.1: a window that runs something says what",
     _WINDOW + "(1, '08:00', '09:00', 'start', null)"),
    ("smart_schedule_policy_windows_project", "R3.1: a window that stops machines names no project",
     _WINDOW + "(1, '08:00', '09:00', 'stop', 1)"),
    ("smart_schedule_policy_scopes_numbers", "R2.4: a cluster or machine of a scope is a number",
     "insert into smart_schedule_policy_scopes values (1, 'machine', 'S21')"),
    ("smart_schedule_resource_eligibilities_numbers", "R1.2: so is that of an eligibility",
     "insert into smart_schedule_resource_eligibilities values ('t', 1, 'cluster', 'north', true)"),
    ("smart_schedule_executor_leases_pkey", "R4.2: one system may act for a tenant",
     _LEASE + "('t', 'blsflow', 'test'), ('t', 'legacy', 'test')"),
    ("smart_schedule_price_aliases_alias_check", "R2.1: aliases stand as they are compared",
     "insert into smart_schedule_price_aliases values ('btc', 'BTC')"),
    *(
        ("smart_schedule_policy_groups_restart_threshold", "R3.5: the restart threshold is a finite number",
         f"{_POLICY}restart_threshold_cny_per_day = '{value}'")
        for value in ("NaN", "Infinity", "-Infinity")
    ),
    *(
        (f"smart_schedule_policy_groups_{column}_check", f"R3.4: {column} is a number that decisions can be held to",
         f"{_POLICY}{column} = '{value}'")
        for column, values in {
            "price_jump_factor": ("1", "NaN", "Infinity"),
            "freeze_jump_factor": ("1", "NaN"),
            "min_gain_cny_per_day": ("-0.01", "NaN", "Infinity"),
            "min_gain_ratio": ("-0.01", "NaN"),
            "max_move_share": ("0", "1.01", "NaN"),
            "max_failed_share": ("0", "1.01", "NaN"),
            "profit_max_age_sec": ("0",),
            "decision_validity_sec": ("0",),
            "freeze_after_failures": ("0",),
            "consecutive_failures": ("-1",),
        }.items()
        for value in values
    ),
    *(
        ("smart_schedule_schedules_interval_advances", f"R8.2: an interval of {rule} does not advance by whole seconds",
         _SCHEDULE + f"""'policy_tick', 2, '{{"kind": "interval"{rule}}}')""")
        for rule in ("", *(f', "every_sec": {value}' for value in
                           ("0", "-60", '"5"', '"NaN"', "1e-9", "0.5", "1.5", "60.0", "null", "true", "[60]")))
    ),
]  # fmt: skip


@pytest.fixture(scope="module")
def scene(module_database: DatabaseAddress) -> Iterator[Session]:
    """A session on a database where every table holds something to collide with."""
    with closing(Session(module_database)) as session:
        session.run(_SCENE)
        yield session


@pytest.fixture
def session(scene: Session) -> Iterator[Session]:
    """The same, within a transaction that is undone."""
    scene.run("begin")
    yield scene
    scene.run("rollback")


@pytest.mark.parametrize(
    ("constraint", "statement"),
    [
        pytest.param(constraint, statement, id=f"{constraint}-{index}")
        for index, (constraint, _, statement) in enumerate(BROKEN)
    ],
)
def test_an_invariant_cannot_be_broken(session: Session, constraint: str, statement: str) -> None:
    """R8.4, R5.1, R6.3: whatever would break an invariant is refused, and the error names the constraint that says so."""
    with pytest.raises(InvariantBroken) as refused:
        session.run(statement)
    assert refused.value.constraint == constraint
    assert not refused.value.retryable


def test_exactly_one_decision_per_machine_and_tick(session: Session) -> None:
    """R3.2: a tick has one decision for a machine; the refusal names the constraint of that day's partition."""
    with pytest.raises(InvariantBroken) as refused:
        session.run(
            "insert into smart_schedule_machine_decisions select * from smart_schedule_machine_decisions"
        )
    assert refused.value.constraint == "smart_schedule_machine_decisions_default_pkey"


def test_every_named_constraint_is_tried() -> None:
    """R11.1: no invariant is added to the migrations without a try to break it here."""
    sql = "".join(text for _, text in migration_files())
    named = set(re.findall(r"(?:constraint|unique index) (smart_schedule_\w+)", sql))
    assert named - {constraint for constraint, _, _ in BROKEN} == set()


@pytest.mark.parametrize(
    "statement",
    [
        pytest.param(
            _OCCURRENCE + "'manual', '2026-01-01 00:01Z', 'other', 'recorded', null, null, null)",
            id="manual at a planned time",
        ),
        pytest.param(
            _OCCURRENCE + "'manual', '2026-01-01 00:03Z', 'other', 'recorded', null, null, null)",
            id="manual at a manual's time",
        ),
        pytest.param(
            "update smart_schedule_occurrences set detail = '{\"tick_id\": 1}' where id = 2",
            id="a remark on an end",
        ),
        pytest.param(
            "update smart_schedule_freezes set lifted_at = now(), lifted_by = 'anna', lift_reason = 'fixed';"
            + _FREEZE
            + "(1, 't', 'price_jump', now(), 'tick')",
            id="a freeze after a lifted one",
        ),
        pytest.param(
            f"update smart_schedule_benchmark_runs set state = 'failed', ended_at = now() where id = '{_UUID}1';"
            + _RUN
            + "1, 1, 'pending', null)",
            id="a run after one that ended",
        ),
        pytest.param(
            "update smart_schedule_schedules set archived_at = now();"
            + _SCHEDULE
            + """'policy_tick', 1, '{"kind": "interval", "every_sec": 1}')""",
            id="a schedule after an archived one",
        ),
        pytest.param(
            _SCHEDULE
            + """'policy_tick', 2, '{"kind": "daily", "time_of_day": "08:00", "every_sec": "5"}')""",
            id="another kind of rule",
        ),
    ],
)
def test_constraints_leave_room_for_what_is_right(session: Session, statement: str) -> None:
    """R8.8, R6.3, R3.9: what only resembles a breach is taken: manual runs at a planned time, a freeze after a lifted one."""
    session.run(statement)
