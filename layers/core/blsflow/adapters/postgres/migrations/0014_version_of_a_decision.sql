-- The version of its machine's benchmarks that a decision was made on (see the next migration). By itself, because it waits
-- for everybody who reads decisions, and a tick must not have to wait for it meanwhile.

alter table smart_schedule_machine_decisions add column benchmarks_version bigint;
comment on column smart_schedule_machine_decisions.benchmarks_version is
    'null: the machine had never been measured, or its benchmarks are in the figures, as they were before';
