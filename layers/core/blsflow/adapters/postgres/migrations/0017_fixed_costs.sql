-- What a tick costs whatever the number of its machines.

-- The classes of machines (cluster and model) are found one behind the other along this index, instead of in every machine.
create index if not exists machines_by_class on machines (tenant_id, cluster_id, model);

-- Each attempt is written once more when its message went out: beside the first version, that touches none of its indexes.
alter table smart_schedule_attempts set (fillfactor = 70);
