-- One statement that computes the bare decision of every machine and inserts it: no explanation, no lock, no attempt,
-- no log. Prices stand in arrays by project and cluster, benchmarks come from a covering index in its order, and the
-- work memory is enough for all groups. Of five ways to write it, this was the quickest.
insert into bare_decisions (tick_id, machine_id, action, reason, to_project, current_net, best_net)
select :tick_id, valued.machine_id,
       case when gains then 'switch' else 'keep' end,
       case when gains then 'better_net' when best[1] > current then 'gain_below' else 'already_best' end,
       case when gains then best[2]::bigint end,
       current, best[1]
from (
    select m.id as machine_id,
           max(array[n.net, b.project_id]) as best,
           max(n.net) filter (where b.project_id = r.project_id) as current
    from machines m
    join machine_mining_runtime r on r.machine_id = m.id
    join bare_benchmarks b on b.machine_id = m.id and b.sampled_at > now() - interval '30 days'
    cross join lateral (
        select b.hashrate_hs * (:revenues::float8[])[b.project_id] - b.power_w * (:costs::float8[])[m.cluster_id] as net
    ) n
    where m.tenant_id = 'acme' and r.status = 'mining' and r.reported_at > now() - interval '1 day'
    group by m.id
) valued
cross join lateral (
    select best[1] - current >= 1 and best[1] - current >= 0.05 * abs(current) as gains
) g
