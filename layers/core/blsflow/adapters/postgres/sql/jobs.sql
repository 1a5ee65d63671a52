-- name: job
-- A batch that was or will be sent: whose it is, where it stands, and how its machines fared.
select a.id, a.tenant_id, a.policy_id, a.tick_id, a.command_id, a.benchmark_run_id, a.benchmark_step, a.action, a.project_id,
       a.run_config_id, a.state, a.reason, a.reference, a.job_state, a.prepared_at, a.valid_until, a.dispatched_at,
       a.request_expires_at, a.unresolved_alerted_at, a.ended_at, a.ended_at is null as open, n.machines, n.pending, n.succeeded,
       n.failed
from smart_schedule_attempts a
cross join lateral (
    select count(*) as machines, count(*) filter (where m.state = 'pending') as pending,
           count(*) filter (where m.state = 'succeeded') as succeeded,
           count(*) filter (where m.state in ('failed', 'refused')) as failed
    from smart_schedule_attempt_machines m where m.attempt_id = a.id
) n
where a.kind = 'device_batch'

-- name: job_machine
-- How each machine of a batch stands.
select m.attempt_id, m.machine_id, m.state, m.reason, m.job_ended_at, m.ended_at from smart_schedule_attempt_machines m

-- name: live_lock
-- Locks that are held, with whom they belong to and for how long they have been: a machine's owner, or who had it when there
-- is no such machine any more.
select l.machine_id, coalesce(x.tenant_id, l.tenant_id) as tenant_id, l.owner_kind, l.owner_id, l.fencing_token, l.taken_at,
       extract(epoch from now() - l.taken_at)::float8 as age_sec, nullif(l.expires_at, 'infinity') as expires_at,
       coalesce(a.policy_id, b.policy_id) as policy_id, a.command_id, coalesce(a.state, b.state) as owner_state,
       coalesce(a.action, b.step) as owner_does
from smart_schedule_machine_locks l
left join machines x on x.id = l.machine_id
left join smart_schedule_attempts a on a.id = l.owner_id and l.owner_kind = 'attempt'
left join smart_schedule_benchmark_runs b on b.id = l.owner_id and l.owner_kind = 'benchmark'
where l.freed_at is null and l.expires_at > now()

-- name: lock_holder
-- Who holds a machine, there may be none of that id any more: for its owner, and for whose attempt or run it is.
select l.owner_kind, l.owner_id, a.state,
       (select c.id from smart_schedule_attempts c
        where c.benchmark_run_id = l.owner_id and c.ended_at is null and c.state not in ('prepared', 'dispatching')
        order by c.prepared_at desc limit 1) as open_attempt_id
from smart_schedule_machine_locks l
left join machines m on m.id = l.machine_id
left join smart_schedule_attempts a on a.id = l.owner_id and l.owner_kind = 'attempt'
where l.machine_id = :machine_id::bigint and l.freed_at is null and l.expires_at > now()
  and (:tenant_id::text is null or :tenant_id in (l.tenant_id, m.tenant_id))

-- name: lock_attempt_row
-- The attempt under its row lock, so that its machines are closed and settled in turns.
select state from smart_schedule_attempts where id = :attempt_id::uuid for update

-- name: close_machine
-- An operator's word that one machine of a batch is over although nobody could confirm it: its lock alone is freed, and the
-- attempt ends with its last open machine.
with closed as (
    update smart_schedule_attempt_machines m set state = 'failed', reason = 'closed_by_operator', ended_at = now()
    from smart_schedule_attempts a
    where m.attempt_id = :attempt_id::uuid and m.machine_id = :machine_id::bigint and m.state = 'pending'
      and a.id = m.attempt_id and a.ended_at is null and a.state not in ('prepared', 'dispatching')
    returning m.attempt_id, m.machine_id, m.fencing_token
), freed as (
    update smart_schedule_machine_locks l set freed_at = now(), freed_by = 'operator:' || :by
    from closed c where l.machine_id = c.machine_id and l.fencing_token = c.fencing_token and l.freed_at is null
      and l.owner_kind = 'attempt'
), ended as (
    update smart_schedule_attempts a set state = 'interrupted', reason = 'closed_by_operator', ended_at = now(),
           detail = a.detail || jsonb_build_object('closed_by', :by::text, 'why', :why::text)
    from closed c
    where a.id = c.attempt_id
      and not exists (select from smart_schedule_attempt_machines o
                      where o.attempt_id = a.id and o.state = 'pending' and o.machine_id <> c.machine_id)
    returning a.id
), logged as (
    insert into smart_schedule_log_events (at, tenant_id, policy_id, level, code, params, tick_id, attempt_id, machine_id)
    select now(), a.tenant_id, a.policy_id, 'warning', 'machine_closed_by_operator',
           jsonb_build_object('by', :by::text, 'why', :why::text, 'action', a.action, 'job_id', a.reference,
                              'machine_id', c.machine_id, 'attempt_ended', exists (select from ended)),
           a.tick_id, a.id, c.machine_id
    from closed c join smart_schedule_attempts a on a.id = c.attempt_id
)
select a.action, a.reference, exists (select from ended) as ended
from closed c join smart_schedule_attempts a on a.id = c.attempt_id

-- name: free_ended_lock
-- An operator's word on a lock that outlived its owner: an attempt, or its part in this machine, or a benchmark run that has
-- ended, or an attempt that retention has dropped since, which takes none that is open. With the last command that may still act
-- on the machine. Only whose lock it is can tell a dropped attempt from one that is somebody else's and not shown.
with owner as (
    select l.machine_id, l.fencing_token, l.tenant_id, a.policy_id, a.id as attempt_id, a.action, a.reference
    from smart_schedule_machine_locks l
    join smart_schedule_attempts a on a.id = l.owner_id
    left join smart_schedule_attempt_machines m
         on m.attempt_id = a.id and m.machine_id = l.machine_id and m.fencing_token = l.fencing_token
    where l.owner_kind = 'attempt' and l.machine_id = :machine_id::bigint
      and (a.ended_at is not null or m.ended_at is not null)
    union all
    select l.machine_id, l.fencing_token, l.tenant_id, r.policy_id, c.id, coalesce(c.action, 'benchmark'), c.reference
    from smart_schedule_machine_locks l
    join smart_schedule_benchmark_runs r on r.id = l.owner_id
    left join lateral (select id, action, reference from smart_schedule_attempts a
                       where a.benchmark_run_id = r.id and a.dispatched_at is not null
                       order by a.dispatched_at desc limit 1) c on true
    where l.owner_kind = 'benchmark' and l.machine_id = :machine_id::bigint and r.ended_at is not null
    union all
    select l.machine_id, l.fencing_token, l.tenant_id, null, null, null, null
    from smart_schedule_machine_locks l
    where l.machine_id = :machine_id::bigint and l.tenant_id = coalesce(smart_schedule_tenant(), l.tenant_id)
      and not exists (select from smart_schedule_attempts a where a.id = l.owner_id)
      and not exists (select from smart_schedule_benchmark_runs r where r.id = l.owner_id)
), freed as (
    update smart_schedule_machine_locks l set freed_at = now(), freed_by = 'operator:' || :by
    from owner o
    where l.machine_id = o.machine_id and l.fencing_token = o.fencing_token and l.owner_id = :owner_id::uuid
      and l.freed_at is null
    returning o.tenant_id, o.machine_id, l.owner_id, o.policy_id, o.attempt_id, o.action, o.reference
), logged as (
    insert into smart_schedule_log_events (at, tenant_id, policy_id, level, code, params, attempt_id, machine_id)
    select now(), f.tenant_id, f.policy_id, 'warning', 'lock_freed_by_operator',
           jsonb_build_object('by', :by::text, 'why', :why::text, 'machine_id', f.machine_id, 'owner_id', f.owner_id),
           f.attempt_id, f.machine_id
    from freed f
)
select attempt_id, action, reference from freed
