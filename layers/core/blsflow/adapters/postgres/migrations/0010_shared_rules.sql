-- Rules that several statements apply, each in one place. They are single expressions, which the planner puts into the
-- statement instead of calling them.

create function smart_schedule_back_off(failures integer) returns interval language sql immutable
    return least(interval '1 minute' * power(2, least(failures, 7) - 1), interval '1 hour');

-- What was stopped through this scheduler (by itself or by an operator), and the meter or the hashrate confirmed, is stopped
-- whatever word the firmware has for it; what was powered off reports nothing at all.
create function smart_schedule_machine_status(
    status text, hashrate_hs double precision, reported_at timestamptz,  -- its report
    stopped_by text, expected text, changed_at timestamptz               -- what was last brought about
) returns text language sql immutable
    return case
        when stopped_by is not null and expected = 'off' and coalesce(reported_at <= changed_at, true) then 'off'
        when stopped_by is not null and hashrate_hs = 0 then case expected when 'off' then 'off' else 'stopped' end
        else status
    end;
