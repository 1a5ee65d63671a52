-- name: benchmark_rooms
-- The caps of these policies, and how much of them is taken; a policy's machines are those that its newest tick counted.
select p.id, p.max_benchmarks, p.max_benchmark_share,
       coalesce((select t.machines from smart_schedule_ticks t where t.policy_id = p.id order by t.id desc limit 1), 0) as machines,
       (select count(*) from smart_schedule_benchmark_runs r
        where r.policy_id = p.id and r.state in ('running', 'restoring')) as under_benchmark
from smart_schedule_policy_groups p where p.id = any (:policy_ids::bigint[])

-- name: machines_under_benchmark
-- Machines that a run works on.
select machine_id from smart_schedule_benchmark_runs where state in ('running', 'restoring')

-- name: lock_benchmark_starts
-- Whoever chooses runs, chooses alone: caps are counted, and two that count at once would both find room.
select pg_try_advisory_xact_lock(hashtext('smart_schedule_benchmark_starts')) as alone

-- name: claim_benchmarks
-- Chosen runs get the name of their execution, committed before the state machine is told; the name makes a second start of
-- it impossible.
update smart_schedule_benchmark_runs r
set state = 'running', execution_no = r.execution_no + 1, execution_name = r.id::text || '-' || (r.execution_no + 1),
    execution_noted_at = null, started_at = now(), progressed_at = now(), step = 'start', reason = null
where r.id = any (:run_ids::uuid[]) and r.state = 'pending'
returning r.id, r.execution_name

-- name: note_execution
-- The state machine has taken it.
update smart_schedule_benchmark_runs set execution_noted_at = now()
where id = :run_id::uuid and execution_name = :execution and execution_noted_at is null

-- name: benchmark_runs_at_work
-- Runs under way, those that have been quiet longest first.
select r.id, r.tenant_id, r.policy_id, r.machine_id, r.project_id, r.execution_name, r.execution_noted_at is not null as noted,
       r.step, r.progressed_at, r.rescues, r.alerted_at is not null as alerted, r.state,
       exists (select from smart_schedule_attempts a where a.benchmark_run_id = r.id and a.ended_at is null
               and a.state <> 'prepared') as commanded
from smart_schedule_benchmark_runs r
where r.state in ('running', 'restoring') and r.execution_name is not null and r.progressed_at <= now() - :quiet_for::interval
order by r.progressed_at, r.id limit :page_size::integer

-- name: rescue_benchmark
-- The execution is gone: another one takes over, which only puts the machine back. Whoever comes second changes nothing.
with rescued as (
    update smart_schedule_benchmark_runs r
    set state = 'restoring', outcome = coalesce(r.outcome, 'failed'), reason = case when r.outcome = 'measured' then r.reason else coalesce(r.reason, :reason) end,
        rescues = r.rescues + 1, execution_no = r.execution_no + 1,
        execution_name = r.id::text || '-' || (r.execution_no + 1), execution_noted_at = null, progressed_at = now()
    where r.id = :run_id::uuid and r.execution_name = :execution and r.state in ('running', 'restoring')
    returning r.id, r.tenant_id, r.policy_id, r.machine_id, r.project_id, r.execution_name, r.step, r.rescues
), logged as (
    insert into smart_schedule_log_events (at, tenant_id, policy_id, kind, level, code, params, machine_id)
    select now(), tenant_id, policy_id, 'log', 'warning', 'benchmark_rescued',
           jsonb_build_object('run_id', id, 'machine_id', machine_id, 'project_id', project_id, 'step', step,
                              'cause', :reason::text, 'rescues', rescues), machine_id
    from rescued
)
select execution_name from rescued

-- name: alert_benchmark
-- People are told once that nobody could put the machine back so far.
with alerted as (
    update smart_schedule_benchmark_runs set alerted_at = now()
    where id = :run_id::uuid and alerted_at is null and ended_at is null
    returning id, tenant_id, policy_id, machine_id, project_id, reason, restore_action, restore_project_id
)
insert into smart_schedule_outbox (tenant_id, policy_id, code, params, created_at, next_try_at)
select tenant_id, policy_id, 'benchmark_not_restored',
       jsonb_build_object('run_id', id, 'machine_id', machine_id, 'project_id', project_id, 'reason', reason,
                          'restore', restore_action, 'restore_project_id', restore_project_id), now(), now()
from alerted

-- name: drop_unwanted_benchmarks
-- Pending runs that nothing asks for any more: measured or shared meanwhile, or not asked for by any tick for an hour.
with dropped as (
    update smart_schedule_benchmark_runs r
    set state = 'cancelled', ended_at = now(), reason = case when b.machine_id is null then 'no_longer_wanted'
                                                             else 'measured_meanwhile' end
    from smart_schedule_benchmark_runs x
    left join smart_schedule_policy_groups p on p.id = x.policy_id
    left join smart_schedule_machine_project_benchmarks b
        on b.machine_id = x.machine_id and b.project_id = x.project_id and not b.flagged
        and b.hashrate_hs > 0 and b.power_w > 0
        and (b.sampled_at > x.requested_at or b.shared_from is not null)
        and b.sampled_at > now() - make_interval(secs => p.benchmark_ttl_sec)
    where x.id = r.id and r.state = 'pending' and r.origin = 'decision'
      and (b.machine_id is not null or r.asked_at < now() - interval '1 hour')
    returning r.id
)
select count(*) as dropped from dropped

-- name: watch_drift
-- Machines whose fresh hashrate is off the benchmark of what they mine, with the readings that were, newest first; one that
-- agrees again is forgotten. Only rows that differ are written.
with seen as (
    select b.machine_id, b.project_id, t.hashrate_hs, t.reported_at,
           abs(t.hashrate_hs - b.hashrate_hs) > :tolerance::double precision * b.hashrate_hs as differs
    from machine_mining_runtime t
    join smart_schedule_machine_project_benchmarks b on b.machine_id = t.machine_id and b.project_id = t.project_id
    where t.status = 'mining' and t.hashrate_hs > 0 and t.hashrate_hs < 'Infinity' and b.hashrate_hs > 0 and not b.flagged
      and t.reported_at > now() - interval '10 minutes'
      and t.project_since < t.reported_at - interval '10 minutes'
      and t.reported_at > coalesce(b.drift_seen_at, '-infinity')
      and (abs(t.hashrate_hs - b.hashrate_hs) > :tolerance::double precision * b.hashrate_hs or b.drift_hashrates_hs is not null)
)
update smart_schedule_machine_project_benchmarks b
set drift_hashrates_hs = case when s.differs
        then trim_array(s.hashrate_hs || coalesce(b.drift_hashrates_hs, '{}'),
                        greatest(0, coalesce(cardinality(b.drift_hashrates_hs), 0) + 1 - :keep::integer)) end,
    drift_seen_at = case when s.differs then s.reported_at end
from seen s where b.machine_id = s.machine_id and b.project_id = s.project_id
returning b.machine_id, b.project_id, b.hashrate_hs, b.drift_hashrates_hs

-- name: request_drifted
-- A new benchmark for machines that run otherwise than they were measured, by a policy that covers the machine and whose
-- newest tick decided on it: one that ticked within a day and whose runs may begin before any other, one that decided itself
-- before one that yielded, then the one that ticked last. What may cover a machine is joined, which is quick however many
-- entries scopes have.
with drifted as (
    select m.id, m.tenant_id, m.cluster_id, m.model, x.project_id
    from unnest(:machine_ids::bigint[], :project_ids::bigint[]) as x (machine_id, project_id)
    join machines m on m.id = x.machine_id
    where not exists (
        select from smart_schedule_benchmark_runs f
        where f.machine_id = x.machine_id and f.project_id = x.project_id and f.state = 'failed'
          and f.ended_at > now() - :ask_again_after::interval)
), asked as (
    insert into smart_schedule_benchmark_runs
        (id, tenant_id, policy_id, machine_id, project_id, state, not_before, requested_at, asked_at, origin)
    select distinct on (m.id, m.project_id)
           gen_random_uuid(), m.tenant_id, p.id, m.id, m.project_id, 'pending', now(), now(), now(), 'drift'
    from drifted m
    cross join lateral (values ('tenant', '*'), ('cluster', m.cluster_id::text), ('model', m.model), ('machine', m.id::text))
        as s (resource_type, resource_id)
    join smart_schedule_policy_scopes c on c.resource_type = s.resource_type and c.resource_id = s.resource_id
    join smart_schedule_policy_groups p on p.id = c.policy_id and p.tenant_id = m.tenant_id
    cross join lateral (
        select t.id, t.ticked_at from smart_schedule_ticks t
        where t.policy_id = p.id order by t.ticked_at desc, t.id desc limit 1
    ) t
    cross join lateral (
        select d.overridden_by from smart_schedule_machine_decisions d
        where d.tick_id = t.id and d.ticked_at = t.ticked_at and d.machine_id = m.id limit 1
    ) d
    order by m.id, m.project_id,
             t.ticked_at > now() - interval '1 day'
                 and smart_schedule_samples(p.enabled, p.archived_at, p.execution_mode, p.max_benchmarks)
                 and not exists (select from smart_schedule_freezes f where f.policy_id = p.id and f.lifted_at is null) desc,
             d.overridden_by is null desc, t.ticked_at desc
    on conflict (machine_id, project_id) where ended_at is null do nothing
    returning tenant_id, policy_id, machine_id, project_id
)
insert into smart_schedule_log_events (at, tenant_id, policy_id, code, params, machine_id)
select now(), tenant_id, policy_id, 'benchmark_drifted',
       jsonb_build_object('machine_id', machine_id, 'project_id', project_id), machine_id
from asked
returning machine_id

-- name: policy_covers_machine
-- Whether a policy's scope has a machine; nothing if either is unknown to the tenant.
select exists (select from smart_schedule_policy_scopes c
               where c.policy_id = p.id
                 and smart_schedule_covers(c.resource_type, c.resource_id, m.id, m.cluster_id, m.model)) as covers
from smart_schedule_policy_groups p
join machines m on m.id = :machine_id::bigint and m.tenant_id = p.tenant_id
where p.id = :policy_id::bigint and p.archived_at is null and (:tenant_id::text is null or p.tenant_id = :tenant_id)

-- name: request_benchmark_by_hand
-- An operator's wish: before all others, and of an open run that waits already. It stays with a policy whose runs may begin
-- if those of the policy that was named may not, or another one decides for the machine.
with able as (
    select p.id from smart_schedule_policy_groups p
    join machines m on m.id = :machine_id::bigint and m.tenant_id = p.tenant_id
    where smart_schedule_samples(p.enabled, p.archived_at, p.execution_mode, p.max_benchmarks)
      and not exists (select from smart_schedule_freezes f where f.policy_id = p.id and f.lifted_at is null)
      and exists (select from smart_schedule_policy_scopes c
                  where c.policy_id = p.id
                    and smart_schedule_covers(c.resource_type, c.resource_id, m.id, m.cluster_id, m.model))
      and not exists (select from (select t.id, t.ticked_at from smart_schedule_ticks t
                                   where t.policy_id = p.id order by t.ticked_at desc, t.id desc limit 1) t
                      join smart_schedule_machine_decisions d
                          on d.tick_id = t.id and d.ticked_at = t.ticked_at and d.machine_id = m.id
                      join smart_schedule_policy_groups o on o.id = d.overridden_by
                      where smart_schedule_acts(o.enabled, o.archived_at, o.execution_mode))
)
insert into smart_schedule_benchmark_runs as r
    (id, tenant_id, policy_id, machine_id, project_id, state, not_before, requested_at, asked_at, origin, requested_by)
select gen_random_uuid(), m.tenant_id, p.id, m.id, j.id, 'pending', now(), now(), now(), 'operator', :by
from smart_schedule_policy_groups p
join machines m on m.id = :machine_id::bigint and m.tenant_id = p.tenant_id
join projects j on j.id = :project_id::bigint and j.tenant_id = p.tenant_id
where p.id = :policy_id::bigint and p.archived_at is null and (:tenant_id::text is null or p.tenant_id = :tenant_id)
on conflict (machine_id, project_id) where ended_at is null do update
set origin = 'operator', requested_by = excluded.requested_by, not_before = least(r.not_before, now()),
    policy_id = case when r.state = 'pending' and (excluded.policy_id in (select id from able)
                                                   or not exists (select from able where able.id = r.policy_id))
                     then excluded.policy_id else r.policy_id end
returning r.id, r.state, r.policy_id

-- name: list_benchmark_runs
-- Runs, the newest first, open ones before all others.
select r.id, r.tenant_id, r.policy_id, r.machine_id, r.project_id, r.state, r.step, r.reason, r.origin, r.attempt_no,
       r.value_cny_per_day, r.not_before, r.requested_at, r.started_at, r.ended_at, r.restore_status, r.lost_minutes, r.lost_cny,
       r.result
from smart_schedule_benchmark_runs r
where (:policy_id::bigint is null or r.policy_id = :policy_id::bigint)
  and (not :open_only::boolean or r.ended_at is null)
order by r.ended_at is null desc, r.requested_at desc, r.id limit :page_size::integer

-- name: benchmark_run
-- A run as it is read in pages: who asked for it, where it stands, what it cost and what it came to.
select r.id, r.tenant_id, r.policy_id, r.machine_id, r.project_id, r.state, r.step, r.reason, r.origin, r.requested_by,
       r.attempt_no, r.value_cny_per_day, r.not_before, r.requested_at, r.started_at, r.ended_at, r.ended_at is null as open,
       r.restore_status, r.lost_minutes, r.lost_cny, r.result
from smart_schedule_benchmark_runs r

-- name: benchmark
-- What was measured on each machine for each project, or shared with it by machines of its model.
select b.machine_id, b.project_id, m.tenant_id, m.model, b.hashrate_hs, b.power_w, b.power_estimated, b.sampled_at, b.flagged,
       b.shared_from
from smart_schedule_machine_project_benchmarks b join machines m on m.id = b.machine_id

-- name: benchmark_costs
-- What sampling has cost each policy; the money is that of runs whose machine's net was known.
select r.policy_id, count(*) filter (where r.state = 'succeeded') as succeeded,
       count(*) filter (where r.state = 'failed') as failed, count(*) filter (where r.ended_at is null) as open,
       coalesce(sum(r.lost_minutes), 0)::float8 as lost_minutes, coalesce(sum(r.lost_cny), 0)::float8 as lost_cny,
       count(*) filter (where r.lost_minutes > 0 and r.lost_cny is null) as unpriced
from smart_schedule_benchmark_runs r
where :policy_id::bigint is null or r.policy_id = :policy_id::bigint
group by r.policy_id order by r.policy_id

-- name: sampling_cost
-- What sampling has cost one policy.
select count(*) filter (where r.state = 'succeeded') as succeeded, count(*) filter (where r.state = 'failed') as failed,
       count(*) filter (where r.ended_at is null) as open,
       coalesce(sum(r.lost_minutes), 0)::float8 as lost_minutes, coalesce(sum(r.lost_cny), 0)::float8 as lost_cny,
       count(*) filter (where r.lost_minutes > 0 and r.lost_cny is null) as unpriced
from smart_schedule_benchmark_runs r
where r.tenant_id = :tenant_id and r.policy_id = :policy_id::bigint
