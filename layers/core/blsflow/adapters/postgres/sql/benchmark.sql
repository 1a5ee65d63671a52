-- name: benchmark_prospects
-- Pending runs that nothing keeps from beginning but caps, or the one run that asks whether it still may: its policy acts, its
-- machine is covered by it and by no frozen policy, can be heard and is nobody else's, the project may run there, and what it
-- runs now can be run again.
select r.id, r.policy_id, r.machine_id, r.project_id, r.value_cny_per_day, r.origin = 'operator' as by_operator,
       st.status, t.project_id as runs_project, t.project_since, target.id as run_config_id, back.id as back_run_config_id
from smart_schedule_benchmark_runs r
join smart_schedule_policy_groups p on p.id = r.policy_id
join machines m on m.id = r.machine_id and m.tenant_id = r.tenant_id
join machine_mining_runtime t on t.machine_id = m.id
join project_run_configurations target on target.project_id = r.project_id and target.model = m.model and target.runnable
left join project_run_configurations back on back.project_id = t.project_id and back.model = m.model and back.runnable
left join smart_schedule_machine_states s on s.machine_id = m.id
cross join lateral (
    select smart_schedule_machine_status(t.status, t.hashrate_hs, t.reported_at, s.stopped_by, s.expected, s.changed_at)
        as status
) st
where ((:run_id::uuid is null and r.state = 'pending' and r.not_before <= now()) or r.id = :run_id::uuid)
  and smart_schedule_samples(p.enabled, p.archived_at, p.execution_mode, p.max_benchmarks)
  and exists (select from smart_schedule_policy_scopes c
              where c.policy_id = p.id
                and smart_schedule_covers(c.resource_type, c.resource_id, m.id, m.cluster_id, m.model))
  -- a freeze is of all that its policy covers (R6.2), whoever else may move it
  and not exists (select from smart_schedule_freezes f
                  join smart_schedule_policy_groups o on o.id = f.policy_id
                  join smart_schedule_policy_scopes c on c.policy_id = o.id
                  where f.lifted_at is null and o.tenant_id = r.tenant_id
                    and smart_schedule_acts(o.enabled, o.archived_at, o.execution_mode)
                    and smart_schedule_covers(c.resource_type, c.resource_id, m.id, m.cluster_id, m.model))
  and exists (select from smart_schedule_executor_leases e
              where e.tenant_id = r.tenant_id and e.holder = :holder and e.expires_at > now())
  and not m.operator_hold
  -- where another policy decides for the machine (a time window, say), this one, which yielded, does not measure it: its own
  -- newest tick says so, however seldom it ticks
  and not exists (select from (select t.id, t.ticked_at from smart_schedule_ticks t
                               where t.policy_id = p.id order by t.ticked_at desc, t.id desc limit 1) t
                  join smart_schedule_machine_decisions d
                      on d.tick_id = t.id and d.ticked_at = t.ticked_at and d.machine_id = m.id
                  join smart_schedule_policy_groups o on o.id = d.overridden_by
                  where smart_schedule_acts(o.enabled, o.archived_at, o.execution_mode))
  -- a machine without power reports nothing, and that is as it should be
  and (t.reported_at > now() - make_interval(secs => p.report_max_age_sec) or st.status = 'off')
  and ((st.status = 'mining' and (t.project_id = r.project_id or back.id is not null))
       or (st.status in ('stopped', 'off') and s.stopped_by = 'scheduler'))
  and (s.retry_at is null or s.retry_at <= now())
  and not exists (select from smart_schedule_machine_locks l
                  where l.machine_id = r.machine_id and l.freed_at is null and l.expires_at > now())
  and exists (select from smart_schedule_resource_eligibilities g
              where g.tenant_id = r.tenant_id and g.project_id = r.project_id and g.allowed
                and (g.resource_type, g.resource_id) in
                    (('cluster', m.cluster_id::text), ('model', m.model), ('machine', m.id::text)))
  and not exists (select from smart_schedule_resource_eligibilities g
                  where g.tenant_id = r.tenant_id and g.project_id = r.project_id and not g.allowed
                    and (g.resource_type, g.resource_id) in
                        (('cluster', m.cluster_id::text), ('model', m.model), ('machine', m.id::text)))
order by r.origin = 'operator' desc, r.value_cny_per_day desc nulls last, r.id
limit :page_size::integer

-- name: begin_benchmark_step
-- The run, locked, if this execution is the one that carries it out; every step is noted, each first one is told of.
with found as (
    select id, step, rescues from smart_schedule_benchmark_runs
    where id = :run_id::uuid and execution_name = :execution and state in ('running', 'restoring')
    for update
), stepped as (
    update smart_schedule_benchmark_runs r
    set step = :step, progressed_at = now(), execution_noted_at = coalesce(r.execution_noted_at, now()),
        state = case when :step = 'restore' then 'restoring' else r.state end
    from found f where r.id = f.id
    returning r.*, f.step as step_before
), logged as (
    insert into smart_schedule_log_events (at, tenant_id, policy_id, kind, code, params, machine_id)
    select now(), tenant_id, policy_id, 'progress', 'benchmark_step',
           jsonb_build_object('run_id', id, 'machine_id', machine_id, 'project_id', project_id, 'step', :step::text), machine_id
    from stepped where step_before is distinct from :step
)
select s.id, s.tenant_id, s.policy_id, s.machine_id, s.project_id, s.attempt_no, s.fencing_token, s.run_config_id,
       s.restore_action, s.restore_project_id, s.restore_run_config_id, s.restore_tries, s.measuring_from, s.outcome,
       s.reason, s.moved_at, s.current_net_cny_per_day, s.result,
       coalesce((select p.report_max_age_sec from smart_schedule_policy_groups p where p.id = s.policy_id), 600)
           as report_max_age_sec,
       coalesce((select p.benchmark_ttl_sec from smart_schedule_policy_groups p where p.id = s.policy_id), 2592000)
           as benchmark_ttl_sec,
       coalesce((select p.benchmark_share_after from smart_schedule_policy_groups p where p.id = s.policy_id), 3)
           as share_after
from stepped s

-- name: take_benchmark_lock
-- The machine's lock for a run, unless somebody holds it; with it, what the run is about to change and how to undo that.
with taken as (
    insert into smart_schedule_machine_locks
        (machine_id, tenant_id, owner_kind, owner_id, fencing_token, taken_at, expires_at)
    select machine_id, tenant_id, 'benchmark', id, nextval('smart_schedule_fencing_tokens'), now(), now() + :lock_ttl::interval
    from smart_schedule_benchmark_runs where id = :run_id::uuid
    on conflict (machine_id) do update
    set tenant_id = excluded.tenant_id, owner_kind = excluded.owner_kind, owner_id = excluded.owner_id,
        fencing_token = excluded.fencing_token, taken_at = excluded.taken_at, expires_at = excluded.expires_at,
        freed_at = null, freed_by = null, alerted_at = null
    where smart_schedule_machine_locks.freed_at is not null or smart_schedule_machine_locks.expires_at <= now()
    returning fencing_token
)
update smart_schedule_benchmark_runs r
set fencing_token = t.fencing_token, run_config_id = :run_config_id::bigint, restore_action = :restore_action,
    restore_project_id = :restore_project_id::bigint, restore_run_config_id = :restore_run_config_id::bigint,
    measuring_from = :measuring_from::timestamptz
from taken t where r.id = :run_id::uuid
returning t.fencing_token

-- name: postpone_benchmark
-- Not now: nothing was touched, and the run waits for another turn without counting as a try.
with postponed as (
    update smart_schedule_benchmark_runs
    set state = 'pending', not_before = now() + interval '1 minute', reason = :reason, step = null, started_at = null
    where id = :run_id::uuid and state = 'running' and fencing_token is null
    returning id, tenant_id, policy_id, machine_id, project_id
)
insert into smart_schedule_log_events (at, tenant_id, policy_id, code, params, machine_id)
select now(), tenant_id, policy_id, 'benchmark_postponed',
       jsonb_build_object('run_id', id, 'machine_id', machine_id, 'project_id', project_id, 'reason', :reason::text), machine_id
from postponed

-- name: insert_benchmark_attempt
-- A run's command, once per key, under the run's own lock; a step that is repeated finds it there.
with made as (
    insert into smart_schedule_attempts
        (id, tenant_id, kind, idempotency_key, policy_id, action, project_id, run_config_id, state, prepared_at, valid_until,
         benchmark_run_id, benchmark_step)
    select gen_random_uuid(), r.tenant_id, 'device_batch', :key, r.policy_id, :action, :project_id::bigint,
           :run_config_id::bigint, 'prepared', now(), now() + :validity::interval, r.id, :step
    from smart_schedule_benchmark_runs r where r.id = :run_id::uuid
    on conflict (idempotency_key) do nothing
    returning id, benchmark_run_id
), members as (
    insert into smart_schedule_attempt_machines (attempt_id, machine_id, fencing_token)
    select m.id, r.machine_id, r.fencing_token from made m join smart_schedule_benchmark_runs r on r.id = m.benchmark_run_id
), counted as (
    update smart_schedule_benchmark_runs r set restore_tries = r.restore_tries + case :step when 'restore' then 1 else 0 end
    from made m where r.id = m.benchmark_run_id
)
select id from made
union all
select id from smart_schedule_attempts where idempotency_key = :key

-- name: benchmark_commands
-- A run's commands, newest first, with what became of its machine in each.
select a.id, a.benchmark_step, a.state, coalesce(m.reason, a.reason) as reason, a.dispatched_at, a.ended_at,
       m.state as machine_state
from smart_schedule_attempts a join smart_schedule_attempt_machines m on m.attempt_id = a.id
where a.benchmark_run_id = :run_id::uuid
order by a.prepared_at desc, a.id desc

-- name: claim_benchmark_attempt
-- The command that is due for a look, unless reconcile looks at it just now.
update smart_schedule_attempts a set next_check_at = now() + :lease::interval, checks = a.checks + 1
where a.benchmark_run_id = :run_id::uuid and a.ended_at is null and a.state in ('running', 'reconciling', 'cancelling')
  and a.next_check_at <= now()
returning a.id, a.tenant_id, a.policy_id, a.tick_id, a.occurrence_id, a.idempotency_key, a.action, a.project_id, a.reference,
          a.dispatched_at, a.request_expires_at, a.checks, a.unresolved_alerted_at is not null as alerted,
          coalesce((select p.report_max_age_sec from smart_schedule_policy_groups p where p.id = a.policy_id), 600)
              as report_max_age_sec

-- name: note_benchmark
-- What a step learnt: that a command went out, since when the machine is measured, why the run is to fail.
update smart_schedule_benchmark_runs
set moved_at = coalesce(moved_at, :moved_at::timestamptz), measuring_from = coalesce(measuring_from, :measuring_from::timestamptz),
    outcome = coalesce(outcome, :outcome), reason = coalesce(:reason, reason)
where id = :run_id::uuid

-- name: add_benchmark_reading
-- The machine's newest report on the sampled project, once, with the power that was metered nearest before or with it.
update smart_schedule_benchmark_runs r
set readings = r.readings || jsonb_build_object('at', t.reported_at, 'hashrate_hs', t.hashrate_hs, 'power_w', w.power_w)
from machine_mining_runtime t
left join lateral (
    select p.power_w from metric_powers p
    where p.machine_id = t.machine_id and p.measured_at > t.reported_at - interval '2 minutes'
      and p.measured_at <= t.reported_at + interval '30 seconds'
    order by p.measured_at desc limit 1
) w on true
where r.id = :run_id::uuid and t.machine_id = r.machine_id and t.status = 'mining' and t.project_id = r.project_id
  and t.reported_at >= r.measuring_from
  and coalesce(t.hashrate_hs, 0) not in ('NaN', 'Infinity', '-Infinity')
  and coalesce(w.power_w, 0) not in ('NaN', 'Infinity', '-Infinity')
  and not r.readings @> jsonb_build_array(jsonb_build_object('at', t.reported_at))
returning jsonb_array_length(r.readings) as readings

-- name: benchmark_sample
-- A run's readings, with what they are held against: the model's nameplate and its machines' own measurements.
select r.readings, mm.nameplate_hashrate_hs, mm.nameplate_power_w,
       (select coalesce(jsonb_agg(jsonb_build_array(b.hashrate_hs, b.power_w)), '[]')
        from smart_schedule_machine_project_benchmarks b join machines o on o.id = b.machine_id
        where o.tenant_id = m.tenant_id and o.model = m.model and o.id <> m.id and b.project_id = r.project_id
          and b.shared_from is null and not b.flagged and smart_schedule_plausible(b.hashrate_hs, b.power_w)
          and b.sampled_at > now() - make_interval(secs => :ttl_sec::integer)) as peers
from smart_schedule_benchmark_runs r
join machines m on m.id = r.machine_id
left join machine_models mm on mm.model = m.model
where r.id = :run_id::uuid

-- name: record_judgement
-- What the sample came to.
update smart_schedule_benchmark_runs set outcome = :outcome, reason = :reason, result = :result::jsonb
where id = :run_id::uuid and outcome is null

-- name: take_turn_to_share
-- Runs of one model store and share in turns: each writes benchmarks of its own machine first and of the others after it, which
-- two that wait for each other would never end.
select pg_advisory_xact_lock(hashtextextended('blsflow benchmarks of ' || m.model || ' of ' || m.tenant_id, 0))
from smart_schedule_benchmark_runs r join machines m on m.id = r.machine_id where r.id = :run_id::uuid

-- name: store_benchmark
-- The measured figures; older ones, and shared ones, give way.
with stored as (
    update smart_schedule_benchmark_runs set result = result || '{"stored": true}'
    where id = :run_id::uuid and outcome = 'measured'
    returning machine_id, project_id, result
)
insert into smart_schedule_machine_project_benchmarks as known
    (machine_id, project_id, hashrate_hs, power_w, power_estimated, sampled_at, flagged, shared_from)
select machine_id, project_id, (result ->> 'hashrate_hs')::double precision, (result ->> 'power_w')::double precision,
       (result ->> 'power_estimated')::boolean, now(), false, null
from stored
on conflict (machine_id, project_id) do update
set hashrate_hs = excluded.hashrate_hs, power_w = excluded.power_w, power_estimated = excluded.power_estimated,
    sampled_at = excluded.sampled_at, flagged = false, shared_from = null, drift_hashrates_hs = null, drift_seen_at = null

-- name: model_figures
-- The model's own measurements on the project, in the middle; shared figures are none.
select count(*) as machines,
       percentile_cont(0.5) within group (order by b.hashrate_hs) as hashrate_hs,
       percentile_cont(0.5) within group (order by b.power_w) as power_w,
       bool_or(b.power_estimated) as power_estimated
from smart_schedule_machine_project_benchmarks b
join machines o on o.id = b.machine_id
join smart_schedule_benchmark_runs r on r.id = :run_id::uuid and r.project_id = b.project_id
join machines m on m.id = r.machine_id and m.model = o.model and m.tenant_id = o.tenant_id
where b.shared_from is null and not b.flagged and smart_schedule_plausible(b.hashrate_hs, b.power_w)
  and b.sampled_at > now() - make_interval(secs => :ttl_sec::integer)

-- name: machines_without_own
-- Machines of the model that were never measured themselves on the project.
select o.id
from smart_schedule_benchmark_runs r
join machines m on m.id = r.machine_id
join machines o on o.model = m.model and o.tenant_id = m.tenant_id and o.id <> m.id
left join smart_schedule_machine_project_benchmarks b on b.machine_id = o.id and b.project_id = r.project_id
where r.id = :run_id::uuid and (b.machine_id is null or b.shared_from is not null)
order by o.id

-- name: share_benchmark
-- Others' figures for machines that have none of their own, marked with whose run they come from.
with given as (
    insert into smart_schedule_machine_project_benchmarks as known
        (machine_id, project_id, hashrate_hs, power_w, power_estimated, sampled_at, flagged, shared_from)
    select g.machine_id, r.project_id, :hashrate_hs::double precision, :power_w::double precision,
           :power_estimated::boolean, g.sampled_at, false, r.machine_id
    from smart_schedule_benchmark_runs r
    cross join unnest(:machine_ids::bigint[], :sampled_at::timestamptz[]) as g (machine_id, sampled_at)
    where r.id = :run_id::uuid
    on conflict (machine_id, project_id) do update
    set hashrate_hs = excluded.hashrate_hs, power_w = excluded.power_w, power_estimated = excluded.power_estimated,
        sampled_at = excluded.sampled_at, flagged = false, shared_from = excluded.shared_from
    where known.shared_from is not null
    returning 1
)
select count(*) as shared from given

-- name: benchmark_whereabouts
-- What the run's machine does by a report that is newer than its last command, and whether an operator has taken it over.
select m.operator_hold, t.status, t.project_id,
       t.reported_at > coalesce((select max(coalesce(a.ended_at, a.dispatched_at)) from smart_schedule_attempts a
                                 where a.benchmark_run_id = r.id), r.started_at)
       and t.reported_at > now() - make_interval(secs => :report_max_age_sec::integer) as fresh
from smart_schedule_benchmark_runs r
join machines m on m.id = r.machine_id
left join machine_mining_runtime t on t.machine_id = m.id
where r.id = :run_id::uuid

-- name: end_benchmark
-- The run's end: its figures, its lock, what it cost, the next try or the word to people that there is none.
with ended as (
    update smart_schedule_benchmark_runs r
    set state = case r.outcome when 'measured' then 'succeeded' else 'failed' end, ended_at = now(),
        outcome = coalesce(r.outcome, 'failed'), reason = coalesce(r.reason, case when r.outcome is null then 'interrupted' end),
        restore_status = :restore_status, lost_minutes = :lost_minutes::double precision,
        lost_cny = :lost_cny::double precision
    where r.id = :run_id::uuid and r.ended_at is null
    returning r.*
), freed as (
    update smart_schedule_machine_locks l set freed_at = now(), freed_by = 'benchmark:' || :restore_status
    from ended e
    where l.machine_id = e.machine_id and l.owner_id = e.id and l.fencing_token = e.fencing_token and l.freed_at is null
), again as (
    insert into smart_schedule_benchmark_runs
        (id, tenant_id, policy_id, machine_id, project_id, state, attempt_no, not_before, requested_at, asked_at,
         value_cny_per_day, current_net_cny_per_day, origin, requested_by)
    select gen_random_uuid(), tenant_id, policy_id, machine_id, project_id, 'pending', attempt_no + 1,
           now() + :retry_after::interval, now(), now() + :retry_after::interval, value_cny_per_day, current_net_cny_per_day,
           origin, requested_by
    from ended where state = 'failed' and :retry_after::interval is not null
), logged as (
    insert into smart_schedule_log_events (at, tenant_id, policy_id, kind, level, code, params, machine_id)
    select now(), tenant_id, policy_id, 'log', case when state = 'failed' or :restore_status = 'failed' then 'warning' else 'info' end,
           'benchmark_ended',
           jsonb_build_object('run_id', id, 'machine_id', machine_id, 'project_id', project_id, 'state', state, 'reason', reason,
                              'attempt_no', attempt_no, 'restore_status', restore_status, 'result', result,
                              'lost_minutes', lost_minutes, 'lost_cny', lost_cny), machine_id
    from ended
), told as (
    insert into smart_schedule_outbox (tenant_id, policy_id, code, params, created_at, next_try_at)
    select tenant_id, policy_id, 'benchmark_failed',
           jsonb_build_object('run_id', id, 'machine_id', machine_id, 'project_id', project_id, 'reason', reason,
                              'attempts', attempt_no), now(), now()
    from ended where state = 'failed' and :retry_after::interval is null
    union all
    select tenant_id, policy_id, 'benchmark_not_restored',
           jsonb_build_object('run_id', id, 'machine_id', machine_id, 'project_id', project_id, 'reason', reason,
                              'restore', restore_action, 'restore_project_id', restore_project_id), now(), now()
    from ended where restore_status = 'failed' and alerted_at is null
)
select state from ended
