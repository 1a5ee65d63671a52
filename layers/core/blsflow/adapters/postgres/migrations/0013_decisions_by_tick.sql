-- Decisions are found by their ticks alone. An index by machine has each tick of a fleet insert into as many of its pages as
-- there are machines, whose entries of earlier ticks lie between: three times the work of storing a tick's decisions, and
-- after each checkpoint every page once more in the log.

-- While ticks are indexed, those that want to store decisions wait here, before they hold anything that is needed below;
-- readers do not. What keeps readers out, too, comes last, and this commits right after it. Until its deployment has ended, a
-- version that still asks by machine reads a day's decisions for that: its machines' history, and the beginning of benchmark
-- runs, may come too late.
lock table smart_schedule_machine_decisions in share row exclusive mode;
create index smart_schedule_ticks_of_tenant on smart_schedule_ticks (tenant_id, ticked_at desc, id desc);
drop index smart_schedule_machine_decisions_of_machine;

-- A tenant sees the decisions of its ticks. As a value that is asked for row by row, by the tick's primary key: as `exists` it
-- may be looked up in a hash of all of a tenant's ticks, which is quick for a tenant of few, and a plan that was made for
-- one tenant serves the next one of the session.
alter policy of_tenant on smart_schedule_machine_decisions
    using ((select true from smart_schedule_ticks t where t.id = tick_id));

-- Rules of policies that several statements apply, as in 0010. A freeze, which is looked up, stays with the statements.

-- Whether an entry of a policy's scope has a machine.
create function smart_schedule_covers(
    resource_type text, resource_id text,                                -- the entry
    machine_id bigint, cluster_id bigint, model text                     -- the machine
) returns boolean language sql immutable
    return resource_type = 'tenant'
        or (resource_type = 'cluster' and resource_id = cluster_id::text)
        or (resource_type = 'model' and resource_id = model)
        or (resource_type = 'machine' and resource_id = machine_id::text);

-- Whether a policy moves machines.
create function smart_schedule_acts(enabled boolean, archived_at timestamptz, execution_mode text)
returns boolean language sql immutable
    return enabled and archived_at is null and execution_mode = 'execute';

-- Whether a policy's benchmark runs may begin, if it is not frozen.
create function smart_schedule_samples(
    enabled boolean, archived_at timestamptz, execution_mode text, max_benchmarks integer
) returns boolean language sql immutable
    return smart_schedule_acts(enabled, archived_at, execution_mode) and max_benchmarks > 0;
