-- The scheduler's own tables. Every invariant that the database can say is a constraint here, with its why.

-- ---------------------------------------------------------------- policies

create table smart_schedule_policy_groups (
    id                     bigint generated always as identity primary key,
    tenant_id              text not null,
    name                   text not null check (name <> ''),
    mode                   text not null check (mode in ('profit_guard', 'time_window')),
    execution_mode         text not null default 'shadow' check (execution_mode in ('dry_run', 'shadow', 'execute')),
    enabled                boolean not null default false,
    archived_at            timestamptz,
    version                bigint not null default 1,
    priority               integer not null default 0,
    time_zone              text not null default 'UTC',
    -- inputs; limits end below infinity because PostgreSQL holds NaN greater than any number
    profit_max_age_sec     integer not null default 300 check (profit_max_age_sec > 0),
    report_max_age_sec     integer not null default 600 check (report_max_age_sec > 0),
    benchmark_ttl_sec      integer not null default 2592000 check (benchmark_ttl_sec > 0),
    price_jump_factor      double precision not null default 3
                           check (price_jump_factor > 1 and price_jump_factor < 'Infinity'),
    price_hold_sec         integer not null default 1800 check (price_hold_sec >= 0),
    -- when to move
    min_gain_cny_per_day   double precision not null default 1
                           check (min_gain_cny_per_day >= 0 and min_gain_cny_per_day < 'Infinity'),
    min_gain_ratio         double precision not null default 0.05 check (min_gain_ratio >= 0 and min_gain_ratio < 'Infinity'),
    min_dwell_sec          integer not null default 1800 check (min_dwell_sec >= 0),
    switch_cost_sec        integer not null default 300 check (switch_cost_sec >= 0),
    holding_time_sec       integer not null default 14400 check (holding_time_sec between 1 and 2592000),
    negative_profit_action text not null default 'keep' check (negative_profit_action in ('keep', 'stop', 'power_off')),
    restart_threshold_cny_per_day double precision not null default 1
                           constraint smart_schedule_policy_groups_restart_threshold
                           check (restart_threshold_cny_per_day > '-Infinity' and restart_threshold_cny_per_day < 'Infinity'),
    decision_validity_sec  integer not null default 120 check (decision_validity_sec > 0),
    -- when to freeze
    freeze_after_failures  integer not null default 3 check (freeze_after_failures > 0),
    max_move_share         double precision check (max_move_share > 0 and max_move_share <= 1),
    freeze_jump_factor     double precision check (freeze_jump_factor > 1 and freeze_jump_factor < 'Infinity'),
    max_failed_share       double precision not null default 0.5 check (max_failed_share > 0 and max_failed_share <= 1),
    failed_share_window_sec integer not null default 3600 check (failed_share_window_sec > 0),
    max_foreign_changes    integer not null default 3 check (max_foreign_changes >= 0),
    -- running state: survives restarts, changed under the row lock only
    consecutive_failures   integer not null default 0 check (consecutive_failures >= 0),
    tariff_problems        text[] not null default '{}',  -- those of the last tick, each told of once
    created_by             text not null,
    created_at             timestamptz not null default now(),
    updated_at             timestamptz not null default now()
);
create index smart_schedule_policy_groups_by_tenant on smart_schedule_policy_groups (tenant_id, id);

create table smart_schedule_policy_scopes (
    policy_id     bigint not null references smart_schedule_policy_groups (id),
    resource_type text not null check (resource_type in ('tenant', 'cluster', 'model', 'machine')),
    resource_id   text not null,                   -- '*' for tenant
    primary key (policy_id, resource_type, resource_id),
    constraint smart_schedule_policy_scopes_numbers
        check (resource_type not in ('cluster', 'machine') or resource_id ~ '^(0|[1-9][0-9]{0,17})$')
);

create table smart_schedule_policy_candidates (
    policy_id     bigint not null references smart_schedule_policy_groups (id),
    project_id    bigint not null,
    position      integer not null check (position >= 0),
    -- the price level this policy has accepted for the project, and the one on probation (quarantine)
    price_level          double precision,
    price_level_at       timestamptz,
    price_pending_level  double precision,
    price_pending_since  timestamptz,
    primary key (policy_id, project_id),
    unique (policy_id, position)
);

create table smart_schedule_policy_windows (
    id          bigint generated always as identity primary key,
    policy_id   bigint not null references smart_schedule_policy_groups (id),
    priority    integer not null default 0,
    starts      text not null,                     -- 'HH:MM' in the policy's zone
    ends        text not null,
    weekdays    integer[],                         -- ISO; null: every day; the day on which the window begins
    action      text not null check (action in ('run_project', 'stop', 'power_off', 'start')),
    project_id  bigint,
    -- a window that runs or starts something says what
    constraint smart_schedule_policy_windows_project check ((action in ('run_project', 'start')) = (project_id is not null))
);
create index smart_schedule_policy_windows_by_policy on smart_schedule_policy_windows (policy_id);

-- What may be chosen, copied in by the configuration service. Nothing matches: not eligible. A deny wins over any allow.
create table smart_schedule_resource_eligibilities (
    tenant_id     text not null,
    project_id    bigint not null,
    resource_type text not null check (resource_type in ('cluster', 'model', 'machine')),
    resource_id   text not null,
    allowed       boolean not null,
    primary key (project_id, resource_type, resource_id),
    constraint smart_schedule_resource_eligibilities_numbers
        check (resource_type not in ('cluster', 'machine') or resource_id ~ '^(0|[1-9][0-9]{0,17})$')
);
create index smart_schedule_resource_eligibilities_of_machines
    on smart_schedule_resource_eligibilities (resource_id, project_id) where resource_type = 'machine';

-- Which system may act for a tenant. No row, another holder or a past expiry: this one may not.
create table smart_schedule_executor_leases (
    tenant_id  text primary key,
    holder     text not null check (holder in ('blsflow', 'legacy')),
    expires_at timestamptz not null default 'infinity',
    changed_by text not null,
    changed_at timestamptz not null default now()
);

create table smart_schedule_freezes (
    id          bigint generated always as identity primary key,
    policy_id   bigint not null references smart_schedule_policy_groups (id),
    tenant_id   text not null,
    cause       text not null check (cause in (
        'profit_unusable', 'anomaly_flagged', 'price_jump', 'failed_share', 'move_share', 'manual')),
    detail      jsonb not null default '{}',
    frozen_at   timestamptz not null,
    frozen_by   text not null,
    lifted_at   timestamptz,
    lifted_by   text,
    lift_reason text,
    -- only a user lifts a freeze, and the record says who and why
    constraint smart_schedule_freezes_lift_on_record
        check ((lifted_at is null) = (lifted_by is null) and (lifted_at is null) = (lift_reason is null))
);
-- one open freeze per policy: two ticks that both find a reason make one freeze and one notification
create unique index smart_schedule_freezes_open on smart_schedule_freezes (policy_id) where lifted_at is null;

-- ---------------------------------------------------------------- schedules and occurrences

create table smart_schedule_schedules (
    id            bigint generated always as identity primary key,
    tenant_id     text not null,
    created_by    text not null,
    kind          text not null check (kind in ('policy_tick', 'conversation')),
    policy_id     bigint references smart_schedule_policy_groups (id),
    work          jsonb not null default '{}',     -- a conversation's target and prompt
    rule          jsonb not null,
    time_zone     text not null default 'UTC',
    paused        boolean not null default false,
    archived_at   timestamptz,
    version       bigint not null default 1,
    next_run_at   timestamptz,                     -- the cursor; null: no further run
    broken        text,                            -- why its rule cannot be read; such a schedule is passed over
    created_at    timestamptz not null default now(),
    updated_at    timestamptz not null default now(),
    constraint smart_schedule_schedules_policy_of_tick check ((kind = 'policy_tick') = (policy_id is not null)),
    -- an interval that does not advance would be due for ever; whole seconds, as rules are read
    constraint smart_schedule_schedules_interval_advances
        check (rule ->> 'kind' is distinct from 'interval'
               or coalesce(jsonb_typeof(rule -> 'every_sec') = 'number' and rule ->> 'every_sec' ~ '^[1-9][0-9]*$', false))
);
create unique index smart_schedule_schedules_of_policy on smart_schedule_schedules (policy_id) where archived_at is null;
create index smart_schedule_schedules_due on smart_schedule_schedules (next_run_at, id)
    where not paused and archived_at is null and broken is null;

create table smart_schedule_occurrences (
    id           bigint generated always as identity primary key,
    tenant_id    text not null,
    schedule_id  bigint not null references smart_schedule_schedules (id),
    kind         text not null check (kind in ('policy_tick', 'conversation')),
    origin       text not null check (origin in ('planned', 'manual')),
    planned_at   timestamptz not null,
    request_id   text,
    request_fingerprint text,
    state        text not null check (state in (
        'recorded', 'running', 'reconciling', 'cancelling',
        'succeeded', 'failed', 'cancelled', 'interrupted', 'skipped')),
    reason       text,
    missed_count integer,
    detail       jsonb not null default '{}',
    recorded_at  timestamptz not null,
    enqueued_at  timestamptz,
    began_at     timestamptz,
    ended_at     timestamptz,
    constraint smart_schedule_occurrences_request_of_manual check ((origin = 'manual') = (request_id is not null)),
    constraint smart_schedule_occurrences_ended
        check ((state in ('succeeded', 'failed', 'cancelled', 'interrupted', 'skipped')) = (ended_at is not null)),
    constraint smart_schedule_occurrences_skip_has_reason check (state <> 'skipped' or reason is not null),
    constraint smart_schedule_occurrences_missed_are_counted
        check (reason is distinct from 'missed' or coalesce(missed_count, 0) > 0)
);
-- at most one record per schedule and planned time, however often a scan is delivered
create unique index smart_schedule_occurrences_planned
    on smart_schedule_occurrences (schedule_id, planned_at) where origin = 'planned';
-- manual runs are unique by their request, never by time
create unique index smart_schedule_occurrences_manual
    on smart_schedule_occurrences (schedule_id, request_id) where origin = 'manual';
-- no overlap: one occurrence of a schedule is at work at a time
create unique index smart_schedule_occurrences_active
    on smart_schedule_occurrences (schedule_id) where state in ('running', 'reconciling', 'cancelling');
create index smart_schedule_occurrences_waiting on smart_schedule_occurrences (id) where state = 'recorded';
create index smart_schedule_occurrences_history on smart_schedule_occurrences (schedule_id, planned_at desc, id desc);

-- an end is final, whoever writes: a cancel that races an end, or a late answer, loses here
create function smart_schedule_ends_are_final() returns trigger language plpgsql as $$
begin
    if old.ended_at is not null and (new.state, new.ended_at) is distinct from (old.state, old.ended_at) then
        raise exception 'row % of % has ended as %', old.id, tg_table_name, old.state
            using errcode = 'check_violation', constraint = 'ends_are_final';
    end if;
    return new;
end $$;
create trigger smart_schedule_occurrences_final before update on smart_schedule_occurrences
    for each row execute function smart_schedule_ends_are_final();

-- ---------------------------------------------------------------- prices

create table smart_schedule_price_aliases (
    alias     text primary key check (alias = upper(trim(alias))),  -- as feeds' keys are compared: trimmed, without case
    price_key text not null check (price_key = upper(trim(price_key)))
);

create table smart_schedule_profit_readings (
    price_key   text not null,
    algorithm   text,
    taken_at    timestamptz not null,
    received_at timestamptz not null,
    source      text not null,
    revenue     double precision,                  -- as sent, per unit and day; null: not sent
    unit        text not null,
    currency    text not null,
    flags       text[] not null default '{}'
) partition by range (received_at);
create index smart_schedule_profit_readings_newest on smart_schedule_profit_readings (price_key, received_at desc);

create table smart_schedule_profit_fetches (
    id          bigint generated always as identity primary key,
    fetched_at  timestamptz not null,
    source      text not null,
    outcome     text not null,                     -- ok, or why the feed was unavailable
    detail      text,
    prices      integer not null default 0,
    flags       text[] not null default '{}'
);
create index smart_schedule_profit_fetches_newest on smart_schedule_profit_fetches (fetched_at desc);

-- ---------------------------------------------------------------- ticks and decisions

create table smart_schedule_ticks (
    id             bigint generated always as identity primary key,
    tenant_id      text not null,
    policy_id      bigint not null references smart_schedule_policy_groups (id),
    occurrence_id  bigint not null unique references smart_schedule_occurrences (id),
    ticked_at      timestamptz not null,
    execution_mode text not null,
    policy_version bigint not null,
    inputs         jsonb not null,                 -- all that its machines share: parameters, prices, tariffs, eligibility
    failure        text,                           -- why this tick had no usable inputs
    machines       integer not null default 0,
    counts         jsonb not null default '{}',    -- {"action/reason": machines}
    gain_cny_per_day double precision not null default 0,
    valid_until    timestamptz not null,
    took_ms        integer
);
create index smart_schedule_ticks_by_policy on smart_schedule_ticks (policy_id, id desc);

create table smart_schedule_machine_decisions (
    ticked_at     timestamptz not null,
    tick_id       bigint not null,                 -- no foreign key: 100,000 checks a tick; doctor looks for orphans
    machine_id    bigint not null,
    action        text not null check (action in (
        'keep', 'switch', 'start', 'stop', 'power_off', 'benchmark_required', 'skip')),
    reason        text not null,
    proposed      text not null,                   -- what the figures alone ask for, before locks, modes and freezes
    from_project  bigint,
    to_project    bigint,
    run_config_id bigint,
    current_net_cny_per_day double precision,
    best_net_cny_per_day    double precision,
    overridden_by bigint,                          -- the policy that outranks this one for the machine
    attempt_id    uuid,
    job_id        text,
    figures       bytea not null,                  -- the machine's own inputs, in the layout of domain/record.py
    -- exactly one decision per machine and tick (a tick has one ticked_at)
    primary key (tick_id, machine_id, ticked_at)
) partition by range (ticked_at);
create index smart_schedule_machine_decisions_of_attempt
    on smart_schedule_machine_decisions (attempt_id) where attempt_id is not null;
create index smart_schedule_machine_decisions_of_machine on smart_schedule_machine_decisions (machine_id, ticked_at desc);

-- ---------------------------------------------------------------- attempts and locks

create table smart_schedule_attempts (
    id              uuid primary key,
    tenant_id       text not null,
    kind            text not null check (kind in ('device_batch', 'conversation')),
    -- derived from the decision ids (tick and machines), so the same decisions can never be sent under two keys
    idempotency_key text not null unique,
    occurrence_id   bigint references smart_schedule_occurrences (id),
    policy_id       bigint references smart_schedule_policy_groups (id),
    tick_id         bigint,
    action          text not null check (action in ('switch', 'start', 'stop', 'power_off', 'converse')),
    project_id      bigint,
    run_config_id   bigint,
    state           text not null check (state in (
        'prepared', 'dispatching', 'running', 'reconciling', 'cancelling',
        'succeeded', 'failed', 'cancelled', 'interrupted', 'skipped')),
    reason          text,
    reference       text,                          -- the outside service's own id (job id)
    job_state       text,                          -- where that job stands, in the service's own terms
    detail          jsonb not null default '{}',
    prepared_at     timestamptz not null,
    valid_until     timestamptz not null,          -- not sent after this: decided again instead
    enqueued_at     timestamptz,
    dispatched_at   timestamptz,
    request_expires_at timestamptz,                -- the service accepts nothing later; makes "not found" conclusive
    next_check_at   timestamptz,
    checks          integer not null default 0,
    unresolved_alerted_at timestamptz,
    ended_at        timestamptz,
    constraint smart_schedule_attempts_ended
        check ((state in ('succeeded', 'failed', 'cancelled', 'interrupted', 'skipped')) = (ended_at is not null)),
    -- sent at most once: what was never dispatched has no reference
    constraint smart_schedule_attempts_reference_of_dispatched check (dispatched_at is not null or reference is null),
    constraint smart_schedule_attempts_running_has_reference check (state <> 'running' or reference is not null)
);
create index smart_schedule_attempts_open on smart_schedule_attempts (next_check_at, id)
    where ended_at is null and state <> 'prepared';
create index smart_schedule_attempts_waiting on smart_schedule_attempts (prepared_at, id) where state = 'prepared';
create index smart_schedule_attempts_ended on smart_schedule_attempts (policy_id, coalesce(ended_at, 'infinity'));
-- retention takes the oldest ends first
create index smart_schedule_attempts_oldest on smart_schedule_attempts (ended_at) where ended_at is not null;
create index smart_schedule_attempts_of_occurrence on smart_schedule_attempts (occurrence_id);
create trigger smart_schedule_attempts_final before update on smart_schedule_attempts
    for each row execute function smart_schedule_ends_are_final();

create sequence smart_schedule_fencing_tokens;

create table smart_schedule_attempt_machines (
    attempt_id    uuid not null references smart_schedule_attempts (id),
    machine_id    bigint not null,
    fencing_token bigint not null,
    state         text not null default 'pending' check (state in ('pending', 'succeeded', 'failed', 'refused', 'dropped')),
    reason        text,
    job_ended_at  timestamptz,                     -- the service says it is over; what the machine does must confirm it
    ended_at      timestamptz,
    primary key (attempt_id, machine_id),
    constraint smart_schedule_attempt_machines_ended check ((state = 'pending') = (ended_at is null))
);

-- One row per machine that was ever locked: at most one live lock is the primary key itself.
create table smart_schedule_machine_locks (
    machine_id    bigint primary key,
    tenant_id     text not null,
    owner_kind    text not null check (owner_kind in ('attempt', 'benchmark')),
    owner_id      uuid not null,
    fencing_token bigint not null,                 -- grows with every taking; older holders are refused by it
    taken_at      timestamptz not null,
    expires_at    timestamptz not null,            -- infinity once something may have been sent: only its end frees it
    freed_at      timestamptz,
    freed_by      text,
    alerted_at    timestamptz,
    constraint smart_schedule_machine_locks_freed_on_record check ((freed_at is null) = (freed_by is null))
) with (fillfactor = 70);
create index smart_schedule_machine_locks_of_owner on smart_schedule_machine_locks (owner_id) where freed_at is null;

-- What this scheduler last brought about on a machine: tells its own doing from a human's.
create table smart_schedule_machine_states (
    machine_id     bigint primary key,
    tenant_id      text not null,
    expected       text not null check (expected in ('unset', 'mining', 'stopped', 'off')),  -- unset: only its failures are known
    expected_project bigint,
    stopped_by     text check (stopped_by in ('scheduler', 'human')),
    changed_at     timestamptz not null,
    foreign_changes integer not null default 0,
    foreign_seen_at timestamptz,
    failures       integer not null default 0,     -- in a row
    retry_at       timestamptz,                    -- no new action before: back-off after failures
    constraint smart_schedule_machine_states_project_of_mining check (expected = 'mining' or expected_project is null)
) with (fillfactor = 70);

-- ---------------------------------------------------------------- benchmarks

create table smart_schedule_machine_project_benchmarks (
    machine_id      bigint not null,
    project_id      bigint not null,
    hashrate_hs     double precision,
    power_w         double precision,
    power_estimated boolean not null default false,
    sampled_at      timestamptz not null,
    flagged         boolean not null default false,
    shared_from     bigint,                        -- measured on this machine of the same model
    primary key (machine_id, project_id)
) with (fillfactor = 70);                          -- ordered by machine, updated in place: stays fast without a covering index

create table smart_schedule_benchmark_runs (
    id           uuid primary key,
    tenant_id    text not null,
    policy_id    bigint references smart_schedule_policy_groups (id),
    machine_id   bigint not null,
    project_id   bigint not null,
    state        text not null check (state in ('pending', 'running', 'restoring', 'succeeded', 'failed', 'cancelled')),
    reason       text,
    attempt_no   integer not null default 1 check (attempt_no > 0),
    not_before   timestamptz not null,
    value_cny_per_day double precision,            -- what the best guess of its result could win
    execution_arn text,
    restore_project_id bigint,
    restore_status text,
    result       jsonb not null default '{}',
    requested_at timestamptz not null,
    started_at   timestamptz,
    ended_at     timestamptz,
    constraint smart_schedule_benchmark_runs_ended
        check ((state in ('succeeded', 'failed', 'cancelled')) = (ended_at is not null))
);
-- never two open runs for a machine and project, whichever ticks ask for one
create unique index smart_schedule_benchmark_runs_open
    on smart_schedule_benchmark_runs (machine_id, project_id) where ended_at is null;
-- and a machine is sampled for one project at a time
create unique index smart_schedule_benchmark_runs_active
    on smart_schedule_benchmark_runs (machine_id) where state in ('running', 'restoring');
create index smart_schedule_benchmark_runs_waiting on smart_schedule_benchmark_runs (not_before) where state = 'pending';

-- ---------------------------------------------------------------- log events and outbox

create table smart_schedule_log_events (
    id         bigint generated always as identity,
    xid        xid8 not null default pg_current_xact_id(),  -- readers that follow by id stop below the oldest open one
    at         timestamptz not null,
    tenant_id  text not null,
    policy_id  bigint,
    kind       text not null default 'log' check (kind in ('log', 'progress', 'tick')),
    level      text not null default 'info' check (level in ('info', 'warning', 'error')),
    code       text not null,
    params     jsonb not null default '{}',
    tick_id    bigint,
    attempt_id uuid,
    machine_id bigint,
    primary key (id, at)
) partition by range (at);
create index smart_schedule_log_events_by_policy on smart_schedule_log_events (policy_id, id);
-- who follows the log follows transactions: a younger one may take the lower id and commit last
create index smart_schedule_log_events_by_commit on smart_schedule_log_events (xid, id);
create index smart_schedule_log_events_by_tenant on smart_schedule_log_events (tenant_id, id);

create table smart_schedule_outbox (
    id           bigint generated always as identity primary key,
    tenant_id    text not null,
    policy_id    bigint,
    code         text not null,
    params       jsonb not null default '{}',
    created_at   timestamptz not null,
    published_at timestamptz,
    tries        integer not null default 0,
    next_try_at  timestamptz not null,
    read_at      timestamptz,
    read_by      text
);
create index smart_schedule_outbox_waiting on smart_schedule_outbox (next_try_at, id) where published_at is null;
create index smart_schedule_outbox_by_tenant on smart_schedule_outbox (tenant_id, id desc);

-- ---------------------------------------------------------------- partitions

-- A default partition catches what falls outside the daily ones, so that a late maintenance run loses nothing.
create table smart_schedule_machine_decisions_default partition of smart_schedule_machine_decisions default;
create table smart_schedule_log_events_default partition of smart_schedule_log_events default;
create table smart_schedule_profit_readings_default partition of smart_schedule_profit_readings default;

-- Makes the daily partitions (of UTC) from the day of `at` on, and those of earlier days whose rows the default partition
-- caught, which it moves; drops those past retention. When there is nothing to do, it reads the catalog and the
-- default partitions, which are empty then, and locks nothing that anybody waits for. When somebody else is at it, it
-- leaves the work to them. A lock that it does not get soon is left for the next run: sooner than the server looks for
-- deadlocks, so that it is this that gives way and no tick.
create function smart_schedule_maintain_partitions(at timestamptz, days_ahead integer, keep_days integer)
returns table (created integer, dropped integer) language plpgsql set lock_timeout = '500ms' as $$
declare
    today constant date := (at at time zone 'UTC')::date;
    parent text;
    partition_key text;
    day date;
    child text;
    day_starts timestamptz;
    day_ends timestamptz;
begin
    created := 0;
    dropped := 0;
    if not pg_try_advisory_xact_lock(hashtext('smart_schedule_maintain_partitions')) then
        return next;
        return;
    end if;
    for parent, partition_key in values
        ('smart_schedule_machine_decisions', 'ticked_at'),
        ('smart_schedule_log_events', 'at'),
        ('smart_schedule_profit_readings', 'received_at')
    loop
        for day, child in execute format(
            'select d.day, %L || to_char(d.day, ''YYYYMMDD'') from (
                 select $1 + i as day from generate_series(0, $2) i
                 union
                 select (%I at time zone ''UTC'')::date from only %I where isfinite(%I)
             ) d
             where d.day between ''0001-01-01'' and $1 + $2 and to_regclass(%L || to_char(d.day, ''YYYYMMDD'')) is null
             order by d.day',
            parent || '_', partition_key, parent || '_default', partition_key, parent || '_')
            using today, days_ahead
        loop
            day_starts := day::timestamp at time zone 'UTC';
            day_ends := (day + 1)::timestamp at time zone 'UTC';
            execute format('create table %I (like %I including defaults including constraints)', child, parent);
            -- from here on nobody writes a row of this day into the default partition, where it would be in the way
            execute format('lock table only %I in access exclusive mode', parent || '_default');
            execute format(
                'with moved as (delete from only %I where %I >= $1 and %I < $2 returning *) insert into %I select * from moved',
                parent || '_default', partition_key, partition_key, child) using day_starts, day_ends;
            execute format(
                'alter table %I attach partition %I for values from (%L) to (%L)', parent, child, day_starts, day_ends);
            created := created + 1;
        end loop;
    end loop;
    -- dropping locks the whole table; a run that holds locks of default partitions already does not ask for that
    if created = 0 then
        for child in
            select c.relname
            from unnest(array['smart_schedule_machine_decisions', 'smart_schedule_log_events', 'smart_schedule_profit_readings'])
                 as p (name)
            join pg_inherits i on i.inhparent = to_regclass(p.name) join pg_class c on c.oid = i.inhrelid
            where c.relname ~ '_[0-9]{8}$' and to_date(right(c.relname, 8), 'YYYYMMDD') < today - keep_days
            order by c.relname
        loop
            begin
                execute format('drop table %I', child);
                dropped := dropped + 1;
            exception when lock_not_available then
                exit;
            end;
        end loop;
    end if;
    return next;
end $$;

select smart_schedule_maintain_partitions(now(), 7, 3650);
