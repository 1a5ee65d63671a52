-- Each machine's benchmarks as a tick reads them: packed once when one of them is measured or shared, a few times a month,
-- instead of at every tick, which is each minute. One row to read per machine instead of one per machine and project.

create table smart_schedule_machine_benchmark_entries (
    machine_id bigint primary key,
    entries    bytea not null              -- in the layout of domain/record.py, in the order of projects
) with (fillfactor = 70);

create function smart_schedule_packed_benchmarks(machine_ids bigint[])
returns table (machine_id bigint, entries bytea) language plpgsql stable as $$
begin
    return query
    select changed.id,
           coalesce(string_agg(int8send(b.project_id) || float8send(coalesce(b.hashrate_hs, 'NaN'))
                               || float8send(coalesce(b.power_w, 'NaN')) || float8send(date_part('epoch', b.sampled_at))
                               || charsend((b.power_estimated::int | (b.shared_from is not null)::int * 2
                                            | b.flagged::int * 4)::"char"), ''::bytea order by b.project_id), '')
    from unnest(machine_ids) as changed (id)
    left join smart_schedule_machine_project_benchmarks b on b.machine_id = changed.id
    group by changed.id;
end $$;

-- Packs the benchmarks of one machine after the other. The machine's row is locked before its benchmarks are read for good,
-- by a later statement: of two transactions that write benchmarks of one machine, the second sees what the first committed.
-- New machines get their rows in their order, and rows that stay as they are are not written anew: a tick reads them in
-- that order, at half the cost of rows that lie anywhere.
create function smart_schedule_pack_benchmarks(machine_ids bigint[]) returns void language plpgsql as $$
begin
    insert into smart_schedule_machine_benchmark_entries (machine_id, entries)
    select p.machine_id, p.entries from smart_schedule_packed_benchmarks(machine_ids) p order by p.machine_id
    on conflict (machine_id) do nothing;
    perform from smart_schedule_machine_benchmark_entries e where e.machine_id = any (machine_ids)
    order by e.machine_id for update;
    update smart_schedule_machine_benchmark_entries e
    set entries = p.entries
    from smart_schedule_packed_benchmarks(machine_ids) p
    where e.machine_id = p.machine_id and e.entries <> p.entries;
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
