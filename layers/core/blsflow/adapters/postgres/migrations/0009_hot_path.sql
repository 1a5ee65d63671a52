-- Each machine's benchmarks as a tick reads them: packed once when one of them is measured or shared, a few times a month,
-- instead of at every tick, which is each minute. One row to read per machine instead of one per machine and project.

create table smart_schedule_machine_benchmark_entries (
    machine_id bigint primary key,
    entries    bytea not null              -- in the layout of domain/record.py, in the order of projects
) with (fillfactor = 70);

-- Packs the benchmarks of one machine after the other. The machine's row is locked first, and its benchmarks are read by a
-- later statement: of two transactions that write benchmarks of one machine, the second sees what the first committed.
create function smart_schedule_pack_benchmarks(machine_ids bigint[]) returns void language plpgsql as $$
begin
    insert into smart_schedule_machine_benchmark_entries (machine_id, entries)
    select id, '' from unnest(machine_ids) id order by id
    on conflict (machine_id) do nothing;
    perform from smart_schedule_machine_benchmark_entries where machine_id = any (machine_ids) order by machine_id for update;
    update smart_schedule_machine_benchmark_entries e
    set entries = coalesce(packed.entries, '')
    from unnest(machine_ids) as changed (id)
    left join (
        select b.machine_id,
               string_agg(int8send(b.project_id) || float8send(coalesce(b.hashrate_hs, 'NaN'))
                          || float8send(coalesce(b.power_w, 'NaN')) || float8send(date_part('epoch', b.sampled_at))
                          || charsend((b.power_estimated::int | (b.shared_from is not null)::int * 2
                                       | b.flagged::int * 4)::"char"), ''::bytea order by b.project_id) as entries
        from smart_schedule_machine_project_benchmarks b
        where b.machine_id = any (machine_ids)
        group by b.machine_id
    ) packed on packed.machine_id = changed.id
    where e.machine_id = changed.id;
end $$;

create function smart_schedule_benchmarks_changed() returns trigger language plpgsql as $$
begin
    case tg_op
        when 'TRUNCATE' then
            truncate smart_schedule_machine_benchmark_entries;
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

create trigger smart_schedule_benchmarks_inserted after insert on smart_schedule_machine_project_benchmarks
    referencing new table as changed for each statement execute function smart_schedule_benchmarks_changed();
create trigger smart_schedule_benchmarks_updated after update on smart_schedule_machine_project_benchmarks
    referencing old table as former new table as changed
    for each statement execute function smart_schedule_benchmarks_changed();
create trigger smart_schedule_benchmarks_deleted after delete on smart_schedule_machine_project_benchmarks
    referencing old table as changed for each statement execute function smart_schedule_benchmarks_changed();
create trigger smart_schedule_benchmarks_truncated after truncate on smart_schedule_machine_project_benchmarks
    for each statement execute function smart_schedule_benchmarks_changed();

-- Creating the triggers locked the table against writers until this commits: none is missed.
select smart_schedule_pack_benchmarks(array(select distinct machine_id from smart_schedule_machine_project_benchmarks));

create view smart_schedule_tenant.smart_schedule_machine_benchmark_entries as
    select e.* from smart_schedule_machine_benchmark_entries e
    where exists (select from machines m where m.id = e.machine_id and m.tenant_id = (select smart_schedule_tenant()));
grant select on smart_schedule_tenant.smart_schedule_machine_benchmark_entries to blsflow_tenant;
