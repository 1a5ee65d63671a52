-- name: write_events
-- Log events in the transaction of the state they tell of.
insert into smart_schedule_log_events (at, tenant_id, policy_id, kind, level, code, params, tick_id, attempt_id, machine_id)
select now(), e.tenant_id, e.policy_id, e.kind, e.level, e.code, e.params::jsonb, e.tick_id, e.attempt_id, e.machine_id
from unnest(:tenant_ids::text[], :policy_ids::bigint[], :kinds::text[], :levels::text[], :codes::text[], :params::text[],
            :tick_ids::bigint[], :attempt_ids::uuid[], :machine_ids::bigint[])
     as e (tenant_id, policy_id, kind, level, code, params, tick_id, attempt_id, machine_id)

-- name: write_notifications
-- Outbox rows: the notification exists exactly if the state it tells of does.
insert into smart_schedule_outbox (tenant_id, policy_id, code, params, created_at, next_try_at)
select n.tenant_id, n.policy_id, n.code, n.params::jsonb, now(), now()
from unnest(:tenant_ids::text[], :policy_ids::bigint[], :codes::text[], :params::text[])
     as n (tenant_id, policy_id, code, params)

-- name: claim_notifications
-- Outbox rows that nobody else is publishing; held until this transaction ends.
select id, tenant_id, policy_id, code, params, created_at, tries
from smart_schedule_outbox
where published_at is null and next_try_at <= now()
order by next_try_at, id limit :page_size::integer
for update skip locked

-- name: mark_published
-- It went out; whoever holds its row lock says so.
update smart_schedule_outbox set published_at = now(), tries = tries + 1 where id = :notification_id::bigint

-- name: mark_unpublished
-- It did not go out: left alone for a while, then tried again.
update smart_schedule_outbox set tries = tries + 1, next_try_at = now() + :retry_after::interval
where id = :notification_id::bigint

-- name: list_notifications
-- A page of a tenant's notifications, the newest first; published or not, they are there.
select id as notification_id, policy_id, code, params, created_at, read_at, read_by
from smart_schedule_outbox
where tenant_id = :tenant_id and id < :before_id::bigint
  and (:unread::boolean is null or (read_at is null) = :unread::boolean)
  and (:code::text is null or code = :code::text)
  and (:policy_id::bigint is null or policy_id = :policy_id::bigint)
order by id desc limit :page_size::integer

-- name: mark_notification_read
-- On the record, with who was first: marking it again changes nothing.
update smart_schedule_outbox set read_at = coalesce(read_at, now()), read_by = coalesce(read_by, :by)
where id = :notification_id::bigint and tenant_id = :tenant_id
returning id as notification_id, policy_id, code, params, created_at, read_at, read_by

-- name: mark_notification_unread
-- As if nobody had read it.
update smart_schedule_outbox set read_at = null, read_by = null
where id = :notification_id::bigint and tenant_id = :tenant_id
returning id as notification_id, policy_id, code, params, created_at, read_at, read_by
