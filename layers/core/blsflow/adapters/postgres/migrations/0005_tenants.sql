-- What one tenant may see and change: the second wall behind the conditions that every statement of the API carries.
--
-- The API's transactions take the role `blsflow_tenant` and name their tenant in the setting `blsflow.tenant`. Workers and
-- operators of the whole deployment own the tables and pass by these policies.

-- Roles are shared by all databases of a server: one that another deployment or an administrator made is used as it is.
do $$
begin
    if to_regrole('blsflow_tenant') is null then
        create role blsflow_tenant nologin;
    end if;
exception
    when duplicate_object or unique_violation then
        null;
    when insufficient_privilege then
        raise insufficient_privilege using message = format(
            'the database user %1$I may not create the role blsflow_tenant; have an administrator of the server run: '
            'create role blsflow_tenant nologin; grant blsflow_tenant to %1$I;', current_user);
end $$;

-- One who creates a role may administer it, which is not yet to take it; what another one created is another one's to grant.
do $$
begin
    if not pg_has_role(current_user, 'blsflow_tenant',
                       case when current_setting('server_version_num')::integer >= 160000 then 'set' else 'member' end) then
        execute format('grant blsflow_tenant to %I', current_user);
    end if;
exception when insufficient_privilege then
    raise insufficient_privilege using message = format(
        'there is a role blsflow_tenant that the database user %1$I may neither take nor grant itself; have an administrator '
        'of the server run: grant blsflow_tenant to %1$I;', current_user);
end $$;

-- The tenant of this transaction; without one nothing is anybody's.
create function smart_schedule_tenant() returns text language sql stable
    return nullif(current_setting('blsflow.tenant', true), '');

-- ------------------------------------------------------------------ our own tables: row-level security

do $$
declare
    name text;
begin
    foreach name in array array[
        'policy_groups', 'resource_eligibilities', 'executor_leases', 'freezes', 'schedules', 'occurrences', 'ticks',
        'attempts', 'machine_locks', 'machine_states', 'benchmark_runs', 'log_events', 'outbox'] loop
        execute format('alter table smart_schedule_%s enable row level security', name);
        execute format('create policy of_tenant on smart_schedule_%s to blsflow_tenant using (tenant_id = smart_schedule_tenant())',
                       name);
    end loop;
    -- rows of these are their policy's
    foreach name in array array['policy_scopes', 'policy_candidates', 'policy_windows'] loop
        execute format('alter table smart_schedule_%s enable row level security', name);
        execute format('create policy of_tenant on smart_schedule_%s to blsflow_tenant using '
                       '(policy_id in (select p.id from smart_schedule_policy_groups p))', name);
    end loop;
end $$;

alter table smart_schedule_attempt_machines enable row level security;
create policy of_tenant on smart_schedule_attempt_machines to blsflow_tenant
    using (exists (select from smart_schedule_attempts a where a.id = attempt_id));

alter table smart_schedule_machine_decisions enable row level security;
create policy of_tenant on smart_schedule_machine_decisions to blsflow_tenant
    using (exists (select from smart_schedule_ticks t where t.id = tick_id));

grant select, insert, update, delete on
    smart_schedule_policy_groups, smart_schedule_policy_scopes, smart_schedule_policy_candidates,
    smart_schedule_policy_windows, smart_schedule_executor_leases, smart_schedule_freezes, smart_schedule_schedules,
    smart_schedule_occurrences, smart_schedule_attempts, smart_schedule_attempt_machines, smart_schedule_machine_locks,
    smart_schedule_machine_states, smart_schedule_benchmark_runs, smart_schedule_log_events, smart_schedule_outbox
    to blsflow_tenant;
grant select on smart_schedule_resource_eligibilities, smart_schedule_ticks, smart_schedule_machine_decisions,
    smart_schedule_price_aliases, smart_schedule_profit_readings, smart_schedule_profit_fetches
    to blsflow_tenant;
grant usage on sequence smart_schedule_fencing_tokens to blsflow_tenant;

-- ------------------------------------------------------------------ tables of other services: views
-- Their owners' own users would no longer see their rows under row-level security, so it is not for us to turn it on.
-- A tenant finds these views before the tables, which the role may not read. They name the columns that are read here: an
-- owner may drop or alter any other.
--
-- They are no security barriers: a barrier is read in whole before it is joined, which for a fleet is minutes. What a barrier
-- keeps out, functions that look at rows before the condition does, only statements of somebody else could bring.

create schema smart_schedule_tenant;
grant usage on schema smart_schedule_tenant to blsflow_tenant;

create view smart_schedule_tenant.clusters as
    select id, tenant_id, time_zone from clusters where tenant_id = (select smart_schedule_tenant());
create view smart_schedule_tenant.machines as
    select id, tenant_id, cluster_id, model, operator_hold from machines where tenant_id = (select smart_schedule_tenant());
create view smart_schedule_tenant.projects as
    select id, tenant_id, name, price_key, algorithm from projects where tenant_id = (select smart_schedule_tenant());
create view smart_schedule_tenant.project_run_configurations as
    select c.id, c.project_id, c.model, c.runnable from project_run_configurations c
    where c.project_id in (select p.id from projects p where p.tenant_id = (select smart_schedule_tenant()));
create view smart_schedule_tenant.cluster_tariffs as
    select t.id, t.cluster_id, t.name, t.currency, t.valid_from, t.valid_to, t.holidays, t.make_up_workdays
    from cluster_tariffs t
    where t.cluster_id in (select c.id from clusters c where c.tenant_id = (select smart_schedule_tenant()));
create view smart_schedule_tenant.cluster_tariff_periods as
    select p.id, p.tariff_id, p.name, p.priority, p.starts, p.ends, p.weekdays, p.day_types, p.months, p.season_start,
           p.season_end, p.price_per_kwh
    from cluster_tariff_periods p
    where p.tariff_id in (select t.id from cluster_tariffs t join clusters c on c.id = t.cluster_id
                          where c.tenant_id = (select smart_schedule_tenant()));
create view smart_schedule_tenant.machine_mining_runtime as
    select r.machine_id, r.status, r.project_id, r.hashrate_hs, r.project_since, r.reported_at from machine_mining_runtime r
    where exists (select from machines m where m.id = r.machine_id and m.tenant_id = (select smart_schedule_tenant()));
create view smart_schedule_tenant.metric_powers as
    select p.machine_id, p.measured_at, p.power_w from metric_powers p
    where exists (select from machines m where m.id = p.machine_id and m.tenant_id = (select smart_schedule_tenant()));
create view smart_schedule_tenant.smart_schedule_machine_project_benchmarks as
    select b.* from smart_schedule_machine_project_benchmarks b
    where exists (select from machines m where m.id = b.machine_id and m.tenant_id = (select smart_schedule_tenant()));
create view smart_schedule_tenant.machine_models as
    select model, algorithm, nameplate_hashrate_hs, nameplate_power_w from machine_models;
grant select on all tables in schema smart_schedule_tenant to blsflow_tenant;

-- ------------------------------------------------------------------ requests that create

-- What a request that creates came to, under the key that its caller gave it: asked again, it gets the same answer.
create table smart_schedule_requests (
    tenant_id   text not null,
    key         text not null,
    fingerprint text not null,           -- of its route and body
    answer      jsonb,                   -- set in the transaction that inserts the row
    made_by     text not null,
    made_at     timestamptz not null,
    primary key (tenant_id, key)
);
create index smart_schedule_requests_oldest on smart_schedule_requests (made_at);
alter table smart_schedule_requests enable row level security;
create policy of_tenant on smart_schedule_requests to blsflow_tenant using (tenant_id = smart_schedule_tenant());
grant select, insert, update on smart_schedule_requests to blsflow_tenant;
