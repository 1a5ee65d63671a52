-- Batch commands that operators send themselves, on the attempts and locks that automation uses; pages of what is there.

create table smart_schedule_commands (
    id           uuid primary key,
    tenant_id    text not null,
    action       text not null check (action in ('switch', 'start', 'stop', 'power_off')),
    project_id   bigint,
    requested_by text not null,
    why          text not null,
    requested_at timestamptz not null,
    machines     integer not null check (machines > 0),            -- asked for
    taken        integer not null default 0 check (taken between 0 and machines),  -- in an attempt; the others say why not
    constraint smart_schedule_commands_project_of_mining
        check ((action in ('switch', 'start')) = (project_id is not null))
);
create index smart_schedule_commands_of_tenant on smart_schedule_commands (tenant_id, requested_at desc, id desc);
-- retention takes the oldest first
create index smart_schedule_commands_oldest on smart_schedule_commands (requested_at);

create table smart_schedule_command_machines (
    command_id uuid not null references smart_schedule_commands (id) on delete cascade,
    machine_id bigint not null,                    -- as it was asked for: there may be no such machine
    attempt_id uuid,
    skipped    text,                               -- why the machine is in no attempt
    primary key (command_id, machine_id),
    constraint smart_schedule_command_machines_taken_or_not check ((attempt_id is null) = (skipped is not null))
);

alter table smart_schedule_attempts
    add column command_id uuid references smart_schedule_commands (id),
    -- an attempt is automation's, a benchmark run's or an operator's
    add constraint smart_schedule_attempts_of_one
        check (command_id is null
               or (kind = 'device_batch' and policy_id is null and occurrence_id is null and benchmark_run_id is null));
create index smart_schedule_attempts_of_command on smart_schedule_attempts (command_id) where command_id is not null;

-- jobs and runs are read newest first, a page at a time
create index smart_schedule_attempts_of_tenant on smart_schedule_attempts (tenant_id, prepared_at desc, id desc);
create index smart_schedule_attempts_of_tenant_by_state
    on smart_schedule_attempts (tenant_id, state, prepared_at desc, id desc);
create index smart_schedule_attempts_of_policy on smart_schedule_attempts (policy_id, prepared_at desc, id desc);
create index smart_schedule_benchmark_runs_of_tenant
    on smart_schedule_benchmark_runs (tenant_id, requested_at desc, id desc);

alter table smart_schedule_commands enable row level security;
create policy of_tenant on smart_schedule_commands to blsflow_tenant using (tenant_id = smart_schedule_tenant());
alter table smart_schedule_command_machines enable row level security;
create policy of_tenant on smart_schedule_command_machines to blsflow_tenant
    using (exists (select from smart_schedule_commands c where c.id = command_id));
grant select, insert, update on smart_schedule_commands, smart_schedule_command_machines to blsflow_tenant;

-- Locks and states stay when a machine changes hands: they are then its new owner's to take, and still his to free whose
-- attempt or run it was that took them.
alter policy of_tenant on smart_schedule_machine_locks
    using (tenant_id = (select smart_schedule_tenant())
           or exists (select from smart_schedule_tenant.machines m where m.id = machine_id));
alter policy of_tenant on smart_schedule_machine_states
    using (tenant_id = (select smart_schedule_tenant())
           or exists (select from smart_schedule_tenant.machines m where m.id = machine_id));
-- ... but a new one is of a machine that is the tenant's now.
create policy of_own_machine on smart_schedule_machine_locks as restrictive for insert to blsflow_tenant
    with check (tenant_id = smart_schedule_tenant()
                and exists (select from smart_schedule_tenant.machines m where m.id = machine_id));
create policy of_own_machine on smart_schedule_machine_states as restrictive for insert to blsflow_tenant
    with check (tenant_id = smart_schedule_tenant()
                and exists (select from smart_schedule_tenant.machines m where m.id = machine_id));
