-- name: read_machines
-- The records of all machines in scope, built by the server in the layout of domain/record.py and sent in blocks of up to
-- 1,024 machines: no row is decoded by the driver, each block is sent before the next is read, and memory does not grow with
-- the fleet. Every part of a record is coalesced: a null part would make the record null, and string_agg would lose the
-- machine without a word. Parts that stand side by side are sent as one integer, and date_part counts in float8, since every
-- call here is made once per machine.
copy (
    select block.records
    from (
        select min(id) as first_id, max(id) as last_id
        from (
            select m.id, (row_number() over (order by m.id) - 1) / 1024 as number
            from machines m
            join unnest(:cluster_ids::bigint[], :models::text[], :covered::boolean[]) as kk (cluster_id, model, covered)
                 on kk.cluster_id = m.cluster_id and kk.model = m.model
            where m.tenant_id = :tenant_id and (kk.covered or m.id = any (:machine_ids::bigint[]))
        ) numbered
        group by number
        order by 1
    ) span
    cross join lateral (
        select string_agg(
               int8send(m.id)
               || int8send(((kk.place - 1) << 32)
                   | (st.code << 24)
                   | (coalesce(s.foreign_changes, 0) << 16)
                   | ((m.operator_hold::int
                       | coalesce((l.owner_kind = 'attempt')::int * 2, 0)
                       | coalesce((l.owner_kind = 'benchmark')::int * 4, 0)
                       | coalesce((s.foreign_seen_at = now())::int * 8, 0)
                       | coalesce((st.code in (2, 3) and s.stopped_by = 'scheduler')::int * 16, 0)
                       | coalesce((st.code in (2, 3) and s.stopped_by = 'human')::int * 32, 0)
                       | coalesce((s.retry_at > now())::int * 64, 0)) << 8))
               || int8send(coalesce(r.project_id, 0)) || float8send(coalesce(r.hashrate_hs, 'NaN'))
               || float8send(coalesce(w.power_w, 'NaN'))
               || float8send(coalesce(date_part('epoch', r.project_since), 'NaN'))
               || float8send(coalesce(date_part('epoch', r.reported_at), 'NaN'))
               || int8send(case when coalesce(o.rank, 2147483647) < kk.override_rank then o.policy_id else kk.override_id end)
               || coalesce(e.bits, '\x00000000000000000000000000000000')
               || coalesce(int2send((length(b.entries) / 33)::int2) || b.entries, '\x0000'), ''::bytea order by m.id) as records
        from machines m
        join unnest(:cluster_ids::bigint[], :models::text[], :covered::boolean[], :override_ids::bigint[],
                    :override_ranks::int[]) with ordinality
             as kk (cluster_id, model, covered, override_id, override_rank, place)
             on kk.cluster_id = m.cluster_id and kk.model = m.model
        left join machine_mining_runtime r on r.machine_id = m.id
        left join smart_schedule_machine_states s on s.machine_id = m.id
        -- What was stopped through this scheduler (by itself or by an operator), and the meter or the hashrate confirmed, is
        -- stopped whatever word the firmware has for it; what was powered off reports nothing at all.
        cross join lateral (
            select case
                when s.stopped_by is not null and s.expected = 'off' and coalesce(r.reported_at <= s.changed_at, true) then 3
                when s.stopped_by is not null and r.hashrate_hs = 0 then case s.expected when 'off' then 3 else 2 end
                when r.status = 'mining' then 1 when r.status = 'stopped' then 2 when r.status = 'off' then 3
                else 0 end as code
        ) st
        left join smart_schedule_machine_locks l on l.machine_id = m.id and l.freed_at is null and l.expires_at > now()
        left join unnest(:overridden_machines::bigint[], :overriding_policies::bigint[], :overriding_ranks::int[])
             as o (machine_id, policy_id, rank) on o.machine_id = m.id
        left join (
            select e.resource_id::bigint as machine_id,
                   int8send(bit_or(case when e.allowed then 1::bigint << (p.place - 1)::int else 0 end))
                   || int8send(bit_or(case when e.allowed then 0 else 1::bigint << (p.place - 1)::int end)) as bits
            from smart_schedule_resource_eligibilities e
            join unnest(:projects::bigint[]) with ordinality as p (id, place) on p.id = e.project_id
            where e.tenant_id = :tenant_id and e.resource_type = 'machine'
            group by 1
        ) e on e.machine_id = m.id
        left join lateral (
            select p.power_w from metric_powers p
            where p.machine_id = m.id and p.measured_at > now() - make_interval(secs => :report_max_age_sec::int)
              and p.measured_at <= now() + interval '30 seconds'
            order by p.measured_at desc limit 1
        ) w on true
        left join smart_schedule_machine_benchmark_entries b on b.machine_id = m.id
        where m.tenant_id = :tenant_id and m.id between span.first_id and span.last_id
          and (kk.covered or m.id = any (:machine_ids::bigint[]))
    ) block
) to stdout (format binary)
