-- name: lock_policy_of
-- The policy's row lock makes ticks of one policy take turns; what they see is read only after it is held.
select p.id
from smart_schedule_occurrences o
join smart_schedule_schedules s on s.id = o.schedule_id
join smart_schedule_policy_groups p on p.id = s.policy_id
where o.id = :occurrence_id::bigint
for no key update of p

-- name: read_tick
-- The occurrence and all that may forbid it to begin. What the transaction asks next is planned once per session, for
-- whatever values: the server would otherwise find a plan for each tick's own values worth making anew, by its estimate. Such
-- a plan may be made while a table is empty and be used when it no longer is, so it has to look rows up by an index where
-- there is one, and in its order. A fleet may be sorted in memory, which is quick, since it nearly is in its order.
select o.id as occurrence_id, o.schedule_id, o.state, o.planned_at, o.origin, s.paused, s.archived_at is not null as archived,
       to_json(p) as policy,
       (select coalesce(json_agg(to_json(c) order by c.position), '[]')
        from smart_schedule_policy_candidates c where c.policy_id = p.id) as candidates,
       (select coalesce(json_agg(to_json(w) order by w.id), '[]')
        from smart_schedule_policy_windows w where w.policy_id = p.id) as windows,
       exists (select from smart_schedule_freezes f where f.policy_id = p.id and f.lifted_at is null) as frozen,
       exists (select from smart_schedule_executor_leases e
               where e.tenant_id = p.tenant_id and e.holder = :holder and e.expires_at > now()) as lease_held,
       exists (select from smart_schedule_occurrences a
               where a.schedule_id = o.schedule_id and a.id <> o.id
                 and a.state in ('running', 'reconciling', 'cancelling')) as active,
       nextval(pg_get_serial_sequence('smart_schedule_ticks', 'id')) as tick_id,
       set_config('plan_cache_mode', 'force_generic_plan', true) as plans,
       set_config('work_mem', '64MB', true) as memory, set_config('enable_seqscan', 'off', true) as indexed,
       set_config('enable_bitmapscan', 'off', true) as in_order
from smart_schedule_occurrences o
join smart_schedule_schedules s on s.id = o.schedule_id
join smart_schedule_policy_groups p on p.id = s.policy_id
where o.id = :occurrence_id::bigint
for update of o

-- name: skip_occurrence
-- Recorded, and not to be begun: closed with its reason.
with skipped as (
    update smart_schedule_occurrences set state = 'skipped', reason = :reason, ended_at = now()
    where id = :occurrence_id::bigint and state = 'recorded'
    returning tenant_id, schedule_id, planned_at
), logged as (
    insert into smart_schedule_log_events (at, tenant_id, policy_id, code, params)
    select now(), k.tenant_id, s.policy_id, 'run_skipped',
           jsonb_build_object('schedule_id', s.id, 'reason', :reason::text, 'planned_at', k.planned_at)
    from skipped k join smart_schedule_schedules s on s.id = k.schedule_id
)
select count(*) as closed from skipped

-- name: tell_invalid_policy
-- A policy that cannot be meant never ticks: said in the log each time, and to its people once a day.
with logged as (
    insert into smart_schedule_log_events (at, tenant_id, policy_id, level, code, params)
    select now(), p.tenant_id, p.id, 'error', 'policy_invalid', jsonb_build_object('field', :field::text, 'cause', :cause::text)
    from smart_schedule_policy_groups p where p.id = :policy_id::bigint
)
insert into smart_schedule_outbox (tenant_id, policy_id, code, params, created_at, next_try_at)
select p.tenant_id, p.id, 'policy_invalid', jsonb_build_object('field', :field::text, 'cause', :cause::text), now(), now()
from smart_schedule_policy_groups p
where p.id = :policy_id::bigint
  and not exists (select from smart_schedule_outbox o
                  where o.policy_id = p.id and o.code = 'policy_invalid' and o.created_at > now() - interval '1 day')

-- name: tick_inputs
-- All that the machines of a policy share, in one answer: projects with their newest readings, clusters with their tariffs,
-- classes (cluster and model), models with run configurations, what clusters and models may run, and the other policies of the
-- tenant. Classes are found one behind the other along an index, whatever the number of their machines. It also begins the
-- occurrence, compare-and-set, which saves a round trip; a trial has none, and begins nothing.
with recursive begun as (
    update smart_schedule_occurrences set state = 'running', began_at = now()
    where id = :occurrence_id::bigint and state = 'recorded'
), scope as (
    select resource_type, resource_id from smart_schedule_policy_scopes where policy_id = :policy_id::bigint
), every_class as (
    (select m.cluster_id, m.model from machines m where m.tenant_id = :tenant_id order by m.cluster_id, m.model limit 1)
    union all
    select after.cluster_id, after.model
    from every_class c
    cross join lateral (
        select m.cluster_id, m.model from machines m
        where m.tenant_id = :tenant_id and (m.cluster_id, m.model) > (c.cluster_id, c.model)
        order by m.cluster_id, m.model limit 1
    ) after
), members as (
    select cluster_id, model from every_class
    where exists (select from scope where resource_type = 'tenant')
       or cluster_id in (select resource_id::bigint from scope where resource_type = 'cluster')
       or model in (select resource_id from scope where resource_type = 'model')
    union
    select cluster_id, model from machines
    where tenant_id = :tenant_id and id in (select resource_id::bigint from scope where resource_type = 'machine')
), wanted as (
    select id, name, price_key, algorithm from projects where tenant_id = :tenant_id
)
select
    (select coalesce(json_agg(json_build_object('id', w.id, 'name', w.name, 'price_key', w.price_key, 'algorithm', w.algorithm,
        'reading', (
            select json_build_object('revenue', case when r.revenue not in ('NaN', 'Infinity', '-Infinity') then r.revenue end,
                                     'unit', r.unit, 'currency', r.currency, 'algorithm', r.algorithm, 'taken_at', r.taken_at,
                                     'flags', r.flags)
            from smart_schedule_profit_readings r
            where r.price_key = upper(trim(w.price_key)) order by r.received_at desc limit 1)) order by w.id), '[]')
     from wanted w) as projects,
    (select coalesce(json_agg(json_build_object('id', c.id, 'time_zone', c.time_zone, 'tariffs', (
        select coalesce(json_agg(json_build_object('name', t.name, 'currency', t.currency, 'valid_from', t.valid_from,
            'valid_to', t.valid_to, 'holidays', t.holidays, 'make_up_workdays', t.make_up_workdays, 'periods', (
                select coalesce(json_agg(to_json(p) order by p.id), '[]')
                from cluster_tariff_periods p where p.tariff_id = t.id)) order by t.id), '[]')
        from cluster_tariffs t where t.cluster_id = c.id
          and (t.valid_to is null or t.valid_to > :tariffs_from::timestamptz))) order by c.id), '[]')
     from clusters c where c.tenant_id = :tenant_id and c.id in (select cluster_id from members)) as clusters,
    (select coalesce(json_agg(m order by m.cluster_id, m.model), '[]') from members m) as classes,
    (select coalesce(json_object_agg(m.model, json_build_object(
        'nameplate_hashrate_hs', mm.nameplate_hashrate_hs, 'nameplate_power_w', mm.nameplate_power_w, 'run_configs', (
            select coalesce(json_object_agg(rc.project_id, rc.id), '{}')
            from project_run_configurations rc join wanted w on w.id = rc.project_id
            where rc.model = m.model and rc.runnable and (mm.algorithm is null or mm.algorithm = w.algorithm)))), '{}')
     from (select distinct model from members) m left join machine_models mm on mm.model = m.model) as models,
    (select coalesce(json_agg(json_build_array(e.resource_type, e.resource_id, e.allowed, e.project_id)), '[]')
     from smart_schedule_resource_eligibilities e
     where e.tenant_id = :tenant_id
       and (e.resource_type = 'cluster' and e.resource_id in (select cluster_id::text from members)
            or e.resource_type = 'model' and e.resource_id in (select model from members))) as eligibilities,
    (select coalesce(jsonb_agg(to_jsonb(p) || jsonb_build_object(
        'windows', (select coalesce(jsonb_agg(to_jsonb(w) order by w.id), '[]')
                    from smart_schedule_policy_windows w where w.policy_id = p.id),
        'scopes', (select coalesce(jsonb_agg(to_jsonb(s)), '[]')
                   from smart_schedule_policy_scopes s where s.policy_id = p.id)) order by p.id), '[]')
     from smart_schedule_policy_groups p
     where p.tenant_id = :tenant_id and p.id <> :policy_id::bigint and p.enabled and p.archived_at is null) as others,
    (select coalesce(json_agg(s), '[]') from scope s) as scopes

-- name: adopt_foreign_changes
-- A machine that measurably does something else than what was last brought about here, with nobody acting on it: somebody
-- else changed it. It is reported once, counted, and taken as the new state of affairs. Word and hashrate must agree: a
-- project or a hashrate that is not reported, and a word that the hashrate belies, change nothing.
with seen as (
    select s.machine_id, s.expected, s.expected_project, r.status, r.project_id, r.reported_at
    from smart_schedule_machine_states s
    join machines m on m.id = s.machine_id
    join machine_mining_runtime r on r.machine_id = s.machine_id
    where m.tenant_id = :tenant_id
      and (m.id = any (:machine_ids::bigint[])
           or (m.cluster_id, m.model) in (select * from unnest(:cluster_ids::bigint[], :models::text[])))
      and s.expected <> 'unset'
      and r.reported_at > s.changed_at and r.reported_at > now() - make_interval(secs => :report_max_age_sec::integer)
      and (r.status = 'mining' and r.hashrate_hs > 0 and r.project_id is not null
               and (s.expected <> 'mining' or r.project_id <> s.expected_project)
           or r.status in ('stopped', 'off') and r.hashrate_hs = 0 and s.expected = 'mining')
      and not exists (select from smart_schedule_machine_locks l where l.machine_id = s.machine_id and l.freed_at is null)
), adopted as (
    update smart_schedule_machine_states s
    set expected = seen.status, expected_project = case when seen.status = 'mining' then seen.project_id end,
        stopped_by = case when seen.status <> 'mining' then 'human' end,
        changed_at = seen.reported_at, foreign_changes = least(s.foreign_changes + 1, 255), foreign_seen_at = now()
    from seen where s.machine_id = seen.machine_id and s.changed_at < seen.reported_at  -- not by another tick meanwhile
    returning s.machine_id, seen.expected as was, seen.expected_project as was_project, seen.status, seen.project_id,
              s.foreign_changes
), logged as (
    insert into smart_schedule_log_events (at, tenant_id, policy_id, level, code, params, machine_id)
    select now(), :tenant_id, :policy_id::bigint, 'warning', 'foreign_change',
           jsonb_build_object('machine_id', machine_id, 'was', was, 'was_project', was_project, 'is', status,
                              'is_project', project_id, 'count', foreign_changes),
           machine_id
    from adopted
)
select count(*) as changes, coalesce(max(foreign_changes), 0) as most from adopted

-- name: foreign_changes
-- The machines that the statement above would adopt, and as what: for a trial, which changes nothing and waits for nobody.
select s.machine_id, r.status
from smart_schedule_machine_states s
join machines m on m.id = s.machine_id
join machine_mining_runtime r on r.machine_id = s.machine_id
where m.tenant_id = :tenant_id
  and (m.id = any (:machine_ids::bigint[])
       or (m.cluster_id, m.model) in (select * from unnest(:cluster_ids::bigint[], :models::text[])))
  and s.expected <> 'unset'
  and r.reported_at > s.changed_at and r.reported_at > now() - make_interval(secs => :report_max_age_sec::integer)
  and (r.status = 'mining' and r.hashrate_hs > 0 and r.project_id is not null
           and (s.expected <> 'mining' or r.project_id <> s.expected_project)
       or r.status in ('stopped', 'off') and r.hashrate_hs = 0 and s.expected = 'mining')
  and not exists (select from smart_schedule_machine_locks l where l.machine_id = s.machine_id and l.freed_at is null)

-- name: prepare_attempts
-- Locks of all machines that the tick would move, in machine order everywhere (opposite orders deadlock). One that is
-- held is not taken. An expired one may be taken over, since nothing was sent under it. No join with the decisions on
-- purpose: the planner knows nothing of rows this transaction wrote, and a nested loop over two large sets would never end.
-- Then the batches that won any, each under a key derived from its decisions, with their machines and one log event each.
with asked as materialized (
    select * from json_to_recordset(:attempts::json)
        as a (id uuid, key text, action text, project_id bigint, run_config_id bigint, machine_ids bigint[])
), taken as (
    insert into smart_schedule_machine_locks
        (machine_id, tenant_id, owner_kind, owner_id, fencing_token, taken_at, expires_at)
    select machine_id, :tenant_id, 'attempt', attempt_id, nextval('smart_schedule_fencing_tokens'), now(),
           now() + :lock_ttl::interval
    from (
        select machine_id, asked.id as attempt_id from asked cross join unnest(asked.machine_ids) as machine_id
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
), won as materialized (
    select owner_id, count(*) as machines from taken group by owner_id
), kept as (
    insert into smart_schedule_attempts
        (id, tenant_id, kind, idempotency_key, occurrence_id, policy_id, tick_id, action, project_id, run_config_id, state,
         prepared_at, valid_until)
    select asked.id, :tenant_id, 'device_batch', asked.key, :occurrence_id::bigint, :policy_id::bigint, :tick_id::bigint,
           asked.action, asked.project_id, asked.run_config_id, 'prepared', now(), :valid_until::timestamptz
    from asked join won on won.owner_id = asked.id
    returning id, action, project_id
), logged as (
    insert into smart_schedule_log_events (at, tenant_id, policy_id, code, params, tick_id, attempt_id)
    select now(), :tenant_id, :policy_id::bigint, 'batch_prepared',
           jsonb_build_object('action', k.action, 'project_id', k.project_id, 'machines', won.machines), :tick_id::bigint, k.id
    from kept k join won on won.owner_id = k.id
)
select owner_id as attempt_id, machines from won

-- name: skip_lost_races
-- Decisions whose lock somebody else took in the meantime; returns what they had been, with the gain that is not to be had.
-- What was won is looked up among the tick's own locks, which the planner hashes (as long as it expects no more of them than
-- work_mem has room for), since of the decisions it knows nothing: they are rows of this transaction.
with won as materialized (
    select machine_id from smart_schedule_machine_locks where owner_id = any (:ids::uuid[]) and freed_at is null
), lost as (
    select action, reason, count(*) as machines,
           sum(case when action in ('stop', 'power_off') then -coalesce(current_net_cny_per_day, 0)
                    when best_net_cny_per_day is null then 0
                    when action = 'switch' then best_net_cny_per_day - coalesce(current_net_cny_per_day, 0)
                    else best_net_cny_per_day end)::float8 as gain_cny_per_day
    from smart_schedule_machine_decisions
    where tick_id = :tick_id::bigint and ticked_at = :ticked_at::timestamptz and attempt_id is not null
      and machine_id not in (select machine_id from won)
    group by action, reason
), skipped as (
    update smart_schedule_machine_decisions
    set action = 'skip', reason = 'locked', attempt_id = null
    where tick_id = :tick_id::bigint and ticked_at = :ticked_at::timestamptz and attempt_id is not null
      and machine_id not in (select machine_id from won)
)
select action, reason, machines, gain_cny_per_day from lost

-- name: withhold_moves
-- The decisions of a tick as they were proposed, none of them carried out.
update smart_schedule_machine_decisions
set action = 'skip', reason = :reason, attempt_id = null
where tick_id = :tick_id::bigint and ticked_at = :ticked_at::timestamptz
  and action in ('switch', 'start', 'stop', 'power_off')

-- name: request_benchmarks
-- One open run per machine and project, whoever asks; one that waits learns what it could win by now, and that it is still
-- wanted. It goes over to the policy that asks, but never from one whose runs may begin to one whose may not (R7.4). A pair
-- whose last run failed is left alone for a while: its bounded retries are rows of their own.
with able as (
    select p.id from smart_schedule_policy_groups p
    where p.tenant_id = :tenant_id and smart_schedule_samples(p.enabled, p.archived_at, p.execution_mode, p.max_benchmarks)
      and not exists (select from smart_schedule_freezes f where f.policy_id = p.id and f.lifted_at is null)
), asked as (
    insert into smart_schedule_benchmark_runs as r
        (id, tenant_id, policy_id, machine_id, project_id, state, not_before, requested_at, asked_at, value_cny_per_day,
         current_net_cny_per_day)
    select gen_random_uuid(), :tenant_id, :policy_id::bigint, a.machine_id, a.project_id, 'pending', now(), now(), now(),
           a.value, a.net
    from unnest(:machine_ids::bigint[], :project_ids::bigint[], :values::double precision[], :nets::double precision[])
         as a (machine_id, project_id, value, net)
    where not exists (
        select from smart_schedule_benchmark_runs f
        where f.machine_id = a.machine_id and f.project_id = a.project_id and f.state = 'failed'
          and f.ended_at > now() - :ask_again_after::interval
          and f.requested_at >= coalesce((select max(s.requested_at) from smart_schedule_benchmark_runs s
                                          where s.machine_id = a.machine_id and s.project_id = a.project_id
                                            and s.state = 'succeeded'), '-infinity')
          and not exists (select from smart_schedule_benchmark_runs o
                          where o.machine_id = a.machine_id and o.project_id = a.project_id and o.ended_at is null))
    on conflict (machine_id, project_id) where ended_at is null do update
    set value_cny_per_day = excluded.value_cny_per_day, current_net_cny_per_day = excluded.current_net_cny_per_day,
        asked_at = excluded.asked_at, policy_id = excluded.policy_id
    where r.state = 'pending'
      and (r.policy_id is not distinct from excluded.policy_id or excluded.policy_id in (select id from able)
           or not exists (select from able where able.id = r.policy_id))
    returning xmax = 0 as is_new
)
select count(*) filter (where is_new) as asked from asked

-- name: finish_tick
-- The tick itself with its log event, the policy's failure count and accepted price levels, and the occurrence's end if
-- nothing is to be sent.
with tick as (
    insert into smart_schedule_ticks
        (id, tenant_id, policy_id, occurrence_id, ticked_at, execution_mode, policy_version, inputs, failure, machines, counts,
         gain_cny_per_day, valid_until, took_ms)
    overriding system value
    values (:tick_id::bigint, :tenant_id, :policy_id::bigint, :occurrence_id::bigint, now(), :execution_mode,
            :policy_version::bigint, :inputs::jsonb, :failure, :machines::integer, :counts::jsonb, :gain::double precision,
            :valid_until::timestamptz, extract(epoch from clock_timestamp() - now())::numeric * 1000)
    returning id
), counted as (
    update smart_schedule_policy_groups
    set consecutive_failures = :failures::integer, tariff_problems = :tariff_problems::text[]
    where id = :policy_id::bigint
      and (consecutive_failures, tariff_problems) is distinct from (:failures::integer, :tariff_problems::text[])
), levelled as (
    update smart_schedule_policy_candidates c
    set price_level = l.level, price_level_at = l.level_at, price_pending_level = l.pending_level,
        price_pending_since = l.pending_since
    from json_to_recordset(:levels::json)
         as l (project_id bigint, level float8, level_at timestamptz, pending_level float8, pending_since timestamptz)
    where c.policy_id = :policy_id::bigint and c.project_id = l.project_id
), ended as (
    update smart_schedule_occurrences
    set state = case when :running::boolean then state else 'succeeded' end,
        ended_at = case when :running::boolean then null else now() end,
        detail = jsonb_build_object('tick_id', :tick_id::bigint)
    where id = :occurrence_id::bigint
), logged as (
    insert into smart_schedule_log_events (at, tenant_id, policy_id, kind, level, code, params, tick_id)
    select now(), :tenant_id, :policy_id::bigint, 'tick', :event_level, :event_code, :event_params::jsonb, :tick_id::bigint
)
select id from tick

-- name: finish_dry_run
-- A dry run stores nothing but that it ran and what it counted.
update smart_schedule_occurrences
set state = 'succeeded', ended_at = now(), detail = :detail::jsonb
where id = :occurrence_id::bigint and state = 'running'

-- name: open_freeze
-- At most one open freeze per policy; whoever is second changes nothing and notifies nobody.
insert into smart_schedule_freezes (policy_id, tenant_id, cause, detail, frozen_at, frozen_by)
values (:policy_id::bigint, :tenant_id, :cause, :detail::jsonb, now(), :frozen_by)
on conflict (policy_id) where lifted_at is null do nothing
returning id
