-- name: read_machines
-- All machines in scope, in blocks of up to 256 as domain/block.py has them: no row is decoded by the driver, one block is
-- decided on while the next is read, and memory does not grow with the fleet. One plan serves all fleets: to plan it takes as
-- long as to read hundreds of machines.
--
-- Spans first, of machines in the order of their ids. Of a whole tenant they are found one behind the other along an index, so
-- that the first block can be decided on at once; nothing is asked of the tenant there that would make the planner expect fewer
-- machines than there are. A tenant's own transaction does not walk: the view through which it sees its machines would have each
-- span begin at the first of them. Any other scope is read class by class and sorted: no class outside it is looked at. Machines
-- of a scope are looked for among the rows of a query: those are hashed, an array that the plan does not know is gone through
-- for every machine. Machines that another policy has by name are sorted by their ids, and looked for by halves.
--
-- Then each table is read once per span, by the ids of its machines in their order: that walks along an index instead of
-- descending it for every machine. The ids come by their numbers from 1 to 256 and each table stands behind an offset, so that
-- the planner knows how many they are and joins in whole. Every part of a record is coalesced, or never null: a null part would
-- make the record null, and string_agg would lose the machine without a word. Parts that stand side by side are sent as one
-- integer, and date_part counts in float8, since every call here is made once per machine; the status is worked out wherever
-- its name stands.
select block.records, coalesce(block.figures, ''), coalesce(block.entries, ''), coalesce((
    select string_agg(int8send(p.id) || int8send(length(p.projects) / 8) || p.projects, ''::bytea)
    from smart_schedule_measured_projects p where p.id = any (block.measured)), '')
from (
    with recursive classes as (
        select * from unnest(:cluster_ids::bigint[], :models::text[], :covered::boolean[]) with ordinality
            as c (cluster_id, model, covered, place)
    ), walk as (
        select (-9223372036854775808)::bigint as last, null::bigint[] as ids, null::bigint[] as places, null::int[] as helds
        where :everything::boolean and smart_schedule_tenant() is null
        union all
        select ahead.* from walk cross join lateral (
            select max(m.id) filter (where m.tenant_id = :tenant_id),
                   array_agg(m.id order by m.id) filter (where c.place is not null),
                   array_agg(c.place order by m.id) filter (where c.place is not null),
                   array_agg(m.operator_hold::int order by m.id) filter (where c.place is not null)
            from (
                select * from machines where (tenant_id, id) > (:tenant_id, walk.last) order by tenant_id, id limit 256
            ) m
            left join classes c on c.cluster_id = m.cluster_id and c.model = m.model and m.tenant_id = :tenant_id
        ) ahead
        where walk.last is not null
    )
    select ids, places, helds from walk where ids is not null
    union all
    (
        select array_agg(id order by id), array_agg(place order by id), array_agg(held order by id)
        from (
            select m.id, c.place, m.operator_hold::int as held, (row_number() over (order by m.id) - 1) / 256 as number
            from classes c
            cross join lateral (
                select * from machines m
                where m.tenant_id = :tenant_id and m.cluster_id = c.cluster_id and m.model = c.model offset 0
            ) m
            where not (:everything::boolean and smart_schedule_tenant() is null)
              and (c.covered or m.id in (select unnest(:machine_ids::bigint[])))
        ) numbered
        group by number
        order by number
    )
) span
cross join lateral (
    select string_agg(
           int8send(m.id)
           || int8send(((m.place - 1) << 32)
               | (st.code << 24)
               | (coalesce(s.foreign_changes, 0) << 16)
               | ((m.held
                   | case l.owner_kind when 'attempt' then 2 when 'benchmark' then 4 else 0 end
                   | case when s.machine_id is null then 0
                     else coalesce((s.foreign_seen_at = now())::int * 8, 0)
                          | case when s.stopped_by is null or st.code not in (2, 3) then 0
                            else case s.stopped_by when 'scheduler' then 16 when 'human' then 32 else 0 end end
                          | coalesce((s.retry_at > now())::int * 64, 0)
                     end) << 8))
           || int8send(coalesce(r.project_id, 0)) || float8send(coalesce(r.hashrate_hs, 'NaN'))
           || float8send(coalesce(w.power_w, older.power_w, 'NaN'))
           || float8send(coalesce(date_part('epoch', r.project_since), 'NaN'))
           || float8send(coalesce(date_part('epoch', r.reported_at), 'NaN'))
           || case when m.overridden_by = 0 and e.bits is null
              then '\x000000000000000000000000000000000000000000000000'::bytea
              else int8send(m.overridden_by) || coalesce(e.bits, '\x00000000000000000000000000000000') end
           || coalesce(b.said, '\x0000000000000000000000000000000000007ff8000000000000'),
           ''::bytea order by m.id) as records,
           string_agg(b.figures, ''::bytea order by m.id) as figures,
           string_agg(b.entries, ''::bytea order by m.id) as entries,
           array_agg(b.measured order by m.id) filter (where b.measured is not null) as measured
    from (
        select id, place, held,
               case when (:overridden_machines::bigint[])[o] = id
                         and (:overriding_ranks::int[])[o] < (:override_ranks::int[])[place]
                    then (:overriding_policies::bigint[])[o] else (:override_ids::bigint[])[place] end as overridden_by
        from (
            select span.ids[n] as id, span.places[n] as place, span.helds[n] as held,
                   width_bucket(span.ids[n], :overridden_machines::bigint[]) as o
            from generate_series(1, 256) n
        ) numbered
    ) m
    left join (
        select * from machine_mining_runtime where machine_id = any (span.ids) offset 0
    ) r on r.machine_id = m.id
    left join (
        select * from smart_schedule_machine_states where machine_id = any (span.ids) offset 0
    ) s on s.machine_id = m.id
    cross join lateral (
        select case smart_schedule_machine_status(r.status, r.hashrate_hs, r.reported_at,
                                                  s.stopped_by, s.expected, s.changed_at)
            when 'mining' then 1 when 'stopped' then 2 when 'off' then 3 else 0 end as code
    ) st
    -- Which of them are held is looked at afterwards: for that there is an index which would be gone through for every block.
    left join (
        select * from smart_schedule_machine_locks where machine_id = any (span.ids) offset 0
    ) l on l.machine_id = m.id and l.freed_at is null and l.expires_at > now()
    left join (
        select e.resource_id::bigint as machine_id,
               int8send(bit_or(case when e.allowed then 1::bigint << (p.place - 1)::int else 0 end))
               || int8send(bit_or(case when e.allowed then 0 else 1::bigint << (p.place - 1)::int end)) as bits
        from smart_schedule_resource_eligibilities e
        join unnest(:projects::bigint[]) with ordinality as p (id, place) on p.id = e.project_id
        where e.tenant_id = :tenant_id and e.resource_type = 'machine'
        group by 1
    ) e on e.machine_id = m.id
    -- Powers of the last two minutes are read with the block; only a machine without one is looked up by itself, since all
    -- rows of a long time would be too many.
    left join (
        select distinct on (p.machine_id) p.machine_id, p.power_w from metric_powers p
        where p.machine_id = any (span.ids)
          and p.measured_at > now() - make_interval(secs => least(:report_max_age_sec::int, 120))
          and p.measured_at <= now() + interval '30 seconds'
        order by p.machine_id, p.measured_at desc
    ) w on w.machine_id = m.id
    left join lateral (
        select p.power_w from metric_powers p
        where w.machine_id is null and p.machine_id = m.id
          and p.measured_at > now() - make_interval(secs => :report_max_age_sec::int)
          and p.measured_at <= now() + interval '30 seconds'
        order by p.measured_at desc limit 1
    ) older on true
    left join (
        select b.machine_id, case when b.so then b.figures end as figures, case when b.so then null else b.entries end as entries,
               case when b.so then b.measured end as measured,
               case when b.so then b.said else overlay(b.said placing '\x0000000000000000'::bytea from 3) end as said
        from (
            select *, oldest >= :sampled_from::double precision and newest <= :sampled_until::double precision
                      and measured is not null as so
            from smart_schedule_machine_benchmark_entries where machine_id = any (span.ids) offset 0
        ) b
        offset 0
    ) b on b.machine_id = m.id
    where m.id is not null
) block
