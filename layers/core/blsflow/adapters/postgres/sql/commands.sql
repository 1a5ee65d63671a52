-- name: command_grounds
-- What a command as a whole needs of the database: the tenant's executor lease, and its project, if it names one.
select exists (select from smart_schedule_executor_leases e
               where e.tenant_id = :tenant_id and e.holder = :holder and e.expires_at > now()) as lease_held,
       exists (select from projects p where p.id = :project_id::bigint and p.tenant_id = :tenant_id) as project_known

-- name: command_prospects
-- For each machine why the command passes it over, or the run configuration with which it is taken. A machine does what its
-- fresh report, its meter and the last confirmed command agree on; where they do not, nobody knows, and it is commanded.
select asked.id as machine_id, rc.id as run_config_id, n.doing,
       case
           when m.id is null then 'unknown_machine'
           when l.owner_kind = 'benchmark' then 'under_benchmark'
           when l.machine_id is not null then 'locked'
           when :project_id::bigint is not null and not (
               exists (select from smart_schedule_resource_eligibilities g
                       where g.tenant_id = :tenant_id and g.project_id = :project_id::bigint and g.allowed
                         and (g.resource_type, g.resource_id) in
                             (('cluster', m.cluster_id::text), ('model', m.model), ('machine', m.id::text)))
               and not exists (select from smart_schedule_resource_eligibilities g
                               where g.tenant_id = :tenant_id and g.project_id = :project_id::bigint and not g.allowed
                                 and (g.resource_type, g.resource_id) in
                                     (('cluster', m.cluster_id::text), ('model', m.model), ('machine', m.id::text)))
           ) then 'not_eligible'
           when :project_id::bigint is not null and rc.id is null then 'no_run_configuration'
           when :action in ('switch', 'start') and n.doing = 'mining' and r.project_id = :project_id::bigint then 'already_so'
           when :action = 'stop' and n.doing in ('stopped', 'off') then 'already_so'
           when :action = 'power_off' and n.doing = 'off' then 'already_so'
           when :action = 'switch' and n.doing in ('stopped', 'off') then 'not_running'
           when :action = 'start' and n.doing = 'mining' then 'already_running'
       end as skipped
from unnest(:machine_ids::bigint[]) as asked (id)
left join machines m on m.id = asked.id and m.tenant_id = :tenant_id
left join smart_schedule_machine_locks l on l.machine_id = m.id and l.freed_at is null and l.expires_at > now()
left join machine_mining_runtime r on r.machine_id = m.id
left join smart_schedule_machine_states s on s.machine_id = m.id
left join machine_models mm on mm.model = m.model
left join projects j on j.id = :project_id::bigint and j.tenant_id = :tenant_id
left join project_run_configurations rc on rc.project_id = j.id and rc.model = m.model and rc.runnable
     and (mm.algorithm is null or mm.algorithm = j.algorithm)
left join lateral (
    select p.power_w from metric_powers p
    where p.machine_id = m.id and p.measured_at > now() - interval '10 minutes' and p.measured_at <= now() + interval '30 seconds'
    order by p.measured_at desc limit 1
) w on true
-- as domain/confirmation.py judges it: what draws power is not at rest, whatever it reports
cross join lateral (
    select coalesce(w.power_w, 0) < 20 as unpowered,
           coalesce(w.power_w, 0) < coalesce(mm.nameplate_power_w * 0.3, 100) as idle,
           coalesce(r.reported_at between now() - interval '10 minutes' and now() + interval '30 seconds', false) as fresh
) e
cross join lateral (
    select case
        when s.stopped_by is not null and s.expected = 'off' and coalesce(r.reported_at <= s.changed_at, true) and e.unpowered
            then 'off'
        when not e.fresh then 'unknown'
        when r.hashrate_hs = 0 and e.unpowered and (r.status = 'off' or (s.stopped_by is not null and s.expected = 'off')) then 'off'
        when r.hashrate_hs = 0 and e.idle and (r.status in ('stopped', 'off') or s.stopped_by is not null) then 'stopped'
        when r.status = 'mining' and r.hashrate_hs > 0 and r.project_id is not null then 'mining'
        else 'unknown'
    end as doing
) n
order by asked.id

-- name: insert_command
-- A command with its batches.
with command as (
    insert into smart_schedule_commands (id, tenant_id, action, project_id, requested_by, why, requested_at, machines)
    values (:command_id::uuid, :tenant_id, :action, :project_id::bigint, :by, :why, now(), :machines::integer)
)
insert into smart_schedule_attempts
    (id, tenant_id, kind, idempotency_key, command_id, action, project_id, run_config_id, state, prepared_at, valid_until)
select a.id, :tenant_id, 'device_batch', a.key, :command_id::uuid, :action, :project_id::bigint, a.run_config_id, 'prepared',
       now(), now() + :validity::interval
from unnest(:ids::uuid[], :keys::text[], :run_configs::bigint[]) as a (id, key, run_config_id)

-- name: insert_command_machines
-- What is to become of each machine; a tenant may write it once its command can be seen, after that one's statement.
insert into smart_schedule_command_machines (command_id, machine_id, attempt_id, skipped)
select :command_id::uuid, m.machine_id, m.attempt_id, m.skipped
from unnest(:machine_ids::bigint[], :attempt_ids::uuid[], :skipped::text[]) as m (machine_id, attempt_id, skipped)

-- name: take_command_locks
-- Locks of all machines that the command would move, in machine order, as a tick takes its own: none that is held, and
-- expired ones with a new token.
with taken as (
    insert into smart_schedule_machine_locks
        (machine_id, tenant_id, owner_kind, owner_id, fencing_token, taken_at, expires_at)
    select machine_id, :tenant_id, 'attempt', attempt_id, nextval('smart_schedule_fencing_tokens'), now(),
           now() + :lock_ttl::interval
    from (
        select machine_id, attempt_id from smart_schedule_command_machines
        where command_id = :command_id::uuid and attempt_id is not null
        order by machine_id
    ) wanted
    on conflict (machine_id) do update
    set tenant_id = excluded.tenant_id, owner_kind = excluded.owner_kind, owner_id = excluded.owner_id,
        fencing_token = excluded.fencing_token, taken_at = excluded.taken_at, expires_at = excluded.expires_at,
        freed_at = null, freed_by = null, alerted_at = null
    where smart_schedule_machine_locks.freed_at is not null or smart_schedule_machine_locks.expires_at <= now()
    returning machine_id, owner_id, fencing_token
), members as (
    insert into smart_schedule_attempt_machines (attempt_id, machine_id, fencing_token)
    select owner_id, machine_id, fencing_token from taken
)
select owner_id as attempt_id, count(*) as machines from taken group by owner_id

-- name: drop_empty_attempts
-- A batch that won no lock was never an attempt.
delete from smart_schedule_attempts where id = any (:ids::uuid[]) and state = 'prepared'

-- name: log_prepared
-- One event per batch that won locks, with how many.
insert into smart_schedule_log_events (at, tenant_id, policy_id, code, params, tick_id, attempt_id)
select now(), a.tenant_id, a.policy_id, 'batch_prepared',
       jsonb_build_object('action', a.action, 'project_id', a.project_id, 'machines', n.machines), a.tick_id, a.id
from unnest(:ids::uuid[], :machines::integer[]) as n (id, machines) join smart_schedule_attempts a using (id)

-- name: finish_command
-- What became of it: machines whose lock somebody else took in the meantime are passed over, and it is on the record.
with lost as (
    update smart_schedule_command_machines m set attempt_id = null, skipped = 'locked'
    where m.command_id = :command_id::uuid and m.attempt_id is not null
      and not exists (select from smart_schedule_attempt_machines a
                      where a.attempt_id = m.attempt_id and a.machine_id = m.machine_id)
), counted as (
    update smart_schedule_commands c set taken = :taken::integer
    where c.id = :command_id::uuid
    returning c.id, c.tenant_id, c.action, c.project_id, c.requested_by, c.why, c.machines, c.taken
)
insert into smart_schedule_log_events (at, tenant_id, code, params)
select now(), tenant_id, 'command_requested',
       jsonb_build_object('command_id', id, 'action', action, 'project_id', project_id, 'by', requested_by, 'why', why,
                          'machines', machines, 'taken', taken)
from counted

-- name: passed_over
-- The machines that a command left as they were, and why.
select machine_id, skipped from smart_schedule_command_machines
where command_id = :command_id::uuid and skipped is not null order by machine_id

-- name: leave_at_rest
-- Machines that are at rest already when an operator stops them: from now on they are at rest by an operator's word.
insert into smart_schedule_machine_states as known (machine_id, tenant_id, expected, stopped_by, changed_at)
select r.machine_id, :tenant_id, r.doing, 'human', now()
from unnest(:machine_ids::bigint[], :doings::text[]) as r (machine_id, doing)
where not exists (select from smart_schedule_machine_locks l
                  where l.machine_id = r.machine_id and l.freed_at is null and l.expires_at > now())
order by r.machine_id
on conflict (machine_id) do update
set expected = excluded.expected, expected_project = null, stopped_by = 'human',
    changed_at = case when known.expected = excluded.expected then known.changed_at else excluded.changed_at end

-- name: command
-- A command as it was sent; open while any of its batches is.
select c.id, c.tenant_id, c.action, c.project_id, c.requested_by, c.why, c.requested_at, c.machines, c.taken,
       exists (select from smart_schedule_attempts a where a.command_id = c.id and a.ended_at is null) as open
from smart_schedule_commands c

-- name: command_machine
-- What became of each machine of a command: passed over, or how it stands in its batch (gone with it past retention).
select m.command_id, m.machine_id, m.attempt_id,
       case when m.skipped is not null then 'skipped' else a.state end as state, coalesce(m.skipped, a.reason) as reason,
       a.ended_at
from smart_schedule_command_machines m
left join smart_schedule_attempt_machines a on a.attempt_id = m.attempt_id and a.machine_id = m.machine_id

-- name: prune_commands
-- Commands past retention none of whose batches is left, a few at a time, for one may have many machines.
delete from smart_schedule_commands c
using (select id from smart_schedule_commands o
       where o.requested_at < now() - make_interval(days => :keep_days::integer)
         and not exists (select from smart_schedule_attempts a where a.command_id = o.id)
       order by o.requested_at limit 20) old
where c.id = old.id
