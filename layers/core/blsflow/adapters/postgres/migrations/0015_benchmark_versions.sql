-- What a decision was made on, without writing a machine's benchmarks anew at every tick: they are four fifths of its record
-- and change a few times a month. Each version of them is kept here, and a decision names the one that it was made on.
-- Decisions from before name none and have the whole record in their figures.

-- Waits for those who are writing benchmarks, and lets no other begin: a trigger that has begun would go on with the functions
-- of before. Ticks only wait while columns without values are added.
lock table smart_schedule_machine_project_benchmarks in share row exclusive mode;

create table smart_schedule_benchmark_versions (
    id            bigint primary key,
    machine_id    bigint not null,
    entries       bytea not null,          -- in the layout of domain/record.py, in the order of projects
    superseded_at timestamptz              -- when the next version took its place; dropped once no decision can name it
);
create unique index smart_schedule_benchmark_versions_current
    on smart_schedule_benchmark_versions (machine_id) where superseded_at is null;
create index smart_schedule_benchmark_versions_superseded
    on smart_schedule_benchmark_versions (superseded_at) where superseded_at is not null;
create sequence smart_schedule_benchmark_version_ids owned by smart_schedule_benchmark_versions.id;

-- The lists of projects that are measured on machines, so that a tick is told of a machine by one number which they are.
create table smart_schedule_measured_projects (
    id       bigint generated always as identity primary key,
    projects bytea not null unique         -- int8 each, in their order
);

drop function smart_schedule_packed_benchmarks(bigint[]);
create function smart_schedule_packed_benchmarks(machine_ids bigint[])
returns table (machine_id bigint, entries bytea, figures bytea, projects bytea, oldest double precision, newest double precision)
language plpgsql stable as $$
begin
    return query
    select changed.id,
           coalesce(string_agg(int8send(b.project_id) || float8send(coalesce(b.hashrate_hs, 'NaN'))
                               || float8send(coalesce(b.power_w, 'NaN')) || float8send(date_part('epoch', b.sampled_at))
                               || charsend((b.power_estimated::int | (b.shared_from is not null)::int * 2
                                            | b.flagged::int * 4)::"char"), ''::bytea order by b.project_id), ''),
           coalesce(string_agg(float8send(coalesce(b.hashrate_hs, 'NaN')) || float8send(coalesce(b.power_w, 'NaN')),
                               ''::bytea order by b.project_id) filter (where b.project_id is not null), ''),
           coalesce(string_agg(int8send(b.project_id), ''::bytea order by b.project_id), ''),
           case when not bool_or(b.flagged) then min(date_part('epoch', b.sampled_at)) else 'NaN' end,
           case when not bool_or(b.flagged) then max(date_part('epoch', b.sampled_at)) else 'NaN' end
    from unnest(machine_ids) as changed (id)
    left join smart_schedule_machine_project_benchmarks b on b.machine_id = changed.id
    group by changed.id;
end $$;

alter table smart_schedule_machine_benchmark_entries
    add column version  bigint,
    add column measured bigint,            -- of smart_schedule_measured_projects; null: there is none
    add column figures  bytea not null default '',              -- hashrate_hs and power_w of each project, float8 each
    add column oldest   double precision not null default 'NaN',  -- sampled_at of all; NaN: one is flagged, or there is none
    add column newest   double precision not null default 'NaN',
    add column said     bytea;             -- what a tick is told of them, in the layout of domain/block.py
alter table smart_schedule_machine_benchmark_entries
    alter column version set default nextval('smart_schedule_benchmark_version_ids');
create index smart_schedule_machine_benchmark_entries_of_projects on smart_schedule_machine_benchmark_entries (measured);

create function smart_schedule_say_benchmarks() returns trigger language plpgsql as $$
begin
    new.said := int2send((length(new.entries) / 33)::int2) || int8send(coalesce(new.measured, 0)) || int8send(new.version)
                || float8send(new.oldest);
    return new;
end $$;
create trigger smart_schedule_benchmarks_said before insert or update on smart_schedule_machine_benchmark_entries
    for each row execute function smart_schedule_say_benchmarks();

-- Whoever adds a list does so alone until they have committed: two that add the same lists in other orders would wait for each
-- other. It is seldom that there is a new one.
create function smart_schedule_number_projects(machine_ids bigint[]) returns void language plpgsql as $$
declare
    missing bytea[] := array(
        select distinct p.projects from smart_schedule_packed_benchmarks(machine_ids) p
        where p.projects <> '' and not exists (select from smart_schedule_measured_projects m where m.projects = p.projects));
begin
    if cardinality(missing) > 0 then
        perform pg_advisory_xact_lock(hashtextextended('smart_schedule_measured_projects', 0));
        insert into smart_schedule_measured_projects (projects) select unnest(missing) on conflict do nothing;
    end if;
end $$;

-- As before, and every version that a machine's entries take is kept.
create or replace function smart_schedule_pack_benchmarks(machine_ids bigint[]) returns void language plpgsql as $$
begin
    perform smart_schedule_number_projects(machine_ids);
    insert into smart_schedule_machine_benchmark_entries (machine_id, entries, figures, measured, oldest, newest)
    select p.machine_id, p.entries, p.figures, m.id, p.oldest, p.newest
    from smart_schedule_packed_benchmarks(machine_ids) p
    left join smart_schedule_measured_projects m on m.projects = p.projects
    order by p.machine_id
    on conflict (machine_id) do nothing;
    perform from smart_schedule_machine_benchmark_entries e where e.machine_id = any (machine_ids)
    order by e.machine_id for update;
    perform smart_schedule_number_projects(machine_ids);
    update smart_schedule_machine_benchmark_entries e
    set entries = p.entries, figures = p.figures, measured = m.id, oldest = p.oldest, newest = p.newest,
        version = nextval('smart_schedule_benchmark_version_ids')
    from smart_schedule_packed_benchmarks(machine_ids) p
    left join smart_schedule_measured_projects m on m.projects = p.projects
    where e.machine_id = p.machine_id
      and (e.entries <> p.entries or e.version is null or e.measured is distinct from m.id);
    update smart_schedule_benchmark_versions v
    set superseded_at = now()
    from smart_schedule_machine_benchmark_entries e
    where e.machine_id = any (machine_ids) and v.machine_id = e.machine_id and v.superseded_at is null and v.id <> e.version;
    insert into smart_schedule_benchmark_versions (id, machine_id, entries)
    select e.version, e.machine_id, e.entries
    from smart_schedule_machine_benchmark_entries e
    where e.machine_id = any (machine_ids)
      and not exists (select from smart_schedule_benchmark_versions v
                      where v.machine_id = e.machine_id and v.superseded_at is null);
end $$;

create or replace function smart_schedule_benchmarks_changed() returns trigger language plpgsql as $$
begin
    case tg_op
        when 'TRUNCATE' then
            truncate smart_schedule_machine_benchmark_entries;
            update smart_schedule_benchmark_versions set superseded_at = now() where superseded_at is null;
        when 'UPDATE' then  -- of what is packed, that is: drifted readings, which are noted beside a benchmark, are not
            perform smart_schedule_pack_benchmarks(array(
                select distinct machine_id from changed c full join former f using (machine_id, project_id)
                where (c.hashrate_hs, c.power_w, c.power_estimated, c.sampled_at, c.flagged, c.shared_from is null)
                      is distinct from
                      (f.hashrate_hs, f.power_w, f.power_estimated, f.sampled_at, f.flagged, f.shared_from is null)));
        else
            perform smart_schedule_pack_benchmarks(array(select distinct machine_id from changed));
    end case;
    return null;
end $$;

-- The view's columns were named when it was made.
create or replace view smart_schedule_tenant.smart_schedule_machine_benchmark_entries as
    select e.* from smart_schedule_machine_benchmark_entries e
    where exists (select from machines m where m.id = e.machine_id and m.tenant_id = (select smart_schedule_tenant()));
create view smart_schedule_tenant.smart_schedule_benchmark_versions as
    select v.* from smart_schedule_benchmark_versions v
    where exists (select from machines m where m.id = v.machine_id and m.tenant_id = (select smart_schedule_tenant()));
grant select on smart_schedule_tenant.smart_schedule_benchmark_versions to blsflow_tenant;
-- As a value: an exists would be looked up for all lists at once, in all of the tenant's machines.
create view smart_schedule_tenant.smart_schedule_measured_projects as
    select p.* from smart_schedule_measured_projects p
    where (select true from smart_schedule_machine_benchmark_entries e join machines m on m.id = e.machine_id
           where e.measured = p.id and m.tenant_id = (select smart_schedule_tenant()) limit 1);
grant select on smart_schedule_tenant.smart_schedule_measured_projects to blsflow_tenant;
