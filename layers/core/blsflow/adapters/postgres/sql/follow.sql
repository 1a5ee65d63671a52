-- name: expire_prepared
-- Decisions that are too old to be sent, with nobody sending them.
select id, prepared_at from smart_schedule_attempts
where state = 'prepared' and valid_until <= now()
order by id limit :page_size::integer for update skip locked

-- name: overdue_dispatching
-- Whoever was sending them is gone: whether they were sent is not known, so they are only read back from now on.
with overdue as (
    select id from smart_schedule_attempts
    where state = 'dispatching' and dispatched_at < now() - :older_than::interval
    order by id limit :page_size::integer for update skip locked
), changed as (
    update smart_schedule_attempts a
    set state = case when a.kind = 'conversation'
                      and exists (select from smart_schedule_occurrences o
                                  where o.id = a.occurrence_id and o.state = 'cancelling')
                     then 'cancelling' else 'reconciling' end,
        reason = 'sender_lost', next_check_at = now()
    from overdue where a.id = overdue.id
    returning a.id, a.tenant_id, a.policy_id, a.tick_id, a.occurrence_id, a.kind, a.action, a.project_id
), unclear as (
    update smart_schedule_occurrences o set state = 'reconciling'
    from changed c where o.id = c.occurrence_id and c.kind = 'conversation' and o.state = 'running'
), logged as (
    insert into smart_schedule_log_events (at, tenant_id, policy_id, level, code, params, tick_id, attempt_id)
    select now(), tenant_id, policy_id, 'warning', case kind when 'conversation' then 'run_unclear' else 'batch_unclear' end,
           jsonb_build_object('action', action, 'project_id', project_id, 'occurrence_id', occurrence_id,
                              'cause', 'sender_lost'), tick_id, id
    from changed
)
select count(*) as changed from changed

-- name: claim_open_attempts
-- A page of attempts due for a look, in turns over the tenants; the lease keeps two followers from asking twice.
with turns as (
    select id, row_number() over (partition by tenant_id order by next_check_at, id) as turn
    from smart_schedule_attempts
    where ended_at is null and kind = 'device_batch' and state in ('running', 'reconciling', 'cancelling')
      and next_check_at <= now()
), page as (
    select a.id from smart_schedule_attempts a join (select id, turn from turns order by turn, id limit :page_size::integer) t
    using (id)
    where a.ended_at is null and a.next_check_at <= now()
    for update of a skip locked
)
update smart_schedule_attempts a set next_check_at = now() + :lease::interval, checks = checks + 1
from page where a.id = page.id
returning a.id, a.tenant_id, a.policy_id, a.tick_id, a.occurrence_id, a.idempotency_key, a.action, a.project_id, a.reference,
          a.dispatched_at, a.request_expires_at, a.checks, a.unresolved_alerted_at is not null as alerted,
          coalesce((select p.report_max_age_sec from smart_schedule_policy_groups p where p.id = a.policy_id), 600)
              as report_max_age_sec

-- name: open_machines
-- The machines of these attempts whose end is open, with their newest report and power reading; one that claims to be from
-- the future, or from no time at all, is none.
select m.attempt_id, m.machine_id, m.job_ended_at, r.project_id, r.status, r.hashrate_hs,
       case when r.reported_at between '0002-01-01Z' and '9998-12-31Z' then r.reported_at end as reported_at,
       w.power_w, w.measured_at, mm.nameplate_power_w
from smart_schedule_attempt_machines m
left join machine_mining_runtime r on r.machine_id = m.machine_id
left join machines x on x.id = m.machine_id
left join machine_models mm on mm.model = x.model
left join lateral (
    select p.power_w, p.measured_at from metric_powers p
    where p.machine_id = m.machine_id and p.measured_at between '0002-01-01Z' and now() + interval '30 seconds'
    order by p.measured_at desc limit 1
) w on true
where m.attempt_id = any (:attempt_ids::uuid[]) and m.state = 'pending'
order by m.attempt_id, m.machine_id

-- name: settle_machines
-- Confirmed ends, machine by machine: the outcome, the lock by its token, and what is now expected of the machine.
with settled as (
    update smart_schedule_attempt_machines m
    set state = o.state, reason = o.reason, ended_at = now()
    from unnest(:attempt_ids::uuid[], :machine_ids::bigint[], :states::text[], :reasons::text[])
         as o (attempt_id, machine_id, state, reason)
    where m.attempt_id = o.attempt_id and m.machine_id = o.machine_id and m.state = 'pending'
    returning m.attempt_id, m.machine_id, m.fencing_token, m.state, m.reason
), freed as (
    update smart_schedule_machine_locks l set freed_at = now(), freed_by = 'confirmed_end'
    from (select * from settled order by machine_id) s
    where l.machine_id = s.machine_id and l.fencing_token = s.fencing_token and l.freed_at is null
      and l.owner_kind = 'attempt'
    returning l.machine_id
), followed as (
    insert into smart_schedule_machine_states as known
        (machine_id, tenant_id, expected, expected_project, stopped_by, changed_at, failures, retry_at)
    select s.machine_id, a.tenant_id,
           case when s.state = 'failed' then 'unset' when a.action in ('switch', 'start') then 'mining'
                when a.action = 'stop' then 'stopped' else 'off' end,
           case when s.state <> 'failed' and a.action in ('switch', 'start') then a.project_id end,
           case when s.state <> 'failed' and a.action in ('stop', 'power_off')
                then case when a.command_id is null then 'scheduler' else 'human' end end,
           now(), case when s.state = 'failed' then 1 else 0 end,
           case when s.state = 'failed' then now() + smart_schedule_back_off(1) end
    from settled s join smart_schedule_attempts a on a.id = s.attempt_id
    order by s.machine_id
    on conflict (machine_id) do update
    set expected = case when excluded.failures > 0 then known.expected else excluded.expected end,
        expected_project = case when excluded.failures > 0 then known.expected_project else excluded.expected_project end,
        stopped_by = case when excluded.failures > 0 then known.stopped_by else excluded.stopped_by end,
        changed_at = case when excluded.failures > 0 then known.changed_at else excluded.changed_at end,
        failures = case when excluded.failures > 0 then known.failures + 1 else 0 end,
        retry_at = case when excluded.failures > 0
                        then now() + smart_schedule_back_off(known.failures + 1) end
    returning machine_id, failures
), logged as (
    insert into smart_schedule_log_events (at, tenant_id, policy_id, level, code, params, tick_id, attempt_id)
    select now(), a.tenant_id, a.policy_id, case when x.failed > 0 then 'error' else 'info' end, 'machines_settled',
           jsonb_build_object('action', a.action, 'project_id', a.project_id, 'succeeded', x.succeeded, 'failed', x.failed,
                              'failures', x.failures),
           a.tick_id, a.id
    from (
        select attempt_id, count(*) filter (where state = 'succeeded') as succeeded,
               count(*) filter (where state = 'failed') as failed,
               coalesce(jsonb_object_agg(machine_id, reason) filter (where state = 'failed'), '{}') as failures
        from settled group by attempt_id
    ) x join smart_schedule_attempts a on a.id = x.attempt_id
), told as (
    insert into smart_schedule_outbox (tenant_id, policy_id, code, params, created_at, next_try_at)
    select a.tenant_id, a.policy_id, 'repeated_job_failure',
           jsonb_build_object('action', a.action, 'project_id', a.project_id, 'machines', jsonb_agg(f.machine_id order by f.machine_id),
                              'failures', 3),
           now(), now()
    from followed f join settled s using (machine_id) join smart_schedule_attempts a on a.id = s.attempt_id
    where f.failures = 3 group by a.id
)
select count(*) as settled from settled

-- name: mark_jobs_ended
-- The service calls these over; what the machines then do must confirm it.
update smart_schedule_attempt_machines m set job_ended_at = now()
from unnest(:attempt_ids::uuid[], :machine_ids::bigint[]) as o (attempt_id, machine_id)
where m.attempt_id = o.attempt_id and m.machine_id = o.machine_id and m.state = 'pending' and m.job_ended_at is null

-- name: settle_attempts
-- Where each attempt of a page stands after the look: ended when no machine is open, else when to look again.
with looked as (
    select * from unnest(:attempt_ids::uuid[], :references::text[], :job_states::text[], :waiting_for::text[],
                         :next_check_at::timestamptz[], :alerts::boolean[])
        as l (id, reference, job_state, waiting_for, next_check_at, alert)
), tally as (
    select l.id, count(m.*) filter (where m.state = 'pending') as open,
           count(m.*) filter (where m.state = 'succeeded') as succeeded,
           count(m.*) filter (where m.state in ('failed', 'refused')) as failed,
           min(m.reason) filter (where m.state in ('failed', 'refused')) as first_reason
    from looked l left join smart_schedule_attempt_machines m on m.attempt_id = l.id group by l.id
), before as (
    select a.id, a.reference, a.job_state from smart_schedule_attempts a join looked l using (id)
), changed as (
    update smart_schedule_attempts a
    set reference = coalesce(l.reference, a.reference), job_state = coalesce(l.job_state, a.job_state),
        state = case when t.open > 0 then case when coalesce(l.reference, a.reference) is null then 'reconciling'
                                               when a.state = 'cancelling' then 'cancelling' else 'running' end
                     when t.succeeded > 0 then 'succeeded' else 'failed' end,
        reason = case when t.open > 0 then l.waiting_for
                      when t.failed = 0 then null when t.succeeded > 0 then 'partly_failed' else t.first_reason end,
        ended_at = case when t.open = 0 then now() end,
        next_check_at = l.next_check_at,
        unresolved_alerted_at = case when l.alert then now() else a.unresolved_alerted_at end
    from looked l join tally t using (id)
    where a.id = l.id and a.ended_at is null
    returning a.id, a.tenant_id, a.policy_id, a.tick_id, a.occurrence_id, a.action, a.project_id, a.state, a.reason,
              a.reference, a.job_state, a.ended_at, t.succeeded, t.failed, l.alert, a.dispatched_at, a.prepared_at
), logged as (
    insert into smart_schedule_log_events (at, tenant_id, policy_id, level, code, params, tick_id, attempt_id)
    select now(), tenant_id, policy_id, case when state = 'failed' then 'error' else 'info' end, 'job_ended',
           jsonb_build_object('action', action, 'project_id', project_id, 'job_id', reference, 'state', state,
                              'reason', reason, 'succeeded', succeeded, 'failed', failed), tick_id, id
    from changed where ended_at is not null
    union all
    select now(), c.tenant_id, c.policy_id, 'info', 'job_status',
           jsonb_build_object('action', c.action, 'project_id', c.project_id, 'job_id', c.reference, 'was', b.job_state,
                              'is', c.job_state), c.tick_id, c.id
    from changed c join before b using (id) where c.job_state is distinct from b.job_state
    union all
    select now(), tenant_id, policy_id, 'error', 'attempt_unresolved',
           jsonb_build_object('action', action, 'project_id', project_id, 'job_id', reference, 'waiting_for', reason,
                              'since', dispatched_at), tick_id, id
    from changed where alert
), told as (
    insert into smart_schedule_outbox (tenant_id, policy_id, code, params, created_at, next_try_at)
    select tenant_id, policy_id, 'attempt_unresolved',
           jsonb_build_object('attempt_id', id, 'action', action, 'project_id', project_id, 'job_id', reference,
                              'waiting_for', reason, 'since', dispatched_at), now(), now()
    from changed where alert
)
select c.id, c.tenant_id, c.policy_id, c.state, c.alert, c.ended_at is not null as ended, c.reference, c.prepared_at,
       b.reference is null and c.reference is not null as found
from changed c join before b using (id)

-- name: name_found_job
-- A job that was found by reading back is named in its decisions too, in the one partition that holds them.
update smart_schedule_machine_decisions set job_id = :job_id
where attempt_id = :attempt_id::uuid and ticked_at = :ticked_at::timestamptz

-- name: failed_shares
-- How the machines of each policy's actions fared within its own window and since its last freeze was lifted. Attempts that
-- ended before the cut-off have no later machine, so that the index passes over all history.
select to_jsonb(p) as policy, f.failed, f.finished
from smart_schedule_policy_groups p
cross join lateral (
    select greatest(now() - make_interval(secs => p.failed_share_window_sec),
                    coalesce((select max(z.lifted_at) from smart_schedule_freezes z where z.policy_id = p.id), '-infinity')) as at
) since
cross join lateral (
    select count(*) filter (where m.state in ('failed', 'refused')) as failed, count(*) as finished
    from smart_schedule_attempts a join smart_schedule_attempt_machines m on m.attempt_id = a.id
    where a.policy_id = p.id and coalesce(a.ended_at, 'infinity') > since.at
      and m.ended_at > since.at and m.state in ('succeeded', 'failed', 'refused')
) f
where p.id = any (:policy_ids::bigint[])
  and not exists (select from smart_schedule_freezes z where z.policy_id = p.id and z.lifted_at is null)

-- name: maintain_partitions
-- A week of daily partitions ahead, none past retention; free of cost and of locks when nothing is to be done.
select created, dropped from smart_schedule_maintain_partitions(now(), 7, :keep_days::integer)

-- name: open_ages
-- What is still open, and how old the oldest of it is; locks of prepared attempts are young by their expiry.
select (select count(*) from smart_schedule_attempts where ended_at is null and state <> 'prepared') as open_attempts,
       coalesce((select extract(epoch from now() - min(dispatched_at)) from smart_schedule_attempts
                 where ended_at is null and state <> 'prepared'), 0)::float8 as oldest_open_sec,
       coalesce((select extract(epoch from now() - min(taken_at)) from smart_schedule_machine_locks
                 where freed_at is null), 0)::float8 as oldest_lock_sec

-- name: prune_history
-- What is not partitioned is dropped past its retention a page at a time, oldest first: ticks, attempts that have ended,
-- how the feed was read, and benchmarks that no decision kept names any more (decisions go by whole days). Occurrences and
-- benchmark runs stay: they are the history.
with old_ticks as (
    delete from smart_schedule_ticks
    where id in (select id from smart_schedule_ticks order by id limit :page_size::integer)
      and ticked_at < now() - make_interval(days => :keep_days::integer)
    returning 1
), old_attempts as (
    select id from smart_schedule_attempts
    where ended_at < now() - make_interval(days => :keep_days::integer) order by ended_at limit :page_size::integer
), old_machines as (
    delete from smart_schedule_attempt_machines m using old_attempts o where m.attempt_id = o.id returning 1
), old_fetches as (
    delete from smart_schedule_profit_fetches
    where id in (select id from smart_schedule_profit_fetches order by id limit :page_size::integer)
      and fetched_at < now() - make_interval(days => :keep_days::integer)
    returning 1
), old_benchmarks as (
    delete from smart_schedule_benchmark_versions
    where id in (select id from smart_schedule_benchmark_versions
                 where superseded_at < now() - make_interval(days => :keep_days::integer + 2)
                 order by superseded_at limit :page_size::integer)
    returning 1
)
select (select count(*) from old_ticks) as ticks, (select count(*) from old_machines) as attempt_machines,
       (select count(*) from old_fetches) as fetches, (select count(*) from old_benchmarks) as benchmarks

-- name: prune_attempts
-- Ended attempts past retention none of whose machines is left.
delete from smart_schedule_attempts a
where a.id in (select id from smart_schedule_attempts
               where ended_at < now() - make_interval(days => :keep_days::integer)
               order by ended_at limit :page_size::integer)
  and not exists (select from smart_schedule_attempt_machines m where m.attempt_id = a.id)
