-- A tick is sent figures only of benchmarks that may all be decided on: neither flagged, as before, nor with figures that no
-- machine can have. So it need not ask that of each of a million anew.

-- Whoever is writing benchmarks goes on with the functions of before: they are waited for.
lock table smart_schedule_machine_project_benchmarks in share row exclusive mode;

-- As domain/prospects.py has it. What is not known is not plausible, and NaN is greater than infinity here.
create function smart_schedule_plausible(hashrate_hs double precision, power_w double precision) returns boolean
language sql immutable
    return coalesce(hashrate_hs > 0 and hashrate_hs < 'Infinity' and power_w >= 10 and power_w < 'Infinity', false);

create or replace function smart_schedule_packed_benchmarks(machine_ids bigint[])
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
           case when bool_and(not b.flagged and smart_schedule_plausible(b.hashrate_hs, b.power_w))
                then min(date_part('epoch', b.sampled_at)) else 'NaN' end,
           case when bool_and(not b.flagged and smart_schedule_plausible(b.hashrate_hs, b.power_w))
                then max(date_part('epoch', b.sampled_at)) else 'NaN' end
    from unnest(machine_ids) as changed (id)
    left join smart_schedule_machine_project_benchmarks b on b.machine_id = changed.id
    group by changed.id;
end $$;

update smart_schedule_machine_benchmark_entries e set oldest = 'NaN', newest = 'NaN'
where e.oldest <> 'NaN'
  and exists (select from smart_schedule_machine_project_benchmarks b
              where b.machine_id = e.machine_id and not smart_schedule_plausible(b.hashrate_hs, b.power_w));
