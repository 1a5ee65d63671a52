-- name: unknown_references
-- What a document names and the tenant does not have: somebody else's is as unknown as none.
select
    array(select c from unnest(:clusters::text[]) c
          where c::bigint not in (select id from clusters where tenant_id = :tenant_id)) as clusters,
    array(select m from unnest(:models::text[]) m
          where m not in (select model from machine_models)
            and m not in (select model from machines where tenant_id = :tenant_id)) as models,
    array(select m from unnest(:machines::text[]) m
          where not exists (select from machines x where x.id = m::bigint and x.tenant_id = :tenant_id)) as machines,
    array(select p from unnest(:projects::bigint[]) p
          where not exists (select from projects x where x.id = p and x.tenant_id = :tenant_id)) as projects

-- name: insert_policy
-- A new policy: disabled, whatever its document says.
with policy as (
    insert into smart_schedule_policy_groups
        (tenant_id, execution_mode, created_by, created_at, updated_at, name, mode, time_zone, priority, profit_max_age_sec,
         report_max_age_sec, benchmark_ttl_sec, price_jump_factor, price_hold_sec, min_gain_cny_per_day, min_gain_ratio,
         min_dwell_sec, switch_cost_sec, holding_time_sec, negative_profit_action, restart_threshold_cny_per_day,
         decision_validity_sec, freeze_after_failures, max_move_share, freeze_jump_factor, max_failed_share,
         failed_share_window_sec, max_foreign_changes, max_benchmarks, max_benchmark_share, benchmark_share_after)
    select :tenant_id::text, :execution_mode::text, :by::text, now(), now(), d.name, d.mode, d.time_zone, d.priority,
           d.profit_max_age_sec, d.report_max_age_sec, d.benchmark_ttl_sec, d.price_jump_factor, d.price_hold_sec,
           d.min_gain_cny_per_day, d.min_gain_ratio, d.min_dwell_sec, d.switch_cost_sec, d.holding_time_sec,
           d.negative_profit_action, d.restart_threshold_cny_per_day, d.decision_validity_sec, d.freeze_after_failures,
           d.max_move_share, d.freeze_jump_factor, d.max_failed_share, d.failed_share_window_sec, d.max_foreign_changes,
           d.max_benchmarks, d.max_benchmark_share, d.benchmark_share_after
    from jsonb_populate_record(null::smart_schedule_policy_groups, :settings::jsonb) d
    returning id, tenant_id, name, version
), logged as (
    insert into smart_schedule_log_events (at, tenant_id, policy_id, code, params)
    select now(), tenant_id, id, 'policy_created',
           jsonb_build_object('by', :by::text, 'name', name, 'execution_mode', :execution_mode::text)
    from policy
)
select id, version from policy

-- name: update_policy
-- A locked policy written anew: a new version, so that nothing decided under the old one is sent any more.
with policy as (
    update smart_schedule_policy_groups p
    set name = d.name, mode = d.mode, time_zone = d.time_zone, priority = d.priority,
        profit_max_age_sec = d.profit_max_age_sec, report_max_age_sec = d.report_max_age_sec,
        benchmark_ttl_sec = d.benchmark_ttl_sec, price_jump_factor = d.price_jump_factor, price_hold_sec = d.price_hold_sec,
        min_gain_cny_per_day = d.min_gain_cny_per_day, min_gain_ratio = d.min_gain_ratio, min_dwell_sec = d.min_dwell_sec,
        switch_cost_sec = d.switch_cost_sec, holding_time_sec = d.holding_time_sec,
        negative_profit_action = d.negative_profit_action, restart_threshold_cny_per_day = d.restart_threshold_cny_per_day,
        decision_validity_sec = d.decision_validity_sec, freeze_after_failures = d.freeze_after_failures,
        max_move_share = d.max_move_share, freeze_jump_factor = d.freeze_jump_factor, max_failed_share = d.max_failed_share,
        failed_share_window_sec = d.failed_share_window_sec, max_foreign_changes = d.max_foreign_changes,
        max_benchmarks = d.max_benchmarks, max_benchmark_share = d.max_benchmark_share,
        benchmark_share_after = d.benchmark_share_after, version = p.version + 1, updated_at = now()
    from jsonb_populate_record(null::smart_schedule_policy_groups, :settings::jsonb) d
    where p.id = :policy_id::bigint
    returning p.id, p.tenant_id, p.version
), logged as (
    insert into smart_schedule_log_events (at, tenant_id, policy_id, code, params)
    select now(), tenant_id, id, 'policy_changed',
           jsonb_build_object('by', :by::text, 'version', version, 'changed', to_jsonb(:changed::text[]))
    from policy
)
select id, version from policy

-- name: clear_scopes
-- A policy's scope is written anew as a whole.
delete from smart_schedule_policy_scopes where policy_id = :policy_id::bigint

-- name: write_scopes
-- What a policy covers.
insert into smart_schedule_policy_scopes (policy_id, resource_type, resource_id)
select :policy_id::bigint, t, i from unnest(:kinds::text[], :ids::text[]) s (t, i)

-- name: take_candidates
-- A policy's candidates with their accepted price levels, taken out to be written anew.
delete from smart_schedule_policy_candidates c where policy_id = :policy_id::bigint
returning c.project_id, to_jsonb(c) as candidate

-- name: write_candidates
-- Candidates in order, each with the price level that it had, if it had one.
insert into smart_schedule_policy_candidates
    (policy_id, project_id, position, price_level, price_level_at, price_pending_level, price_pending_since)
select :policy_id::bigint, c.project_id, c.position, c.price_level, c.price_level_at, c.price_pending_level,
       c.price_pending_since
from jsonb_populate_recordset(null::smart_schedule_policy_candidates, :candidates::jsonb) c

-- name: clear_windows
-- A policy's windows are written anew as a whole.
delete from smart_schedule_policy_windows where policy_id = :policy_id::bigint

-- name: write_windows
-- Windows in the document's order: of two of equal priority the earlier one counts (R3.6).
insert into smart_schedule_policy_windows (policy_id, priority, starts, ends, weekdays, action, project_id)
select :policy_id::bigint, w.priority, w.starts, w.ends,
       (select array_agg(day::integer order by day::integer) from jsonb_array_elements_text(nullif(w.weekdays, 'null')) day),
       w.action, w.project_id
from jsonb_to_recordset(:windows::jsonb)
     as w (place integer, priority integer, starts text, ends text, weekdays jsonb, action text, project_id bigint)
order by w.place

-- name: insert_policy_schedule
-- A policy's schedule rests until the policy is enabled.
insert into smart_schedule_schedules
    (tenant_id, created_by, kind, policy_id, rule, time_zone, paused, next_run_at, created_at, updated_at)
select p.tenant_id, :by, 'policy_tick', p.id, :rule::jsonb, :time_zone, not p.enabled, :next_run_at::timestamptz, now(), now()
from smart_schedule_policy_groups p where p.id = :policy_id::bigint

-- name: change_policy_schedule
-- Another rule for a policy's ticks: its cursor continues from now, and one that could not be read is tried again.
update smart_schedule_schedules
set rule = :rule::jsonb, time_zone = :time_zone, next_run_at = :next_run_at::timestamptz, broken = null,
    version = version + 1, updated_at = now()
where policy_id = :policy_id::bigint and archived_at is null
returning id

-- name: archive_policy
-- Out of use, on the record: it ticks no more, and the new version keeps what it prepared from being sent.
with policy as (
    update smart_schedule_policy_groups
    set archived_at = now(), enabled = false, version = version + 1, updated_at = now()
    where id = :policy_id::bigint
    returning id, tenant_id, name, version
), scheduled as (
    update smart_schedule_schedules s set archived_at = now(), paused = true, updated_at = now()
    from policy p where s.policy_id = p.id and s.archived_at is null
), logged as (
    insert into smart_schedule_log_events (at, tenant_id, policy_id, code, params)
    select now(), tenant_id, id, 'policy_archived',
           jsonb_build_object('by', :by::text, 'why', :why::text, 'name', name, 'version', version)
    from policy
)
select id from policy

-- name: unsent_attempts_of_policy
-- What a policy's ticks prepared and nobody began to send, under its row lock. A benchmark run's commands are its own.
select id, occurrence_id from smart_schedule_attempts
where policy_id = :policy_id::bigint and coalesce(ended_at, 'infinity') = 'infinity' and state = 'prepared'
  and benchmark_run_id is null
order by id for update

-- name: lock_policy
-- The policy under its row lock: changes take turns with each other and with its ticks.
select id from smart_schedule_policy_groups
where id = :policy_id::bigint and archived_at is null and (:tenant_id::text is null or tenant_id = :tenant_id)
for no key update

-- name: policy_view
-- A policy with all that its document says, and what verbs made of it.
select to_jsonb(p) as policy, p.created_at, p.updated_at, p.archived_at,
       (select coalesce(jsonb_agg(to_jsonb(s)), '[]')
        from smart_schedule_policy_scopes s where s.policy_id = p.id) as scopes,
       (select coalesce(jsonb_agg(to_jsonb(c) order by c.position), '[]')
        from smart_schedule_policy_candidates c where c.policy_id = p.id) as candidates,
       (select coalesce(jsonb_agg(to_jsonb(w) order by w.id), '[]')
        from smart_schedule_policy_windows w where w.policy_id = p.id) as windows,
       (select f.cause from smart_schedule_freezes f where f.policy_id = p.id and f.lifted_at is null) as frozen_for,
       s.rule, s.time_zone, s.next_run_at, s.broken,
       exists (select from smart_schedule_executor_leases e
               where e.tenant_id = p.tenant_id and e.holder = 'blsflow' and e.expires_at > now()) as lease_held
from smart_schedule_policy_groups p
left join lateral (select rule, time_zone, next_run_at, broken from smart_schedule_schedules s
                   where s.policy_id = p.id and (s.archived_at is null or p.archived_at is not null)
                   order by s.id desc limit 1) s on true
where p.id = :policy_id::bigint and (:tenant_id::text is null or p.tenant_id = :tenant_id)

-- name: list_policies
-- A page of a tenant's policies, in order of their ids; of their scopes, which may be long, only how many entries they have.
select to_jsonb(p) as policy, p.created_at, p.updated_at, p.archived_at,
       (select count(*) from smart_schedule_policy_scopes s where s.policy_id = p.id) as scope_count,
       (select coalesce(jsonb_agg(to_jsonb(c) order by c.position), '[]')
        from smart_schedule_policy_candidates c where c.policy_id = p.id) as candidates,
       (select coalesce(jsonb_agg(to_jsonb(w) order by w.id), '[]')
        from smart_schedule_policy_windows w where w.policy_id = p.id) as windows,
       (select f.cause from smart_schedule_freezes f where f.policy_id = p.id and f.lifted_at is null) as frozen_for,
       s.rule, s.time_zone, s.next_run_at, s.broken
from smart_schedule_policy_groups p
left join lateral (select rule, time_zone, next_run_at, broken from smart_schedule_schedules s
                   where s.policy_id = p.id and (s.archived_at is null or p.archived_at is not null)
                   order by s.id desc limit 1) s on true
where p.tenant_id = :tenant_id and p.id > :after::bigint and (:include_archived::boolean or p.archived_at is null)
order by p.id limit :page_size::integer

-- name: freezes_of_policy
-- A page of a policy's freezes, newest first.
select f.id, f.cause, f.detail, f.frozen_at, f.frozen_by, f.lifted_at, f.lifted_by, f.lift_reason
from smart_schedule_freezes f
where f.policy_id = :policy_id::bigint and (:tenant_id::text is null or f.tenant_id = :tenant_id)
  and (f.frozen_at, f.id) < (:before_at::timestamptz, :before_id::bigint)
order by f.frozen_at desc, f.id desc limit :page_size::integer
