-- name: ticks_of_policy
-- A page of a policy's ticks, newest first.
select t.id as tick_id, t.tenant_id, t.policy_id, t.policy_version, t.occurrence_id, t.execution_mode, t.ticked_at,
       t.valid_until, t.failure, t.machines, t.counts, t.gain_cny_per_day, t.took_ms
from smart_schedule_ticks t
where t.policy_id = :policy_id::bigint and (:tenant_id::text is null or t.tenant_id = :tenant_id)
  and (t.ticked_at, t.id) < (:before_at::timestamptz, :before_id::bigint)
order by t.ticked_at desc, t.id desc limit :page_size::integer

-- name: tick
-- One tick without what its machines shared, which is large.
select t.id as tick_id, t.tenant_id, t.policy_id, t.policy_version, t.occurrence_id, t.execution_mode, t.ticked_at,
       t.valid_until, t.failure, t.machines, t.counts, t.gain_cny_per_day, t.took_ms
from smart_schedule_ticks t
where t.id = :tick_id::bigint and (:tenant_id::text is null or t.tenant_id = :tenant_id)

-- name: stored_tick
-- One tick with all that its machines shared.
select t.id as tick_id, t.tenant_id, t.policy_id, t.policy_version, t.occurrence_id, t.execution_mode, t.ticked_at,
       t.valid_until, t.failure, t.machines, t.counts, t.gain_cny_per_day, t.took_ms, t.inputs
from smart_schedule_ticks t
where t.id = :tick_id::bigint and (:tenant_id::text is null or t.tenant_id = :tenant_id)

-- name: decisions_of_tick
-- A page of one tick's decisions in order of their machines; the tick's time says in which partition they are.
select d.tick_id, d.ticked_at, d.machine_id, d.action, d.reason, d.proposed, d.from_project, d.to_project, d.run_config_id,
       d.current_net_cny_per_day, d.best_net_cny_per_day, d.overridden_by, d.attempt_id, d.job_id
from smart_schedule_machine_decisions d
where d.tick_id = :tick_id::bigint and d.ticked_at = :ticked_at::timestamptz
  and d.machine_id between :first_machine::bigint and :last_machine::bigint
  and (:action::text is null or d.action = :action) and (:reason::text is null or d.reason = :reason)
order by d.machine_id limit :page_size::integer

-- name: decisions_of_machine
-- A page of one machine's decisions, newest first: so many of the tenant's ticks at most are walked, from the newest on, and
-- each one's decision is looked up by its primary key, in the one partition that can have it. To the server a lookup of
-- its own for each tick, which a limit makes it, leaves no other way.
select d.tick_id, d.ticked_at, d.machine_id, d.action, d.reason, d.proposed, d.from_project, d.to_project, d.run_config_id,
       d.current_net_cny_per_day, d.best_net_cny_per_day, d.overridden_by, d.attempt_id, d.job_id
from (select t.id, t.ticked_at from smart_schedule_ticks t
      where t.tenant_id = :tenant_id and (t.ticked_at, t.id) < (:before_at::timestamptz, :before_id::bigint)
      order by t.ticked_at desc, t.id desc limit :most_ticks::integer) t
cross join lateral (
    select c.* from smart_schedule_machine_decisions c
    where c.tick_id = t.id and c.ticked_at = t.ticked_at and c.machine_id = :machine_id::bigint limit 1
) d
order by t.ticked_at desc, t.id desc limit :page_size::integer

-- name: last_tick_walked
-- Where so long a walk through a tenant's ticks ends; nothing if there are not so many.
select t.ticked_at, t.id from smart_schedule_ticks t
where t.tenant_id = :tenant_id and (t.ticked_at, t.id) < (:before_at::timestamptz, :before_id::bigint)
order by t.ticked_at desc, t.id desc limit 1 offset :most_ticks::integer - 1

-- name: stored_decision
-- One decision with all that it came from: the tick's shared inputs and the machine's own record.
select t.id as tick_id, t.policy_id, t.ticked_at, t.execution_mode, t.inputs, d.machine_id, d.action, d.reason, d.proposed,
       d.from_project, d.to_project, d.run_config_id, d.current_net_cny_per_day as current_net,
       d.best_net_cny_per_day as best_net, d.attempt_id, d.job_id, d.figures
from smart_schedule_ticks t join smart_schedule_machine_decisions d on d.tick_id = t.id and d.ticked_at = t.ticked_at
where t.id = :tick_id::bigint and d.machine_id = :machine_id::bigint
  and (:tenant_id::text is null or t.tenant_id = :tenant_id)

-- name: tenant_of_machine
-- Whose machine it is; nothing if there is none, or it is somebody else's.
select tenant_id from machines where id = :machine_id::bigint and (:tenant_id::text is null or tenant_id = :tenant_id)
