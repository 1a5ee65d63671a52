-- name: doctor_two_active_occurrences
-- A schedule has at most one occurrence at work.
select schedule_id, array_agg(id order by id) as occurrence_ids
from smart_schedule_occurrences where state in ('running', 'reconciling', 'cancelling')
group by schedule_id having count(*) > 1 limit :page_size::integer

-- name: doctor_twice_recorded
-- A planned time is recorded once.
select schedule_id, planned_at, array_agg(id order by id) as occurrence_ids
from smart_schedule_occurrences where origin = 'planned' and recorded_at > now() - interval '1 day'
group by schedule_id, planned_at having count(*) > 1 limit :page_size::integer

-- name: doctor_unbegun_occurrences
-- What was recorded is begun, or closed by the next scans.
select id as occurrence_id, schedule_id, origin, planned_at, recorded_at, enqueued_at
from smart_schedule_occurrences
where state = 'recorded' and recorded_at < now() - :patience::interval order by id limit :page_size::integer

-- name: doctor_unfinished_ticks
-- A tick that has nothing left to send has ended.
select o.id as occurrence_id, o.schedule_id, o.began_at
from smart_schedule_occurrences o
where o.kind = 'policy_tick' and o.state = 'running' and o.began_at < now() - :patience::interval
  and not exists (select from smart_schedule_attempts a
                  where a.occurrence_id = o.id and a.state in ('prepared', 'dispatching'))
order by o.id limit :page_size::integer

-- name: doctor_conversations_without_end
-- A conversation is at work exactly while its attempt is open.
select o.id as occurrence_id, o.schedule_id, o.state, null::uuid as attempt_id, o.began_at
from smart_schedule_occurrences o
where o.kind = 'conversation' and o.state in ('running', 'reconciling', 'cancelling')
  and not exists (select from smart_schedule_attempts a where a.occurrence_id = o.id and a.ended_at is null)
union all
select o.id, o.schedule_id, o.state, a.id, o.began_at
from smart_schedule_attempts a join smart_schedule_occurrences o on o.id = a.occurrence_id
where a.kind = 'conversation' and a.ended_at is null and o.state not in ('running', 'reconciling', 'cancelling')
order by 1 limit :page_size::integer

-- name: doctor_decisions_of_no_tick
-- Every decision belongs to a tick.
select d.tick_id, d.ticked_at, count(*) as decisions
from smart_schedule_machine_decisions d
where d.ticked_at > now() - interval '1 day' and not exists (select from smart_schedule_ticks t where t.id = d.tick_id)
group by d.tick_id, d.ticked_at limit :page_size::integer

-- name: doctor_decisions_without_their_benchmarks
-- The benchmarks that a decision was made on are kept, and are its machine's.
select d.tick_id, d.benchmarks_version, count(*) as decisions
from smart_schedule_machine_decisions d
left join smart_schedule_benchmark_versions v on v.id = d.benchmarks_version and v.machine_id = d.machine_id
where d.ticked_at > now() - interval '1 day' and d.benchmarks_version is not null and v.id is null
group by d.tick_id, d.benchmarks_version limit :page_size::integer

-- name: doctor_benchmarks_packed_otherwise
-- What a tick is sent of a machine's benchmarks is what was measured, and counts only if each of them may be decided on.
select coalesce(e.machine_id, p.machine_id) as machine_id, e.version
from smart_schedule_machine_benchmark_entries e
full join smart_schedule_packed_benchmarks(array(select distinct machine_id from smart_schedule_machine_project_benchmarks)) p
     on p.machine_id = e.machine_id
left join smart_schedule_measured_projects m on m.id = e.measured
where e.machine_id is null
   or (e.entries, e.figures, e.oldest, e.newest, coalesce(m.projects, ''))
      is distinct from (coalesce(p.entries, ''), coalesce(p.figures, ''), coalesce(p.oldest, 'NaN'), coalesce(p.newest, 'NaN'),
                        coalesce(p.projects, ''))
   or e.said is distinct from int2send((length(e.entries) / 33)::int2) || int8send(coalesce(e.measured, 0))
                              || int8send(e.version) || float8send(e.oldest)
order by 1 limit :page_size::integer

-- name: doctor_ticks_without_their_decisions
-- A tick has exactly one decision per machine that it counted (within the retention of decisions).
select t.id as tick_id, t.policy_id, t.machines, count(d.machine_id) as decisions
from smart_schedule_ticks t
left join smart_schedule_machine_decisions d on d.tick_id = t.id and d.ticked_at = t.ticked_at
where t.ticked_at > now() - interval '1 day'
group by t.id having count(d.machine_id) <> t.machines order by t.id limit :page_size::integer

-- name: doctor_moves_without_attempt
-- What an executing tick decided to move is in a batch.
select d.tick_id, d.machine_id, d.action
from smart_schedule_machine_decisions d
join smart_schedule_ticks t on t.id = d.tick_id and t.ticked_at = d.ticked_at
where t.execution_mode = 'execute' and d.action in ('switch', 'start', 'stop', 'power_off') and d.attempt_id is null
  and d.ticked_at > now() - interval '1 day'
order by d.tick_id, d.machine_id limit :page_size::integer

-- name: doctor_machines_in_two_attempts
-- A machine is commanded by one attempt at a time; one that expired before it was sent is not sent any more.
select m.machine_id, array_agg(m.attempt_id) as attempt_ids
from smart_schedule_attempt_machines m join smart_schedule_attempts a on a.id = m.attempt_id
where m.state = 'pending' and (a.state <> 'prepared' or a.valid_until > now())
group by m.machine_id having count(*) > 1 limit :page_size::integer

-- name: doctor_freed_too_early
-- A machine whose end is not confirmed is locked, under the token of its attempt.
select m.attempt_id, m.machine_id, m.fencing_token, l.fencing_token as lock_token, l.freed_at, l.freed_by
from smart_schedule_attempt_machines m
join smart_schedule_attempts a on a.id = m.attempt_id
left join smart_schedule_machine_locks l on l.machine_id = m.machine_id
where m.state = 'pending' and a.dispatched_at is not null
  and (l.machine_id is null or l.freed_at is not null or l.fencing_token <> m.fencing_token)
order by m.attempt_id, m.machine_id limit :page_size::integer

-- name: doctor_locks_of_nobody
-- A live lock belongs to a machine whose end is open: an attempt's, or a benchmark run's.
select l.machine_id, l.owner_kind, l.owner_id, l.taken_at, l.expires_at
from smart_schedule_machine_locks l
where l.freed_at is null and l.expires_at > now()
  and not exists (select from smart_schedule_attempt_machines m
                  where m.attempt_id = l.owner_id and m.machine_id = l.machine_id and m.state = 'pending')
  and not exists (select from smart_schedule_benchmark_runs r where r.id = l.owner_id and r.ended_at is null)
order by l.machine_id limit :page_size::integer

-- name: doctor_attempts_without_end
-- An attempt is open exactly while a machine of it is; one whose machines were all refused or withdrawn, until its job is next
-- looked at.
select a.id as attempt_id, a.state, count(m.*) filter (where m.state = 'pending') as open_machines
from smart_schedule_attempts a left join smart_schedule_attempt_machines m on m.attempt_id = a.id
where a.kind = 'device_batch'
group by a.id
having (a.ended_at is null) <> (count(m.*) filter (where m.state = 'pending') > 0)
   and (a.ended_at is not null or a.state <> 'running' or bool_and(m.state in ('refused', 'dropped')) is not true
        or a.dispatched_at < now() - :patience::interval)
limit :page_size::integer

-- name: doctor_unsent_attempts
-- A prepared attempt is sent, or expires and is closed by the next scans.
select id as attempt_id, policy_id, action, prepared_at, valid_until
from smart_schedule_attempts
where state = 'prepared' and valid_until < now() - :patience::interval order by prepared_at limit :page_size::integer

-- name: doctor_lost_senders
-- An attempt does not stay dispatching longer than its sender can live.
select id as attempt_id, policy_id, action, dispatched_at
from smart_schedule_attempts
where state = 'dispatching' and dispatched_at < now() - :patience::interval order by dispatched_at limit :page_size::integer

-- name: doctor_unresolved_attempts
-- Nobody could confirm these for longer than the alert time; look into them, and close them with a reason if need be.
select id as attempt_id, policy_id, action, reference as job_id, reason as waiting_for, dispatched_at
from smart_schedule_attempts
where ended_at is null and (unresolved_alerted_at is not null or unreachable_alerted_at is not null)
order by dispatched_at limit :page_size::integer

-- name: doctor_benchmark_runs_stuck
-- A benchmark run that began ends, and puts its machine back.
select id as run_id, machine_id, project_id, state, started_at
from smart_schedule_benchmark_runs
where state in ('running', 'restoring') and started_at < now() - interval '2 hours'
order by started_at limit :page_size::integer

-- name: doctor_policies_that_cannot_tick
-- An enabled policy has a schedule whose rule can be read and that has a next run.
select p.id as policy_id, p.name, s.id as schedule_id, s.next_run_at, s.paused, s.broken
from smart_schedule_policy_groups p
left join smart_schedule_schedules s on s.policy_id = p.id and s.archived_at is null
where p.enabled and p.archived_at is null
  and (s.id is null or s.broken is not null or s.next_run_at is null or s.paused)
order by p.id limit :page_size::integer

-- name: doctor_conversations_that_cannot_run
-- A conversation's schedule has a rule that can be read.
select id as schedule_id, tenant_id, name, broken
from smart_schedule_schedules
where kind = 'conversation' and archived_at is null and broken is not null order by id limit :page_size::integer

-- name: doctor_policies_without_lease
-- A policy that is to execute has the executor lease of its tenant.
select p.id as policy_id, p.name, p.tenant_id, e.holder, e.expires_at
from smart_schedule_policy_groups p left join smart_schedule_executor_leases e on e.tenant_id = p.tenant_id
where smart_schedule_acts(p.enabled, p.archived_at, p.execution_mode)
  and (e.tenant_id is null or e.holder <> 'blsflow' or e.expires_at <= now())
order by p.id limit :page_size::integer

-- name: doctor_notifications_waiting
-- Notifications go out.
select id as notification_id, tenant_id, code, created_at, tries, next_try_at
from smart_schedule_outbox
where published_at is null and created_at < now() - interval '15 minutes' order by id limit :page_size::integer

-- name: doctor_rows_outside_partitions
-- Partitions are made ahead of their rows.
select tableoid::regclass::text as partition, count(*) as rows
from (select tableoid from only smart_schedule_machine_decisions_default
      union all select tableoid from only smart_schedule_log_events_default
      union all select tableoid from only smart_schedule_profit_readings_default) found
group by 1 limit :page_size::integer
