-- Rules that several statements apply, each in one place. They are single expressions, which the planner puts into the
-- statement instead of calling them.

create function smart_schedule_back_off(failures integer) returns interval language sql immutable
    return least(interval '1 minute' * power(2, least(failures, 7) - 1), interval '1 hour');
