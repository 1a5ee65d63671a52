-- name: policy_of_tenant
-- Whether a tenant has such a policy; its log outlives its archiving.
select exists (select from smart_schedule_policy_groups
               where id = :policy_id::bigint and (:tenant_id::text is null or tenant_id = :tenant_id)) as known

-- name: log_position
-- The oldest transaction still open: all that older ones wrote can be read now, and nothing will be added to it.
select pg_snapshot_xmin(pg_current_snapshot())::text as xid

-- name: place_exists
-- Whether an event is where a reader says that it stood: not after a restore that lost it, nor past retention.
select exists (
    select from smart_schedule_log_events
    where tenant_id = :tenant_id and xid = :xid::text::xid8 and id = :event_id::bigint
) as found

-- name: place_of_event
-- Where an event stands in the order of transactions.
select xid::text as xid from smart_schedule_log_events where id = :event_id::bigint and tenant_id = :tenant_id

-- name: take_stream
-- A place for one more stream of a tenant, held by this session; null if it was taken.
select smart_schedule_take_stream(:tenant_id, :per_tenant::integer, :in_all::integer) as full_of

-- name: free_stream
-- The session's place is given back.
select pg_advisory_unlock_all()

-- name: settle_restored_log
-- Events that another server's counter of transactions numbered, after a dump was restored into this one: its own counter
-- has not come as far, so they would count as unsettled. They become the oldest, in the order of their ids.
update smart_schedule_log_events e set xid = '1'::xid8
from (
    select id, at from smart_schedule_log_events
    where xid >= pg_snapshot_xmax(pg_current_snapshot()) order by xid, id limit :page_size::integer
) restored
where e.id = restored.id and e.at = restored.at
