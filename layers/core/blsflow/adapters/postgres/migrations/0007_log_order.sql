-- The log in the order in which it is followed, for one policy and for one tenant, and places for live streams.

-- Readers take log events in the order of (xid, id), below the oldest open transaction: each filter has that order as an
-- index, so that following reads a policy's own events whatever others write. An event by its id is in the primary key.
-- Writers wait while these are built, about a second for a million events; readers do not. The indexes that they stand in for
-- (by id alone) stay until a later release drops them by itself: a drop here would keep readers out of all partitions, too,
-- until the new ones are built.
create index smart_schedule_log_events_followed_by_policy on smart_schedule_log_events (policy_id, xid, id);
create index smart_schedule_log_events_followed_by_tenant on smart_schedule_log_events (tenant_id, xid, id);

-- Takes a live stream's place among its tenant's and among all: locks of the session, which are gone with it. What the
-- session held before is given back. Null: taken; else which of the two is full: 'tenant' or 'deployment'.
create function smart_schedule_take_stream(tenant text, per_tenant integer, in_all integer)
returns text language plpgsql as $$
declare
    taken boolean := false;
begin
    perform pg_advisory_unlock_all();
    for slot in 1..per_tenant loop
        taken := pg_try_advisory_lock(hashtextextended('blsflow stream of ' || tenant || ' ' || slot, 0));
        exit when taken;
    end loop;
    if not taken then
        return 'tenant';
    end if;
    for slot in 1..in_all loop
        if pg_try_advisory_lock(hashtextextended('blsflow stream ' || slot, 0)) then
            return null;
        end if;
    end loop;
    perform pg_advisory_unlock_all();
    return 'deployment';
end $$;
