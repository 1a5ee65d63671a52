-- What a decision was made on stays with the tenant who had the machine then: the past does not change when a machine is deleted
-- or goes to somebody else. Of machines that have gone before this, nobody knows any more whose they were.

-- Whoever is writing benchmarks goes on with the functions of before: they are waited for. Ticks read no versions.
lock table smart_schedule_machine_project_benchmarks in share row exclusive mode;

alter table smart_schedule_benchmark_versions add column tenant_id text;
update smart_schedule_benchmark_versions v set tenant_id = m.tenant_id from machines m where m.id = v.machine_id;

-- As before, and a version is kept with its tenant.
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
    insert into smart_schedule_benchmark_versions (id, machine_id, entries, tenant_id)
    select e.version, e.machine_id, e.entries, (select m.tenant_id from machines m where m.id = e.machine_id)
    from smart_schedule_machine_benchmark_entries e
    where e.machine_id = any (machine_ids)
      and not exists (select from smart_schedule_benchmark_versions v
                      where v.machine_id = e.machine_id and v.superseded_at is null);
end $$;

create or replace view smart_schedule_tenant.smart_schedule_benchmark_versions as
    select v.* from smart_schedule_benchmark_versions v
    where v.tenant_id = (select smart_schedule_tenant())
       or exists (select from machines m where m.id = v.machine_id and m.tenant_id = (select smart_schedule_tenant()));
