-- name: set_enabled
-- An operator's word: enabling also lifts an open freeze, on the record, and starts the counts anew, also those of
-- machines that others kept changing; the schedule's cursor continues from now in its own rhythm, and a rule that could
-- not be read is tried again.
with policy as (
    update smart_schedule_policy_groups
    set enabled = :enabled::boolean, consecutive_failures = case when :enabled::boolean then 0 else consecutive_failures end,
        version = version + 1, updated_at = now()
    where id = :policy_id::bigint and (:tenant_id::text is null or tenant_id = :tenant_id) and archived_at is null
      and (:version::bigint is null or version = :version::bigint)
    returning id, tenant_id, name, version
), lifted as (
    update smart_schedule_freezes f set lifted_at = now(), lifted_by = :by, lift_reason = :why
    from policy p where f.policy_id = p.id and f.lifted_at is null and :enabled::boolean
    returning f.id, f.cause, f.frozen_at
), scheduled as (
    update smart_schedule_schedules s set paused = not :enabled::boolean, updated_at = now(),
        next_run_at = case when :enabled::boolean then :next_run_at::timestamptz else next_run_at end,
        broken = case when :enabled::boolean then null else broken end
    from policy p where s.policy_id = p.id and s.archived_at is null
), forgiven as (
    update smart_schedule_machine_states s set foreign_changes = 0
    from (
        select m.id from machines m join policy p on p.tenant_id = m.tenant_id
        where :enabled::boolean and exists (
            select from smart_schedule_policy_scopes c
            where c.policy_id = p.id
              and smart_schedule_covers(c.resource_type, c.resource_id, m.id, m.cluster_id, m.model))
    ) covered
    where s.machine_id = covered.id and s.foreign_changes > 0
    returning s.machine_id
), logged as (
    insert into smart_schedule_log_events (at, tenant_id, policy_id, level, code, params)
    select now(), p.tenant_id, p.id, 'info', case when :enabled::boolean then 'policy_enabled' else 'policy_disabled' end,
           jsonb_build_object('by', :by::text, 'why', :why::text, 'froze_for', (select cause from lifted),
                              'frozen_at', (select frozen_at from lifted),
                              'machines_forgiven', (select count(*) from forgiven))
    from policy p
)
select p.id, p.tenant_id, p.name, p.version, (select cause from lifted) as froze_for, (select count(*) from forgiven) as forgiven
from policy p

-- name: set_mode
-- An operator's word on how far a policy goes; a new version, so that nothing decided under the old mode is sent any more.
with policy as (
    update smart_schedule_policy_groups p
    set execution_mode = :mode, version = p.version + 1, updated_at = now()
    from smart_schedule_policy_groups was
    where p.id = :policy_id::bigint and was.id = p.id and (:tenant_id::text is null or p.tenant_id = :tenant_id)
      and p.archived_at is null and (:version::bigint is null or p.version = :version::bigint)
    returning p.id, p.tenant_id, p.name, p.version, was.execution_mode as was
), logged as (
    insert into smart_schedule_log_events (at, tenant_id, policy_id, code, params)
    select now(), tenant_id, id, 'policy_mode_changed',
           jsonb_build_object('by', :by::text, 'why', :why::text, 'was', was, 'is', :mode::text)
    from policy
)
select name, version, was from policy

-- name: policy_schedule
-- The rule under which a policy ticks.
select s.id, s.rule, s.time_zone, p.tenant_id from smart_schedule_schedules s
join smart_schedule_policy_groups p on p.id = s.policy_id
where s.policy_id = :policy_id::bigint and s.archived_at is null and p.archived_at is null
  and (:tenant_id::text is null or p.tenant_id = :tenant_id)

-- name: revive_policy_schedule
-- A policy in use whose schedule was taken out of use ticks by it again, with the history that it has.
update smart_schedule_schedules set archived_at = null, updated_at = now()
where id = (select s.id from smart_schedule_schedules s join smart_schedule_policy_groups p on p.id = s.policy_id
            where p.id = :policy_id::bigint and p.archived_at is null
              and (:tenant_id::text is null or p.tenant_id = :tenant_id)
              and not exists (select from smart_schedule_schedules live
                              where live.policy_id = p.id and live.archived_at is null)
            order by s.id desc limit 1)

-- name: policy_for_freeze
-- The policy, without its row lock: an operator's freeze does not wait for a long tick, whose batches are asked again before they are sent.
select id, tenant_id, name from smart_schedule_policy_groups
where id = :policy_id::bigint and (:tenant_id::text is null or tenant_id = :tenant_id) and archived_at is null

-- name: policy_status
-- Where every policy stands: state, freeze, last tick, open work.
select p.id, p.tenant_id, p.name, p.version, p.mode, p.execution_mode, p.enabled, p.max_benchmarks, p.consecutive_failures,
       p.tariff_problems,
       f.cause as frozen_for, f.frozen_at, f.frozen_by, f.detail as freeze_detail,
       t.id as tick_id, t.ticked_at, t.machines, t.counts, t.failure, t.gain_cny_per_day, s.next_run_at, s.broken,
       (select count(*) from smart_schedule_attempts a
        where a.policy_id = p.id and coalesce(a.ended_at, 'infinity') = 'infinity') as open_attempts,
       (select count(*) from smart_schedule_machine_locks l
        where l.freed_at is null and l.expires_at > now() and l.owner_id in (
            select a.id from smart_schedule_attempts a
            where a.policy_id = p.id and coalesce(a.ended_at, 'infinity') = 'infinity'
            union all
            select r.id from smart_schedule_benchmark_runs r
            where r.policy_id = p.id and r.state in ('running', 'restoring'))) as live_locks,
       e.holder as lease_holder, nullif(e.expires_at, 'infinity') as lease_expires_at,
       coalesce(e.holder = 'blsflow' and e.expires_at > now(), false) as lease_held
from smart_schedule_policy_groups p
left join smart_schedule_freezes f on f.policy_id = p.id and f.lifted_at is null
left join smart_schedule_schedules s on s.policy_id = p.id and s.archived_at is null
left join smart_schedule_executor_leases e on e.tenant_id = p.tenant_id
left join lateral (select * from smart_schedule_ticks t where t.policy_id = p.id order by t.id desc limit 1) t on true
where p.archived_at is null and (:policy_id::bigint is null or p.id = :policy_id::bigint)
  and (:tenant_id::text is null or p.tenant_id = :tenant_id)
order by p.id

-- name: trial_policy
-- A policy as its next tick would find it. No row lock: neither a tick nor a freeze waits for a trial. Its machines are read
-- along indexes and sorted in memory, as those of a tick (read_tick says why).
select p.enabled, to_jsonb(p) as policy,
       (select coalesce(jsonb_agg(to_jsonb(c) order by c.position), '[]')
        from smart_schedule_policy_candidates c where c.policy_id = p.id) as candidates,
       (select coalesce(jsonb_agg(to_jsonb(w) order by w.id), '[]')
        from smart_schedule_policy_windows w where w.policy_id = p.id) as windows,
       (select f.cause from smart_schedule_freezes f where f.policy_id = p.id and f.lifted_at is null) as frozen_for,
       exists (select from smart_schedule_executor_leases e
               where e.tenant_id = p.tenant_id and e.holder = :holder and e.expires_at > now()) as lease_held,
       set_config('work_mem', '64MB', true) as memory, set_config('enable_seqscan', 'off', true) as indexed,
       set_config('enable_bitmapscan', 'off', true) as in_order
from smart_schedule_policy_groups p
where p.id = :policy_id::bigint and p.archived_at is null and (:tenant_id::text is null or p.tenant_id = :tenant_id)

-- name: schema_version
-- How far the database has been migrated.
select max(version) as version from smart_schedule_migrations

-- name: request_run
-- A manual run: the same request id gives the same occurrence, whatever happened since.
with asked as (
    insert into smart_schedule_occurrences
        (tenant_id, schedule_id, kind, origin, planned_at, request_id, request_fingerprint, state, recorded_at)
    select s.tenant_id, s.id, s.kind, 'manual', now(), :request_id, :fingerprint, 'recorded', now()
    from smart_schedule_schedules s
    where s.id = :schedule_id::bigint and s.archived_at is null and (:tenant_id::text is null or s.tenant_id = :tenant_id)
    on conflict (schedule_id, request_id) where origin = 'manual' do nothing
    returning id, tenant_id, schedule_id, state, reason, request_fingerprint, true as is_new
), logged as (
    insert into smart_schedule_log_events (at, tenant_id, policy_id, code, params)
    select now(), a.tenant_id, s.policy_id, 'run_requested',
           jsonb_build_object('by', :by::text, 'request_id', :request_id::text, 'occurrence_id', a.id)
    from asked a join smart_schedule_schedules s on s.id = a.schedule_id
)
select id, state, reason, request_fingerprint, is_new from asked
union all
select o.id, o.state, o.reason, o.request_fingerprint, false
from smart_schedule_occurrences o
where o.schedule_id = :schedule_id::bigint and o.request_id = :request_id and o.origin = 'manual'
  and (:tenant_id::text is null or o.tenant_id = :tenant_id) and not exists (select from asked)

-- name: close_attempt
-- An operator's word that an attempt is over although nobody could confirm it: on the record, with its locks freed.
with closed as (
    update smart_schedule_attempts set state = 'interrupted', reason = 'closed_by_operator', ended_at = now(),
           detail = detail || jsonb_build_object('closed_by', :by::text, 'why', :why::text)
    where id = :attempt_id::uuid and ended_at is null and state not in ('prepared', 'dispatching')
      and (:tenant_id::text is null or tenant_id = :tenant_id)
    returning id, tenant_id, policy_id, tick_id, occurrence_id, action, project_id, reference
), machines as (
    update smart_schedule_attempt_machines m set state = 'failed', reason = 'closed_by_operator', ended_at = now()
    from closed c where m.attempt_id = c.id and m.state = 'pending'
    returning m.machine_id, m.fencing_token
), interrupted as (
    update smart_schedule_occurrences o set state = 'interrupted', reason = 'closed_by_operator', ended_at = now()
    from closed c where o.id = c.occurrence_id and o.kind = 'conversation' and o.ended_at is null
), freed as (
    update smart_schedule_machine_locks l set freed_at = now(), freed_by = 'operator:' || :by
    from machines m where l.machine_id = m.machine_id and l.fencing_token = m.fencing_token and l.freed_at is null
      and l.owner_kind = 'attempt'
), logged as (
    insert into smart_schedule_log_events (at, tenant_id, policy_id, level, code, params, tick_id, attempt_id)
    select now(), c.tenant_id, c.policy_id, 'warning', 'attempt_closed_by_operator',
           jsonb_build_object('by', :by::text, 'why', :why::text, 'action', c.action, 'job_id', c.reference,
                              'machines', (select count(*) from machines)), c.tick_id, c.id
    from closed c
)
select c.id, c.occurrence_id, c.action, c.reference, (select count(*) from machines) as machines from closed c

-- name: attempt_state
-- Why an attempt cannot be closed: it has ended, or was never sent.
select state, ended_at from smart_schedule_attempts
where id = :attempt_id::uuid and (:tenant_id::text is null or tenant_id = :tenant_id)

-- name: open_work
-- What is under way: attempts with their machines, oldest first.
select a.id, a.tenant_id, a.policy_id, a.action, a.project_id, a.state, a.reason, a.reference, a.dispatched_at, a.checks,
       a.unresolved_alerted_at, count(m.*) filter (where m.state = 'pending') as open_machines
from smart_schedule_attempts a left join smart_schedule_attempt_machines m on m.attempt_id = a.id
where a.ended_at is null and (:tenant_id::text is null or a.tenant_id = :tenant_id)
group by a.id order by a.prepared_at, a.id limit :page_size::integer

-- name: knows_tenant
-- Whether anything makes the tenant one of this deployment.
select exists (select from machines where tenant_id = :tenant_id)
    or exists (select from clusters where tenant_id = :tenant_id)
    or exists (select from smart_schedule_executor_leases where tenant_id = :tenant_id) as known

-- name: change_lease
-- Which system may act for a tenant, from now on and on the record. A tenant of whom there is nothing yet is unknown.
with before as (
    select holder from smart_schedule_executor_leases where tenant_id = :tenant_id and expires_at > now()
), changed as (
    insert into smart_schedule_executor_leases (tenant_id, holder, expires_at, changed_by, changed_at)
    select :tenant_id::text, :holder::text, 'infinity', :by::text, now()
    where exists (select from machines where tenant_id = :tenant_id)
       or exists (select from clusters where tenant_id = :tenant_id)
       or exists (select from smart_schedule_policy_groups where tenant_id = :tenant_id)
       or exists (select from smart_schedule_schedules where tenant_id = :tenant_id)
    on conflict (tenant_id) do update
    set holder = excluded.holder, expires_at = excluded.expires_at, changed_by = excluded.changed_by,
        changed_at = excluded.changed_at
    returning tenant_id
), logged as (
    insert into smart_schedule_log_events (at, tenant_id, level, code, params)
    select now(), tenant_id, 'warning', 'executor_lease_changed',
           jsonb_build_object('was', (select holder from before), 'now', :holder::text, 'by', :by::text, 'why', :why::text)
    from changed
)
select tenant_id, (select holder from before) as was,
       (select count(*) from smart_schedule_attempts a where a.tenant_id = changed.tenant_id and a.ended_at is null)
           as open_attempts
from changed

-- name: read_lease
-- Which system may act for a tenant now; one that has expired is held by nobody.
select case when expires_at > now() then holder end as holder, nullif(expires_at, 'infinity') as expires_at, changed_by,
       changed_at
from smart_schedule_executor_leases where tenant_id = :tenant_id
