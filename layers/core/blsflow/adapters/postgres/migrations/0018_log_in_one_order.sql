-- The log is read in the order of (xid, id) alone since 0007, which left its older indexes to a release after it: every event
-- was written into both.

drop index if exists smart_schedule_log_events_by_policy;
drop index if exists smart_schedule_log_events_by_tenant;
