-- name: lock_attempt
-- The attempt and all that may forbid sending it, under its row lock. It was prepared in its tick's own transaction, so that
-- prepared_at is its decisions' ticked_at, and says which partition they are in.
select a.id, a.tenant_id, a.policy_id, a.tick_id, a.occurrence_id, a.idempotency_key, a.action, a.project_id,
       a.run_config_id, a.state, a.prepared_at, a.valid_until > now() as valid,
       a.benchmark_step is not distinct from 'restore' as restores,
       p.enabled and p.archived_at is null and p.tenant_id = a.tenant_id
           and p.version = coalesce((select t.policy_version from smart_schedule_ticks t where t.id = a.tick_id), p.version)
           as policy_unchanged,
       p.execution_mode,
       exists (select from smart_schedule_freezes f where f.policy_id = a.policy_id and f.lifted_at is null) as frozen,
       exists (select from smart_schedule_executor_leases e
               where e.tenant_id = a.tenant_id and e.holder = :holder and e.expires_at > now()) as lease_held
from smart_schedule_attempts a left join smart_schedule_policy_groups p on p.id = a.policy_id
where a.id = :attempt_id::uuid
for update of a

-- name: mark_dispatching
-- The point of no return, committed before the call. Machines whose lock was lost meanwhile, that an operator holds by now
-- (unless it is an operator's command) or that are no longer the tenant's are dropped from the batch; the locks of the others now last until the end of the job is
-- confirmed.
with fit as (
    select m.machine_id, m.fencing_token
    from smart_schedule_attempt_machines m
    join smart_schedule_attempts a on a.id = m.attempt_id
    join machines x on x.id = m.machine_id and x.tenant_id = a.tenant_id
         and (not x.operator_hold or a.benchmark_step is not distinct from 'restore' or a.command_id is not null)
    where m.attempt_id = :attempt_id::uuid and m.state = 'pending'
), held as (
    update smart_schedule_machine_locks l set expires_at = 'infinity'
    from fit
    where l.machine_id = fit.machine_id and l.fencing_token = fit.fencing_token and l.freed_at is null
      -- a benchmark run's commands are sent under the run's own lock
      and l.owner_id = coalesce((select a.benchmark_run_id from smart_schedule_attempts a where a.id = :attempt_id::uuid),
                                :attempt_id::uuid)
    returning l.machine_id, l.fencing_token
), dropped as (
    update smart_schedule_attempt_machines m
    set state = 'dropped', ended_at = now(),
        reason = case when m.machine_id in (select machine_id from fit) then 'lock_lost' else 'withdrawn' end
    where m.attempt_id = :attempt_id::uuid and m.state = 'pending'
      and m.machine_id not in (select machine_id from held)
    returning m.machine_id, m.fencing_token
), freed as (
    update smart_schedule_machine_locks l set freed_at = now(), freed_by = 'unsent:withdrawn'
    from dropped d
    where l.machine_id = d.machine_id and l.owner_id = :attempt_id::uuid and l.fencing_token = d.fencing_token
      and l.freed_at is null
), skipped as (
    update smart_schedule_machine_decisions d set action = 'skip', reason = 'locked'
    from dropped where d.attempt_id = :attempt_id::uuid and d.machine_id = dropped.machine_id
      and d.ticked_at = :ticked_at::timestamptz
), sent as (
    update smart_schedule_attempts
    set state = 'dispatching', dispatched_at = now(), request_expires_at = now() + :request_timeout::interval,
        next_check_at = now() + :request_timeout::interval
    where id = :attempt_id::uuid and exists (select from held)
    returning request_expires_at
)
select h.machine_id, h.fencing_token, s.request_expires_at from held h cross join sent s order by h.machine_id

-- name: prepared_span
-- Between which ticks these attempts were prepared: the partitions of their decisions.
select min(prepared_at) as first_ticked_at, max(prepared_at) as last_ticked_at
from smart_schedule_attempts where id = any (:attempt_ids::uuid[])

-- name: end_unsent
-- Never sent: nothing can have happened, so everything it holds is free at once.
with ended as (
    update smart_schedule_attempts set state = 'skipped', reason = :reason, ended_at = now()
    where id = any (:attempt_ids::uuid[]) and state = 'prepared'
    returning id, tenant_id, policy_id, tick_id, occurrence_id, action, project_id
), machines as (
    update smart_schedule_attempt_machines m set state = 'dropped', reason = :reason, ended_at = now()
    from ended e where m.attempt_id = e.id and m.state = 'pending'
    returning m.attempt_id, m.machine_id, m.fencing_token
), freed as (
    update smart_schedule_machine_locks l set freed_at = now(), freed_by = 'unsent:' || :reason
    from machines m where l.machine_id = m.machine_id and l.fencing_token = m.fencing_token and l.freed_at is null
      and l.owner_kind = 'attempt'
), skipped as (
    update smart_schedule_machine_decisions d set action = 'skip', reason = :reason
    from machines m where d.attempt_id = m.attempt_id and d.machine_id = m.machine_id
      and d.ticked_at between :first_ticked_at::timestamptz and :last_ticked_at::timestamptz
), logged as (
    insert into smart_schedule_log_events (at, tenant_id, policy_id, level, code, params, tick_id, attempt_id)
    select now(), e.tenant_id, e.policy_id, 'warning', 'batch_not_sent',
           jsonb_build_object('action', e.action, 'project_id', e.project_id, 'reason', :reason::text,
                              'machines', (select count(*) from machines m where m.attempt_id = e.id)),
           e.tick_id, e.id
    from ended e
)
select count(*) as ended from ended

-- name: end_tick_if_sent
-- The occurrence ends with its last attempt leaving prepared and dispatching.
update smart_schedule_occurrences o
set state = case o.state when 'cancelling' then 'cancelled' else 'succeeded' end, ended_at = now()
where o.id = :occurrence_id::bigint and o.state in ('running', 'cancelling') and o.kind = 'policy_tick'
  and not exists (
      select from smart_schedule_attempts a
      where a.occurrence_id = o.id and a.state in ('prepared', 'dispatching'))

-- name: attempt_accepted
-- The job id goes to the attempt and to every decision of the batch; machines refused alone are failed and freed.
with accepted as (
    update smart_schedule_attempts
    set state = 'running', reference = :job_id, next_check_at = now() + :check_after::interval
    where id = :attempt_id::uuid and state in ('dispatching', 'reconciling')
    returning id, tenant_id, policy_id, tick_id, action, project_id
), refused as (
    update smart_schedule_attempt_machines m set state = 'refused', reason = r.reason, ended_at = now()
    from unnest(:refused_ids::bigint[], :refused_reasons::text[]) as r (machine_id, reason), accepted a
    where m.attempt_id = a.id and m.machine_id = r.machine_id and m.state = 'pending'
    returning m.attempt_id, m.machine_id, m.fencing_token, m.reason
), freed as (
    update smart_schedule_machine_locks l set freed_at = now(), freed_by = 'refused'
    from refused r where l.machine_id = r.machine_id and l.fencing_token = r.fencing_token and l.freed_at is null
      and l.owner_kind = 'attempt'
), backed_off as (
    insert into smart_schedule_machine_states as known (machine_id, tenant_id, expected, changed_at, failures, retry_at)
    select r.machine_id, a.tenant_id, 'unset', now(), 1, now() + smart_schedule_back_off(1)
    from refused r cross join accepted a order by r.machine_id
    on conflict (machine_id) do update
    set failures = known.failures + 1,
        retry_at = now() + smart_schedule_back_off(known.failures + 1)
    returning machine_id, failures
), told as (
    insert into smart_schedule_outbox (tenant_id, policy_id, code, params, created_at, next_try_at)
    select a.tenant_id, a.policy_id, 'repeated_job_failure',
           jsonb_build_object('action', a.action, 'project_id', a.project_id,
                              'machines', jsonb_agg(b.machine_id order by b.machine_id), 'failures', 3),
           now(), now()
    from backed_off b cross join accepted a where b.failures = 3
    group by a.tenant_id, a.policy_id, a.action, a.project_id
), decided as (
    update smart_schedule_machine_decisions d set job_id = :job_id
    from accepted a where d.attempt_id = a.id and d.ticked_at = :ticked_at::timestamptz
), logged as (
    insert into smart_schedule_log_events (at, tenant_id, policy_id, level, code, params, tick_id, attempt_id)
    select now(), a.tenant_id, a.policy_id, case when exists (select from refused) then 'warning' else 'info' end,
           'job_accepted',
           jsonb_build_object('action', a.action, 'project_id', a.project_id, 'job_id', :job_id::text,
                              'machines', :machine_count::integer,
                              'refused', (select coalesce(jsonb_object_agg(machine_id, reason), '{}') from refused)),
           a.tick_id, a.id
    from accepted a
)
select count(*) as written from accepted

-- name: accepted_too_late
-- The attempt was closed while its answer was on the way: the job that exists all the same is kept, and said.
with late as (
    update smart_schedule_attempts set detail = detail || jsonb_build_object('late_job_id', :job_id::text)
    where id = :attempt_id::uuid
    returning id, tenant_id, policy_id, tick_id, action, project_id
)
insert into smart_schedule_log_events (at, tenant_id, policy_id, level, code, params, tick_id, attempt_id)
select now(), tenant_id, policy_id, 'error', 'job_accepted_late',
       jsonb_build_object('action', action, 'project_id', project_id, 'job_id', :job_id::text), tick_id, id
from late

-- name: attempt_not_taken
-- The service took nothing (busy: skipped, rejected: failed): nothing will happen, everything is free at once.
with ended as (
    update smart_schedule_attempts
    set state = :state, reason = :reason, ended_at = now(), detail = detail || jsonb_build_object('said', :detail::text)
    where id = :attempt_id::uuid and state = 'dispatching'
    returning id, tenant_id, policy_id, tick_id, action, project_id
), machines as (
    -- a busy service refused nobody: its machines count neither as failed nor as tried
    update smart_schedule_attempt_machines m
    set state = case :state when 'failed' then 'refused' else 'dropped' end, reason = :reason, ended_at = now()
    from ended e where m.attempt_id = e.id and m.state = 'pending'
    returning m.machine_id, m.fencing_token, m.state
), backed_off as (
    insert into smart_schedule_machine_states as known (machine_id, tenant_id, expected, changed_at, failures, retry_at)
    select m.machine_id, e.tenant_id, 'unset', now(), 1, now() + smart_schedule_back_off(1)
    from machines m cross join ended e where m.state = 'refused' order by m.machine_id
    on conflict (machine_id) do update
    set failures = known.failures + 1,
        retry_at = now() + smart_schedule_back_off(known.failures + 1)
    returning machine_id, failures
), told as (
    insert into smart_schedule_outbox (tenant_id, policy_id, code, params, created_at, next_try_at)
    select e.tenant_id, e.policy_id, 'repeated_job_failure',
           jsonb_build_object('action', e.action, 'project_id', e.project_id,
                              'machines', jsonb_agg(b.machine_id order by b.machine_id), 'failures', 3),
           now(), now()
    from backed_off b cross join ended e where b.failures = 3
    group by e.tenant_id, e.policy_id, e.action, e.project_id
), freed as (
    update smart_schedule_machine_locks l set freed_at = now(), freed_by = 'not_taken'
    from machines m where l.machine_id = m.machine_id and l.fencing_token = m.fencing_token and l.freed_at is null
      and l.owner_kind = 'attempt'
), logged as (
    insert into smart_schedule_log_events (at, tenant_id, policy_id, level, code, params, tick_id, attempt_id)
    select now(), e.tenant_id, e.policy_id, case :state when 'failed' then 'error' else 'warning' end,
           case :state when 'failed' then 'batch_rejected' else 'batch_busy' end,
           jsonb_build_object('action', e.action, 'project_id', e.project_id, 'reason', :reason::text,
                              'said', :detail::text, 'machines', (select count(*) from machines)),
           e.tick_id, e.id
    from ended e
)
select count(*) as written from ended

-- name: attempt_ambiguous
-- Nobody knows whether it was taken: from now on it is only read back, never sent.
with changed as (
    update smart_schedule_attempts
    set state = 'reconciling', reason = :cause, next_check_at = now() + :check_after::interval
    where id = :attempt_id::uuid and state = 'dispatching'
    returning id, tenant_id, policy_id, tick_id, action, project_id
), logged as (
    insert into smart_schedule_log_events (at, tenant_id, policy_id, level, code, params, tick_id, attempt_id)
    select now(), tenant_id, policy_id, 'warning', 'batch_unclear',
           jsonb_build_object('action', action, 'project_id', project_id, 'cause', :cause::text), tick_id, id
    from changed
)
select count(*) as written from changed
