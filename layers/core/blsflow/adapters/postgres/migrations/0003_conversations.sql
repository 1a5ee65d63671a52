-- Scheduled conversations on the ledger that policy ticks use already, and pages of history.

alter table smart_schedule_schedules
    add column name text not null default '',
    -- a conversation says to whom, where and what
    add constraint smart_schedule_schedules_work check (
        kind <> 'conversation'
        or coalesce(jsonb_typeof(work -> 'target') = 'string' and jsonb_typeof(work -> 'conversation_id') = 'string'
                    and jsonb_typeof(work -> 'prompt') = 'string', false));

alter table smart_schedule_occurrences
    add column schedule_version    bigint,         -- what was to be run; another version at its beginning is config_changed
    add column requested_by        text,
    add column cancel_requested_at timestamptz,
    add column cancel_requested_by text,
    add column output_ref          text,           -- the execution service's own reference to what a run left behind
    add column error               text;

alter table smart_schedule_attempts
    add column caller_subject         text,        -- in whose name a conversation is held
    add column unreachable_alerted_at timestamptz;

-- a conversation's occurrence is sent at most once
create unique index smart_schedule_attempts_of_conversation
    on smart_schedule_attempts (occurrence_id) where kind = 'conversation';

-- history is read newest first, a page at a time, whatever its size
create index smart_schedule_occurrences_of_tenant on smart_schedule_occurrences (tenant_id, planned_at desc, id desc);
create index smart_schedule_occurrences_filtered
    on smart_schedule_occurrences (tenant_id, kind, state, planned_at desc, id desc);
create index smart_schedule_occurrences_of_schedule_by_state
    on smart_schedule_occurrences (schedule_id, state, planned_at desc, id desc);
