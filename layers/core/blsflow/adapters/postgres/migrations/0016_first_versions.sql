-- The benchmarks that are in force get their first versions, and with them what a tick of the new code is told of them.
-- Ticks go on reading until the last statement, which only looks.

lock table smart_schedule_machine_project_benchmarks in share row exclusive mode;
select smart_schedule_number_projects(array(select machine_id from smart_schedule_machine_benchmark_entries));
update smart_schedule_machine_benchmark_entries e
set version = coalesce(e.version, nextval('smart_schedule_benchmark_version_ids')), figures = p.figures, measured = m.id,
    oldest = p.oldest, newest = p.newest
from smart_schedule_packed_benchmarks(array(select machine_id from smart_schedule_machine_benchmark_entries)) p
left join smart_schedule_measured_projects m on m.projects = p.projects
where p.machine_id = e.machine_id;
insert into smart_schedule_benchmark_versions (id, machine_id, entries)
    select e.version, e.machine_id, e.entries from smart_schedule_machine_benchmark_entries e
    where not exists (select from smart_schedule_benchmark_versions v where v.id = e.version);
alter table smart_schedule_machine_benchmark_entries alter column version set not null, alter column said set not null;
