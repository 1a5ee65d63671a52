-- What sampling has cost a policy is summed over its runs, which are kept for good: from the index alone.

create index smart_schedule_benchmark_runs_of_policy on smart_schedule_benchmark_runs (policy_id, tenant_id)
    include (state, ended_at, lost_minutes, lost_cny);
