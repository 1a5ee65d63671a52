-- The sum of the migrations, written by `make schema` and held to them by a test; without daily partitions.

CREATE SCHEMA smart_schedule_tenant;

CREATE FUNCTION public.smart_schedule_acts(enabled boolean, archived_at timestamp with time zone, execution_mode text) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    RETURN (enabled AND (archived_at IS NULL) AND (execution_mode = 'execute'::text));

CREATE FUNCTION public.smart_schedule_back_off(failures integer) RETURNS interval
    LANGUAGE sql IMMUTABLE
    RETURN LEAST(('00:01:00'::interval * power((2)::double precision, ((LEAST(failures, 7) - 1))::double precision)), '01:00:00'::interval);

CREATE FUNCTION public.smart_schedule_benchmarks_changed() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
begin
    case tg_op
        when 'TRUNCATE' then
            truncate smart_schedule_machine_benchmark_entries;
            update smart_schedule_benchmark_versions set superseded_at = now() where superseded_at is null;
        when 'UPDATE' then  -- of what is packed, that is: drifted readings, which are noted beside a benchmark, are not
            perform smart_schedule_pack_benchmarks(array(
                select distinct machine_id from changed c full join former f using (machine_id, project_id)
                where (c.hashrate_hs, c.power_w, c.power_estimated, c.sampled_at, c.flagged, c.shared_from is null)
                      is distinct from
                      (f.hashrate_hs, f.power_w, f.power_estimated, f.sampled_at, f.flagged, f.shared_from is null)));
        else
            perform smart_schedule_pack_benchmarks(array(select distinct machine_id from changed));
    end case;
    return null;
end $$;

CREATE FUNCTION public.smart_schedule_covers(resource_type text, resource_id text, machine_id bigint, cluster_id bigint, model text) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    RETURN ((resource_type = 'tenant'::text) OR ((resource_type = 'cluster'::text) AND (resource_id = (cluster_id)::text)) OR ((resource_type = 'model'::text) AND (resource_id = model)) OR ((resource_type = 'machine'::text) AND (resource_id = (machine_id)::text)));

CREATE FUNCTION public.smart_schedule_ends_are_final() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
begin
    if old.ended_at is not null and (new.state, new.ended_at) is distinct from (old.state, old.ended_at) then
        raise exception 'row % of % has ended as %', old.id, tg_table_name, old.state
            using errcode = 'check_violation', constraint = 'ends_are_final';
    end if;
    return new;
end $$;

CREATE FUNCTION public.smart_schedule_machine_status(status text, hashrate_hs double precision, reported_at timestamp with time zone, stopped_by text, expected text, changed_at timestamp with time zone) RETURNS text
    LANGUAGE sql IMMUTABLE
    RETURN CASE WHEN ((stopped_by IS NOT NULL) AND (expected = 'off'::text) AND COALESCE((reported_at <= changed_at), true)) THEN 'off'::text WHEN ((stopped_by IS NOT NULL) AND (hashrate_hs = (0)::double precision)) THEN CASE expected WHEN 'off'::text THEN 'off'::text ELSE 'stopped'::text END ELSE status END;

CREATE FUNCTION public.smart_schedule_maintain_partitions(at timestamp with time zone, days_ahead integer, keep_days integer) RETURNS TABLE(created integer, dropped integer)
    LANGUAGE plpgsql
    SET lock_timeout TO '500ms'
    AS $_$
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
end $_$;

CREATE FUNCTION public.smart_schedule_number_projects(machine_ids bigint[]) RETURNS void
    LANGUAGE plpgsql
    AS $$
declare
    missing bytea[] := array(
        select distinct p.projects from smart_schedule_packed_benchmarks(machine_ids) p
        where p.projects <> '' and not exists (select from smart_schedule_measured_projects m where m.projects = p.projects));
begin
    if cardinality(missing) > 0 then
        perform pg_advisory_xact_lock(hashtextextended('smart_schedule_measured_projects', 0));
        insert into smart_schedule_measured_projects (projects) select unnest(missing) on conflict do nothing;
    end if;
end $$;

CREATE FUNCTION public.smart_schedule_pack_benchmarks(machine_ids bigint[]) RETURNS void
    LANGUAGE plpgsql
    AS $$
begin
    perform smart_schedule_number_projects(machine_ids);
    insert into smart_schedule_machine_benchmark_entries (machine_id, entries, figures, measured, oldest, newest)
    select p.machine_id, p.entries, p.figures, m.id, p.oldest, p.newest
    from smart_schedule_packed_benchmarks(machine_ids) p
    left join smart_schedule_measured_projects m on m.projects = p.projects
    order by p.machine_id
    on conflict (machine_id) do nothing;
    perform from smart_schedule_machine_benchmark_entries e where e.machine_id = any (machine_ids)
    order by e.machine_id for update;
    perform smart_schedule_number_projects(machine_ids);
    update smart_schedule_machine_benchmark_entries e
    set entries = p.entries, figures = p.figures, measured = m.id, oldest = p.oldest, newest = p.newest,
        version = nextval('smart_schedule_benchmark_version_ids')
    from smart_schedule_packed_benchmarks(machine_ids) p
    left join smart_schedule_measured_projects m on m.projects = p.projects
    where e.machine_id = p.machine_id
      and (e.entries <> p.entries or e.version is null or e.measured is distinct from m.id);
    update smart_schedule_benchmark_versions v
    set superseded_at = now()
    from smart_schedule_machine_benchmark_entries e
    where e.machine_id = any (machine_ids) and v.machine_id = e.machine_id and v.superseded_at is null and v.id <> e.version;
    insert into smart_schedule_benchmark_versions (id, machine_id, entries, tenant_id)
    select e.version, e.machine_id, e.entries, (select m.tenant_id from machines m where m.id = e.machine_id)
    from smart_schedule_machine_benchmark_entries e
    where e.machine_id = any (machine_ids)
      and not exists (select from smart_schedule_benchmark_versions v
                      where v.machine_id = e.machine_id and v.superseded_at is null);
end $$;

CREATE FUNCTION public.smart_schedule_packed_benchmarks(machine_ids bigint[]) RETURNS TABLE(machine_id bigint, entries bytea, figures bytea, projects bytea, oldest double precision, newest double precision)
    LANGUAGE plpgsql STABLE
    AS $$
begin
    return query
    select changed.id,
           coalesce(string_agg(int8send(b.project_id) || float8send(coalesce(b.hashrate_hs, 'NaN'))
                               || float8send(coalesce(b.power_w, 'NaN')) || float8send(date_part('epoch', b.sampled_at))
                               || charsend((b.power_estimated::int | (b.shared_from is not null)::int * 2
                                            | b.flagged::int * 4)::"char"), ''::bytea order by b.project_id), ''),
           coalesce(string_agg(float8send(coalesce(b.hashrate_hs, 'NaN')) || float8send(coalesce(b.power_w, 'NaN')),
                               ''::bytea order by b.project_id) filter (where b.project_id is not null), ''),
           coalesce(string_agg(int8send(b.project_id), ''::bytea order by b.project_id), ''),
           case when bool_and(not b.flagged and smart_schedule_plausible(b.hashrate_hs, b.power_w))
                then min(date_part('epoch', b.sampled_at)) else 'NaN' end,
           case when bool_and(not b.flagged and smart_schedule_plausible(b.hashrate_hs, b.power_w))
                then max(date_part('epoch', b.sampled_at)) else 'NaN' end
    from unnest(machine_ids) as changed (id)
    left join smart_schedule_machine_project_benchmarks b on b.machine_id = changed.id
    group by changed.id;
end $$;

CREATE FUNCTION public.smart_schedule_plausible(hashrate_hs double precision, power_w double precision) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    RETURN COALESCE(((hashrate_hs > (0)::double precision) AND (hashrate_hs < 'Infinity'::double precision) AND (power_w >= (10)::double precision) AND (power_w < 'Infinity'::double precision)), false);

CREATE FUNCTION public.smart_schedule_samples(enabled boolean, archived_at timestamp with time zone, execution_mode text, max_benchmarks integer) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    RETURN (public.smart_schedule_acts(enabled, archived_at, execution_mode) AND (max_benchmarks > 0));

CREATE FUNCTION public.smart_schedule_say_benchmarks() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
begin
    new.said := int2send((length(new.entries) / 33)::int2) || int8send(coalesce(new.measured, 0)) || int8send(new.version)
                || float8send(new.oldest);
    return new;
end $$;

CREATE FUNCTION public.smart_schedule_take_stream(tenant text, per_tenant integer, in_all integer) RETURNS text
    LANGUAGE plpgsql
    AS $$
declare
    taken boolean := false;
begin
    perform pg_advisory_unlock_all();
    for slot in 1..per_tenant loop
        taken := pg_try_advisory_lock(hashtextextended('blsflow stream of ' || tenant || ' ' || slot, 0));
        exit when taken;
    end loop;
    if not taken then
        return 'tenant';
    end if;
    for slot in 1..in_all loop
        if pg_try_advisory_lock(hashtextextended('blsflow stream ' || slot, 0)) then
            return null;
        end if;
    end loop;
    perform pg_advisory_unlock_all();
    return 'deployment';
end $$;

CREATE FUNCTION public.smart_schedule_tenant() RETURNS text
    LANGUAGE sql STABLE
    RETURN NULLIF(current_setting('blsflow.tenant'::text, true), ''::text);

CREATE TABLE public.cluster_tariff_periods (
    id bigint NOT NULL,
    tariff_id bigint NOT NULL,
    name text NOT NULL,
    priority integer DEFAULT 0 NOT NULL,
    starts text NOT NULL,
    ends text NOT NULL,
    weekdays integer[],
    day_types text[],
    months integer[],
    season_start text,
    season_end text,
    price_per_kwh numeric NOT NULL
);

CREATE TABLE public.cluster_tariffs (
    id bigint NOT NULL,
    cluster_id bigint NOT NULL,
    name text NOT NULL,
    currency text DEFAULT 'CNY'::text NOT NULL,
    valid_from timestamp with time zone,
    valid_to timestamp with time zone,
    holidays date[] DEFAULT '{}'::date[] NOT NULL,
    make_up_workdays date[] DEFAULT '{}'::date[] NOT NULL
);

CREATE TABLE public.clusters (
    id bigint NOT NULL,
    tenant_id text NOT NULL,
    name text NOT NULL,
    time_zone text NOT NULL
);

CREATE TABLE public.machine_mining_runtime (
    machine_id bigint NOT NULL,
    status text NOT NULL,
    project_id bigint,
    hashrate_hs double precision,
    project_since timestamp with time zone,
    reported_at timestamp with time zone NOT NULL
)
WITH (fillfactor='70');

CREATE TABLE public.machine_models (
    model text NOT NULL,
    algorithm text NOT NULL,
    nameplate_hashrate_hs double precision NOT NULL,
    nameplate_power_w double precision NOT NULL
);

CREATE TABLE public.machines (
    id bigint NOT NULL,
    tenant_id text NOT NULL,
    cluster_id bigint NOT NULL,
    model text NOT NULL,
    name text NOT NULL,
    operator_hold boolean DEFAULT false NOT NULL
);

CREATE TABLE public.metric_powers (
    machine_id bigint NOT NULL,
    measured_at timestamp with time zone NOT NULL,
    power_w double precision
);

CREATE TABLE public.project_run_configurations (
    id bigint NOT NULL,
    project_id bigint NOT NULL,
    model text NOT NULL,
    runnable boolean NOT NULL
);

CREATE TABLE public.projects (
    id bigint NOT NULL,
    tenant_id text NOT NULL,
    name text NOT NULL,
    coin text NOT NULL,
    price_key text NOT NULL,
    algorithm text NOT NULL,
    pool text DEFAULT ''::text NOT NULL
);

CREATE TABLE public.smart_schedule_attempt_machines (
    attempt_id uuid NOT NULL,
    machine_id bigint NOT NULL,
    fencing_token bigint NOT NULL,
    state text DEFAULT 'pending'::text NOT NULL,
    reason text,
    job_ended_at timestamp with time zone,
    ended_at timestamp with time zone,
    CONSTRAINT smart_schedule_attempt_machines_ended CHECK (((state = 'pending'::text) = (ended_at IS NULL))),
    CONSTRAINT smart_schedule_attempt_machines_state_check CHECK ((state = ANY (ARRAY['pending'::text, 'succeeded'::text, 'failed'::text, 'refused'::text, 'dropped'::text])))
);

CREATE TABLE public.smart_schedule_attempts (
    id uuid NOT NULL,
    tenant_id text NOT NULL,
    kind text NOT NULL,
    idempotency_key text NOT NULL,
    occurrence_id bigint,
    policy_id bigint,
    tick_id bigint,
    action text NOT NULL,
    project_id bigint,
    run_config_id bigint,
    state text NOT NULL,
    reason text,
    reference text,
    job_state text,
    detail jsonb DEFAULT '{}'::jsonb NOT NULL,
    prepared_at timestamp with time zone NOT NULL,
    valid_until timestamp with time zone NOT NULL,
    enqueued_at timestamp with time zone,
    dispatched_at timestamp with time zone,
    request_expires_at timestamp with time zone,
    next_check_at timestamp with time zone,
    checks integer DEFAULT 0 NOT NULL,
    unresolved_alerted_at timestamp with time zone,
    ended_at timestamp with time zone,
    caller_subject text,
    unreachable_alerted_at timestamp with time zone,
    benchmark_run_id uuid,
    benchmark_step text,
    command_id uuid,
    CONSTRAINT smart_schedule_attempts_action_check CHECK ((action = ANY (ARRAY['switch'::text, 'start'::text, 'stop'::text, 'power_off'::text, 'converse'::text]))),
    CONSTRAINT smart_schedule_attempts_benchmark CHECK (((benchmark_run_id IS NULL) = (benchmark_step IS NULL))),
    CONSTRAINT smart_schedule_attempts_benchmark_step_check CHECK ((benchmark_step = ANY (ARRAY['switch'::text, 'restore'::text]))),
    CONSTRAINT smart_schedule_attempts_ended CHECK (((state = ANY (ARRAY['succeeded'::text, 'failed'::text, 'cancelled'::text, 'interrupted'::text, 'skipped'::text])) = (ended_at IS NOT NULL))),
    CONSTRAINT smart_schedule_attempts_kind_check CHECK ((kind = ANY (ARRAY['device_batch'::text, 'conversation'::text]))),
    CONSTRAINT smart_schedule_attempts_of_one CHECK (((command_id IS NULL) OR ((kind = 'device_batch'::text) AND (policy_id IS NULL) AND (occurrence_id IS NULL) AND (benchmark_run_id IS NULL)))),
    CONSTRAINT smart_schedule_attempts_reference_of_dispatched CHECK (((dispatched_at IS NOT NULL) OR (reference IS NULL))),
    CONSTRAINT smart_schedule_attempts_running_has_reference CHECK (((state <> 'running'::text) OR (reference IS NOT NULL))),
    CONSTRAINT smart_schedule_attempts_state_check CHECK ((state = ANY (ARRAY['prepared'::text, 'dispatching'::text, 'running'::text, 'reconciling'::text, 'cancelling'::text, 'succeeded'::text, 'failed'::text, 'cancelled'::text, 'interrupted'::text, 'skipped'::text])))
)
WITH (fillfactor='70');

CREATE TABLE public.smart_schedule_benchmark_runs (
    id uuid NOT NULL,
    tenant_id text NOT NULL,
    policy_id bigint,
    machine_id bigint NOT NULL,
    project_id bigint NOT NULL,
    state text NOT NULL,
    reason text,
    attempt_no integer DEFAULT 1 NOT NULL,
    not_before timestamp with time zone NOT NULL,
    value_cny_per_day double precision,
    execution_arn text,
    restore_project_id bigint,
    restore_status text,
    result jsonb DEFAULT '{}'::jsonb NOT NULL,
    requested_at timestamp with time zone NOT NULL,
    started_at timestamp with time zone,
    ended_at timestamp with time zone,
    origin text DEFAULT 'decision'::text NOT NULL,
    requested_by text,
    asked_at timestamp with time zone DEFAULT now() NOT NULL,
    current_net_cny_per_day double precision,
    execution_name text,
    execution_no integer DEFAULT 0 NOT NULL,
    execution_noted_at timestamp with time zone,
    step text,
    progressed_at timestamp with time zone,
    fencing_token bigint,
    run_config_id bigint,
    restore_action text,
    restore_run_config_id bigint,
    restore_tries integer DEFAULT 0 NOT NULL,
    rescues integer DEFAULT 0 NOT NULL,
    measuring_from timestamp with time zone,
    readings jsonb DEFAULT '[]'::jsonb NOT NULL,
    outcome text,
    moved_at timestamp with time zone,
    lost_minutes double precision,
    lost_cny double precision,
    alerted_at timestamp with time zone,
    CONSTRAINT smart_schedule_benchmark_runs_attempt_no_check CHECK ((attempt_no > 0)),
    CONSTRAINT smart_schedule_benchmark_runs_ended CHECK (((state = ANY (ARRAY['succeeded'::text, 'failed'::text, 'cancelled'::text])) = (ended_at IS NOT NULL))),
    CONSTRAINT smart_schedule_benchmark_runs_execution CHECK (((execution_name IS NULL) = (execution_no = 0))),
    CONSTRAINT smart_schedule_benchmark_runs_execution_no_check CHECK ((execution_no >= 0)),
    CONSTRAINT smart_schedule_benchmark_runs_origin_check CHECK ((origin = ANY (ARRAY['decision'::text, 'drift'::text, 'operator'::text]))),
    CONSTRAINT smart_schedule_benchmark_runs_outcome_check CHECK ((outcome = ANY (ARRAY['measured'::text, 'failed'::text]))),
    CONSTRAINT smart_schedule_benchmark_runs_rescues_check CHECK ((rescues >= 0)),
    CONSTRAINT smart_schedule_benchmark_runs_restore CHECK (((NOT (restore_action IS DISTINCT FROM 'switch'::text)) = (restore_project_id IS NOT NULL))),
    CONSTRAINT smart_schedule_benchmark_runs_restore_action_check CHECK ((restore_action = ANY (ARRAY['switch'::text, 'stop'::text, 'power_off'::text]))),
    CONSTRAINT smart_schedule_benchmark_runs_restore_tries_check CHECK ((restore_tries >= 0)),
    CONSTRAINT smart_schedule_benchmark_runs_restored CHECK (((state <> ALL (ARRAY['succeeded'::text, 'failed'::text])) OR (execution_no = 0) OR (restore_status IS NOT NULL))),
    CONSTRAINT smart_schedule_benchmark_runs_state_check CHECK ((state = ANY (ARRAY['pending'::text, 'running'::text, 'restoring'::text, 'succeeded'::text, 'failed'::text, 'cancelled'::text])))
);

CREATE TABLE public.smart_schedule_benchmark_versions (
    id bigint NOT NULL,
    machine_id bigint NOT NULL,
    entries bytea NOT NULL,
    superseded_at timestamp with time zone,
    tenant_id text
);

CREATE SEQUENCE public.smart_schedule_benchmark_version_ids
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

ALTER SEQUENCE public.smart_schedule_benchmark_version_ids OWNED BY public.smart_schedule_benchmark_versions.id;

CREATE TABLE public.smart_schedule_command_machines (
    command_id uuid NOT NULL,
    machine_id bigint NOT NULL,
    attempt_id uuid,
    skipped text,
    CONSTRAINT smart_schedule_command_machines_taken_or_not CHECK (((attempt_id IS NULL) = (skipped IS NOT NULL)))
);

CREATE TABLE public.smart_schedule_commands (
    id uuid NOT NULL,
    tenant_id text NOT NULL,
    action text NOT NULL,
    project_id bigint,
    requested_by text NOT NULL,
    why text NOT NULL,
    requested_at timestamp with time zone NOT NULL,
    machines integer NOT NULL,
    taken integer DEFAULT 0 NOT NULL,
    CONSTRAINT smart_schedule_commands_action_check CHECK ((action = ANY (ARRAY['switch'::text, 'start'::text, 'stop'::text, 'power_off'::text]))),
    CONSTRAINT smart_schedule_commands_check CHECK (((taken >= 0) AND (taken <= machines))),
    CONSTRAINT smart_schedule_commands_machines_check CHECK ((machines > 0)),
    CONSTRAINT smart_schedule_commands_project_of_mining CHECK (((action = ANY (ARRAY['switch'::text, 'start'::text])) = (project_id IS NOT NULL)))
);

CREATE TABLE public.smart_schedule_executor_leases (
    tenant_id text NOT NULL,
    holder text NOT NULL,
    expires_at timestamp with time zone DEFAULT 'infinity'::timestamp with time zone NOT NULL,
    changed_by text NOT NULL,
    changed_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT smart_schedule_executor_leases_holder_check CHECK ((holder = ANY (ARRAY['blsflow'::text, 'legacy'::text])))
);

CREATE SEQUENCE public.smart_schedule_fencing_tokens
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

CREATE TABLE public.smart_schedule_freezes (
    id bigint NOT NULL,
    policy_id bigint NOT NULL,
    tenant_id text NOT NULL,
    cause text NOT NULL,
    detail jsonb DEFAULT '{}'::jsonb NOT NULL,
    frozen_at timestamp with time zone NOT NULL,
    frozen_by text NOT NULL,
    lifted_at timestamp with time zone,
    lifted_by text,
    lift_reason text,
    CONSTRAINT smart_schedule_freezes_cause_check CHECK ((cause = ANY (ARRAY['profit_unusable'::text, 'anomaly_flagged'::text, 'price_jump'::text, 'failed_share'::text, 'move_share'::text, 'manual'::text]))),
    CONSTRAINT smart_schedule_freezes_lift_on_record CHECK ((((lifted_at IS NULL) = (lifted_by IS NULL)) AND ((lifted_at IS NULL) = (lift_reason IS NULL))))
);

ALTER TABLE public.smart_schedule_freezes ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.smart_schedule_freezes_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.smart_schedule_log_events (
    id bigint NOT NULL,
    xid xid8 DEFAULT pg_current_xact_id() NOT NULL,
    at timestamp with time zone NOT NULL,
    tenant_id text NOT NULL,
    policy_id bigint,
    kind text DEFAULT 'log'::text NOT NULL,
    level text DEFAULT 'info'::text NOT NULL,
    code text NOT NULL,
    params jsonb DEFAULT '{}'::jsonb NOT NULL,
    tick_id bigint,
    attempt_id uuid,
    machine_id bigint,
    CONSTRAINT smart_schedule_log_events_kind_check CHECK ((kind = ANY (ARRAY['log'::text, 'progress'::text, 'tick'::text]))),
    CONSTRAINT smart_schedule_log_events_level_check CHECK ((level = ANY (ARRAY['info'::text, 'warning'::text, 'error'::text])))
)
PARTITION BY RANGE (at);

CREATE TABLE public.smart_schedule_log_events_default (
    id bigint CONSTRAINT smart_schedule_log_events_id_not_null NOT NULL,
    xid xid8 DEFAULT pg_current_xact_id() CONSTRAINT smart_schedule_log_events_xid_not_null NOT NULL,
    at timestamp with time zone CONSTRAINT smart_schedule_log_events_at_not_null NOT NULL,
    tenant_id text CONSTRAINT smart_schedule_log_events_tenant_id_not_null NOT NULL,
    policy_id bigint,
    kind text DEFAULT 'log'::text CONSTRAINT smart_schedule_log_events_kind_not_null NOT NULL,
    level text DEFAULT 'info'::text CONSTRAINT smart_schedule_log_events_level_not_null NOT NULL,
    code text CONSTRAINT smart_schedule_log_events_code_not_null NOT NULL,
    params jsonb DEFAULT '{}'::jsonb CONSTRAINT smart_schedule_log_events_params_not_null NOT NULL,
    tick_id bigint,
    attempt_id uuid,
    machine_id bigint,
    CONSTRAINT smart_schedule_log_events_kind_check CHECK ((kind = ANY (ARRAY['log'::text, 'progress'::text, 'tick'::text]))),
    CONSTRAINT smart_schedule_log_events_level_check CHECK ((level = ANY (ARRAY['info'::text, 'warning'::text, 'error'::text])))
);

ALTER TABLE public.smart_schedule_log_events ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.smart_schedule_log_events_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.smart_schedule_machine_benchmark_entries (
    machine_id bigint NOT NULL,
    entries bytea NOT NULL,
    version bigint DEFAULT nextval('public.smart_schedule_benchmark_version_ids'::regclass) NOT NULL,
    measured bigint,
    figures bytea DEFAULT '\x'::bytea NOT NULL,
    oldest double precision DEFAULT 'NaN'::double precision NOT NULL,
    newest double precision DEFAULT 'NaN'::double precision NOT NULL,
    said bytea NOT NULL
)
WITH (fillfactor='70');

CREATE TABLE public.smart_schedule_machine_decisions (
    ticked_at timestamp with time zone NOT NULL,
    tick_id bigint NOT NULL,
    machine_id bigint NOT NULL,
    action text NOT NULL,
    reason text NOT NULL,
    proposed text NOT NULL,
    from_project bigint,
    to_project bigint,
    run_config_id bigint,
    current_net_cny_per_day double precision,
    best_net_cny_per_day double precision,
    overridden_by bigint,
    attempt_id uuid,
    job_id text,
    figures bytea NOT NULL,
    benchmarks_version bigint,
    CONSTRAINT smart_schedule_machine_decisions_action_check CHECK ((action = ANY (ARRAY['keep'::text, 'switch'::text, 'start'::text, 'stop'::text, 'power_off'::text, 'benchmark_required'::text, 'skip'::text])))
)
PARTITION BY RANGE (ticked_at);

COMMENT ON COLUMN public.smart_schedule_machine_decisions.benchmarks_version IS 'null: the machine had never been measured, or its benchmarks are in the figures, as they were before';

CREATE TABLE public.smart_schedule_machine_decisions_default (
    ticked_at timestamp with time zone CONSTRAINT smart_schedule_machine_decisions_ticked_at_not_null NOT NULL,
    tick_id bigint CONSTRAINT smart_schedule_machine_decisions_tick_id_not_null NOT NULL,
    machine_id bigint CONSTRAINT smart_schedule_machine_decisions_machine_id_not_null NOT NULL,
    action text CONSTRAINT smart_schedule_machine_decisions_action_not_null NOT NULL,
    reason text CONSTRAINT smart_schedule_machine_decisions_reason_not_null NOT NULL,
    proposed text CONSTRAINT smart_schedule_machine_decisions_proposed_not_null NOT NULL,
    from_project bigint,
    to_project bigint,
    run_config_id bigint,
    current_net_cny_per_day double precision,
    best_net_cny_per_day double precision,
    overridden_by bigint,
    attempt_id uuid,
    job_id text,
    figures bytea CONSTRAINT smart_schedule_machine_decisions_figures_not_null NOT NULL,
    benchmarks_version bigint,
    CONSTRAINT smart_schedule_machine_decisions_action_check CHECK ((action = ANY (ARRAY['keep'::text, 'switch'::text, 'start'::text, 'stop'::text, 'power_off'::text, 'benchmark_required'::text, 'skip'::text])))
);

CREATE TABLE public.smart_schedule_machine_locks (
    machine_id bigint NOT NULL,
    tenant_id text NOT NULL,
    owner_kind text NOT NULL,
    owner_id uuid NOT NULL,
    fencing_token bigint NOT NULL,
    taken_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    freed_at timestamp with time zone,
    freed_by text,
    alerted_at timestamp with time zone,
    CONSTRAINT smart_schedule_machine_locks_freed_on_record CHECK (((freed_at IS NULL) = (freed_by IS NULL))),
    CONSTRAINT smart_schedule_machine_locks_owner_kind_check CHECK ((owner_kind = ANY (ARRAY['attempt'::text, 'benchmark'::text])))
)
WITH (fillfactor='70');

CREATE TABLE public.smart_schedule_machine_project_benchmarks (
    machine_id bigint NOT NULL,
    project_id bigint NOT NULL,
    hashrate_hs double precision,
    power_w double precision,
    power_estimated boolean DEFAULT false CONSTRAINT smart_schedule_machine_project_benchma_power_estimated_not_null NOT NULL,
    sampled_at timestamp with time zone NOT NULL,
    flagged boolean DEFAULT false NOT NULL,
    shared_from bigint,
    drift_hashrates_hs double precision[],
    drift_seen_at timestamp with time zone
)
WITH (fillfactor='70');

CREATE TABLE public.smart_schedule_machine_states (
    machine_id bigint NOT NULL,
    tenant_id text NOT NULL,
    expected text NOT NULL,
    expected_project bigint,
    stopped_by text,
    changed_at timestamp with time zone NOT NULL,
    foreign_changes integer DEFAULT 0 NOT NULL,
    foreign_seen_at timestamp with time zone,
    failures integer DEFAULT 0 NOT NULL,
    retry_at timestamp with time zone,
    CONSTRAINT smart_schedule_machine_states_expected_check CHECK ((expected = ANY (ARRAY['unset'::text, 'mining'::text, 'stopped'::text, 'off'::text]))),
    CONSTRAINT smart_schedule_machine_states_project_of_mining CHECK (((expected = 'mining'::text) OR (expected_project IS NULL))),
    CONSTRAINT smart_schedule_machine_states_stopped_by_check CHECK ((stopped_by = ANY (ARRAY['scheduler'::text, 'human'::text])))
)
WITH (fillfactor='70');

CREATE TABLE public.smart_schedule_measured_projects (
    id bigint NOT NULL,
    projects bytea NOT NULL
);

ALTER TABLE public.smart_schedule_measured_projects ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.smart_schedule_measured_projects_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.smart_schedule_migrations (
    version text NOT NULL,
    applied_at timestamp with time zone DEFAULT now() NOT NULL
);

CREATE TABLE public.smart_schedule_occurrences (
    id bigint NOT NULL,
    tenant_id text NOT NULL,
    schedule_id bigint NOT NULL,
    kind text NOT NULL,
    origin text NOT NULL,
    planned_at timestamp with time zone NOT NULL,
    request_id text,
    request_fingerprint text,
    state text NOT NULL,
    reason text,
    missed_count integer,
    detail jsonb DEFAULT '{}'::jsonb NOT NULL,
    recorded_at timestamp with time zone NOT NULL,
    enqueued_at timestamp with time zone,
    began_at timestamp with time zone,
    ended_at timestamp with time zone,
    schedule_version bigint,
    requested_by text,
    cancel_requested_at timestamp with time zone,
    cancel_requested_by text,
    output_ref text,
    error text,
    CONSTRAINT smart_schedule_occurrences_ended CHECK (((state = ANY (ARRAY['succeeded'::text, 'failed'::text, 'cancelled'::text, 'interrupted'::text, 'skipped'::text])) = (ended_at IS NOT NULL))),
    CONSTRAINT smart_schedule_occurrences_kind_check CHECK ((kind = ANY (ARRAY['policy_tick'::text, 'conversation'::text]))),
    CONSTRAINT smart_schedule_occurrences_missed_are_counted CHECK (((reason IS DISTINCT FROM 'missed'::text) OR (COALESCE(missed_count, 0) > 0))),
    CONSTRAINT smart_schedule_occurrences_origin_check CHECK ((origin = ANY (ARRAY['planned'::text, 'manual'::text]))),
    CONSTRAINT smart_schedule_occurrences_request_of_manual CHECK (((origin = 'manual'::text) = (request_id IS NOT NULL))),
    CONSTRAINT smart_schedule_occurrences_skip_has_reason CHECK (((state <> 'skipped'::text) OR (reason IS NOT NULL))),
    CONSTRAINT smart_schedule_occurrences_state_check CHECK ((state = ANY (ARRAY['recorded'::text, 'running'::text, 'reconciling'::text, 'cancelling'::text, 'succeeded'::text, 'failed'::text, 'cancelled'::text, 'interrupted'::text, 'skipped'::text])))
)
WITH (fillfactor='45');

ALTER TABLE public.smart_schedule_occurrences ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.smart_schedule_occurrences_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.smart_schedule_outbox (
    id bigint NOT NULL,
    tenant_id text NOT NULL,
    policy_id bigint,
    code text NOT NULL,
    params jsonb DEFAULT '{}'::jsonb NOT NULL,
    created_at timestamp with time zone NOT NULL,
    published_at timestamp with time zone,
    tries integer DEFAULT 0 NOT NULL,
    next_try_at timestamp with time zone NOT NULL,
    read_at timestamp with time zone,
    read_by text
);

ALTER TABLE public.smart_schedule_outbox ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.smart_schedule_outbox_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.smart_schedule_policy_candidates (
    policy_id bigint NOT NULL,
    project_id bigint NOT NULL,
    "position" integer NOT NULL,
    price_level double precision,
    price_level_at timestamp with time zone,
    price_pending_level double precision,
    price_pending_since timestamp with time zone,
    CONSTRAINT smart_schedule_policy_candidates_position_check CHECK (("position" >= 0))
);

CREATE TABLE public.smart_schedule_policy_groups (
    id bigint NOT NULL,
    tenant_id text NOT NULL,
    name text NOT NULL,
    mode text NOT NULL,
    execution_mode text DEFAULT 'shadow'::text NOT NULL,
    enabled boolean DEFAULT false NOT NULL,
    archived_at timestamp with time zone,
    version bigint DEFAULT 1 NOT NULL,
    priority integer DEFAULT 0 NOT NULL,
    time_zone text DEFAULT 'UTC'::text NOT NULL,
    profit_max_age_sec integer DEFAULT 300 NOT NULL,
    report_max_age_sec integer DEFAULT 600 NOT NULL,
    benchmark_ttl_sec integer DEFAULT 2592000 NOT NULL,
    price_jump_factor double precision DEFAULT 3 NOT NULL,
    price_hold_sec integer DEFAULT 1800 NOT NULL,
    min_gain_cny_per_day double precision DEFAULT 1 NOT NULL,
    min_gain_ratio double precision DEFAULT 0.05 NOT NULL,
    min_dwell_sec integer DEFAULT 1800 NOT NULL,
    switch_cost_sec integer DEFAULT 300 NOT NULL,
    holding_time_sec integer DEFAULT 14400 NOT NULL,
    negative_profit_action text DEFAULT 'keep'::text NOT NULL,
    restart_threshold_cny_per_day double precision DEFAULT 1 CONSTRAINT smart_schedule_policy_group_restart_threshold_cny_per__not_null NOT NULL,
    decision_validity_sec integer DEFAULT 120 NOT NULL,
    freeze_after_failures integer DEFAULT 3 NOT NULL,
    max_move_share double precision,
    freeze_jump_factor double precision,
    max_failed_share double precision DEFAULT 0.5 NOT NULL,
    failed_share_window_sec integer DEFAULT 3600 NOT NULL,
    max_foreign_changes integer DEFAULT 3 NOT NULL,
    consecutive_failures integer DEFAULT 0 NOT NULL,
    tariff_problems text[] DEFAULT '{}'::text[] NOT NULL,
    created_by text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    max_benchmarks integer DEFAULT 5 NOT NULL,
    max_benchmark_share double precision DEFAULT 0.05 NOT NULL,
    benchmark_share_after integer DEFAULT 3 NOT NULL,
    CONSTRAINT smart_schedule_policy_groups_benchmark_share_after_check CHECK ((benchmark_share_after > 0)),
    CONSTRAINT smart_schedule_policy_groups_benchmark_ttl_sec_check CHECK ((benchmark_ttl_sec > 0)),
    CONSTRAINT smart_schedule_policy_groups_consecutive_failures_check CHECK ((consecutive_failures >= 0)),
    CONSTRAINT smart_schedule_policy_groups_decision_validity_sec_check CHECK ((decision_validity_sec > 0)),
    CONSTRAINT smart_schedule_policy_groups_execution_mode_check CHECK ((execution_mode = ANY (ARRAY['dry_run'::text, 'shadow'::text, 'execute'::text]))),
    CONSTRAINT smart_schedule_policy_groups_failed_share_window_sec_check CHECK ((failed_share_window_sec > 0)),
    CONSTRAINT smart_schedule_policy_groups_freeze_after_failures_check CHECK ((freeze_after_failures > 0)),
    CONSTRAINT smart_schedule_policy_groups_freeze_jump_factor_check CHECK (((freeze_jump_factor > (1)::double precision) AND (freeze_jump_factor < 'Infinity'::double precision))),
    CONSTRAINT smart_schedule_policy_groups_holding_time_sec_check CHECK (((holding_time_sec >= 1) AND (holding_time_sec <= 2592000))),
    CONSTRAINT smart_schedule_policy_groups_max_benchmark_share_check CHECK (((max_benchmark_share > (0)::double precision) AND (max_benchmark_share <= (1)::double precision))),
    CONSTRAINT smart_schedule_policy_groups_max_benchmarks_check CHECK ((max_benchmarks >= 0)),
    CONSTRAINT smart_schedule_policy_groups_max_failed_share_check CHECK (((max_failed_share > (0)::double precision) AND (max_failed_share <= (1)::double precision))),
    CONSTRAINT smart_schedule_policy_groups_max_foreign_changes_check CHECK ((max_foreign_changes >= 0)),
    CONSTRAINT smart_schedule_policy_groups_max_move_share_check CHECK (((max_move_share > (0)::double precision) AND (max_move_share <= (1)::double precision))),
    CONSTRAINT smart_schedule_policy_groups_min_dwell_sec_check CHECK ((min_dwell_sec >= 0)),
    CONSTRAINT smart_schedule_policy_groups_min_gain_cny_per_day_check CHECK (((min_gain_cny_per_day >= (0)::double precision) AND (min_gain_cny_per_day < 'Infinity'::double precision))),
    CONSTRAINT smart_schedule_policy_groups_min_gain_ratio_check CHECK (((min_gain_ratio >= (0)::double precision) AND (min_gain_ratio < 'Infinity'::double precision))),
    CONSTRAINT smart_schedule_policy_groups_mode_check CHECK ((mode = ANY (ARRAY['profit_guard'::text, 'time_window'::text]))),
    CONSTRAINT smart_schedule_policy_groups_name_check CHECK ((name <> ''::text)),
    CONSTRAINT smart_schedule_policy_groups_negative_profit_action_check CHECK ((negative_profit_action = ANY (ARRAY['keep'::text, 'stop'::text, 'power_off'::text]))),
    CONSTRAINT smart_schedule_policy_groups_price_hold_sec_check CHECK ((price_hold_sec >= 0)),
    CONSTRAINT smart_schedule_policy_groups_price_jump_factor_check CHECK (((price_jump_factor > (1)::double precision) AND (price_jump_factor < 'Infinity'::double precision))),
    CONSTRAINT smart_schedule_policy_groups_profit_max_age_sec_check CHECK ((profit_max_age_sec > 0)),
    CONSTRAINT smart_schedule_policy_groups_report_max_age_sec_check CHECK ((report_max_age_sec > 0)),
    CONSTRAINT smart_schedule_policy_groups_restart_threshold CHECK (((restart_threshold_cny_per_day > '-Infinity'::double precision) AND (restart_threshold_cny_per_day < 'Infinity'::double precision))),
    CONSTRAINT smart_schedule_policy_groups_switch_cost_sec_check CHECK ((switch_cost_sec >= 0))
);

ALTER TABLE public.smart_schedule_policy_groups ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.smart_schedule_policy_groups_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.smart_schedule_policy_scopes (
    policy_id bigint NOT NULL,
    resource_type text NOT NULL,
    resource_id text NOT NULL,
    CONSTRAINT smart_schedule_policy_scopes_numbers CHECK (((resource_type <> ALL (ARRAY['cluster'::text, 'machine'::text])) OR (resource_id ~ '^(0|[1-9][0-9]{0,17})$'::text))),
    CONSTRAINT smart_schedule_policy_scopes_resource_type_check CHECK ((resource_type = ANY (ARRAY['tenant'::text, 'cluster'::text, 'model'::text, 'machine'::text])))
);

CREATE TABLE public.smart_schedule_policy_windows (
    id bigint NOT NULL,
    policy_id bigint NOT NULL,
    priority integer DEFAULT 0 NOT NULL,
    starts text NOT NULL,
    ends text NOT NULL,
    weekdays integer[],
    action text NOT NULL,
    project_id bigint,
    CONSTRAINT smart_schedule_policy_windows_action_check CHECK ((action = ANY (ARRAY['run_project'::text, 'stop'::text, 'power_off'::text, 'start'::text]))),
    CONSTRAINT smart_schedule_policy_windows_project CHECK (((action = ANY (ARRAY['run_project'::text, 'start'::text])) = (project_id IS NOT NULL)))
);

ALTER TABLE public.smart_schedule_policy_windows ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.smart_schedule_policy_windows_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.smart_schedule_price_aliases (
    alias text NOT NULL,
    price_key text NOT NULL,
    CONSTRAINT smart_schedule_price_aliases_alias_check CHECK ((alias = upper(TRIM(BOTH FROM alias)))),
    CONSTRAINT smart_schedule_price_aliases_price_key_check CHECK ((price_key = upper(TRIM(BOTH FROM price_key))))
);

CREATE TABLE public.smart_schedule_profit_fetches (
    id bigint NOT NULL,
    fetched_at timestamp with time zone NOT NULL,
    source text NOT NULL,
    outcome text NOT NULL,
    detail text,
    prices integer DEFAULT 0 NOT NULL,
    flags text[] DEFAULT '{}'::text[] NOT NULL
);

ALTER TABLE public.smart_schedule_profit_fetches ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.smart_schedule_profit_fetches_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.smart_schedule_profit_readings (
    price_key text NOT NULL,
    algorithm text,
    taken_at timestamp with time zone NOT NULL,
    received_at timestamp with time zone NOT NULL,
    source text NOT NULL,
    revenue double precision,
    unit text NOT NULL,
    currency text NOT NULL,
    flags text[] DEFAULT '{}'::text[] NOT NULL
)
PARTITION BY RANGE (received_at);

CREATE TABLE public.smart_schedule_profit_readings_default (
    price_key text CONSTRAINT smart_schedule_profit_readings_price_key_not_null NOT NULL,
    algorithm text,
    taken_at timestamp with time zone CONSTRAINT smart_schedule_profit_readings_taken_at_not_null NOT NULL,
    received_at timestamp with time zone CONSTRAINT smart_schedule_profit_readings_received_at_not_null NOT NULL,
    source text CONSTRAINT smart_schedule_profit_readings_source_not_null NOT NULL,
    revenue double precision,
    unit text CONSTRAINT smart_schedule_profit_readings_unit_not_null NOT NULL,
    currency text CONSTRAINT smart_schedule_profit_readings_currency_not_null NOT NULL,
    flags text[] DEFAULT '{}'::text[] CONSTRAINT smart_schedule_profit_readings_flags_not_null NOT NULL
);

CREATE TABLE public.smart_schedule_requests (
    tenant_id text NOT NULL,
    key text NOT NULL,
    fingerprint text NOT NULL,
    answer jsonb,
    made_by text NOT NULL,
    made_at timestamp with time zone NOT NULL
);

CREATE TABLE public.smart_schedule_resource_eligibilities (
    tenant_id text NOT NULL,
    project_id bigint NOT NULL,
    resource_type text NOT NULL,
    resource_id text NOT NULL,
    allowed boolean NOT NULL,
    CONSTRAINT smart_schedule_resource_eligibilities_numbers CHECK (((resource_type <> ALL (ARRAY['cluster'::text, 'machine'::text])) OR (resource_id ~ '^(0|[1-9][0-9]{0,17})$'::text))),
    CONSTRAINT smart_schedule_resource_eligibilities_resource_type_check CHECK ((resource_type = ANY (ARRAY['cluster'::text, 'model'::text, 'machine'::text])))
);

CREATE TABLE public.smart_schedule_schedules (
    id bigint NOT NULL,
    tenant_id text NOT NULL,
    created_by text NOT NULL,
    kind text NOT NULL,
    policy_id bigint,
    work jsonb DEFAULT '{}'::jsonb NOT NULL,
    rule jsonb NOT NULL,
    time_zone text DEFAULT 'UTC'::text NOT NULL,
    paused boolean DEFAULT false NOT NULL,
    archived_at timestamp with time zone,
    version bigint DEFAULT 1 NOT NULL,
    next_run_at timestamp with time zone,
    broken text,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    name text DEFAULT ''::text NOT NULL,
    runs_as text,
    CONSTRAINT smart_schedule_schedules_interval_advances CHECK ((((rule ->> 'kind'::text) IS DISTINCT FROM 'interval'::text) OR COALESCE(((jsonb_typeof((rule -> 'every_sec'::text)) = 'number'::text) AND ((rule ->> 'every_sec'::text) ~ '^[1-9][0-9]*$'::text)), false))),
    CONSTRAINT smart_schedule_schedules_kind_check CHECK ((kind = ANY (ARRAY['policy_tick'::text, 'conversation'::text]))),
    CONSTRAINT smart_schedule_schedules_policy_of_tick CHECK (((kind = 'policy_tick'::text) = (policy_id IS NOT NULL))),
    CONSTRAINT smart_schedule_schedules_work CHECK (((kind <> 'conversation'::text) OR COALESCE(((jsonb_typeof((work -> 'target'::text)) = 'string'::text) AND (jsonb_typeof((work -> 'conversation_id'::text)) = 'string'::text) AND (jsonb_typeof((work -> 'prompt'::text)) = 'string'::text)), false)))
);

ALTER TABLE public.smart_schedule_schedules ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.smart_schedule_schedules_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.smart_schedule_ticks (
    id bigint NOT NULL,
    tenant_id text NOT NULL,
    policy_id bigint NOT NULL,
    occurrence_id bigint NOT NULL,
    ticked_at timestamp with time zone NOT NULL,
    execution_mode text NOT NULL,
    policy_version bigint NOT NULL,
    inputs jsonb NOT NULL,
    failure text,
    machines integer DEFAULT 0 NOT NULL,
    counts jsonb DEFAULT '{}'::jsonb NOT NULL,
    gain_cny_per_day double precision DEFAULT 0 NOT NULL,
    valid_until timestamp with time zone NOT NULL,
    took_ms integer
);

ALTER TABLE public.smart_schedule_ticks ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.smart_schedule_ticks_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE VIEW smart_schedule_tenant.cluster_tariff_periods AS
 SELECT id,
    tariff_id,
    name,
    priority,
    starts,
    ends,
    weekdays,
    day_types,
    months,
    season_start,
    season_end,
    price_per_kwh
   FROM public.cluster_tariff_periods p
  WHERE (tariff_id IN ( SELECT t.id
           FROM (public.cluster_tariffs t
             JOIN public.clusters c ON ((c.id = t.cluster_id)))
          WHERE (c.tenant_id = ( SELECT public.smart_schedule_tenant() AS smart_schedule_tenant))));

CREATE VIEW smart_schedule_tenant.cluster_tariffs AS
 SELECT id,
    cluster_id,
    name,
    currency,
    valid_from,
    valid_to,
    holidays,
    make_up_workdays
   FROM public.cluster_tariffs t
  WHERE (cluster_id IN ( SELECT c.id
           FROM public.clusters c
          WHERE (c.tenant_id = ( SELECT public.smart_schedule_tenant() AS smart_schedule_tenant))));

CREATE VIEW smart_schedule_tenant.clusters AS
 SELECT id,
    tenant_id,
    time_zone
   FROM public.clusters
  WHERE (tenant_id = ( SELECT public.smart_schedule_tenant() AS smart_schedule_tenant));

CREATE VIEW smart_schedule_tenant.machine_mining_runtime AS
 SELECT machine_id,
    status,
    project_id,
    hashrate_hs,
    project_since,
    reported_at
   FROM public.machine_mining_runtime r
  WHERE (EXISTS ( SELECT
           FROM public.machines m
          WHERE ((m.id = r.machine_id) AND (m.tenant_id = ( SELECT public.smart_schedule_tenant() AS smart_schedule_tenant)))));

CREATE VIEW smart_schedule_tenant.machine_models AS
 SELECT model,
    algorithm,
    nameplate_hashrate_hs,
    nameplate_power_w
   FROM public.machine_models;

CREATE VIEW smart_schedule_tenant.machines AS
 SELECT id,
    tenant_id,
    cluster_id,
    model,
    operator_hold
   FROM public.machines
  WHERE (tenant_id = ( SELECT public.smart_schedule_tenant() AS smart_schedule_tenant));

CREATE VIEW smart_schedule_tenant.metric_powers AS
 SELECT machine_id,
    measured_at,
    power_w
   FROM public.metric_powers p
  WHERE (EXISTS ( SELECT
           FROM public.machines m
          WHERE ((m.id = p.machine_id) AND (m.tenant_id = ( SELECT public.smart_schedule_tenant() AS smart_schedule_tenant)))));

CREATE VIEW smart_schedule_tenant.project_run_configurations AS
 SELECT id,
    project_id,
    model,
    runnable
   FROM public.project_run_configurations c
  WHERE (project_id IN ( SELECT p.id
           FROM public.projects p
          WHERE (p.tenant_id = ( SELECT public.smart_schedule_tenant() AS smart_schedule_tenant))));

CREATE VIEW smart_schedule_tenant.projects AS
 SELECT id,
    tenant_id,
    name,
    price_key,
    algorithm
   FROM public.projects
  WHERE (tenant_id = ( SELECT public.smart_schedule_tenant() AS smart_schedule_tenant));

CREATE VIEW smart_schedule_tenant.smart_schedule_benchmark_versions AS
 SELECT id,
    machine_id,
    entries,
    superseded_at,
    tenant_id
   FROM public.smart_schedule_benchmark_versions v
  WHERE ((tenant_id = ( SELECT public.smart_schedule_tenant() AS smart_schedule_tenant)) OR (EXISTS ( SELECT
           FROM public.machines m
          WHERE ((m.id = v.machine_id) AND (m.tenant_id = ( SELECT public.smart_schedule_tenant() AS smart_schedule_tenant))))));

CREATE VIEW smart_schedule_tenant.smart_schedule_machine_benchmark_entries AS
 SELECT machine_id,
    entries,
    version,
    measured,
    figures,
    oldest,
    newest,
    said
   FROM public.smart_schedule_machine_benchmark_entries e
  WHERE (EXISTS ( SELECT
           FROM public.machines m
          WHERE ((m.id = e.machine_id) AND (m.tenant_id = ( SELECT public.smart_schedule_tenant() AS smart_schedule_tenant)))));

CREATE VIEW smart_schedule_tenant.smart_schedule_machine_project_benchmarks AS
 SELECT machine_id,
    project_id,
    hashrate_hs,
    power_w,
    power_estimated,
    sampled_at,
    flagged,
    shared_from,
    drift_hashrates_hs,
    drift_seen_at
   FROM public.smart_schedule_machine_project_benchmarks b
  WHERE (EXISTS ( SELECT
           FROM public.machines m
          WHERE ((m.id = b.machine_id) AND (m.tenant_id = ( SELECT public.smart_schedule_tenant() AS smart_schedule_tenant)))));

CREATE VIEW smart_schedule_tenant.smart_schedule_measured_projects AS
 SELECT id,
    projects
   FROM public.smart_schedule_measured_projects p
  WHERE ( SELECT true
           FROM (public.smart_schedule_machine_benchmark_entries e
             JOIN public.machines m ON ((m.id = e.machine_id)))
          WHERE ((e.measured = p.id) AND (m.tenant_id = ( SELECT public.smart_schedule_tenant() AS smart_schedule_tenant)))
         LIMIT 1);

ALTER TABLE ONLY public.smart_schedule_log_events ATTACH PARTITION public.smart_schedule_log_events_default DEFAULT;

ALTER TABLE ONLY public.smart_schedule_machine_decisions ATTACH PARTITION public.smart_schedule_machine_decisions_default DEFAULT;

ALTER TABLE ONLY public.smart_schedule_profit_readings ATTACH PARTITION public.smart_schedule_profit_readings_default DEFAULT;

ALTER TABLE ONLY public.cluster_tariff_periods
    ADD CONSTRAINT cluster_tariff_periods_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.cluster_tariffs
    ADD CONSTRAINT cluster_tariffs_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.clusters
    ADD CONSTRAINT clusters_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.machine_mining_runtime
    ADD CONSTRAINT machine_mining_runtime_pkey PRIMARY KEY (machine_id);

ALTER TABLE ONLY public.machine_models
    ADD CONSTRAINT machine_models_pkey PRIMARY KEY (model);

ALTER TABLE ONLY public.machines
    ADD CONSTRAINT machines_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.metric_powers
    ADD CONSTRAINT metric_powers_pkey PRIMARY KEY (machine_id, measured_at);

ALTER TABLE ONLY public.project_run_configurations
    ADD CONSTRAINT project_run_configurations_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.project_run_configurations
    ADD CONSTRAINT project_run_configurations_project_id_model_key UNIQUE (project_id, model);

ALTER TABLE ONLY public.projects
    ADD CONSTRAINT projects_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.smart_schedule_attempt_machines
    ADD CONSTRAINT smart_schedule_attempt_machines_pkey PRIMARY KEY (attempt_id, machine_id);

ALTER TABLE ONLY public.smart_schedule_attempts
    ADD CONSTRAINT smart_schedule_attempts_idempotency_key_key UNIQUE (idempotency_key);

ALTER TABLE ONLY public.smart_schedule_attempts
    ADD CONSTRAINT smart_schedule_attempts_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.smart_schedule_benchmark_runs
    ADD CONSTRAINT smart_schedule_benchmark_runs_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.smart_schedule_benchmark_versions
    ADD CONSTRAINT smart_schedule_benchmark_versions_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.smart_schedule_command_machines
    ADD CONSTRAINT smart_schedule_command_machines_pkey PRIMARY KEY (command_id, machine_id);

ALTER TABLE ONLY public.smart_schedule_commands
    ADD CONSTRAINT smart_schedule_commands_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.smart_schedule_executor_leases
    ADD CONSTRAINT smart_schedule_executor_leases_pkey PRIMARY KEY (tenant_id);

ALTER TABLE ONLY public.smart_schedule_freezes
    ADD CONSTRAINT smart_schedule_freezes_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.smart_schedule_log_events
    ADD CONSTRAINT smart_schedule_log_events_pkey PRIMARY KEY (id, at);

ALTER TABLE ONLY public.smart_schedule_log_events_default
    ADD CONSTRAINT smart_schedule_log_events_default_pkey PRIMARY KEY (id, at);

ALTER TABLE ONLY public.smart_schedule_machine_benchmark_entries
    ADD CONSTRAINT smart_schedule_machine_benchmark_entries_pkey PRIMARY KEY (machine_id);

ALTER TABLE ONLY public.smart_schedule_machine_decisions
    ADD CONSTRAINT smart_schedule_machine_decisions_pkey PRIMARY KEY (tick_id, machine_id, ticked_at);

ALTER TABLE ONLY public.smart_schedule_machine_decisions_default
    ADD CONSTRAINT smart_schedule_machine_decisions_default_pkey PRIMARY KEY (tick_id, machine_id, ticked_at);

ALTER TABLE ONLY public.smart_schedule_machine_locks
    ADD CONSTRAINT smart_schedule_machine_locks_pkey PRIMARY KEY (machine_id);

ALTER TABLE ONLY public.smart_schedule_machine_project_benchmarks
    ADD CONSTRAINT smart_schedule_machine_project_benchmarks_pkey PRIMARY KEY (machine_id, project_id);

ALTER TABLE ONLY public.smart_schedule_machine_states
    ADD CONSTRAINT smart_schedule_machine_states_pkey PRIMARY KEY (machine_id);

ALTER TABLE ONLY public.smart_schedule_measured_projects
    ADD CONSTRAINT smart_schedule_measured_projects_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.smart_schedule_measured_projects
    ADD CONSTRAINT smart_schedule_measured_projects_projects_key UNIQUE (projects);

ALTER TABLE ONLY public.smart_schedule_migrations
    ADD CONSTRAINT smart_schedule_migrations_pkey PRIMARY KEY (version);

ALTER TABLE ONLY public.smart_schedule_occurrences
    ADD CONSTRAINT smart_schedule_occurrences_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.smart_schedule_outbox
    ADD CONSTRAINT smart_schedule_outbox_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.smart_schedule_policy_candidates
    ADD CONSTRAINT smart_schedule_policy_candidates_pkey PRIMARY KEY (policy_id, project_id);

ALTER TABLE ONLY public.smart_schedule_policy_candidates
    ADD CONSTRAINT smart_schedule_policy_candidates_policy_id_position_key UNIQUE (policy_id, "position");

ALTER TABLE ONLY public.smart_schedule_policy_groups
    ADD CONSTRAINT smart_schedule_policy_groups_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.smart_schedule_policy_scopes
    ADD CONSTRAINT smart_schedule_policy_scopes_pkey PRIMARY KEY (policy_id, resource_type, resource_id);

ALTER TABLE ONLY public.smart_schedule_policy_windows
    ADD CONSTRAINT smart_schedule_policy_windows_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.smart_schedule_price_aliases
    ADD CONSTRAINT smart_schedule_price_aliases_pkey PRIMARY KEY (alias);

ALTER TABLE ONLY public.smart_schedule_profit_fetches
    ADD CONSTRAINT smart_schedule_profit_fetches_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.smart_schedule_requests
    ADD CONSTRAINT smart_schedule_requests_pkey PRIMARY KEY (tenant_id, key);

ALTER TABLE ONLY public.smart_schedule_resource_eligibilities
    ADD CONSTRAINT smart_schedule_resource_eligibilities_pkey PRIMARY KEY (project_id, resource_type, resource_id);

ALTER TABLE ONLY public.smart_schedule_schedules
    ADD CONSTRAINT smart_schedule_schedules_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.smart_schedule_ticks
    ADD CONSTRAINT smart_schedule_ticks_occurrence_id_key UNIQUE (occurrence_id);

ALTER TABLE ONLY public.smart_schedule_ticks
    ADD CONSTRAINT smart_schedule_ticks_pkey PRIMARY KEY (id);

CREATE INDEX cluster_tariff_periods_by_tariff ON public.cluster_tariff_periods USING btree (tariff_id);

CREATE INDEX cluster_tariffs_by_cluster ON public.cluster_tariffs USING btree (cluster_id);

CREATE INDEX machines_by_class ON public.machines USING btree (tenant_id, cluster_id, model);

CREATE INDEX machines_by_cluster ON public.machines USING btree (cluster_id, id);

CREATE INDEX machines_by_tenant ON public.machines USING btree (tenant_id, id);

CREATE INDEX smart_schedule_attempts_ended ON public.smart_schedule_attempts USING btree (policy_id, COALESCE(ended_at, 'infinity'::timestamp with time zone));

CREATE INDEX smart_schedule_attempts_of_benchmark ON public.smart_schedule_attempts USING btree (benchmark_run_id) WHERE (benchmark_run_id IS NOT NULL);

CREATE INDEX smart_schedule_attempts_of_command ON public.smart_schedule_attempts USING btree (command_id) WHERE (command_id IS NOT NULL);

CREATE UNIQUE INDEX smart_schedule_attempts_of_conversation ON public.smart_schedule_attempts USING btree (occurrence_id) WHERE (kind = 'conversation'::text);

CREATE INDEX smart_schedule_attempts_of_occurrence ON public.smart_schedule_attempts USING btree (occurrence_id);

CREATE INDEX smart_schedule_attempts_of_policy ON public.smart_schedule_attempts USING btree (policy_id, prepared_at DESC, id DESC);

CREATE INDEX smart_schedule_attempts_of_tenant ON public.smart_schedule_attempts USING btree (tenant_id, prepared_at DESC, id DESC);

CREATE INDEX smart_schedule_attempts_of_tenant_by_state ON public.smart_schedule_attempts USING btree (tenant_id, state, prepared_at DESC, id DESC);

CREATE INDEX smart_schedule_attempts_oldest ON public.smart_schedule_attempts USING btree (ended_at) WHERE (ended_at IS NOT NULL);

CREATE INDEX smart_schedule_attempts_open ON public.smart_schedule_attempts USING btree (next_check_at, id) WHERE ((ended_at IS NULL) AND (state <> 'prepared'::text));

CREATE INDEX smart_schedule_attempts_waiting ON public.smart_schedule_attempts USING btree (prepared_at, id) WHERE (state = 'prepared'::text);

CREATE UNIQUE INDEX smart_schedule_benchmark_runs_active ON public.smart_schedule_benchmark_runs USING btree (machine_id) WHERE (state = ANY (ARRAY['running'::text, 'restoring'::text]));

CREATE INDEX smart_schedule_benchmark_runs_at_work ON public.smart_schedule_benchmark_runs USING btree (progressed_at) WHERE (state = ANY (ARRAY['running'::text, 'restoring'::text]));

CREATE INDEX smart_schedule_benchmark_runs_of_machine ON public.smart_schedule_benchmark_runs USING btree (machine_id, project_id, requested_at DESC);

CREATE INDEX smart_schedule_benchmark_runs_of_policy ON public.smart_schedule_benchmark_runs USING btree (policy_id, tenant_id) INCLUDE (state, ended_at, lost_minutes, lost_cny);

CREATE INDEX smart_schedule_benchmark_runs_of_tenant ON public.smart_schedule_benchmark_runs USING btree (tenant_id, requested_at DESC, id DESC);

CREATE UNIQUE INDEX smart_schedule_benchmark_runs_open ON public.smart_schedule_benchmark_runs USING btree (machine_id, project_id) WHERE (ended_at IS NULL);

CREATE INDEX smart_schedule_benchmark_runs_waiting ON public.smart_schedule_benchmark_runs USING btree (not_before) WHERE (state = 'pending'::text);

CREATE UNIQUE INDEX smart_schedule_benchmark_versions_current ON public.smart_schedule_benchmark_versions USING btree (machine_id) WHERE (superseded_at IS NULL);

CREATE INDEX smart_schedule_benchmark_versions_superseded ON public.smart_schedule_benchmark_versions USING btree (superseded_at) WHERE (superseded_at IS NOT NULL);

CREATE INDEX smart_schedule_commands_of_tenant ON public.smart_schedule_commands USING btree (tenant_id, requested_at DESC, id DESC);

CREATE INDEX smart_schedule_commands_oldest ON public.smart_schedule_commands USING btree (requested_at);

CREATE INDEX smart_schedule_freezes_of_policy ON public.smart_schedule_freezes USING btree (policy_id, frozen_at DESC, id DESC);

CREATE UNIQUE INDEX smart_schedule_freezes_open ON public.smart_schedule_freezes USING btree (policy_id) WHERE (lifted_at IS NULL);

CREATE INDEX smart_schedule_log_events_by_commit ON ONLY public.smart_schedule_log_events USING btree (xid, id);

CREATE INDEX smart_schedule_log_events_followed_by_policy ON ONLY public.smart_schedule_log_events USING btree (policy_id, xid, id);

CREATE INDEX smart_schedule_log_events_default_policy_id_xid_id_idx ON public.smart_schedule_log_events_default USING btree (policy_id, xid, id);

CREATE INDEX smart_schedule_log_events_followed_by_tenant ON ONLY public.smart_schedule_log_events USING btree (tenant_id, xid, id);

CREATE INDEX smart_schedule_log_events_default_tenant_id_xid_id_idx ON public.smart_schedule_log_events_default USING btree (tenant_id, xid, id);

CREATE INDEX smart_schedule_log_events_default_xid_id_idx ON public.smart_schedule_log_events_default USING btree (xid, id);

CREATE INDEX smart_schedule_machine_benchmark_entries_of_projects ON public.smart_schedule_machine_benchmark_entries USING btree (measured);

CREATE INDEX smart_schedule_machine_decisions_of_attempt ON ONLY public.smart_schedule_machine_decisions USING btree (attempt_id) WHERE (attempt_id IS NOT NULL);

CREATE INDEX smart_schedule_machine_decisions_default_attempt_id_idx ON public.smart_schedule_machine_decisions_default USING btree (attempt_id) WHERE (attempt_id IS NOT NULL);

CREATE INDEX smart_schedule_machine_locks_of_owner ON public.smart_schedule_machine_locks USING btree (owner_id) WHERE (freed_at IS NULL);

CREATE UNIQUE INDEX smart_schedule_occurrences_active ON public.smart_schedule_occurrences USING btree (schedule_id) WHERE (state = ANY (ARRAY['running'::text, 'reconciling'::text, 'cancelling'::text]));

CREATE INDEX smart_schedule_occurrences_filtered ON public.smart_schedule_occurrences USING btree (tenant_id, kind, state, planned_at DESC, id DESC);

CREATE INDEX smart_schedule_occurrences_history ON public.smart_schedule_occurrences USING btree (schedule_id, planned_at DESC, id DESC);

CREATE UNIQUE INDEX smart_schedule_occurrences_manual ON public.smart_schedule_occurrences USING btree (schedule_id, request_id) WHERE (origin = 'manual'::text);

CREATE INDEX smart_schedule_occurrences_of_schedule_by_state ON public.smart_schedule_occurrences USING btree (schedule_id, state, planned_at DESC, id DESC);

CREATE INDEX smart_schedule_occurrences_of_tenant ON public.smart_schedule_occurrences USING btree (tenant_id, planned_at DESC, id DESC);

CREATE UNIQUE INDEX smart_schedule_occurrences_planned ON public.smart_schedule_occurrences USING btree (schedule_id, planned_at) WHERE (origin = 'planned'::text);

CREATE INDEX smart_schedule_occurrences_waiting ON public.smart_schedule_occurrences USING btree (id) WHERE (state = 'recorded'::text);

CREATE INDEX smart_schedule_outbox_by_tenant ON public.smart_schedule_outbox USING btree (tenant_id, id DESC);

CREATE INDEX smart_schedule_outbox_waiting ON public.smart_schedule_outbox USING btree (next_try_at, id) WHERE (published_at IS NULL);

CREATE INDEX smart_schedule_policy_groups_by_tenant ON public.smart_schedule_policy_groups USING btree (tenant_id, id);

CREATE INDEX smart_schedule_policy_windows_by_policy ON public.smart_schedule_policy_windows USING btree (policy_id);

CREATE INDEX smart_schedule_profit_fetches_newest ON public.smart_schedule_profit_fetches USING btree (fetched_at DESC);

CREATE INDEX smart_schedule_profit_readings_newest ON ONLY public.smart_schedule_profit_readings USING btree (price_key, received_at DESC);

CREATE INDEX smart_schedule_profit_readings_defaul_price_key_received_at_idx ON public.smart_schedule_profit_readings_default USING btree (price_key, received_at DESC);

CREATE INDEX smart_schedule_requests_oldest ON public.smart_schedule_requests USING btree (made_at);

CREATE INDEX smart_schedule_resource_eligibilities_of_machines ON public.smart_schedule_resource_eligibilities USING btree (resource_id, project_id) WHERE (resource_type = 'machine'::text);

CREATE INDEX smart_schedule_schedules_by_policy ON public.smart_schedule_schedules USING btree (policy_id, id DESC) WHERE (policy_id IS NOT NULL);

CREATE INDEX smart_schedule_schedules_due ON public.smart_schedule_schedules USING btree (next_run_at, id) WHERE ((NOT paused) AND (archived_at IS NULL) AND (broken IS NULL));

CREATE UNIQUE INDEX smart_schedule_schedules_of_policy ON public.smart_schedule_schedules USING btree (policy_id) WHERE (archived_at IS NULL);

CREATE INDEX smart_schedule_ticks_by_policy ON public.smart_schedule_ticks USING btree (policy_id, id DESC);

CREATE INDEX smart_schedule_ticks_of_policy ON public.smart_schedule_ticks USING btree (policy_id, ticked_at DESC, id DESC);

CREATE INDEX smart_schedule_ticks_of_tenant ON public.smart_schedule_ticks USING btree (tenant_id, ticked_at DESC, id DESC);

ALTER INDEX public.smart_schedule_log_events_pkey ATTACH PARTITION public.smart_schedule_log_events_default_pkey;

ALTER INDEX public.smart_schedule_log_events_followed_by_policy ATTACH PARTITION public.smart_schedule_log_events_default_policy_id_xid_id_idx;

ALTER INDEX public.smart_schedule_log_events_followed_by_tenant ATTACH PARTITION public.smart_schedule_log_events_default_tenant_id_xid_id_idx;

ALTER INDEX public.smart_schedule_log_events_by_commit ATTACH PARTITION public.smart_schedule_log_events_default_xid_id_idx;

ALTER INDEX public.smart_schedule_machine_decisions_of_attempt ATTACH PARTITION public.smart_schedule_machine_decisions_default_attempt_id_idx;

ALTER INDEX public.smart_schedule_machine_decisions_pkey ATTACH PARTITION public.smart_schedule_machine_decisions_default_pkey;

ALTER INDEX public.smart_schedule_profit_readings_newest ATTACH PARTITION public.smart_schedule_profit_readings_defaul_price_key_received_at_idx;

CREATE TRIGGER smart_schedule_attempts_final BEFORE UPDATE ON public.smart_schedule_attempts FOR EACH ROW EXECUTE FUNCTION public.smart_schedule_ends_are_final();

CREATE TRIGGER smart_schedule_benchmarks_deleted AFTER DELETE ON public.smart_schedule_machine_project_benchmarks REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION public.smart_schedule_benchmarks_changed();

CREATE TRIGGER smart_schedule_benchmarks_inserted AFTER INSERT ON public.smart_schedule_machine_project_benchmarks REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION public.smart_schedule_benchmarks_changed();

CREATE TRIGGER smart_schedule_benchmarks_said BEFORE INSERT OR UPDATE ON public.smart_schedule_machine_benchmark_entries FOR EACH ROW EXECUTE FUNCTION public.smart_schedule_say_benchmarks();

CREATE TRIGGER smart_schedule_benchmarks_truncated AFTER TRUNCATE ON public.smart_schedule_machine_project_benchmarks FOR EACH STATEMENT EXECUTE FUNCTION public.smart_schedule_benchmarks_changed();

CREATE TRIGGER smart_schedule_benchmarks_updated AFTER UPDATE ON public.smart_schedule_machine_project_benchmarks REFERENCING OLD TABLE AS former NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION public.smart_schedule_benchmarks_changed();

CREATE TRIGGER smart_schedule_occurrences_final BEFORE UPDATE ON public.smart_schedule_occurrences FOR EACH ROW EXECUTE FUNCTION public.smart_schedule_ends_are_final();

ALTER TABLE ONLY public.cluster_tariff_periods
    ADD CONSTRAINT cluster_tariff_periods_tariff_id_fkey FOREIGN KEY (tariff_id) REFERENCES public.cluster_tariffs(id);

ALTER TABLE ONLY public.cluster_tariffs
    ADD CONSTRAINT cluster_tariffs_cluster_id_fkey FOREIGN KEY (cluster_id) REFERENCES public.clusters(id);

ALTER TABLE ONLY public.machines
    ADD CONSTRAINT machines_cluster_id_fkey FOREIGN KEY (cluster_id) REFERENCES public.clusters(id);

ALTER TABLE ONLY public.project_run_configurations
    ADD CONSTRAINT project_run_configurations_project_id_fkey FOREIGN KEY (project_id) REFERENCES public.projects(id);

ALTER TABLE ONLY public.smart_schedule_attempt_machines
    ADD CONSTRAINT smart_schedule_attempt_machines_attempt_id_fkey FOREIGN KEY (attempt_id) REFERENCES public.smart_schedule_attempts(id);

ALTER TABLE ONLY public.smart_schedule_attempts
    ADD CONSTRAINT smart_schedule_attempts_benchmark_run_id_fkey FOREIGN KEY (benchmark_run_id) REFERENCES public.smart_schedule_benchmark_runs(id);

ALTER TABLE ONLY public.smart_schedule_attempts
    ADD CONSTRAINT smart_schedule_attempts_command_id_fkey FOREIGN KEY (command_id) REFERENCES public.smart_schedule_commands(id);

ALTER TABLE ONLY public.smart_schedule_attempts
    ADD CONSTRAINT smart_schedule_attempts_occurrence_id_fkey FOREIGN KEY (occurrence_id) REFERENCES public.smart_schedule_occurrences(id);

ALTER TABLE ONLY public.smart_schedule_attempts
    ADD CONSTRAINT smart_schedule_attempts_policy_id_fkey FOREIGN KEY (policy_id) REFERENCES public.smart_schedule_policy_groups(id);

ALTER TABLE ONLY public.smart_schedule_benchmark_runs
    ADD CONSTRAINT smart_schedule_benchmark_runs_policy_id_fkey FOREIGN KEY (policy_id) REFERENCES public.smart_schedule_policy_groups(id);

ALTER TABLE ONLY public.smart_schedule_command_machines
    ADD CONSTRAINT smart_schedule_command_machines_command_id_fkey FOREIGN KEY (command_id) REFERENCES public.smart_schedule_commands(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.smart_schedule_freezes
    ADD CONSTRAINT smart_schedule_freezes_policy_id_fkey FOREIGN KEY (policy_id) REFERENCES public.smart_schedule_policy_groups(id);

ALTER TABLE ONLY public.smart_schedule_occurrences
    ADD CONSTRAINT smart_schedule_occurrences_schedule_id_fkey FOREIGN KEY (schedule_id) REFERENCES public.smart_schedule_schedules(id);

ALTER TABLE ONLY public.smart_schedule_policy_candidates
    ADD CONSTRAINT smart_schedule_policy_candidates_policy_id_fkey FOREIGN KEY (policy_id) REFERENCES public.smart_schedule_policy_groups(id);

ALTER TABLE ONLY public.smart_schedule_policy_scopes
    ADD CONSTRAINT smart_schedule_policy_scopes_policy_id_fkey FOREIGN KEY (policy_id) REFERENCES public.smart_schedule_policy_groups(id);

ALTER TABLE ONLY public.smart_schedule_policy_windows
    ADD CONSTRAINT smart_schedule_policy_windows_policy_id_fkey FOREIGN KEY (policy_id) REFERENCES public.smart_schedule_policy_groups(id);

ALTER TABLE ONLY public.smart_schedule_schedules
    ADD CONSTRAINT smart_schedule_schedules_policy_id_fkey FOREIGN KEY (policy_id) REFERENCES public.smart_schedule_policy_groups(id);

ALTER TABLE ONLY public.smart_schedule_ticks
    ADD CONSTRAINT smart_schedule_ticks_occurrence_id_fkey FOREIGN KEY (occurrence_id) REFERENCES public.smart_schedule_occurrences(id);

ALTER TABLE ONLY public.smart_schedule_ticks
    ADD CONSTRAINT smart_schedule_ticks_policy_id_fkey FOREIGN KEY (policy_id) REFERENCES public.smart_schedule_policy_groups(id);

CREATE POLICY of_own_machine ON public.smart_schedule_machine_locks AS RESTRICTIVE FOR INSERT TO blsflow_tenant WITH CHECK (((tenant_id = public.smart_schedule_tenant()) AND (EXISTS ( SELECT
   FROM smart_schedule_tenant.machines m
  WHERE (m.id = smart_schedule_machine_locks.machine_id)))));

CREATE POLICY of_own_machine ON public.smart_schedule_machine_states AS RESTRICTIVE FOR INSERT TO blsflow_tenant WITH CHECK (((tenant_id = public.smart_schedule_tenant()) AND (EXISTS ( SELECT
   FROM smart_schedule_tenant.machines m
  WHERE (m.id = smart_schedule_machine_states.machine_id)))));

CREATE POLICY of_tenant ON public.smart_schedule_attempt_machines TO blsflow_tenant USING ((EXISTS ( SELECT
   FROM public.smart_schedule_attempts a
  WHERE (a.id = smart_schedule_attempt_machines.attempt_id))));

CREATE POLICY of_tenant ON public.smart_schedule_attempts TO blsflow_tenant USING ((tenant_id = public.smart_schedule_tenant()));

CREATE POLICY of_tenant ON public.smart_schedule_benchmark_runs TO blsflow_tenant USING ((tenant_id = public.smart_schedule_tenant()));

CREATE POLICY of_tenant ON public.smart_schedule_command_machines TO blsflow_tenant USING ((EXISTS ( SELECT
   FROM public.smart_schedule_commands c
  WHERE (c.id = smart_schedule_command_machines.command_id))));

CREATE POLICY of_tenant ON public.smart_schedule_commands TO blsflow_tenant USING ((tenant_id = public.smart_schedule_tenant()));

CREATE POLICY of_tenant ON public.smart_schedule_executor_leases TO blsflow_tenant USING ((tenant_id = public.smart_schedule_tenant()));

CREATE POLICY of_tenant ON public.smart_schedule_freezes TO blsflow_tenant USING ((tenant_id = public.smart_schedule_tenant()));

CREATE POLICY of_tenant ON public.smart_schedule_log_events TO blsflow_tenant USING ((tenant_id = public.smart_schedule_tenant()));

CREATE POLICY of_tenant ON public.smart_schedule_machine_decisions TO blsflow_tenant USING (( SELECT true
   FROM public.smart_schedule_ticks t
  WHERE (t.id = smart_schedule_machine_decisions.tick_id)));

CREATE POLICY of_tenant ON public.smart_schedule_machine_locks TO blsflow_tenant USING (((tenant_id = ( SELECT public.smart_schedule_tenant() AS smart_schedule_tenant)) OR (EXISTS ( SELECT
   FROM smart_schedule_tenant.machines m
  WHERE (m.id = smart_schedule_machine_locks.machine_id)))));

CREATE POLICY of_tenant ON public.smart_schedule_machine_states TO blsflow_tenant USING (((tenant_id = ( SELECT public.smart_schedule_tenant() AS smart_schedule_tenant)) OR (EXISTS ( SELECT
   FROM smart_schedule_tenant.machines m
  WHERE (m.id = smart_schedule_machine_states.machine_id)))));

CREATE POLICY of_tenant ON public.smart_schedule_occurrences TO blsflow_tenant USING ((tenant_id = public.smart_schedule_tenant()));

CREATE POLICY of_tenant ON public.smart_schedule_outbox TO blsflow_tenant USING ((tenant_id = public.smart_schedule_tenant()));

CREATE POLICY of_tenant ON public.smart_schedule_policy_candidates TO blsflow_tenant USING ((policy_id IN ( SELECT p.id
   FROM public.smart_schedule_policy_groups p)));

CREATE POLICY of_tenant ON public.smart_schedule_policy_groups TO blsflow_tenant USING ((tenant_id = public.smart_schedule_tenant()));

CREATE POLICY of_tenant ON public.smart_schedule_policy_scopes TO blsflow_tenant USING ((policy_id IN ( SELECT p.id
   FROM public.smart_schedule_policy_groups p)));

CREATE POLICY of_tenant ON public.smart_schedule_policy_windows TO blsflow_tenant USING ((policy_id IN ( SELECT p.id
   FROM public.smart_schedule_policy_groups p)));

CREATE POLICY of_tenant ON public.smart_schedule_requests TO blsflow_tenant USING ((tenant_id = public.smart_schedule_tenant()));

CREATE POLICY of_tenant ON public.smart_schedule_resource_eligibilities TO blsflow_tenant USING ((tenant_id = public.smart_schedule_tenant()));

CREATE POLICY of_tenant ON public.smart_schedule_schedules TO blsflow_tenant USING ((tenant_id = public.smart_schedule_tenant()));

CREATE POLICY of_tenant ON public.smart_schedule_ticks TO blsflow_tenant USING ((tenant_id = public.smart_schedule_tenant()));

ALTER TABLE public.smart_schedule_attempt_machines ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.smart_schedule_attempts ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.smart_schedule_benchmark_runs ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.smart_schedule_command_machines ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.smart_schedule_commands ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.smart_schedule_executor_leases ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.smart_schedule_freezes ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.smart_schedule_log_events ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.smart_schedule_machine_decisions ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.smart_schedule_machine_locks ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.smart_schedule_machine_states ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.smart_schedule_occurrences ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.smart_schedule_outbox ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.smart_schedule_policy_candidates ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.smart_schedule_policy_groups ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.smart_schedule_policy_scopes ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.smart_schedule_policy_windows ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.smart_schedule_requests ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.smart_schedule_resource_eligibilities ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.smart_schedule_schedules ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.smart_schedule_ticks ENABLE ROW LEVEL SECURITY;
