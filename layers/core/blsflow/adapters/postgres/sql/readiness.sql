-- name: benchmark_coverage
-- How all machines in scope stand to each candidate, and how many have none that they may run or were measured on: by the
-- rules of R1.2 and R2.3, counted in one pass.
with members as (
    select m.id, k.place - 1 as class_index
    from machines m
    join unnest(:cluster_ids::bigint[], :models::text[], :covered::boolean[]) with ordinality
         as k (cluster_id, model, covered, place) on k.cluster_id = m.cluster_id and k.model = m.model
    where m.tenant_id = :tenant_id and (k.covered or m.id = any (:machine_ids::bigint[]))
), of_machines as (
    select e.resource_id::bigint as machine_id, e.project_id, bool_or(e.allowed) as allowed, bool_or(not e.allowed) as denied
    from smart_schedule_resource_eligibilities e
    where e.tenant_id = :tenant_id and e.resource_type = 'machine' and e.project_id = any (:pair_projects::bigint[])
    group by 1, 2
), pairs as materialized (
    select m.id as machine_id, c.project_id,
           (c.allowed or coalesce(e.allowed, false)) and not (c.denied or coalesce(e.denied, false)) as eligible, c.runnable,
           b.shared_from is not null as shared,
           case when b.machine_id is null then 'missing'
                when b.flagged or not smart_schedule_plausible(b.hashrate_hs, b.power_w)
                     or b.sampled_at > now() + interval '30 seconds' then 'invalid'
                when b.sampled_at < now() - make_interval(secs => :benchmark_ttl_sec::integer) then 'expired'
                else 'valid' end as benchmark
    from members m
    join unnest(:pair_classes::integer[], :pair_projects::bigint[], :pair_allowed::boolean[], :pair_denied::boolean[],
                :pair_runnable::boolean[]) as c (class_index, project_id, allowed, denied, runnable)
         on c.class_index = m.class_index
    left join of_machines e on e.machine_id = m.id and e.project_id = c.project_id
    left join smart_schedule_machine_project_benchmarks b on b.machine_id = m.id and b.project_id = c.project_id
), of_candidates as (
    select project_id, count(*) as machines, count(*) filter (where eligible) as eligible,
           count(*) filter (where eligible and runnable) as runnable,
           count(*) filter (where eligible and runnable and benchmark = 'valid') as valid,
           count(*) filter (where eligible and runnable and benchmark = 'missing') as missing,
           count(*) filter (where eligible and runnable and benchmark = 'expired') as expired,
           count(*) filter (where eligible and runnable and benchmark = 'invalid') as invalid,
           count(*) filter (where eligible and runnable and benchmark = 'valid' and shared) as shared
    from pairs group by project_id
), choices as (
    select bool_or(eligible) as eligible, bool_or(eligible and runnable) as runnable,
           bool_or(eligible and runnable and benchmark = 'valid') as measured
    from pairs group by machine_id
)
select (select coalesce(jsonb_agg(to_jsonb(c)), '[]') from of_candidates c) as of_candidates,
       (select count(*) from members) - (select count(*) from choices where eligible) as without_eligible,
       (select count(*) from members) - (select count(*) from choices where runnable) as without_runnable,
       (select count(*) from choices where runnable and not measured) as without_benchmark

-- name: machine_reports
-- How many machines a policy covers, and what a tick would find wanting: reports, power readings, machines held or locked.
select count(*) as machines,
       count(*) filter (where (r.reported_at is null or r.reported_at > now() + interval '30 seconds'
                               or r.reported_at < now() - make_interval(secs => :report_max_age_sec::integer))
                          -- what this scheduler powered off reports nothing, which is as it should be
                          and not (s.stopped_by is not distinct from 'scheduler' and s.expected = 'off'
                                   and (coalesce(r.reported_at <= s.changed_at, true) or coalesce(r.hashrate_hs = 0, false)
                                        or r.status = 'off'))) as reports_stale,
       count(*) filter (where r.status = 'mining' and coalesce(w.power_w, 'NaN') = 'NaN') as power_missing,
       count(*) filter (where m.operator_hold) as held,
       count(*) filter (where l.machine_id is not null) as locked
from machines m
join unnest(:cluster_ids::bigint[], :models::text[], :covered::boolean[]) as k (cluster_id, model, covered)
     on k.cluster_id = m.cluster_id and k.model = m.model
left join machine_mining_runtime r on r.machine_id = m.id
left join smart_schedule_machine_states s on s.machine_id = m.id
left join smart_schedule_machine_locks l on l.machine_id = m.id and l.freed_at is null and l.expires_at > now()
left join lateral (
    select p.power_w from metric_powers p
    where p.machine_id = m.id and p.measured_at > now() - make_interval(secs => :report_max_age_sec::integer)
      and p.measured_at <= now() + interval '30 seconds'
    order by p.measured_at desc limit 1
) w on true
where m.tenant_id = :tenant_id and (k.covered or m.id = any (:machine_ids::bigint[]))
