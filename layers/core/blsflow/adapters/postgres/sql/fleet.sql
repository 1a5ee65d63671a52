-- name: cluster
-- Sites, with how many machines each has.
select c.id, c.tenant_id, c.time_zone, (select count(*) from machines m where m.cluster_id = c.id) as machines from clusters c

-- name: project
-- What can be mined, and under which key the feed knows it.
select p.id, p.tenant_id, p.name, p.price_key, p.algorithm from projects p

-- name: machine
-- Machines, with what each reported last.
select m.id, m.tenant_id, m.cluster_id, m.model, m.operator_hold, r.status, r.project_id, r.hashrate_hs, r.reported_at
from machines m left join machine_mining_runtime r on r.machine_id = m.id
