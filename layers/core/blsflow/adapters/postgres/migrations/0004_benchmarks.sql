-- Benchmark runs carried out: how many at a time, where each stands, what it takes to put its machine back.

alter table smart_schedule_policy_groups
    -- at a time: so many machines, and no greater share of the policy's machines; one is always allowed unless it is 0
    add column max_benchmarks         integer not null default 5 check (max_benchmarks >= 0),
    add column max_benchmark_share    double precision not null default 0.05
                                      check (max_benchmark_share > 0 and max_benchmark_share <= 1),
    -- so many machines of a model are measured themselves before their figures serve the others
    add column benchmark_share_after  integer not null default 3 check (benchmark_share_after > 0);

alter table smart_schedule_benchmark_runs
    add column origin         text not null default 'decision' check (origin in ('decision', 'drift', 'operator')),
    add column requested_by   text,                -- the operator, if one asked
    add column asked_at       timestamptz not null default now(),  -- newest time that a tick still wanted it
    add column current_net_cny_per_day double precision,           -- what the machine nets meanwhile, if known
    -- the execution that carries it out; steps of any other are turned away
    add column execution_name text,
    add column execution_no   integer not null default 0 check (execution_no >= 0),
    add column execution_noted_at timestamptz,     -- the state machine took it; null: it may not have been told
    add column step           text,                -- the newest step that was carried out
    add column progressed_at  timestamptz,
    add column fencing_token  bigint,              -- of its lock
    add column run_config_id  bigint,
    -- what puts the machine back; null: the sampled project is what it runs anyway
    add column restore_action text check (restore_action in ('switch', 'stop', 'power_off')),
    add column restore_run_config_id bigint,
    add column restore_tries  integer not null default 0 check (restore_tries >= 0),
    add column rescues        integer not null default 0 check (rescues >= 0),  -- executions that died under it
    add column measuring_from timestamptz,         -- confirmed to run the project
    add column readings       jsonb not null default '[]',
    add column outcome        text check (outcome in ('measured', 'failed')),  -- how it will end, once the machine is back
    add column moved_at       timestamptz,         -- the first command went out: from here on mining is lost
    add column lost_minutes   double precision,
    add column lost_cny       double precision,
    add column alerted_at     timestamptz,
    -- a project to go back to exactly where the machine is put back by a switch
    add constraint smart_schedule_benchmark_runs_restore
        check ((restore_action is not distinct from 'switch') = (restore_project_id is not null)),
    -- an execution is told from the one before it by its number
    add constraint smart_schedule_benchmark_runs_execution check ((execution_name is null) = (execution_no = 0)),
    -- put back before it ends: a run whose end is known says how the machine fared
    add constraint smart_schedule_benchmark_runs_restored
        check (state not in ('succeeded', 'failed') or execution_no = 0 or restore_status is not null);

-- failures of a pair are looked up before it is asked for again
create index smart_schedule_benchmark_runs_of_machine
    on smart_schedule_benchmark_runs (machine_id, project_id, requested_at desc);
create index smart_schedule_benchmark_runs_at_work
    on smart_schedule_benchmark_runs (progressed_at) where state in ('running', 'restoring');

alter table smart_schedule_attempts
    add column benchmark_run_id uuid references smart_schedule_benchmark_runs (id),
    add column benchmark_step   text check (benchmark_step in ('switch', 'restore')),
    add constraint smart_schedule_attempts_benchmark check ((benchmark_run_id is null) = (benchmark_step is null));
create index smart_schedule_attempts_of_benchmark
    on smart_schedule_attempts (benchmark_run_id) where benchmark_run_id is not null;

-- Readings of normal running that differ from the benchmark, newest first; null while they agree with it.
alter table smart_schedule_machine_project_benchmarks
    add column drift_hashrates_hs double precision[],
    add column drift_seen_at      timestamptz;
