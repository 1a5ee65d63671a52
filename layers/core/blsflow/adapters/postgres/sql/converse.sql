-- name: lock_schedule_of
-- The schedule's row lock makes its occurrences take turns; what they see is read only after it is held.
select s.id from smart_schedule_occurrences o join smart_schedule_schedules s on s.id = o.schedule_id
where o.id = :occurrence_id::bigint for no key update of s

-- name: read_conversation
-- The occurrence of a conversation and all that may forbid it to begin.
select o.id as occurrence_id, o.schedule_id, o.tenant_id, o.state, o.origin, coalesce(s.runs_as, s.created_by) as runs_as,
       s.work,
       s.paused, s.archived_at is not null as archived,
       o.schedule_version is distinct from s.version as changed,
       exists (select from smart_schedule_executor_leases e
               where e.tenant_id = o.tenant_id and e.holder = :holder and e.expires_at > now()) as lease_held,
       exists (select from smart_schedule_occurrences a
               where a.schedule_id = o.schedule_id and a.id <> o.id
                 and a.state in ('running', 'reconciling', 'cancelling')) as active
from smart_schedule_occurrences o join smart_schedule_schedules s on s.id = o.schedule_id
where o.id = :occurrence_id::bigint and o.kind = 'conversation'
for update of o

-- name: begin_conversation
-- The point of no return, committed before the call: the attempt is born dispatching, and only once per occurrence.
with begun as (
    update smart_schedule_occurrences set state = 'running', began_at = now()
    where id = :occurrence_id::bigint and state = 'recorded'
    returning id, tenant_id
)
insert into smart_schedule_attempts
    (id, tenant_id, kind, idempotency_key, occurrence_id, action, state, caller_subject, prepared_at, valid_until,
     dispatched_at, request_expires_at, next_check_at)
select :attempt_id::uuid, b.tenant_id, 'conversation', 'occurrence-' || b.id, b.id, 'converse', 'dispatching',
       :caller_subject, now(), now() + :request_timeout::interval, now(), now() + :request_timeout::interval,
       now() + :request_timeout::interval
from begun b
returning idempotency_key, request_expires_at

-- name: conversation_accepted
-- The execution service took it: its run's id is kept, once, and what was told to end meanwhile goes on ending.
with accepted as (
    update smart_schedule_attempts
    set reference = :run_id,
        state = case when exists (select from smart_schedule_occurrences o
                                  where o.id = occurrence_id and o.state = 'cancelling') then 'cancelling' else 'running' end,
        next_check_at = now() + :check_after::interval
    where id = :attempt_id::uuid and state in ('dispatching', 'reconciling', 'cancelling') and reference is null
    returning id, tenant_id, occurrence_id
), runs as (
    update smart_schedule_occurrences o set state = 'running'
    from accepted a where o.id = a.occurrence_id and o.state = 'reconciling'
), logged as (
    insert into smart_schedule_log_events (at, tenant_id, code, params, attempt_id)
    select now(), tenant_id, 'run_started',
           jsonb_build_object('occurrence_id', occurrence_id, 'run_id', :run_id::text), id
    from accepted
)
select count(*) as written from accepted

-- name: conversation_not_started
-- The service surely started nothing: the occurrence ends with the reason, and its schedule is free.
with ended as (
    update smart_schedule_attempts set state = :state, reason = :reason, ended_at = now(),
           detail = detail || jsonb_build_object('said', :detail::text)
    where id = :attempt_id::uuid and state in ('dispatching', 'reconciling', 'cancelling') and reference is null
    returning id, tenant_id, occurrence_id
), closed as (
    update smart_schedule_occurrences o set state = :state, reason = :reason, error = :detail, ended_at = now()
    from ended e where o.id = e.occurrence_id and o.ended_at is null
), logged as (
    insert into smart_schedule_log_events (at, tenant_id, level, code, params, attempt_id)
    select now(), tenant_id, case :state when 'failed' then 'error' else 'warning' end, 'run_not_started',
           jsonb_build_object('occurrence_id', occurrence_id, 'reason', :reason::text, 'said', :detail::text), id
    from ended
)
select count(*) as written from ended

-- name: conversation_unclear
-- Nobody knows whether it was taken: from now on it is only read back, never sent again.
with changed as (
    update smart_schedule_attempts
    set state = case when exists (select from smart_schedule_occurrences o
                                  where o.id = occurrence_id and o.state = 'cancelling') then 'cancelling' else 'reconciling' end,
        reason = :cause, next_check_at = now() + :check_after::interval
    where id = :attempt_id::uuid and state = 'dispatching'
    returning id, tenant_id, occurrence_id
), unclear as (
    update smart_schedule_occurrences o set state = 'reconciling'
    from changed c where o.id = c.occurrence_id and o.state = 'running'
), logged as (
    insert into smart_schedule_log_events (at, tenant_id, level, code, params, attempt_id)
    select now(), tenant_id, 'warning', 'run_unclear',
           jsonb_build_object('occurrence_id', occurrence_id, 'cause', :cause::text), id
    from changed
)
select count(*) as written from changed

-- name: claim_open_runs
-- A page of conversations due for a look, in turns over the tenants; the lease keeps two followers from asking twice.
-- A cancel that came while the start was on its way is taken up here, whoever of the two wrote last.
with turns as (
    select id, row_number() over (partition by tenant_id order by next_check_at, id) as turn
    from smart_schedule_attempts
    where ended_at is null and kind = 'conversation' and state in ('running', 'reconciling', 'cancelling')
      and next_check_at <= now()
), page as (
    select a.id from smart_schedule_attempts a join (select id, turn from turns order by turn, id limit :page_size::integer) t
    using (id)
    where a.ended_at is null and a.next_check_at <= now()
    for update of a skip locked
)
update smart_schedule_attempts a
set next_check_at = now() + :lease::interval, checks = checks + 1,
    state = case when o.state = 'cancelling' then 'cancelling' else a.state end
from page, smart_schedule_occurrences o where a.id = page.id and o.id = a.occurrence_id
returning a.id, a.tenant_id, a.occurrence_id, a.idempotency_key, a.caller_subject, a.state, a.reference, a.dispatched_at,
          a.request_expires_at, a.checks, a.unresolved_alerted_at is not null as unresolved_alerted,
          a.unreachable_alerted_at is not null as unreachable_alerted

-- name: settle_runs
-- What read-backs settled: the attempt's end is the occurrence's end, with its results; an alert is told of once.
with looked as (
    select * from unnest(:attempt_ids::uuid[], :references::text[], :states::text[], :reasons::text[], :output_refs::text[],
                         :errors::text[], :alerts::text[], :next_check_at::timestamptz[])
        as l (id, reference, end_state, reason, output_ref, error, alert, next_check_at)
), changed as (
    update smart_schedule_attempts a
    set reference = coalesce(l.reference, a.reference),
        state = coalesce(l.end_state, case when a.state = 'cancelling' then a.state
                                           when coalesce(l.reference, a.reference) is null then 'reconciling'
                                           else 'running' end),
        reason = l.reason, ended_at = case when l.end_state is not null then now() end, next_check_at = l.next_check_at,
        unresolved_alerted_at = case when l.alert = 'unresolved' then now() else a.unresolved_alerted_at end,
        unreachable_alerted_at = case when l.alert = 'unreachable' then now() else a.unreachable_alerted_at end
    from looked l where a.id = l.id and a.ended_at is null
    returning a.id, a.tenant_id, a.occurrence_id, a.state, a.reason, a.reference, a.dispatched_at, l.end_state, l.output_ref,
              l.error, l.alert
), finished as (
    update smart_schedule_occurrences o
    set state = case when c.end_state is not null then c.end_state
                     when o.state = 'reconciling' and c.state = 'running' then 'running' else o.state end,
        reason = case when c.end_state is not null then c.reason end, output_ref = c.output_ref, error = c.error,
        ended_at = case when c.end_state is not null then now() end
    from changed c where o.id = c.occurrence_id and o.ended_at is null
), logged as (
    insert into smart_schedule_log_events (at, tenant_id, level, code, params, attempt_id)
    select now(), tenant_id, case when end_state in ('failed', 'interrupted') then 'error' else 'info' end, 'run_ended',
           jsonb_build_object('occurrence_id', occurrence_id, 'run_id', reference, 'state', end_state, 'reason', reason,
                              'output_ref', output_ref, 'error', error), id
    from changed where end_state is not null
    union all
    select now(), tenant_id, 'error', 'attempt_' || alert,
           jsonb_build_object('occurrence_id', occurrence_id, 'run_id', reference, 'waiting_for', reason,
                              'since', dispatched_at), id
    from changed where alert is not null
), told as (
    insert into smart_schedule_outbox (tenant_id, code, params, created_at, next_try_at)
    select tenant_id, 'attempt_' || alert,
           jsonb_build_object('attempt_id', id, 'occurrence_id', occurrence_id, 'run_id', reference, 'waiting_for', reason,
                              'since', dispatched_at), now(), now()
    from changed where alert is not null
)
select id, end_state is not null as ended, alert is not null as alert from changed

-- name: lock_schedule
-- One schedule of a tenant, locked; someone else's is as unknown as none.
select id, tenant_id, kind, policy_id, version, paused, archived_at is not null as archived, rule, time_zone
from smart_schedule_schedules
where id = :schedule_id::bigint and (:tenant_id::text is null or tenant_id = :tenant_id)
for no key update

-- name: cancel_occurrence
-- What was not begun ends at once; what may have been sent keeps its slot until its end is confirmed.
with asked as (
    update smart_schedule_occurrences o
    set state = case when o.state = 'recorded' then 'cancelled' else 'cancelling' end,
        ended_at = case when o.state = 'recorded' then now() end,
        cancel_requested_at = now(), cancel_requested_by = :by
    where o.id = :occurrence_id::bigint and o.schedule_id = :schedule_id::bigint
      and o.state in ('recorded', 'running', 'reconciling')
    returning o.id, o.tenant_id, o.kind, o.schedule_id, o.state
), attempts as (
    update smart_schedule_attempts a set state = 'cancelling', next_check_at = now()
    from asked where a.occurrence_id = asked.id and a.kind = 'conversation' and a.state in ('running', 'reconciling')
), logged as (
    insert into smart_schedule_log_events (at, tenant_id, policy_id, code, params)
    select now(), asked.tenant_id, s.policy_id, 'cancel_requested',
           jsonb_build_object('schedule_id', asked.schedule_id, 'occurrence_id', asked.id, 'by', :by::text)
    from asked join smart_schedule_schedules s on s.id = asked.schedule_id
)
select id, state from asked

-- name: occurrence_of_schedule
-- The occurrence if it belongs to that schedule, else nothing.
select id, state, reason, kind from smart_schedule_occurrences
where id = :occurrence_id::bigint and schedule_id = :schedule_id::bigint

-- name: lock_attempts_of
-- Attempts before their occurrence: who follows or sends them locks in this order too.
select id from smart_schedule_attempts where occurrence_id = :occurrence_id::bigint and ended_at is null
order by id for update

-- name: unsent_attempts_of
-- What can still be ended unsent, under its row lock: nobody begins to send it meanwhile.
select id from smart_schedule_attempts where occurrence_id = :occurrence_id::bigint and state = 'prepared'
for update

-- name: open_attempt_of
-- The conversation that the execution service is to be told to end, under the caller and key of its sending.
select id, tenant_id, idempotency_key, caller_subject, reference from smart_schedule_attempts
where occurrence_id = :occurrence_id::bigint and kind = 'conversation' and ended_at is null and state = 'cancelling'

-- name: create_schedule
-- A new conversation with its cursor; its constraints refuse what could never run.
with made as (
    insert into smart_schedule_schedules
        (tenant_id, created_by, kind, name, work, rule, time_zone, next_run_at, created_at, updated_at)
    values (:tenant_id, :created_by, 'conversation', :name, :work::jsonb, :rule::jsonb, :time_zone,
            :next_run_at::timestamptz, now(), now())
    returning id, tenant_id, name, created_by, version
), logged as (
    insert into smart_schedule_log_events (at, tenant_id, code, params)
    select now(), tenant_id, 'schedule_created',
           jsonb_build_object('schedule_id', id, 'by', :by::text, 'name', name, 'runs_as', created_by)
    from made
)
select id, version from made

-- name: change_schedule
-- Optimistic: another version than the one that was read changes nothing. Who says what is sent has it sent in their name.
with changed as (
    update smart_schedule_schedules s
    set name = :name, work = :work::jsonb, rule = :rule::jsonb, time_zone = :time_zone, broken = null,
        runs_as = case when s.work = :work::jsonb then s.runs_as else :runs_as end,
        next_run_at = :next_run_at::timestamptz, version = s.version + 1, updated_at = now()
    from smart_schedule_schedules was
    where s.id = :schedule_id::bigint and was.id = s.id and s.version = :version::bigint and s.archived_at is null
    returning s.id, s.tenant_id, s.name, s.created_by, s.runs_as, s.version,
              array_remove(array[case when s.name <> was.name then 'name' end,
                                 case when (s.rule, s.time_zone) is distinct from (was.rule, was.time_zone) then 'rule' end,
                                 case when s.work <> was.work then 'work' end], null) as fields
), logged as (
    insert into smart_schedule_log_events (at, tenant_id, code, params)
    select now(), tenant_id, 'schedule_changed',
           jsonb_build_object('schedule_id', id, 'by', :by::text, 'name', name, 'version', version,
                              'changed', array_to_string(fields, ', '), 'runs_as', coalesce(runs_as, created_by))
    from changed
)
select id, version from changed

-- name: pause_schedule
-- A pause moves no anchor: the cursor continues from now in the rule's own rhythm. A second time changes nothing.
with changed as (
    update smart_schedule_schedules
    set paused = :paused::boolean,
        next_run_at = case when :paused::boolean then next_run_at else :next_run_at::timestamptz end,
        updated_at = now()
    where id = :schedule_id::bigint and archived_at is null and paused <> :paused::boolean
    returning id, tenant_id, name
)
insert into smart_schedule_log_events (at, tenant_id, code, params)
select now(), tenant_id, case when :paused::boolean then 'schedule_paused' else 'schedule_resumed' end,
       jsonb_build_object('schedule_id', id, 'by', :by::text, 'name', name)
from changed

-- name: archive_schedule
-- It runs no more; its history stays. A second time changes nothing.
with archived as (
    update smart_schedule_schedules set archived_at = now(), paused = true, updated_at = now()
    where id = :schedule_id::bigint and archived_at is null
    returning id, tenant_id, name
)
insert into smart_schedule_log_events (at, tenant_id, code, params)
select now(), tenant_id, 'schedule_archived', jsonb_build_object('schedule_id', id, 'by', :by::text, 'name', name)
from archived

-- name: list_schedules
-- Schedules in use in the order of their ids, or one even if it is archived, with how its newest occurrence stands.
select s.id, s.tenant_id, s.created_by, coalesce(s.runs_as, s.created_by) as runs_as, s.kind, s.name, s.policy_id, s.work,
       s.rule, s.time_zone, s.paused, s.version,
       case when s.archived_at is null then s.next_run_at end as next_run_at, s.broken, s.archived_at is not null as archived,
       (select o.state from smart_schedule_occurrences o where o.schedule_id = s.id
        order by o.planned_at desc, o.id desc limit 1) as newest_state
from smart_schedule_schedules s
where (s.archived_at is null or s.id = :schedule_id::bigint) and s.id > :after_id::bigint
  and (:schedule_id::bigint is null or s.id = :schedule_id::bigint)
  and (:tenant_id::text is null or s.tenant_id = :tenant_id)
order by s.id limit :page_size::integer

-- name: request_schedule_run
-- A manual run of a conversation's schedule: the same request id gives the same occurrence, whatever happened since.
with asked as (
    insert into smart_schedule_occurrences
        (tenant_id, schedule_id, kind, origin, planned_at, request_id, request_fingerprint, state, recorded_at, requested_by,
         schedule_version)
    select s.tenant_id, s.id, s.kind, 'manual', now(), :request_id::text, :fingerprint, 'recorded', now(), :by::text, s.version
    from smart_schedule_schedules s where s.id = :schedule_id::bigint
    on conflict (schedule_id, request_id) where origin = 'manual' do nothing
    returning id, tenant_id, schedule_id, state, reason, request_fingerprint
), logged as (
    insert into smart_schedule_log_events (at, tenant_id, code, params)
    select now(), tenant_id, 'run_requested',
           jsonb_build_object('by', :by::text, 'request_id', :request_id::text, 'schedule_id', schedule_id,
                              'occurrence_id', id)
    from asked
)
select id, state, reason, request_fingerprint, true as is_new from asked
union all
select o.id, o.state, o.reason, o.request_fingerprint, false
from smart_schedule_occurrences o
where o.schedule_id = :schedule_id::bigint and o.request_id = :request_id::text and o.origin = 'manual'
  and not exists (select from asked)
