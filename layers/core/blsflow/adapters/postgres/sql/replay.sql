-- name: policy_name
-- A policy in use, by the name that a report is headed with.
select name from smart_schedule_policy_groups
where id = :policy_id::bigint and archived_at is null and (:tenant_id::text is null or tenant_id = :tenant_id)

-- name: stored_ticks
-- The ticks of a policy since a time, oldest first; of each stretch of so many seconds (0: no thinning) the first.
select distinct on (place) t.id as tick_id, t.ticked_at, t.execution_mode, t.policy_version, t.machines,
       t.counts -> 'skip/policy_frozen' is not null as withheld
from smart_schedule_ticks t
cross join lateral (select case when :every_sec::float8 > 0 then floor(extract(epoch from t.ticked_at) / :every_sec::float8)
                                else t.id end as place) p
where t.policy_id = :policy_id::bigint and t.ticked_at >= :since::timestamptz and t.ticked_at <= now()
order by place, t.ticked_at

-- name: stored_tick_inputs
-- What the machines of each of these ticks shared.
select id, inputs from smart_schedule_ticks where id = any (:tick_ids::bigint[])

-- name: read_stored_records
-- The machines' records of some ticks, tick after tick in the order of time, in blocks of up to 1,024 machine ids, each
-- behind the id of its tick. The times are said twice so that only the partitions that hold them are read.
copy (
    select int8send(d.tick_id) || string_agg(d.figures || coalesce(v.entries, ''), ''::bytea order by d.machine_id)
    from smart_schedule_ticks t
    join smart_schedule_machine_decisions d on d.tick_id = t.id and d.ticked_at = t.ticked_at
    left join smart_schedule_benchmark_versions v on v.id = d.benchmarks_version
    where t.id = any (:tick_ids::bigint[]) and d.tick_id = any (:tick_ids::bigint[])
      and (d.benchmarks_version is null or v.id is not null)
      and d.ticked_at between :first::timestamptz and :last::timestamptz
    group by t.ticked_at, d.tick_id, d.machine_id >> 10
    order by t.ticked_at, d.tick_id, d.machine_id >> 10
) to stdout (format binary)

-- name: price_history
-- Readings of projects' prices as they were received, of each project and step only the newest: it alone can be decided on.
select * from (
    select distinct on (p.id, s.place) p.id as project_id, p.price_key, r.received_at, r.revenue, r.unit, r.currency,
           r.algorithm, r.taken_at, r.flags
    from projects p
    join smart_schedule_profit_readings r on r.price_key = upper(trim(p.price_key))
    cross join lateral (
        select ceil(extract(epoch from r.received_at - :start::timestamptz) / :step_sec::float8) as place
    ) s
    where p.tenant_id = :tenant_id and p.id = any (:project_ids::bigint[])
      and r.received_at > :after::timestamptz and r.received_at <= :until::timestamptz
    order by p.id, s.place, r.received_at desc
) newest
order by received_at, project_id
