-- name: read_machines
-- The records of all machines in scope, built by the server in the layout of domain/record.py and sent in blocks of up to
-- 1,024 machine ids: no row is decoded by the driver, and memory does not grow with the fleet. Every part of a record is
-- coalesced: a null part would make the record null, and string_agg would lose the machine without a word.
copy (
    select string_agg(record, ''::bytea order by machine_id)
    from (
        select m.id as machine_id,
               int8send(m.id) || int4send(k.class_index)
               || int4send(
                   (st.code << 24)
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
               || float8send(coalesce(extract(epoch from r.project_since)::float8, 'NaN'))
               || float8send(coalesce(extract(epoch from r.reported_at)::float8, 'NaN'))
               || int8send(case when coalesce(o.rank, 2147483647) < kk.override_rank then o.policy_id else kk.override_id end)
               || int8send(coalesce(e.allow_bits, 0)) || int8send(coalesce(e.deny_bits, 0))
               || int2send(b.n::int2) || coalesce(b.entries, ''::bytea) as record
        from machines m
        join unnest(:cluster_ids::bigint[], :models::text[], :covered::boolean[], :override_ids::bigint[],
                    :override_ranks::int[]) with ordinality
             as kk (cluster_id, model, covered, override_id, override_rank, place)
             on kk.cluster_id = m.cluster_id and kk.model = m.model
        cross join lateral (select (kk.place - 1)::int as class_index) k
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
                   bit_or(case when e.allowed then 1::bigint << (p.place - 1)::int else 0 end) as allow_bits,
                   bit_or(case when e.allowed then 0 else 1::bigint << (p.place - 1)::int end) as deny_bits
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
        cross join lateral (
            select count(*) as n,
                   string_agg(int8send(b.project_id) || float8send(coalesce(b.hashrate_hs, 'NaN'))
                              || float8send(coalesce(b.power_w, 'NaN'))
                              || float8send(extract(epoch from b.sampled_at)::float8)
                              || charsend((b.power_estimated::int | (b.shared_from is not null)::int * 2
                                           | b.flagged::int * 4)::"char"), ''::bytea) as entries
            from smart_schedule_machine_project_benchmarks b
            where b.machine_id = m.id and (b.project_id = any (:projects::bigint[]) or b.project_id = r.project_id)
        ) b
        where m.tenant_id = :tenant_id and (kk.covered or m.id = any (:machine_ids::bigint[]))
    ) records
    group by machine_id >> 10
    order by machine_id >> 10
) to stdout (format binary)
